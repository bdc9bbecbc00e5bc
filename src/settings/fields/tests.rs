//! Promises about keys that are known and not built.

use std::path::Path;

use super::*;

fn read_text(text: &str) -> Result<Settings> {
    read(&Source::from_bytes(Path::new("s.json"), text.into())?)
}

fn refusal(text: &str) -> String {
    read_text(text).expect_err(text).to_string()
}

/// Key, a value that asks for nothing, a value that asks for something, what it can be set to.
const UNBUILT: [(&str, Option<&str>, &str); 44] = [
    (
        "network.deniedDomainReasons",
        Some("{}"),
        r#"{"a.example":"no"}"#,
    ),
    ("network.strictAllowlist", Some("false"), "true"),
    (
        "network.deniedResolvedAddresses",
        Some("[]"),
        r#"["10.0.0.0/8"]"#,
    ),
    ("network.allowUnixSockets", Some("[]"), r#"["/run/x"]"#),
    ("network.allowAllUnixSockets", Some("false"), "true"),
    ("network.allowLocalBinding", Some("false"), "true"),
    ("network.allowMachLookup", Some("[]"), r#"["x"]"#),
    ("network.httpProxyPort", None, "8080"),
    ("network.socksProxyPort", None, "1080"),
    (
        "network.mitmProxy",
        None,
        r#"{"socketPath":"/x","domains":["a.example"]}"#,
    ),
    (
        "network.parentProxy",
        Some("{}"),
        r#"{"http":"http://proxy.example"}"#,
    ),
    ("network.tlsTerminate", None, "{}"),
    ("network.tlsTerminate", None, r#"{"maxTunnels":256}"#),
    ("network.filterRequest", None, "{}"),
    ("network.allowPlaintextHeaderSet", Some("false"), "true"),
    ("network.stripResponseHeaders", Some("[]"), r#"["x"]"#),
    ("network.refuseOpaqueTunnels", Some("false"), "true"),
    ("network.requireHostMatch", Some("false"), "true"),
    (
        "network.ambiguousRequestTarget",
        Some(r#""refuse""#),
        r#""asSpelled""#,
    ),
    ("filesystem.disabled", Some("false"), "true"),
    ("filesystem.allowGitConfig", Some("false"), "true"),
    (
        "credentials",
        Some("{}"),
        r#"{"files":[{"path":"a","mode":"deny"}]}"#,
    ),
    (
        "credentials.files",
        Some("[]"),
        r#"[{"path":"a","mode":"deny"}]"#,
    ),
    (
        "credentials.envVars",
        Some("[]"),
        r#"[{"name":"A","mode":"deny"}]"#,
    ),
    ("credentials.allowPlaintextInject", Some("false"), "true"),
    ("credentials.awsPairs", Some("[]"), "[{}]"),
    (
        "credentials.sigv4",
        Some(r#"{"streaming":"deny"}"#),
        r#"{"presigned":"passthrough"}"#,
    ),
    ("ignoreViolations", Some("{}"), r#"{"*":["x"]}"#),
    ("enableWeakerNestedSandbox", Some("false"), "true"),
    ("allowNestedUserNamespaces", Some("false"), "true"),
    ("enableWeakerNetworkIsolation", Some("false"), "true"),
    ("allowAppleEvents", Some("false"), "true"),
    ("allowPty", Some("false"), "true"),
    (
        "ripgrep",
        Some(r#"{"command":"rg"}"#),
        r#"{"command":"/bin/rg"}"#,
    ),
    ("ripgrep.args", Some("[]"), r#"["-x"]"#),
    ("mandatoryDenySearchDepth", Some("3"), "4"),
    ("seccomp", Some("{}"), r#"{"applyPath":"/x"}"#),
    ("seccomp.argv0", None, r#""x""#),
    ("bwrapPath", None, r#""/bin/x""#),
    ("socatPath", None, r#""/bin/x""#),
    ("javaAgentJarPath", None, r#""/x""#),
    ("git", Some("{}"), r#"{"safeDirectories":["/x"]}"#),
    ("git.safeDirectories", Some("[]"), r#"["/x"]"#),
    ("windows", Some("{}"), r#"{"x":1}"#),
];

/// Writes `value` under a dotted key.
fn document(key: &str, value: &str) -> String {
    key.rsplit('.').fold(value.to_owned(), |inner, name| {
        format!("{{\"{name}\":{inner}}}")
    })
}

#[test]
fn known_keys_that_are_not_built_are_accepted_at_their_default_only() {
    for (key, default, other) in UNBUILT {
        if let Some(default) = default {
            let text = document(key, default);
            assert!(read_text(&text).is_ok(), "{text}");
        }
        for value in [other, "null", "1e999"] {
            let message = refusal(&document(key, value));
            assert!(
                message.contains(&format!("`{key}")),
                "{key} {value}: {message}"
            );
            assert!(!message.contains("unknown key"), "{key} {value}: {message}");
        }
        assert!(
            refusal(&document(key, other)).contains("not supported by this version yet"),
            "{key}"
        );
    }
}
