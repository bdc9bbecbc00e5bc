//! Runs a command so that it, and everything it starts, can write only where the settings
//! allow, cannot read what they hide, and reaches the network only through filtering proxies.
//!
//! # The flow
//!
//! [`settings`] are what was written; [`policy`] is what that allows, on any system; the plan
//! ([`linux::plan`]) is what the kernel is asked, as data; the launch ([`linux::launch`]) carries it
//! out. The command is held until every layer was read back and the proxies ([`egress`]) serve,
//! then released. [`sandbox::run`] is the whole of it, a line a stage.
//!
//! # Words
//!
//! - *launcher*: the process that was called as `srt`.
//! - *init*: process 1 of the sandbox. It builds it, reaps, and passes signals on.
//! - *command*: what is confined, and all it starts.
//! - *proxies*: a process of the host's side that dials what the policy permits.
//! - *broker*: threads of the launcher that perform the calls a filter stops.
//! - *executor*: a process inside that performs what the broker has judged.
//! - *observer*: a thread of the broker that tells of refused uses of files, and decides nothing.
//! - *held*: of a command, that it waits until all stands; of a link or directory, that it can
//!   neither be removed nor replaced.
//! - *view*: the files as the command sees them; *stand-in*: what a hidden path shows in it.
//! - *permit*: the proof that a target may be dialed, which the policy alone makes.
//! - *entry*: one string of a list of the settings, as written; *rule*: what an entry means.
//! - *layer*: one source of settings among those that count. What keeps a rule for files, mounts or
//!   Landlock, is a *file layer*.
//!
//! # What is defended
//!
//! The command is hostile from its first instruction. The settings, the caller and the kernel are
//! not. A protection that cannot be set up means that the command does not run: exit status 125, the
//! step that failed, its errno and a remedy. `SECURITY.md` lists each promise with what keeps it.
//!
//! # Limits
//!
//! Linux 5.19 or newer on x86_64 and aarch64. Rules for files are about names that exist when the
//! run starts. The proxies see names and ports, and not what is in TLS.
//!
//! The library serves the program `srt` and its tests; it is no stable interface.

pub mod cli;

pub mod settings;

pub mod policy;

pub mod backend;

pub mod linux;

pub mod egress;

pub mod audit;

pub mod sandbox;

pub mod error;

pub use audit::Audit;
