//! What `fuzz/` and the seeded tests ask of host patterns: an entry decides as its model does.

use super::{Decision, Network};
use crate::policy::hostname::Target;
use crate::settings::{self, Entry, Layer, Origin};

/// An entry and, on the next line, a target: decided the same, or neither is any.
pub fn pattern(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (entry, asked) = text.split_once('\n').unwrap_or((text, "a.test:443"));
    let Ok(target) = Target::parse(asked, None) else {
        return;
    };
    let origin = Origin {
        key: "network.allowedDomains",
        file: None,
        line: 1,
        column: 1,
        layer: Layer::Explicit,
    };
    let settings = settings::Network {
        allowed_domains: vec![Entry::new(entry.to_owned(), origin)],
        ..settings::Network::default()
    };
    let Ok(network) = Network::from_settings(&settings) else {
        return;
    };
    let Some(expected) = model(entry, &target) else {
        return;
    };
    let allowed = matches!(network.decide(&target), Decision::Allowed(_));
    assert_eq!(allowed, expected, "{entry:?} on {target}");
}

/// Says what an entry that names hosts in plain ASCII does; `None` of any other.
fn model(entry: &str, target: &Target) -> Option<bool> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "*.:-_".contains(c);
    let entry = entry.to_ascii_lowercase();
    if !entry.chars().all(plain) || entry.contains("xn--") {
        return None;
    }
    let (host, ports) = entry.split_once(':').unwrap_or((&entry, "1-65535"));
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let ports = first.parse::<u16>().ok()?..=last.parse::<u16>().ok()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    let asked = target.host.to_string();
    let is_address = |text: &str| {
        text.rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()))
    };
    if is_address(host) || is_address(&asked) {
        return None;
    }
    let covers = match host.strip_prefix('*') {
        Some(suffix) => asked.len() > suffix.len() && asked.ends_with(suffix),
        None => asked == host,
    };
    Some(covers && ports.contains(&target.port))
}
