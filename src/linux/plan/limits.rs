//! What the command may use up, and by what each bound is kept.

use std::path::PathBuf;

use nix::sys::resource::Resource;

use crate::backend::{Bound, Limit, Means};

/// The bounds of one run; none are empty.
#[derive(Debug, Default)]
pub struct Limits {
    /// All of them, in the order of the settings.
    pub bounds: Vec<Bound>,
    /// The control groups that keep some.
    pub groups: Vec<Group>,
    /// What setrlimit(2) is asked for.
    pub rlimits: Vec<(Resource, u64)>,
}

/// A control group to make for the command.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// The group it is made in.
    pub parent: PathBuf,
    /// Files of it and what is written to them, in this order.
    pub files: Vec<Setting>,
    /// Where it counts what it refused.
    pub counters: Vec<Counter>,
}

/// What is written to a file of a group.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name of the file.
    pub file: &'static str,
    /// What to write.
    pub value: u64,
    /// Whether a kernel may lack the file, where there is nothing to bound then.
    pub may_lack: bool,
}

/// A file of a group in which the kernel counts refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Of which bound.
    pub limit: Limit,
    /// Name of the file.
    pub file: &'static str,
    /// The word before the number.
    pub word: &'static str,
}

impl Limits {
    /// Returns how long the command may run.
    pub fn seconds(&self) -> Option<u64> {
        let found = self
            .bounds
            .iter()
            .find(|bound| bound.limit == Limit::Seconds);
        found.map(|bound| bound.value)
    }
}

impl Group {
    /// Returns the group that bounds `limit` to `value`; `None` for what no group bounds.
    pub fn new(parent: PathBuf, means: Means, limit: Limit, value: u64) -> Option<Self> {
        let must = |file, value| Setting {
            file,
            value,
            may_lack: false,
        };
        let may = |file, value| Setting {
            may_lack: true,
            ..must(file, value)
        };
        let (files, file, word) = match (means, limit) {
            (Means::Group2, Limit::Memory) => {
                let files = vec![
                    must("memory.max", value),
                    may("memory.swap.max", 0),
                    may("memory.oom.group", 1),
                ];
                (files, "memory.events", "oom_kill")
            }
            (Means::Group1, Limit::Memory) => {
                let files = vec![
                    must("memory.limit_in_bytes", value),
                    may("memory.memsw.limit_in_bytes", value),
                ];
                (files, "memory.oom_control", "oom_kill")
            }
            (Means::Group2 | Means::Group1, Limit::Processes) => {
                (vec![must("pids.max", value)], "pids.events", "max")
            }
            _ => return None,
        };
        let counters = vec![Counter { limit, file, word }];
        Some(Self {
            parent,
            files,
            counters,
        })
    }

    /// Takes in another group of the same place.
    pub fn merge(&mut self, other: Self) {
        self.files.extend(other.files);
        self.counters.extend(other.counters);
    }
}
