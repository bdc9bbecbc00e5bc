//! The one error type: what was wanted, the call that failed, why, and what to do about it.

use std::fmt;
use std::io;

/// A result whose error can be shown to a person.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the command did not run, or why we stopped watching it.
///
/// `Display` gives the lines without the hint, none with a control character of a name in it;
/// [`Error::hint`] gives the remedy.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    goal: String,
    /// What stands on lines of its own below: an excerpt, or further problems.
    below: Vec<String>,
    call: Option<String>,
    source: Option<io::Error>,
    hint: Option<String>,
    exit_code: Option<u8>,
}

/// What sort of failure it is; decides the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The command line cannot be understood.
    Usage,
    /// A settings file cannot be used as it stands.
    Settings,
    /// This machine lacks, or refuses, something the promise rests on.
    Unsupported,
    /// A step of the launch failed.
    Launch,
    /// This signal came before the command was started.
    Interrupted(u8),
    /// The command exists but cannot be executed.
    NotExecutable,
    /// The command was not found.
    NotFound,
}

impl Error {
    /// Starts an error from its goal: `cannot hide /home/ada/.ssh`.
    pub fn new(kind: Kind, goal: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            goal: goal.into(),
            below: Vec::new(),
            call: None,
            source: None,
            hint: None,
            exit_code: None,
        }))
    }

    /// Makes an error of several lines, the first of which is the goal.
    pub fn of_lines(kind: Kind, lines: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut lines = lines.into_iter().map(Into::into);
        let mut error = Self::new(kind, lines.next().unwrap_or_default());
        error.0.below = lines.collect();
        error
    }

    /// Adds a line below the goal.
    #[must_use]
    pub(crate) fn with_line(mut self, line: String) -> Self {
        self.0.below.push(line);
        self
    }

    /// Makes one error of several that do not depend on one another: a line each, the kind and
    /// the remedy of the first.
    pub fn joined(errors: Vec<Self>) -> Option<Self> {
        const SHOWN: usize = 20;
        let mut lines: Vec<_> = errors.iter().take(SHOWN).map(ToString::to_string).collect();
        if errors.len() > SHOWN {
            lines.push(format!("and {} more", errors.len() - SHOWN));
        }
        let first = errors.into_iter().next()?;
        let lines = lines.iter().flat_map(|text| text.lines());
        let joined = Self::of_lines(first.kind(), lines);
        Some(match first.hint() {
            Some(hint) => joined.with_hint(hint),
            None => joined,
        })
    }

    /// Adds the system call that failed and the errno it gave.
    #[must_use]
    pub fn call(mut self, call: impl Into<String>, source: impl Into<io::Error>) -> Self {
        self.0.call = Some(call.into());
        self.0.source = Some(source.into());
        self
    }

    /// Adds the cause where no single system call is to blame.
    #[must_use]
    pub fn source(mut self, source: impl Into<io::Error>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Adds what the reader can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Gives `srt` another exit status than its kind does.
    #[must_use]
    pub fn with_exit_code(mut self, code: u8) -> Self {
        self.0.exit_code = Some(code);
        self
    }

    /// Returns what sort of failure this is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Returns what the reader can do about it, where there is something.
    pub fn hint(&self) -> Option<&str> {
        let errno = self.0.source.as_ref().and_then(io::Error::raw_os_error);
        match self.0.kind {
            // What is used up is known by the error alone, whatever the step.
            Kind::Launch | Kind::Unsupported => errno
                .and_then(remedy_for_limit)
                .or(self.0.hint.as_deref())
                .or_else(|| errno.and_then(general_remedy)),
            _ => self.0.hint.as_deref(),
        }
    }

    /// Returns what `srt` prints of it.
    pub fn report(&self) -> String {
        let hint = self
            .hint()
            .map(|hint| format!("hint: {}\n", printable(hint)));
        format!("srt: {self}\n{}", hint.unwrap_or_default())
    }

    /// Returns the exit status of `srt`: 127 and 126 as a shell gives them, else 125.
    pub fn exit_code(&self) -> u8 {
        let by_kind = match self.0.kind {
            Kind::NotFound => 127,
            Kind::NotExecutable => 126,
            Kind::Interrupted(signal) => 128 | signal,
            Kind::Usage | Kind::Settings | Kind::Unsupported | Kind::Launch => 125,
        };
        self.0.exit_code.unwrap_or(by_kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.0.goal))?;
        if let Some(call) = &self.0.call {
            write!(f, ": {}", printable(call))?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {}", printable(&errno_text(source)))?;
        }
        let mut below = self.0.below.iter();
        below.try_for_each(|line| write!(f, "\n{}", printable(line)))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| source as _)
    }
}

/// Makes text fit to be shown on one line of a terminal. Names of files are anybody's choice,
/// and a control character in one could move the cursor or forge another message.
pub fn printable(text: &str) -> String {
    let shown = |c: char| match c.is_control() || is_format(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Tells whether a character shows nothing and turns round or hides what stands beside it
/// (general categories Cf, Zl and Zp of Unicode 16).
fn is_format(c: char) -> bool {
    matches!(
        u32::from(c),
        0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x180e
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff | 0xfff9..=0xfffb
            | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a
            | 0xe0001 | 0xe0020..=0xe007f
    )
}

/// Names the errno as strace does, since that is what people search for.
fn errno_text(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(code) => {
            let errno = nix::errno::Errno::from_raw(code);
            format!("{errno:?} ({})", errno.desc())
        }
        None => source.to_string(),
    }
}

/// Names the limit that an error tells of.
fn remedy_for_limit(code: i32) -> Option<&'static str> {
    use nix::errno::Errno;
    match Errno::from_raw(code) {
        Errno::EMFILE => Some("raise the limit on open files: ulimit -n 1024"),
        Errno::EFBIG => Some("raise the limit on the size of files: ulimit -f"),
        Errno::ENFILE => Some(
            "this machine has too many files open: end programs or raise the sysctl fs.file-max",
        ),
        Errno::ENOMEM => Some(
            "memory is used up: end other programs, or raise the limit of this one (ulimit -v) or of its control group",
        ),
        _ => None,
    }
}

/// Gives the remedy where the step that failed has none of its own.
fn general_remedy(code: i32) -> Option<&'static str> {
    use nix::errno::Errno;
    match Errno::from_raw(code) {
        Errno::ENOSYS | Errno::EPERM => Some(
            "srt needs this system call: use Linux 5.19 or newer, and in a container allow it in the seccomp profile",
        ),
        Errno::ENOSPC => Some("this machine is out of it: end other programs or raise the limit"),
        Errno::EAGAIN => Some("the limit on processes may be reached: see ulimit -u"),
        Errno::EINVAL => Some("this kernel lacks a part srt needs: use Linux 5.19 or newer"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_goal_call_and_errno() {
        let error = Error::new(Kind::Launch, "cannot hide /home/ada/.ssh")
            .call("mount(tmpfs)", io::Error::from_raw_os_error(1));
        assert_eq!(
            error.to_string(),
            "cannot hide /home/ada/.ssh: mount(tmpfs): EPERM (Operation not permitted)"
        );
        assert_eq!(error.exit_code(), 125);
    }

    #[test]
    fn names_cannot_steer_the_terminal_or_forge_a_line() {
        let name = "a\u{1b}[2J\nhint: b\u{9b}é";
        assert_eq!(printable(name), "a\\u{1b}[2J\\nhint: b\\u{9b}é");
    }

    #[test]
    fn missing_and_unexecutable_commands_keep_the_status_of_a_shell() {
        assert_eq!(Error::new(Kind::NotFound, "x").exit_code(), 127);
        assert_eq!(Error::new(Kind::NotExecutable, "x").exit_code(), 126);
    }
}
