//! What several values together must keep to.

use super::fields::Problems;
use super::schema::{self, Effect, Key};
use super::values::{Record, Value, Values};

/// Adds what is wrong with values that are each right alone.
pub(super) fn check(values: &Values, problems: &mut Problems) {
    let mut add = |place: &dyn std::fmt::Display, what: &str| {
        problems.add(|| format!("{place}: {what}"));
    };
    check_proxies(values, &mut add);
    check_paths(values, &mut add);
    check_reasons(values, &mut add);
    for record in values.records("credentials.files") {
        require(record, "credentials.files", &mut add);
        check_masking(record, values, &mut add);
        if let Some(path) = record.fields.get("path") {
            check_masked_path(record, path, &mut add);
        }
    }
    for record in values.records("credentials.envVars") {
        require(record, "credentials.envVars", &mut add);
        check_masking(record, values, &mut add);
    }
    check_pairs(values, &mut add);
    for record in values.records("audit.sinks") {
        require(record, "audit.sinks", &mut add);
        check_sink(record, &mut add);
    }
}

type Add<'a> = dyn FnMut(&dyn std::fmt::Display, &str) + 'a;

fn require(record: &Record, array: &str, add: &mut Add<'_>) {
    let of_array = |key: &&Key| key.section().strip_suffix("[]") == Some(array);
    for key in schema::keys().filter(of_array).filter(|key| key.required) {
        let name = key.name();
        if !record.fields.contains_key(name) {
            add(
                &record.origin,
                &format!("an entry of `{array}` lacks `{name}`"),
            );
        }
    }
}

fn check_proxies(values: &Values, add: &mut Add<'_>) {
    if let Some(proxy) = values.get("network.mitmProxy") {
        if values.text("network.mitmProxy.socketPath").is_none() {
            add(&proxy.origin, "`network.mitmProxy` lacks `socketPath`");
        }
        if values.list("network.mitmProxy.domains").is_empty() {
            add(
                &proxy.origin,
                "`network.mitmProxy` lacks `domains`, or has none",
            );
        }
        if let Some(tls) = values.get("network.tlsTerminate") {
            let what = format!(
                "`network.mitmProxy` and `network.tlsTerminate` ({}) exclude each other",
                tls.origin
            );
            add(&proxy.origin, &what);
        }
    }
    let certificate = values.get("network.tlsTerminate.caCertPath");
    let key = values.get("network.tlsTerminate.caKeyPath");
    match (certificate, key) {
        (Some(value), None) => add(&value.origin, "`caCertPath` needs `caKeyPath` beside it"),
        (None, Some(value)) => add(&value.origin, "`caKeyPath` needs `caCertPath` beside it"),
        _ => {}
    }
}

/// A pattern that ends in `/` could match directories alone, and hides nothing in them.
fn check_paths(values: &Values, add: &mut Add<'_>) {
    for entry in values.list("filesystem.denyRead") {
        let is_pattern = !entry.literal && entry.text.contains(['*', '?', '[']);
        if is_pattern && entry.text.ends_with('/') && entry.text.starts_with(['/', '~']) {
            let what = format!(
                "{} `{}` is a pattern that ends in `/`: write it without",
                entry.origin.name(),
                entry.text
            );
            add(&entry.origin, &what);
        }
    }
}

fn check_reasons(values: &Values, add: &mut Add<'_>) {
    for (name, _) in values.map("weakeningReasons") {
        let key = schema::get(&name.text);
        if !key.is_some_and(|key| matches!(key.effect, Effect::Switch(_) | Effect::Limit)) {
            let what = format!(
                "`weakeningReasons` names `{}`, which weakens nothing",
                name.text
            );
            add(&name.origin, &what);
        }
    }
    let denied = values.list("network.deniedDomains");
    for (name, _) in values.map("network.deniedDomainReasons") {
        if !denied.iter().any(|entry| entry.text == name.text) {
            let what = format!(
                "`network.deniedDomainReasons` names `{}`, which `deniedDomains` does not list",
                name.text
            );
            add(&name.origin, &what);
        }
    }
}

fn check_masking(record: &Record, values: &Values, add: &mut Add<'_>) {
    if let Some(claims) = record.fields.get("maskClaims") {
        if record.text("decode").is_none() {
            add(&claims.origin, "`maskClaims` needs `decode` beside it");
        }
        refuse_empty(record, "maskClaims", claims, add);
    }
    if let Some(hosts) = record.fields.get("injectHosts") {
        refuse_empty(record, "injectHosts", hosts, add);
    }
    if record.text("mode") != Some("mask") {
        return;
    }
    let terminates = values.get("network.tlsTerminate").is_some();
    if !terminates && !values.bool_or("credentials.allowPlaintextInject", false) {
        add(
            &record.origin,
            "mode \"mask\" needs `network.tlsTerminate` or `credentials.allowPlaintextInject`",
        );
    }
}

fn refuse_empty(record: &Record, name: &str, value: &Value, add: &mut Add<'_>) {
    if record.list(name).is_empty() {
        let what = format!("`{name}` must not be empty: leave it out for all");
        add(&value.origin, &what);
    }
}

fn check_masked_path(record: &Record, path: &Value, add: &mut Add<'_>) {
    let text = path.text().unwrap_or_default();
    match record.text("mode") {
        Some("mask") if text.ends_with('/') => {
            add(
                &path.origin,
                "mode \"mask\" is for a file, and this is a directory",
            );
        }
        Some("deny") if text.ends_with('/') && text.contains(['*', '?', '[']) => {
            add(&path.origin, "a pattern must not end in `/`");
        }
        _ => {}
    }
}

fn check_pairs(values: &Values, add: &mut Add<'_>) {
    let masked = |name: &str| {
        let mut records = values.records("credentials.envVars").iter();
        records.any(|record| {
            let whole = record.text("extract").is_none() && record.text("decode").is_none();
            record.text("name") == Some(name) && record.text("mode") == Some("mask") && whole
        })
    };
    for pair in values.records("credentials.awsPairs") {
        require(pair, "credentials.awsPairs", add);
        let names = pair.fields.values();
        let names: Vec<_> = names
            .filter_map(|value| Some((value, value.text()?)))
            .collect();
        for (index, (value, name)) in names.iter().enumerate() {
            if names[..index].iter().any(|(_, other)| other == name) {
                add(&value.origin, &format!("`{name}` stands in one pair twice"));
            } else if !masked(name) {
                let what = format!("`{name}` must be masked as a whole in `credentials.envVars`");
                add(&value.origin, &what);
            }
        }
    }
}

fn check_sink(record: &Record, add: &mut Add<'_>) {
    let (needed, taken): (_, &[&str]) = match record.text("type") {
        Some("file") => (Some("path"), &["path", "maxSize", "chain"]),
        Some("journald") => (None, &["path"]),
        Some("syslog") if record.fields.contains_key("path") => (None, &["path"]),
        Some("syslog") => (None, &["address"]),
        Some("otlp") => (Some("address"), &["address"]),
        _ => return,
    };
    let kind = record.text("type").unwrap_or_default();
    if let Some(needed) = needed.filter(|name| !record.fields.contains_key(name)) {
        let what = format!("a sink of type \"{kind}\" lacks `{needed}`");
        add(&record.origin, &what);
    }
    for (name, value) in &record.fields {
        if *name != "type" && !taken.contains(name) {
            let beside = if kind == "syslog" {
                " beside `path`"
            } else {
                ""
            };
            let what = format!("a sink of type \"{kind}\" takes no `{name}`{beside}");
            add(&value.origin, &what);
        }
    }
}
