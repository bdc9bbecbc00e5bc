//! A failed step of the launch, small enough to be sent from the sandbox to the launcher.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;

use crate::error::{Error, Kind};

/// Which step failed, why, and on what.
#[derive(Debug)]
pub(crate) struct Failure {
    step: Step,
    errno: Errno,
    subject: Vec<u8>,
}

/// Declares the steps with their goal, the call that makes them, and the remedy.
macro_rules! steps {
    ($($name:ident: $goal:literal, $call:literal $(, $hint:literal)?;)*) => {
        /// The steps a launch may fail at.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Step { $($name),* }

        impl Step {
            const ALL: &[Self] = &[$(Self::$name),*];

            fn goal(self) -> &'static str {
                match self { $(Self::$name => $goal),* }
            }

            fn call(self) -> &'static str {
                match self { $(Self::$name => $call),* }
            }

            fn hint(self) -> Option<&'static str> {
                match self { $(Self::$name => None$(.or(Some($hint)))?),* }
            }
        }
    };
}

steps! {
    TieToLauncher: "cannot tie the sandbox to its launcher", "prctl(PR_SET_PDEATHSIG)";
    FindLauncher: "the launcher is gone", "poll";
    TellLauncher: "cannot tell the launcher how far the sandbox is", "send";
    HandToLauncher: "cannot hand the launcher what it is to serve", "sendmsg";
    AwaitLauncher: "cannot wait for what the launcher says", "recvmsg";
    AdoptOrphans: "cannot take over the processes that the command leaves", "prctl(PR_SET_CHILD_SUBREAPER)";
    MapIds: "cannot map the caller's user and group", "write",
        "a root caller needs CAP_SETFCAP; in a container, run it with that capability or as an ordinary user";
    MakePrivate: "cannot separate the sandbox's mounts from the host's", "mount(MS_PRIVATE)",
        "in a container, allow the mount calls: they are part of the sandbox";
    FindSource: "cannot find the path to bind", "openat2";
    CloneTree: "cannot copy the view of the path", "open_tree";
    SetAttributes: "cannot make the path read-only", "mount_setattr",
        "srt needs Linux 5.19 or newer";
    ChangedSource: "the path changed while the sandbox was set up", "statx",
        "start again once nothing renames it";
    FindTarget: "cannot find the place to mount on", "openat2";
    Mount: "cannot mount", "move_mount",
        "in a container, allow the mount calls: they are part of the sandbox";
    HoldLink: "cannot keep the link from being replaced", "move_mount",
        "name the path it leads to instead, and deny writing to the directory of the link";
    NewTmpfs: "cannot make a private tmpfs", "fsmount(tmpfs)",
        "in a container, allow the mount calls: they are part of the sandbox";
    NewProc: "cannot mount a new /proc", "fsmount(proc)",
        "a container that hides part of /proc does not let a new one be mounted: start it with an unmasked /proc";
    NewTerminals: "cannot make a private /dev/pts", "fsmount(devpts)";
    NewQueues: "cannot show the sandbox's message queues", "fsmount(mqueue)",
        "in a container, allow the mount calls: they are part of the sandbox";
    FillTmpfs: "cannot fill a private tmpfs", "mkdirat";
    ReopenStream: "cannot open a standard stream in the sandbox's own /dev", "openat";
    SwitchRoot: "cannot switch to the sandbox's root", "pivot_root",
        "the root of an initramfs cannot be switched: mount a file system and start srt on that";
    LeaveOldRoot: "cannot leave the host's root", "umount2";
    EnterDirectory: "cannot enter the working directory", "chdir",
        "it may be on a file system that the sandbox cannot see: start from another directory";
    VerifyMounts: "a path that must be read-only is writable", "mountinfo",
        "the kernel did not keep what it was asked for: report this with the output of srt ctl doctor";
    PinNames: "cannot keep names in their places", "pivot_root";
    LockMounts: "cannot lock the sandbox's mounts", "unshare",
        "a limit on namespaces may be reached: see the sysctls user.max_user_namespaces and user.max_mnt_namespaces";
    LoopbackUp: "cannot bring the sandbox's loopback up", "ioctl(SIOCSIFFLAGS)";
    Listen: "cannot listen on the sandbox's loopback", "bind";
    HandOver: "cannot hand the listeners to the proxies", "sendmsg";
    AskSockets: "cannot ask for the sandbox's own Unix sockets", "socket(NETLINK_SOCK_DIAG)",
        "srt needs CONFIG_UNIX_DIAG; without it, only `network.allowAllUnixSockets` works";
    StopCalls: "cannot have the command's calls judged", "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)",
        "EBUSY means that srt runs under a sandbox that judges calls itself: run it outside of that one";
    PairLines: "cannot make a line between two processes of the sandbox", "socketpair";
    MakeTrial: "cannot make a socket to try the broker with", "socket";
    PerformCalls: "the broker cannot act for the command", "connect",
        "srt takes arguments and descriptors from the command: allow process_vm_readv and pidfd_getfd, in a container by its seccomp profile, on the host by kernel.yama.ptrace_scope=2 or lower";
    Fork: "cannot start a process", "fork",
        "the limit on processes may be reached: see ulimit -u";
    NewKeyring: "cannot join a new session keyring", "keyctl",
        "the key quota of this user may be used up: see /proc/key-users; in a container, allow keyctl in the seccomp profile";
    NewSession: "cannot leave the caller's session", "setsid";
    OwnProcessGroup: "cannot put the command into a process group of its own", "setpgid";
    DropCapabilities: "cannot drop capabilities", "capset";
    DropAmbient: "cannot drop capabilities", "prctl(PR_CAP_AMBIENT)";
    DropBounding: "cannot drop capabilities", "prctl(PR_CAPBSET_DROP)";
    LockCapabilities: "cannot drop capabilities for good", "prctl(PR_SET_SECUREBITS)";
    NoNewPrivs: "cannot set no_new_privs", "prctl(PR_SET_NO_NEW_PRIVS)";
    Landlock: "cannot restrict file access a second time with Landlock", "landlock_restrict_self",
        "srt needs Landlock, in Linux 5.19 or newer: add landlock to the lsm= boot parameter";
    Seccomp: "cannot install the system call filter", "seccomp",
        "srt needs seccomp filters: CONFIG_SECCOMP_FILTER, and no outer filter that refuses them";
    VerifyPrivileges: "the command would keep rights it must not have", "/proc/self/status",
        "the kernel did not keep what it was asked for: report this with the output of srt ctl doctor";
    RestoreSignals: "cannot restore the caller's signal settings", "sigaction";
    SetMask: "cannot set which signals are blocked", "sigprocmask";
    KeepDescriptors: "cannot keep a descriptor for the command", "fcntl";
    OpenNull: "cannot leave the caller's standard streams", "open";
    ReplaceStreams: "cannot leave the caller's standard streams", "dup2";
    CloseDescriptors: "cannot close inherited descriptors", "close_range";
    Hide: "cannot keep the sandbox's first process out of reach", "prctl(PR_SET_DUMPABLE)";
    ForbidCoreDumps: "cannot keep the sandbox's first process from writing a core file", "setrlimit";
    WatchSignals: "cannot watch for signals", "signalfd";
    JoinGroup: "cannot put the command into the control group of its limits", "write(cgroup.procs)",
        "remove limits.memory and limits.processes, or start srt from a group that may have others below it";
    SetLimit: "cannot set a limit for the command", "setrlimit";
    Execute: "cannot execute", "execve";
    NotFound: "command not found", "execve";
    NoInterpreter: "the program's interpreter was not found", "execve",
        "its first line, or for a binary its loader, names a file that is not visible here";
}

impl Failure {
    pub(super) fn new(step: Step, errno: impl Into<Errno>) -> Self {
        Self {
            step,
            errno: errno.into(),
            subject: Vec::new(),
        }
    }

    pub(super) fn on(mut self, subject: &Path) -> Self {
        self.subject = subject.as_os_str().as_bytes().to_vec();
        self
    }

    /// Tells whether a path was not there.
    pub(super) fn is_missing(&self) -> bool {
        // A place may be removed between finding it and mounting there.
        let steps = [
            Step::FindSource,
            Step::FindTarget,
            Step::Mount,
            Step::HoldLink,
        ];
        steps.contains(&self.step) && matches!(self.errno, Errno::ENOENT | Errno::ENOTDIR)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.step as u8];
        bytes.extend((self.errno as i32).to_ne_bytes());
        bytes.extend(&self.subject);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (step, rest) = bytes.split_first()?;
        let (errno, subject) = rest.split_first_chunk()?;
        let step = *Step::ALL.get(usize::from(*step))?;
        let errno = Errno::from_raw(i32::from_ne_bytes(*errno));
        Some(Self {
            step,
            errno,
            subject: subject.to_vec(),
        })
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = match failure.step {
            Step::NotFound | Step::NoInterpreter => Kind::NotFound,
            Step::Execute => Kind::NotExecutable,
            _ => Kind::Launch,
        };
        let mut goal = failure.step.goal().to_owned();
        if !failure.subject.is_empty() {
            goal = format!("{goal}: {}", String::from_utf8_lossy(&failure.subject));
        }
        let error = Error::new(kind, goal).call(failure.step.call(), failure.errno);
        let mounts = [Step::CloneTree, Step::Mount, Step::MakePrivate];
        match failure.step.hint() {
            _ if failure.errno == Errno::ENOSPC && mounts.contains(&failure.step) => error
                .with_hint(
                    "a namespace has as many mounts as may be: raise the sysctl fs.mount-max",
                ),
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}

/// Turns the error of one call into the failure of one step.
pub(super) trait At<T> {
    fn at(self, step: Step) -> Result<T, Failure>;
    fn at_path(self, step: Step, path: &Path) -> Result<T, Failure>;
}

impl<T, E: IntoErrno> At<T> for Result<T, E> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, error.into_errno()))
    }

    fn at_path(self, step: Step, path: &Path) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(step, error.into_errno()).on(path))
    }
}

/// The errors of std, nix and rustix, as one number.
pub(super) trait IntoErrno {
    fn into_errno(self) -> Errno;
}

impl IntoErrno for Errno {
    fn into_errno(self) -> Errno {
        self
    }
}

impl IntoErrno for io::Error {
    fn into_errno(self) -> Errno {
        // EIO stands for an error that no system call gave: a short read, odd contents.
        self.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
    }
}

impl IntoErrno for rustix::io::Errno {
    fn into_errno(self) -> Errno {
        Errno::from_raw(self.raw_os_error())
    }
}
