//! User, password and token in URLs, and in what stands for a URL without its scheme.

/// What may stand behind a URL in a list or an inline table.
const CLOSING: [char; 7] = ['\'', ')', ']', '}', ',', ';', '`'];

/// What may stand before one.
const OPENING: [char; 5] = ['\'', '(', '[', '{', '`'];

/// Takes user and password, tokens in paths and all that follows a `?` out of the URLs of a
/// text, and what stands as `user:password@host` without being one. `None` where a password may
/// go on behind white space or a quote, and cannot be told from what follows.
pub(super) fn without_userinfo(text: &str) -> Option<String> {
    // As in most lines: all that is taken out stands behind a scheme or before an `@`.
    if !text.contains('@') && !text.contains("://") {
        return Some(text.to_owned());
    }
    if text.lines().any(has_split_userinfo) {
        return None;
    }
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(end) = rest.find(is_between) {
        left += &cleaned(&rest[..end]);
        let next = rest[end..].find(|c| !is_between(c));
        let next = next.map_or(rest.len(), |next| end + next);
        left += &rest[end..next];
        rest = &rest[next..];
    }
    Some(left + &cleaned(rest))
}

fn is_between(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '<' | '>')
}

/// Tells whether `scheme://user:pass` breaks off before its host, and an `@` comes later.
fn has_split_userinfo(line: &str) -> bool {
    let Some(last) = line.rfind('@') else {
        return false;
    };
    let schemes = line
        .match_indices("://")
        .map(|(at, scheme)| at + scheme.len());
    schemes.take_while(|start| *start < last).any(|start| {
        let rest = &line[start..];
        // No further: a file of schemes alone would be read again for each.
        let end = rest.find(|c| is_between(c) || matches!(c, '/' | '?' | '#' | '@'));
        let Some(end) = end.filter(|end| rest[*end..].starts_with(is_between)) else {
            return false;
        };
        let authority = rest[..end].trim_end_matches(CLOSING);
        let password = authority.split_once(':').map(|(_, password)| password);
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        password.is_some_and(|text| !is_port(text)) && start + end < last
    })
}

fn cleaned(word: &str) -> String {
    let mut left = String::with_capacity(word.len());
    let mut rest = word;
    let mut scheme = "";
    loop {
        let next = rest.find("://");
        // A scheme that follows another URL at once, as in `'https://a','https://b'`.
        let end = next.map_or(rest.len(), |at| {
            let before =
                rest[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '+');
            before.len()
        });
        left += &match scheme {
            "" => without_user(&rest[..end]),
            scheme => cleaned_url(scheme, &rest[..end]),
        };
        let Some(next) = next else {
            return left;
        };
        scheme = &rest[end..next];
        left += &rest[end..next + 3];
        rest = &rest[next + 3..];
    }
}

/// Cleans what follows `scheme://`.
fn cleaned_url(scheme: &str, rest: &str) -> String {
    let mut url = rest.trim_end_matches(CLOSING).to_owned();
    let tail = &rest[url.len()..];
    if let Some(at) = url.rfind('@') {
        let before = &url[..at];
        let is_path = before.contains('/') && !has_password(before);
        // There a user is no secret, and another one no way in.
        let is_ssh = scheme.ends_with("ssh") && !before.contains(':');
        if !is_path && !is_ssh {
            url.drain(..=at);
        }
    }
    if let Some(query) = url.find('?') {
        url.truncate(query);
    }
    // https://host/t/TOKEN/channel, as conda writes it.
    if let Some((before, after)) = url.split_once("/t/") {
        let channel = after
            .split_once('/')
            .map_or("", |(_token, channel)| channel);
        url = format!("{before}/{channel}");
    }
    url + tail
}

/// Takes `user:password@` from before a host; what may be its name in front of it stays.
fn without_user(word: &str) -> String {
    let Some(at) = word.rfind('@') else {
        return word.to_owned();
    };
    let name = word[..at].find('=').map_or(0, |equals| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        match word[..equals].chars().all(is_name) {
            true => equals + 1,
            false => 0,
        }
    });
    let before = &word[name..at];
    let opening = before.len() - before.trim_start_matches(OPENING).len();
    let start = name + opening;
    match has_password(&word[start..at]) {
        true => word[..start].to_owned() + &word[at + 1..],
        false => word.to_owned(),
    }
}

/// Tells whether what stands before an `@` is a user and a password, and no host with a port.
fn has_password(before: &str) -> bool {
    before.split_once(':').is_some_and(|(user, password)| {
        let port = password.split('/').next().unwrap_or(password);
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let is_host = is_port && password.contains('/');
        !(user.is_empty() || password.is_empty() || is_host)
    })
}
