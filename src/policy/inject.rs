//! Hosts that other keys than the two lists name: written as the lists are, without ports, and
//! within what is allowed.

use super::network::{List, Table};
use super::path::entry_error;
use crate::error::{Error, Result};
use crate::settings::{Entry, Settings};

/// Checks every such host.
///
/// # Errors
/// Names each entry that is no host pattern, has a port, or would send a secret where nothing
/// may go.
pub(super) fn check(settings: &Settings) -> Result<()> {
    let values = &settings.values;
    let excluded = plain(values.list("network.tlsTerminate.excludeDomains"))?;
    plain(values.list("network.mitmProxy.domains"))?;
    let records = ["credentials.files", "credentials.envVars"].map(|key| values.records(key));
    let hosts = records.into_iter().flatten();
    let hosts: Vec<Entry> = hosts
        .flat_map(|record| record.list("injectHosts"))
        .cloned()
        .collect();
    if hosts.is_empty() {
        return Ok(());
    }
    let allowed = Table::parse(&settings.network.allowed_domains, List::Allowed)?;
    let holds = |table: &Table, rule| table.around(rule).next().is_some();
    let mut problems = Vec::new();
    for rule in plain(&hosts)?.rules() {
        if !holds(&allowed, rule) {
            let what = "is allowed by no entry of `network.allowedDomains`";
            problems.push(entry_error(rule.entry(), what));
        } else if holds(&excluded, rule) {
            let what = "never gets it: `excludeDomains` passes its TLS on as it is";
            problems.push(entry_error(rule.entry(), what));
        }
    }
    Error::joined(problems).map_or(Ok(()), Err)
}

/// Parses hosts that must have no port.
fn plain(entries: &[Entry]) -> Result<Table> {
    let table = Table::parse(entries, List::Allowed)?;
    let with_port = table.rules().iter().filter(|rule| !rule.is_on_all_ports());
    let problems = with_port.map(|rule| entry_error(rule.entry(), "must be a host without a port"));
    Error::joined(problems.collect()).map_or(Ok(table), Err)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn refusal(text: &str) -> Option<String> {
        let name = format!("srt-inject-{}-{:p}.json", std::process::id(), text);
        let file = Path::new("/tmp").join(name);
        std::fs::write(&file, text).expect("/tmp is writable");
        let settings = Settings::read(&file);
        std::fs::remove_file(&file).expect("just written");
        let error = check(&settings.expect(text)).err()?;
        Some(error.to_string())
    }

    fn document(allowed: &str, excluded: &str, inject: &str) -> String {
        format!(
            r#"{{"network":{{"allowedDomains":{allowed},"tlsTerminate":{{"excludeDomains":{excluded}}}}},
                "credentials":{{"envVars":[{{"name":"T","mode":"mask","injectHosts":{inject}}}]}}}}"#
        )
    }

    #[test]
    fn a_secret_goes_only_where_something_may_go_and_be_looked_into() {
        let allowed = r#"["*.a.example:443","b.example"]"#;
        let good = [
            r#"["x.a.example"]"#,
            r#"["*.a.example","b.example"]"#,
            r#"["*.y.a.example"]"#,
        ];
        for inject in good {
            assert_eq!(
                refusal(&document(allowed, r#"["c.example"]"#, inject)),
                None
            );
        }
        let bad = [
            (r#"["a.example"]"#, "is allowed by no entry"),
            (r#"["*.example.org"]"#, "is allowed by no entry"),
            (r#"["b.example:443"]"#, "must be a host without a port"),
            (r#"["b example"]"#, "no host name has"),
        ];
        for (inject, what) in bad {
            let message = refusal(&document(allowed, "[]", inject)).expect(inject);
            assert!(
                message.contains(what) && message.contains(".json:2:"),
                "{message}"
            );
        }
        let all_excluded = document(allowed, r#"["*.a.example"]"#, r#"["x.a.example"]"#);
        assert!(
            refusal(&all_excluded)
                .expect("excluded")
                .contains("excludeDomains")
        );
        assert!(refusal(&document(allowed, r#"["a.example:1"]"#, "[\"b.example\"]")).is_some());
    }
}
