//! Every settings key there is. A key that stands in no line here is an error, so that nothing
//! is ignored in silence.

mod credentials;
mod network;

use super::schema::{Effect, Form, Key, Relation, Shape, Support};

/// All keys, in the order they are documented in; sections before what stands in them.
pub(super) static GROUPS: &[&[Key]] = &[FILE, network::KEYS, FILES, credentials::KEYS, RUN];

const STRICT: Effect = Effect::Switch("true");
const LOOSE: Effect = Effect::Switch("false");

const MACOS: Support = Support::Ignored("it has a meaning on macOS alone");
const NO_HELPER: Support = Support::Ignored("srt needs no helper program");

const fn section(path: &'static str, about: &'static str) -> Key {
    Key::new(path, Shape::Section, about)
}

const fn switch(path: &'static str, default: &'static str, about: &'static str) -> Key {
    Key::new(path, Shape::Bool, about).default(default)
}

const fn list(path: &'static str, form: Form, about: &'static str) -> Key {
    Key::new(path, Shape::List(form), about).default("[]")
}

const fn paths(path: &'static str, about: &'static str) -> Key {
    Key::new(path, Shape::Paths, about).default("[]")
}

const fn text(path: &'static str, form: Form, about: &'static str) -> Key {
    Key::new(path, Shape::Text(form), about)
}

const fn choice(
    path: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    about: &'static str,
) -> Key {
    Key::new(path, Shape::Choice(words), about).default(default)
}

static FILE: &[Key] = &[
    Key::new(
        "$schema",
        Shape::Note,
        "Where an editor finds the schema of this file.",
    ),
    Key::new(
        "description",
        Shape::Note,
        "What the file is for; `srt ctl profile list` shows it.",
    ),
    Key::new("version", Shape::Int(1, 1), "Version of the format.").default("1"),
    list(
        "extends",
        Form::Profile,
        "Profiles that are read before this file.",
    )
    .flag("--profile"),
];

static FILES: &[Key] = &[
    // Files.
    section("filesystem", "Which paths may be read and written."),
    switch(
        "filesystem.disabled",
        "false",
        "Whether there are no rules for files at all.",
    )
    .effect(LOOSE),
    paths("filesystem.denyRead", "Paths to hide.")
        .effect(Effect::Deny)
        .flag("--deny-read"),
    paths(
        "filesystem.allowRead",
        "Paths to show again inside a hidden one.",
    )
    .effect(Effect::Grant(Relation::Paths))
    .flag("--allow-read"),
    paths("filesystem.allowWrite", "Paths that may be written.")
        .effect(Effect::Grant(Relation::Paths))
        .flag("--allow-write"),
    paths(
        "filesystem.denyWrite",
        "Paths that may not be written, whatever else says so.",
    )
    .effect(Effect::Deny)
    .flag("--deny-write"),
    switch(
        "filesystem.allowGitConfig",
        "false",
        "Whether `.git/config` may be written, as `allowProtected` opens it too.",
    )
    .effect(LOOSE),
    switch(
        "filesystem.protectSecrets",
        "true",
        "Whether well-known stores of secrets are hidden; `allowRead` opens one of them.",
    )
    .effect(STRICT),
    list(
        "filesystem.allowProtected",
        Form::Any,
        "Names that are protected and may be written all the same.",
    )
    .effect(Effect::Grant(Relation::Same)),
    switch(
        "filesystem.keepFileCapabilities",
        "false",
        "Whether a command of user 0 may read, write and give away files of other users where the \
         rules let it.",
    )
    .effect(LOOSE),
    list(
        "filesystem.devices",
        Form::Any,
        "Devices of the host to show.",
    )
    .effect(Effect::Grant(Relation::Same))
    .support(Support::Unbuilt),
    choice(
        "filesystem.lateDenies",
        &["sweep", "enforce"],
        "\"sweep\"",
        "What holds for denied names that appear during the run.",
    )
    .effect(Effect::Switch("\"enforce\""))
    .support(Support::Pending(
        "names that do not exist at the start are not guarded yet",
    )),
    switch(
        "filesystem.privateTmp",
        "false",
        "Whether `/tmp` is an empty directory of the run's own.",
    )
    .effect(STRICT)
    .support(Support::Unbuilt),
    switch(
        "filesystem.privateSys",
        "false",
        "Whether `/sys` shows devices and processors alone.",
    )
    .effect(STRICT)
    .support(Support::Unbuilt),
    list("caches", Form::Any, "Caches of package managers to share.")
        .effect(Effect::Grant(Relation::Same))
        .support(Support::Unbuilt),
    // Environment.
    section("env", "Which variables the command gets."),
    switch(
        "env.inherit",
        "true",
        "Whether the caller's variables are passed on.",
    )
    .effect(LOOSE)
    .flag("--inherit-env"),
    list(
        "env.allow",
        Form::VariablePattern,
        "Variables that are passed on though another rule drops them.",
    )
    .effect(Effect::Grant(Relation::Same))
    .flag("--env"),
    list(
        "env.deny",
        Form::VariablePattern,
        "Variables that are dropped; `@secrets` stands for secret-shaped names.",
    )
    .effect(Effect::Deny),
    Key::new("env.set", Shape::Map(Form::Free), "Variables to set.")
        .default("{}")
        .effect(Effect::Open)
        .flag("--env"),
    section("git", "How git is set up inside."),
    list(
        "git.safeDirectories",
        Form::Path,
        "Repositories of other users that git may work in.",
    )
    .effect(Effect::Open),
];

static RUN: &[Key] = &[
    // The run.
    section("limits", "What the command may use up; absent is no bound."),
    Key::new(
        "limits.seconds",
        Shape::Int(1, u64::MAX),
        "Seconds it may run.",
    )
    .effect(Effect::Limit)
    .flag("--timeout"),
    Key::new("limits.memory", Shape::Size, "Memory of all its processes.")
        .effect(Effect::Limit)
        .flag("--max-memory"),
    Key::new(
        "limits.processes",
        Shape::Int(1, u64::MAX),
        "Processes and threads at once.",
    )
    .effect(Effect::Limit)
    .flag("--max-procs"),
    Key::new(
        "limits.files",
        Shape::Int(1, u64::MAX),
        "Files a process may have open.",
    )
    .effect(Effect::Limit)
    .flag("--max-files"),
    Key::new("limits.fileSize", Shape::Size, "Size of a file it writes.")
        .effect(Effect::Limit)
        .flag("--max-file-size"),
    Key::new(
        "limits.cpuSeconds",
        Shape::Int(1, u64::MAX),
        "Seconds of processor time a process may use.",
    )
    .effect(Effect::Limit)
    .flag("--cpu-time"),
    section("audit", "Where events are kept."),
    Key::new(
        "audit.sinks",
        Shape::Records,
        "Places that get every event.",
    )
    .default("[]")
    .effect(Effect::Open),
    Key::new(
        "audit.sinks[].type",
        Shape::Choice(&["file", "journald", "syslog", "otlp"]),
        "What it is.",
    )
    .required(),
    text(
        "audit.sinks[].path",
        Form::Path,
        "The file; or the socket, by default that of the daemon.",
    ),
    text(
        "audit.sinks[].address",
        Form::Any,
        "`udp://host:port` or `tcp://host:port` of syslog; `http://host:port` of OTLP.",
    ),
    Key::new(
        "audit.sinks[].maxSize",
        Shape::Size,
        "Size of a file above which what it holds goes to `FILE.1`.",
    )
    .default("67108864"),
    switch(
        "audit.sinks[].chain",
        "false",
        "Whether each line of a file carries the hash of the one before.",
    ),
    Key::new(
        "ignoreViolations",
        Shape::Lists,
        "Denials to leave out of reports: texts of an operation and its target, by a text of the \
         command, `*` for any. Nothing is allowed by it.",
    )
    .default("{}")
    .effect(Effect::Open),
    Key::new(
        "allowNestedUserNamespaces",
        Shape::Switch(&["userns", "mounts"]),
        "Whether the command may make namespaces of its own, and mounts in them.",
    )
    .default("false")
    .effect(LOOSE),
    choice(
        "seccompProfile",
        &["default", "strict"],
        "\"default\"",
        "Which system calls the command does without.",
    )
    .effect(Effect::Switch("\"strict\"")),
    choice(
        "nested",
        &["refuse", "inner"],
        "\"refuse\"",
        "What `srt` does inside a sandbox of its own kind.",
    )
    .effect(Effect::Switch("\"refuse\"")),
    Key::new(
        "minIsolation",
        Shape::Int(1, 3),
        "The weakest rung of isolation to accept; 1 is all of it.",
    )
    .default("1")
    .effect(Effect::Limit)
    .support(Support::Ignored("a run has all of it or does not start")),
    Key::new(
        "weakeningReasons",
        Shape::Map(Form::Any),
        "Why a switch that weakens is on, by its key.",
    )
    .default("{}"),
    switch(
        "enableWeakerNestedSandbox",
        "false",
        "Whether less isolation will do where a container allows no more.",
    )
    .effect(LOOSE)
    .support(Support::Ignored("a run has all of it or does not start")),
    switch(
        "enableWeakerNetworkIsolation",
        "false",
        "Whether certificates may be checked by a service of the system.",
    )
    .effect(LOOSE)
    .support(MACOS),
    switch(
        "allowAppleEvents",
        "false",
        "Whether other applications may be sent events.",
    )
    .effect(LOOSE)
    .support(MACOS),
    switch("allowPty", "false", "Whether pseudo-terminals may be made.")
        .effect(LOOSE)
        .support(MACOS),
    Key::new("windows", Shape::Foreign, "Settings of Windows.")
        .default("{}")
        .support(Support::Ignored("it has a meaning on Windows alone")),
    section("ripgrep", "Program that looked for files to protect."),
    text("ripgrep.command", Form::Any, "Its name or path.")
        .default("\"rg\"")
        .support(NO_HELPER),
    list("ripgrep.args", Form::Free, "Its arguments.").support(NO_HELPER),
    text("ripgrep.argv0", Form::Free, "Its first argument.").support(NO_HELPER),
    Key::new(
        "mandatoryDenySearchDepth",
        Shape::Int(1, 10),
        "How deep files to protect were looked for.",
    )
    .default("3")
    .support(Support::Ignored("they are looked for at any depth")),
    section("seccomp", "Program that installed filters."),
    text("seccomp.applyPath", Form::Any, "Its path.").support(NO_HELPER),
    text("seccomp.argv0", Form::Free, "Its first argument.").support(NO_HELPER),
    text("bwrapPath", Form::Absolute, "Path of a helper.").support(NO_HELPER),
    text("socatPath", Form::Absolute, "Path of a helper.").support(NO_HELPER),
    text("javaAgentJarPath", Form::Absolute, "Path of a helper.").support(NO_HELPER),
];
