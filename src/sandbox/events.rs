//! The lifecycle events of a run, and what is said on stderr before it.

use serde_json::{Map, Value, json};

use crate::audit::Verbosity;
use crate::audit::event::{Code, Event, Kind, Verdict};
use crate::audit::{Audit, Ignored};
use crate::backend::{Bound, Command, Limit, Observed, Outcome, Report};
use crate::error::Result;
use crate::linux::launch::{Launch, Sandbox};
use crate::linux::plan::Place;
use crate::policy::{Nesting, NetworkMode, Policy};
use crate::settings::{Origin, Settings};

/// What is said where another program has the only listener there can be.
const UNOBSERVED: &str = "denials of files are not observed: a sandbox around this one has the \
                          kernel's only listener for them";

/// What is said where the command gets no terminal that others beside it may read.
const SET_ASIDE: &str = "the command runs as a background job and cannot read the terminal, since \
                         Linux before 6.12 cannot keep its signals from the other programs of \
                         this job: start it alone";

/// Says what the caller should know before the command runs, and records what is switched off.
pub(super) fn announce(
    settings: &Settings,
    policy: &Policy,
    command: &Command,
    place: Place,
    audit: &Audit,
) {
    leave_out(settings, command, audit);
    warn(settings, policy, audit);
    record_weakenings(settings, policy, place, audit);
    if command.observed != Observed::Nothing && place == Place::Sandbox {
        warn_unobserved(audit);
    }
}

/// Says that denials of files will not be told of.
pub(super) fn warn_unobserved(audit: &Audit) {
    audit.warn(format_args!("{UNOBSERVED}"));
}

/// Says what the kernel will be asked, and what of the settings that cannot give.
pub(super) fn tell_of_plan(plan: &Launch, audit: &Audit) {
    audit.debug(format_args!("plan\n{plan}"));
    for note in plan.notes() {
        audit.warn(format_args!("{note}"));
    }
}

/// Says what the caller should know before the command runs.
pub(super) fn warn(settings: &Settings, policy: &Policy, audit: &Audit) {
    for warning in settings.warnings.iter().chain(policy.filesystem.warnings()) {
        audit.warn(format_args!("{warning}"));
    }
    if let Some(entry) = policy.network.makes_allowing_vain() {
        audit.warn(format_args!(
            "{}: {} `{}` denies every host: no entry of network.allowedDomains has an effect",
            entry.origin,
            entry.origin.name(),
            entry.text
        ));
    }
    if settings.files.is_empty() {
        audit.verbose(format_args!(
            "no settings file was found: nothing may be written but what flags and defaults \
             allow, and no host reached but those of flags"
        ));
    }
    if audit.verbosity() < Verbosity::Verbose {
        return;
    }
    for (key, note) in settings.notes() {
        audit.verbose(format_args!("`{key}` {note}"));
    }
    for note in policy.notes.iter().chain(policy.filesystem.notes()) {
        audit.verbose(format_args!("{note}"));
    }
    for note in policy.filesystem.tracked() {
        audit.verbose(format_args!("{note}"));
    }
    for dropped in policy.environment.dropped() {
        audit.verbose(format_args!("{dropped}"));
    }
}

/// A protection that settings switch off: whether they do, the key, what that does, its code.
struct Switch(bool, &'static str, &'static str, Code);

/// Records each protection that the settings switch off, and says it.
fn record_weakenings(settings: &Settings, policy: &Policy, place: Place, audit: &Audit) {
    let network = network_switches(settings, policy, place).into_iter();
    let files = file_switches(settings, policy, place);
    let nesting = nesting_switches(policy, place);
    for Switch(_, key, what, code) in network
        .chain(files)
        .chain(nesting)
        .filter(|Switch(on, ..)| *on)
    {
        audit.warn(format_args!("`{key}` {what}"));
        audit.record(&Event {
            target: Some(key),
            ..Event::new(Kind::Weakening, "start", code)
        });
    }
}

fn network_switches(settings: &Settings, policy: &Policy, place: Place) -> [Switch; 5] {
    [
        Switch(
            policy.sockets.all_are_open(),
            "network.allowAllUnixSockets",
            "opens every Unix socket of the host: its agents and services can act for the command",
            Code::SocketsAll,
        ),
        Switch(
            policy.network_mode == NetworkMode::Open && place == Place::Host,
            "network.mode",
            "shares the host's network: no host is filtered, and its loopback is in reach",
            Code::NetworkOpen,
        ),
        Switch(
            policy.network_mode == NetworkMode::Open && place == Place::Sandbox,
            "network.mode",
            "shares the network of the sandbox around: its rules alone filter hosts",
            Code::NetworkOpen,
        ),
        Switch(
            settings.network.allow_private_networks && policy.network_mode == NetworkMode::Filtered,
            "network.allowPrivateNetworks",
            "lets an allowed name lead into private networks: whoever owns the name chooses where",
            Code::NetworkPrivate,
        ),
        Switch(
            !settings.network.requires_host_match && policy.network_mode == NetworkMode::Filtered,
            "network.requireHostMatch",
            "lets a connection to an allowed host ask for another one that is served there too",
            Code::HostsUnmatched,
        ),
    ]
}

fn file_switches(settings: &Settings, policy: &Policy, place: Place) -> [Switch; 3] {
    [
        Switch(
            settings.filesystem.disabled,
            "filesystem.disabled",
            "switches the rules for files off: what the caller may read and write, the command may",
            Code::FilesOpen,
        ),
        Switch(
            !settings.filesystem.protects_secrets,
            "filesystem.protectSecrets",
            "shows every store of secrets: what it allows to be reached can be told them",
            Code::SecretsShown,
        ),
        Switch(
            policy.keeps_file_capabilities && place == Place::Host,
            "filesystem.keepFileCapabilities",
            "leaves CAP_DAC_OVERRIDE, CAP_CHOWN and CAP_FOWNER: the rules alone decide about files \
             of every user, no owner and no mode",
            Code::FilesOfOthers,
        ),
    ]
}

fn nesting_switches(policy: &Policy, place: Place) -> [Switch; 3] {
    [
        Switch(
            policy.nesting == Nesting::Userns,
            "allowNestedUserNamespaces",
            "lets the command make user namespaces: kernel code that only root reaches is in its \
             reach",
            Code::NestingUserns,
        ),
        Switch(
            policy.nesting == Nesting::Mounts,
            "allowNestedUserNamespaces",
            "lets the command make user namespaces with mounts: rules for files hold by locked \
             mounts alone, Landlock does not repeat them, and what is denied of names that \
             appear during the run is not promised",
            Code::NestingMounts,
        ),
        Switch(
            place == Place::Sandbox,
            "nested",
            "has this run inside a sandbox confined by Landlock and filters alone, within what \
             that sandbox allows: processes and Unix sockets of it are in reach",
            Code::NestedInner,
        ),
    ]
}

/// Records that the sandbox stands, with what was asked and what is in force.
pub(super) fn record_start(held: &mut Sandbox, command: &Command, report: &Report, audit: &Audit) {
    if held.is_set_aside() {
        audit.warn(format_args!("{SET_ASIDE}"));
    }
    // Texts take time, and most runs show nothing of this.
    if !audit.is_recording() && audit.verbosity() < Verbosity::Debug {
        return;
    }
    let program = program(command);
    audit.debug(format_args!("enforced {}", json!(report.enforced)));
    audit.record(&Event {
        target: Some(&program),
        detail: Some(details(json!(report))),
        ..Event::new(Kind::Lifecycle, "start", Code::RunStart)
    });
}

/// Records which bounds ended or refused something, and says it.
pub(super) fn record_reached(audit: &Audit, reached: &[Bound]) {
    for bound in reached {
        let value = bound.value;
        let (code, op, what) = match bound.limit {
            Limit::Seconds => (
                Code::RunTime,
                "end",
                format!("the command was ended: it ran for {value} s"),
            ),
            Limit::Memory => (
                Code::MemoryExceeded,
                "allocate",
                format!("processes were killed: together they used more than {value} bytes"),
            ),
            Limit::Processes => (
                Code::ProcessesExceeded,
                "fork",
                format!("processes or threads were refused: there were {value}"),
            ),
            Limit::CpuSeconds => (
                Code::CpuExceeded,
                "end",
                format!("a process was ended: it used {value} s of processor time"),
            ),
            Limit::FileSize => (
                Code::FileSizeExceeded,
                "write",
                format!("a process was ended: it wrote a file of more than {value} bytes"),
            ),
            // The process alone is told.
            Limit::Files => continue,
        };
        let key = bound.limit.key();
        let flag = Origin::flag(key);
        audit.warn(format_args!(
            "{what}; {} or `{key}` may allow more",
            flag.name()
        ));
        audit.record(&Event {
            target: Some(key),
            verdict: Some(Verdict::Failed),
            detail: Some(details(json!({ "limit": value }))),
            ..Event::new(Kind::Limit, op, code)
        });
    }
}

/// The signal of a program whose call the filters answer with its end; see seccomp(2). They do
/// so for calls of another architecture alone.
const SIGSYS: u8 = 31;

/// What the caller should know about a program that was ended so: nothing else tells it.
const FOREIGN_CALL: &str = "a program was ended by SIGSYS: 32-bit programs are not supported, \
                            their first system call ends them; use a 64-bit build";

/// Records how the run ended: the command's status, or why it did not run.
pub(super) fn record_end(audit: &Audit, result: &Result<Outcome>) {
    match result {
        Ok(outcome) => {
            let mut detail = match outcome {
                Outcome::Exited(status) => json!({ "status": status }),
                Outcome::Signaled(signal) => json!({ "signal": signal }),
            };
            // A shell exits as its last command ended.
            if outcome.exit_code() == 128 | SIGSYS {
                audit.warn(format_args!("{FOREIGN_CALL}"));
                detail["reason"] = FOREIGN_CALL.into();
            }
            audit.record(&Event {
                detail: Some(details(detail)),
                ..Event::new(Kind::Lifecycle, "end", Code::RunEnd)
            });
        }
        Err(error) => audit.record(&Event {
            verdict: Some(Verdict::Denied),
            detail: Some(details(json!({
                "status": error.exit_code(),
                "reason": error.to_string(),
                "hint": error.hint(),
            }))),
            ..Event::new(Kind::Lifecycle, "start", Code::RunRefused)
        }),
    }
}

/// Leaves out of reports what the settings say for this command.
fn leave_out(settings: &Settings, command: &Command, audit: &Audit) {
    let words = command.shell_string.iter().chain(&command.argv);
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let lists = settings.ignored();
    let lists = lists.flat_map(|(part, texts)| texts.iter().map(move |text| (part, &text.text)));
    audit.leave_out(Ignored::of(lists, &words.join(" ")));
}

/// The program alone: arguments may hold secrets.
pub(crate) fn program(command: &Command) -> String {
    match (&command.shell_string, command.argv.first()) {
        (Some(_), _) => "shell string".to_owned(),
        (None, Some(word)) => word.to_string_lossy().into_owned(),
        (None, None) => String::new(),
    }
}

fn details(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("detail".to_owned(), other)]),
    }
}
