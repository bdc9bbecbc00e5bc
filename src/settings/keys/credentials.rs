//! The keys of `credentials`.

use super::super::schema::{Effect, Form, Key, Shape, Support};
use super::{LOOSE, choice, list, section, switch, text};

const SIGV4: &[&str] = &["deny", "passthrough"];
const MODES: &[&str] = &["deny", "mask"];
const NO_MATCH: &[&str] = &["warn", "deny", "error"];

pub(super) static KEYS: &[Key] = &[
    section("credentials", "Files and variables that hold secrets."),
    Key::new(
        "credentials.files",
        Shape::Records,
        "Files, each hidden or shown masked.",
    )
    .default("[]")
    .effect(Effect::Deny),
    text(
        "credentials.files[].path",
        Form::Path,
        "The file or directory.",
    )
    .required(),
    Key::new(
        "credentials.files[].mode",
        Shape::Choice(MODES),
        "`deny` hides it, `mask` shows a copy without the secret.",
    )
    .required(),
    text(
        "credentials.files[].extract",
        Form::Regex,
        "What is secret in it: the first group of each match.",
    ),
    choice(
        "credentials.files[].onExtractNoMatch",
        NO_MATCH,
        "\"warn\"",
        "What to do where nothing matches.",
    ),
    Key::new(
        "credentials.files[].decode",
        Shape::Choice(&["jwt"]),
        "How the secret is encoded.",
    ),
    list(
        "credentials.files[].maskClaims",
        Form::Any,
        "Claims of the token that are secret; all without it.",
    ),
    switch(
        "credentials.files[].maskDuplicates",
        "false",
        "Whether further copies in the file are masked too.",
    ),
    list(
        "credentials.files[].injectHosts",
        Form::Host,
        "Hosts that get the real value; without it all that are allowed.",
    ),
    Key::new(
        "credentials.envVars",
        Shape::Records,
        "Variables, each unset or masked.",
    )
    .default("[]")
    .effect(Effect::Deny),
    text(
        "credentials.envVars[].name",
        Form::Variable,
        "The variable.",
    )
    .required(),
    Key::new(
        "credentials.envVars[].mode",
        Shape::Choice(MODES),
        "`deny` unsets it, `mask` sets it to a stand-in.",
    )
    .required(),
    text(
        "credentials.envVars[].extract",
        Form::Regex,
        "What is secret in it: the first group of each match.",
    ),
    choice(
        "credentials.envVars[].onExtractNoMatch",
        NO_MATCH,
        "\"warn\"",
        "What to do where nothing matches.",
    ),
    Key::new(
        "credentials.envVars[].decode",
        Shape::Choice(&["jwt"]),
        "How the secret is encoded.",
    ),
    list(
        "credentials.envVars[].maskClaims",
        Form::Any,
        "Claims of the token that are secret; all without it.",
    ),
    list(
        "credentials.envVars[].injectHosts",
        Form::Host,
        "Hosts that get the real value; without it all that are allowed.",
    ),
    switch(
        "credentials.allowPlaintextInject",
        "false",
        "Whether real values are sent without TLS too.",
    )
    .effect(LOOSE)
    .support(Support::Unbuilt),
    Key::new(
        "credentials.awsPairs",
        Shape::Records,
        "Masked variables that sign requests together.",
    )
    .default("[]")
    .effect(Effect::Open)
    .support(Support::Unbuilt),
    text(
        "credentials.awsPairs[].accessKeyIdVar",
        Form::Variable,
        "Variable of the access key's id.",
    )
    .required(),
    text(
        "credentials.awsPairs[].secretAccessKeyVar",
        Form::Variable,
        "Variable of the secret access key.",
    )
    .required(),
    text(
        "credentials.awsPairs[].sessionTokenVar",
        Form::Variable,
        "Variable of the session token.",
    ),
    section("credentials.sigv4", "Requests that cannot be signed anew."),
    choice(
        "credentials.sigv4.streaming",
        SIGV4,
        "\"deny\"",
        "Those signed chunk by chunk.",
    )
    .effect(Effect::Switch("\"deny\""))
    .support(Support::Unbuilt),
    choice(
        "credentials.sigv4.presigned",
        SIGV4,
        "\"deny\"",
        "Those signed in the URL.",
    )
    .effect(Effect::Switch("\"deny\""))
    .support(Support::Unbuilt),
    choice(
        "credentials.sigv4.sigv4a",
        SIGV4,
        "\"deny\"",
        "Those signed for several regions.",
    )
    .effect(Effect::Switch("\"deny\""))
    .support(Support::Unbuilt),
];
