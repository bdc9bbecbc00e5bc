//! The verdict on one target, put together from the decisions of the policy.

use std::path::{Component, Path};

use super::target::Target;
use crate::error::Result;
use crate::policy::change::Change;
use crate::policy::filesystem::{Access, Filesystem, Right};
use crate::policy::hostname;
use crate::policy::network::Decision;
use crate::policy::path::{FileKind, Way};
use crate::policy::protected::{self, Protection};
use crate::policy::{Host, Policy, address, path};
use crate::sandbox;
use crate::settings::{Entry, NetworkMode, Origin, Settings, shown};

/// What there is to say about one target.
#[derive(Debug, Clone)]
pub(super) struct Verdict {
    /// What sort of target it is.
    pub kind: Kind,
    /// What would be done.
    pub act: Act,
    /// The target as the policy judges it: links followed, names in one spelling.
    pub target: String,
    /// Whether a command may do it.
    pub answer: Answer,
    /// The rule that says so; none where nothing is said about the target.
    pub rule: Option<Rule>,
    /// Why, where no rule says so, or what the rule leaves open.
    pub reason: Option<String>,
    /// What, done together, turns it round.
    pub changes: Vec<Change>,
    /// What else the reader should know.
    pub notes: Vec<String>,
}

/// What sort of target a verdict is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Path,
    Host,
    Socket,
}

impl Kind {
    /// Returns the word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Host => "host",
            Self::Socket => "socket",
        }
    }
}

/// What would be done with a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Read,
    Write,
    Connect,
}

impl Act {
    /// Returns the word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Connect => "connect",
        }
    }
}

impl From<Right> for Act {
    fn from(right: Right) -> Self {
        match right {
            Right::Read => Self::Read,
            Right::Write => Self::Write,
        }
    }
}

/// Whether a command may do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Denied,
}

impl Answer {
    fn of(grants: bool) -> Self {
        match grants {
            true => Self::Allowed,
            false => Self::Denied,
        }
    }

    /// Returns the word for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
        }
    }
}

/// The rule that decides.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    /// The entry as written; of a switch its value.
    pub entry: String,
    /// Where it stands.
    pub origin: Origin,
}

impl From<&Entry> for Rule {
    fn from(entry: &Entry) -> Self {
        Self {
            entry: entry.text.clone(),
            origin: entry.origin.clone(),
        }
    }
}

impl Verdict {
    /// Starts from a denial that nothing explains yet.
    fn new(kind: Kind, act: Act, target: String) -> Self {
        Self {
            kind,
            act,
            target,
            answer: Answer::Denied,
            rule: None,
            reason: None,
            changes: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// What verdicts are made from.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    /// As written.
    pub settings: &'a Settings,
    /// Whose homes are protected.
    pub host: &'a Host,
    /// As a run holds to them.
    pub policy: &'a Policy,
}

impl Judge<'_> {
    /// Decides on one target.
    ///
    /// # Errors
    /// This host's own addresses cannot be read.
    pub(super) fn judge(&self, target: &Target, right: Right) -> Result<Verdict> {
        let mut verdict = self.decide(target, right)?;
        let bounded = verdict.changes.iter().find_map(|change| match change {
            Change::Add { key, .. } => self.settings.ceiling.get(key),
            Change::Remove { .. } => None,
        });
        verdict.notes.extend(bounded.map(|bound| {
            let Origin { key, .. } = bound.origin;
            format!(
                "{} bounds {key}: an entry beyond it is refused",
                bound.origin
            )
        }));
        Ok(verdict)
    }

    fn decide(&self, target: &Target, right: Right) -> Result<Verdict> {
        match target {
            Target::Path(path) => Ok(self.path(path, right)),
            Target::Host {
                target,
                port_assumed,
            } => {
                let mut verdict = self.destination(target)?;
                if *port_assumed {
                    let port = target.port;
                    verdict
                        .notes
                        .push(format!("no port was given: {port} is taken"));
                }
                Ok(verdict)
            }
            Target::Socket(path) => Ok(self.socket(path)),
        }
    }

    fn path(&self, asked: &Path, right: Right) -> Verdict {
        let mut verdict = Verdict::new(Kind::Path, right.into(), shown(asked));
        // As named: inside, a link of such a tree leads elsewhere than on the host.
        let is_plain = !asked.components().any(|part| part == Component::ParentDir);
        let nesting = self.policy.nesting;
        let named = is_plain.then(|| sandbox::private_access(asked, nesting));
        if let Some(access) = named.flatten() {
            return of_private_tree(verdict, access, right);
        }
        let way = path::way_as_listed(asked);
        verdict.target = shown(&way.end);
        if let Some(access) = sandbox::private_access(&way.end, nesting) {
            return of_private_tree(verdict, access, right);
        }
        self.follow_rules(&mut verdict, &way.end, right);
        self.see_what_is_made(&mut verdict, &way.end);
        if self.settings.filesystem.disabled && verdict.answer == Answer::Allowed {
            verdict.rule = self.switch("filesystem.disabled");
            verdict.reason = None;
            verdict.changes = Vec::new();
        }
        self.note_on_path(&mut verdict, asked, &way, right);
        verdict
    }

    /// Answers as the lists of paths do.
    fn follow_rules(&self, verdict: &mut Verdict, path: &Path, right: Right) {
        let filesystem = &self.policy.filesystem;
        let decision = filesystem.decide(path);
        verdict.answer = Answer::of(decision.grants(right));
        let rule = match right {
            Right::Read => decision.read_rule,
            Right::Write => decision.write_rule,
        };
        verdict.rule = rule.map(|rule| Rule {
            entry: rule.entry.clone(),
            origin: rule.origin.clone(),
        });
        verdict.reason = match (rule, right) {
            (Some(_), _) => None,
            (None, Right::Read) => Some("no rule hides it, and reading is open".to_owned()),
            (None, Right::Write) => Some("no entry of filesystem.allowWrite covers it".to_owned()),
        };
        verdict.changes = filesystem.changes(path, right);
    }

    /// Allows what lies in a directory that a run would make.
    fn see_what_is_made(&self, verdict: &mut Verdict, path: &Path) {
        let when_made = self.policy.filesystem.opened_when_made(path);
        if let Some(entry) = when_made.filter(|_| verdict.answer == Answer::Denied) {
            verdict.answer = Answer::Allowed;
            verdict.rule = Some(entry.into());
            verdict.reason = None;
            verdict.changes = vec![Change::remove(entry)];
            let note = "its directory is missing: a run makes it first";
            verdict.notes.push(note.to_owned());
        }
    }

    fn note_on_path(&self, verdict: &mut Verdict, asked: &Path, way: &Way, right: Right) {
        let filesystem = &self.policy.filesystem;
        let name = filesystem.decide(&way.end).write_rule;
        let name = name.and_then(|rule| filesystem.protecting(rule));
        let said = name.filter(|_| right == Right::Write).map(|name| {
            format!(
                "it is protected by the name `{}`: {}",
                name.text, name.reason
            )
        });
        verdict.notes.extend(said);
        let real = way.real();
        let copied = real.is_ok_and(|real| filesystem.redacted(&real).is_some());
        verdict.notes.extend(copied.then(|| {
            let what = match name {
                Some(_) => "core.worktree",
                None => "its secrets",
            };
            format!("it is shown without {what}, as a copy")
        }));
        let tracked = filesystem.tracked_at(&way.end);
        let tracked = tracked.filter(|_| right == Right::Read);
        verdict.notes.extend(tracked);
        verdict.notes.extend(self.note_on_absent(way, right));
        verdict.notes.extend(notes_on(asked, way, &verdict.changes));
        let names = other_names(filesystem, way, verdict.answer);
        verdict.notes.extend(names);
        let held = filesystem.held().filter(|link| way.links.contains(link));
        verdict.notes.extend(held.map(|link| {
            format!("{link} is held in its place: a command can neither remove nor replace it")
        }));
    }

    /// A protected name is looked for when a run starts.
    fn note_on_absent(&self, way: &Way, right: Right) -> Option<String> {
        let is_absent = right == Right::Write && way.found.is_err_and(is_missing);
        let name = protected::name_of(&way.end, self.host).filter(|_| is_absent)?;
        let protection = Protection::of(&self.settings.filesystem).ok()?;
        let is_writable = self.policy.filesystem.access(&way.end) == Access::Write;
        (is_writable && protection.holds(name)).then(|| {
            format!(
                "`{}` is a protected name ({}), but nothing is there: a run can make it, and it is \
                 protected from the next run on",
                name.text, name.reason
            )
        })
    }

    fn destination(&self, target: &hostname::Target) -> Result<Verdict> {
        let mut verdict = Verdict::new(Kind::Host, Act::Connect, target.to_string());
        if self.policy.network_mode == NetworkMode::Open {
            verdict.answer = Answer::Allowed;
            verdict.rule = self.switch("network.mode");
            return Ok(verdict);
        }
        let network = &self.policy.network;
        verdict.changes = network.changes(target);
        match network.decide(target) {
            Decision::Allowed(rule) => {
                verdict.answer = Answer::Allowed;
                verdict.rule = Some(Rule::from(rule.entry()));
            }
            Decision::Denied(rule) => verdict.rule = Some(Rule::from(rule.entry())),
            Decision::Unlisted(wildcard) => {
                verdict.reason = Some(match wildcard {
                    Some(rule) => format!(
                        "`{}` of network.allowedDomains ({}) does not cover {} itself",
                        rule.entry().text,
                        rule.entry().origin,
                        target.host
                    ),
                    None => "no entry of network.allowedDomains covers it".to_owned(),
                });
            }
        }
        match &target.host {
            hostname::Host::Ip(address) => self.guard(&mut verdict, target, *address)?,
            hostname::Host::Name(name) => {
                let note = note_on_name(name, target.host.is_localhost(), &verdict);
                verdict.notes.extend(note);
            }
        }
        Ok(verdict)
    }

    /// Judges an address that is asked for as such: there is no name to resolve.
    fn guard(
        &self,
        verdict: &mut Verdict,
        target: &hostname::Target,
        asked: std::net::IpAddr,
    ) -> Result<()> {
        let own = Host::addresses()?;
        let range = address::guarded(asked, &own, false);
        self.policy.network.learn_own_addresses(own);
        if verdict.answer == Answer::Denied {
            verdict.notes.extend(range.map(|range| {
                format!("{asked} is {range}: no name may lead there, an entry that lists it may")
            }));
            return Ok(());
        }
        let admitted = self.policy.network.check(target.clone());
        match admitted.and_then(|permit| permit.admit(asked)) {
            Ok(_) => verdict.notes.extend(range.map(|range| {
                format!("{asked} is {range}: names may lead there too, since it is listed")
            })),
            Err(denial) => {
                verdict.answer = Answer::Denied;
                verdict.reason = Some(denial.message().to_owned());
                verdict.rule = denial.entry().map(Rule::from);
                let remove = denial.entry().map(Change::remove);
                verdict.changes = remove.into_iter().collect();
            }
        }
        Ok(())
    }

    fn socket(&self, asked: &Path) -> Verdict {
        let way = path::way_as_listed(asked);
        let mut verdict = Verdict::new(Kind::Socket, Act::Connect, shown(&way.end));
        let view = self.path(asked, Right::Read);
        let sockets = &self.policy.sockets;
        verdict.changes = sockets.changes(&way.end);
        let listed = sockets.check(&way.end);
        if view.answer == Answer::Denied {
            // What cannot be seen cannot be connected to, listed or not.
            let unlisted = verdict.changes.into_iter().filter(|_| listed.is_none());
            verdict.changes = view.changes.into_iter().chain(unlisted).collect();
            verdict.rule = view.rule;
            verdict.reason = view.reason;
        } else if sockets.all_are_open() {
            verdict.answer = Answer::Allowed;
            verdict.rule = self.switch("network.allowAllUnixSockets");
        } else if self.policy.network_mode == NetworkMode::Open {
            let reason = "no Unix socket can be made while `network.mode` is \"open\"";
            verdict.reason = Some(reason.to_owned());
            verdict.changes = Vec::new();
        } else if let Some(entry) = listed {
            verdict.answer = Answer::Allowed;
            verdict.rule = Some(Rule::from(entry));
        } else {
            let reason = "no entry of network.allowUnixSockets covers it";
            verdict.reason = Some(reason.to_owned());
        }
        if !way.links.is_empty() {
            verdict.notes.push(by_a_link(asked));
        }
        verdict
    }

    /// Returns the value of a key that switches all rules of one sort off.
    fn switch(&self, key: &str) -> Option<Rule> {
        let value = self.settings.values.get(key)?;
        Some(Rule {
            entry: value.to_json().to_string(),
            origin: value.origin.clone(),
        })
    }
}

/// Judges a path that every run replaces or masks.
fn of_private_tree(mut verdict: Verdict, access: Access, right: Right) -> Verdict {
    verdict.answer = Answer::of(match right {
        Right::Read => access != Access::Hidden,
        Right::Write => access == Access::Write,
    });
    let what = "a sandbox has /dev and /proc of its own and shows a part of /sys, \
                whatever the settings say";
    verdict.reason = Some(what.to_owned());
    verdict
}

fn note_on_name(name: &str, is_localhost: bool, verdict: &Verdict) -> Option<String> {
    match (verdict.answer, verdict.changes.is_empty()) {
        (Answer::Allowed, _) if is_localhost => {
            Some("it may lead to loopback addresses alone".to_owned())
        }
        (Answer::Allowed, _) => Some(format!(
            "what {name} leads to is judged too: loopback, private, link-local, metadata and \
             this host's own addresses only where network.allowedDomains lists them, none that \
             network.deniedDomains lists"
        )),
        (Answer::Denied, true) => Some(format!(
            "`{name}` alone cannot be listed: ask for the full name"
        )),
        (Answer::Denied, false) => None,
    }
}

fn notes_on(asked: &Path, way: &Way, changes: &[Change]) -> Vec<String> {
    let mut notes = Vec::new();
    if !way.links.is_empty() {
        notes.push(by_a_link(asked));
    }
    let names_it = changes
        .iter()
        .any(|change| matches!(change, Change::Add { .. }));
    match way.found {
        Err(errno) if is_missing(errno) => {
            if names_it {
                notes.push("nothing is there: make it before the settings name it".to_owned());
            }
        }
        Err(errno) => notes.push(format!("it cannot be looked at ({})", errno.desc())),
        Ok(_) => {}
    }
    notes
}

/// Rules hold for names, of which a file may have several.
fn other_names(filesystem: &Filesystem, way: &Way, answer: Answer) -> Option<String> {
    let id = way.found.ok()?;
    if id.kind != FileKind::File || way.names < 2 {
        return None;
    }
    let by_another = filesystem.denied_by_another_name(id, &way.end);
    Some(match by_another.filter(|_| answer == Answer::Allowed) {
        Some(rule) => format!(
            "it is the same file (a hard link) as {}, which {} denies: that does not hold for \
             this name",
            rule.path, rule.origin.key
        ),
        None => format!(
            "it has {} names (hard links), and this answer holds for this one alone",
            way.names
        ),
    })
}

fn by_a_link(asked: &Path) -> String {
    format!("{} leads there by a link", shown(asked))
}

fn is_missing(errno: nix::errno::Errno) -> bool {
    use nix::errno::Errno;
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR)
}
