//! What single strings must look like, whatever key holds them.

use std::net::IpAddr;

use ipnet::IpNet;
use regress::Regex;

use super::schema::Form;

/// Says how `text` fails to have this form, as what follows the name of its key.
pub(super) fn check(form: Form, text: &str) -> Result<(), String> {
    if text.contains('\0') {
        return Err("holds a NUL character, which nothing here can".to_owned());
    }
    // Neither "everything" nor "here": an empty variable in whatever wrote the file.
    if text.is_empty() && form != Form::Free {
        return Err("must not be empty".to_owned());
    }
    let problem = match form {
        Form::Any | Form::Free | Form::Host | Form::Path => None,
        Form::Absolute => (!text.starts_with('/')).then_some("must be an absolute path"),
        Form::Network => (!is_network(text)).then_some(
            "must be an address or a network such as 10.0.0.0/8, without brackets or port",
        ),
        Form::Variable => (!is_variable(text))
            .then_some("must be the name of a variable: letters, digits and `_`, no digit first"),
        Form::VariablePattern => (!is_variable_pattern(text)).then_some(
            "must be the name of a variable, with `*` for any part of it, or `@secrets`",
        ),
        Form::Url => (!is_url(text)).then_some("must be an http:// or https:// URL"),
        Form::Regex => return check_regex(text),
        Form::Service => {
            let name = text.strip_suffix('*').unwrap_or(text);
            name.contains('*')
                .then_some("may hold `*` at its end alone")
        }
        Form::Header => (!text.bytes().all(is_token)).then_some("must be the name of a header"),
        Form::Profile => (!is_profile(text))
            .then_some("must be the name of a profile: small letters, digits and `-`"),
    };
    match problem {
        Some(problem) => Err(format!("{problem}, found {}", super::quoted(text))),
        None => Ok(()),
    }
}

/// Returns the bytes that `512`, `64K`, `512M`, `2G` or `1T` stand for; K is 1024.
pub(super) fn size(text: &str) -> Option<u64> {
    let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];
    let unit = units.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, shift) = match unit {
        Some((unit, shift)) => (text.strip_suffix(unit)?, *shift),
        None => (text, 0),
    };
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok().filter(|count| *count > 0)?;
    count.checked_mul(1 << shift)
}

/// Reads a whole number from 0; no sign, no fraction.
pub(super) fn count(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Reads seconds, with a unit or without: `90`, `90s`, `5m`, `2h`.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let units = [('s', 1), ('m', 60), ('h', 3600)];
    let found = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)));
    let (digits, seconds) = found.unwrap_or((text, 1));
    count(digits)?.checked_mul(seconds)
}

fn is_network(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok()
}

fn is_variable(text: &str) -> bool {
    !text.starts_with(|c: char| c.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_variable_pattern(text: &str) -> bool {
    text == "@secrets" || !text.contains('=') && !text.starts_with('@')
}

fn is_url(text: &str) -> bool {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let authority = rest.and_then(|rest| rest.split(['/', '?', '#']).next());
    let host = authority.and_then(|authority| authority.rsplit('@').next());
    host.is_some_and(|host| !host.is_empty() && !text.contains(|c: char| c.is_whitespace()))
}

fn is_profile(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// See RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn check_regex(text: &str) -> Result<(), String> {
    match Regex::new(text) {
        Err(error) => Err(format!("is not a regular expression: {error}")),
        // An alternative that matches the empty string shows how many groups there are.
        Ok(_) => match Regex::new(&format!("(?:{text})|")).map(|regex| groups(&regex)) {
            Ok(1..) => Ok(()),
            _ => Err("must hold a group, which is what gets replaced".to_owned()),
        },
    }
}

fn groups(regex: &Regex) -> usize {
    regex.find("").map_or(0, |found| found.captures.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let table = [
            ("1", Some(1)),
            ("64K", Some(65_536)),
            ("512M", Some(536_870_912)),
            ("2G", Some(2_147_483_648)),
            ("1T", Some(1_099_511_627_776)),
            ("0", None),
            ("", None),
            ("G", None),
            ("-1", None),
            ("+1", None),
            ("1.5G", None),
            ("2g", None),
            ("2GB", None),
            ("99999999999T", None),
        ];
        for (text, expected) in table {
            assert_eq!(size(text), expected, "{text}");
        }
    }

    #[test]
    fn seconds_may_have_a_unit() {
        let table = [
            ("1", Some(1)),
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("2h", Some(7200)),
            ("0", Some(0)),
            ("", None),
            ("s", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("5x", None),
            ("5 m", None),
            ("99999999999999999999", None),
            ("9999999999999999999h", None),
        ];
        for (text, expected) in table {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn a_regular_expression_needs_a_group() {
        assert!(check(Form::Regex, "token=(.+)").is_ok());
        assert!(check(Form::Regex, "(?<=x)(y)").is_ok());
        assert!(check(Form::Regex, "token=.+").is_err());
        assert!(check(Form::Regex, "(?:token)").is_err());
        assert!(check(Form::Regex, "(").is_err());
    }
}
