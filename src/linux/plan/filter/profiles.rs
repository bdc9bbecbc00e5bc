//! Holds every line of the profiles against what the compiled programs do, on both
//! architectures, with the numbers of the kernel's own tables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::numbers::number;
use super::tests::{AARCH64, LACKS, X86_64, run};
use super::{Line, ledger, lines};

/// Defines every program of one architecture by name.
macro_rules! programs {
    ($directory:literal: $($name:literal)*) => {
        BTreeMap::from([$((
            $name,
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/", $name, ".bpf")).as_slice(),
        )),*])
    };
}

fn programs(arch: u32) -> BTreeMap<&'static str, &'static [u8]> {
    if arch == X86_64 {
        programs!("/x86_64": "refuse" "absent" "unix" "unix-types" "performed" "inet"
            "file-capabilities" "setid" "setid-absent" "owners"
            "strict-refuse" "strict-absent" "refuse-userns" "refuse-mounts" "proxies"
            "refuse-seen" "refuse-userns-seen" "refuse-mounts-seen"
            "performed-writes" "performed-all" "observed-writes" "observed-all")
    } else {
        programs!("/aarch64": "refuse" "absent" "unix" "unix-types" "performed" "inet"
            "file-capabilities" "setid" "setid-absent" "owners"
            "strict-refuse" "strict-absent" "refuse-userns" "refuse-mounts" "proxies"
            "refuse-seen" "refuse-userns-seen" "refuse-mounts-seen"
            "performed-writes" "performed-all" "observed-writes" "observed-all")
    }
}

/// One rule as written: the program, the call, its arguments, the answer of the program.
struct Rule {
    program: String,
    syscall: String,
    args: Vec<Value>,
    comment: String,
    answer: u32,
}

impl Rule {
    fn read(program: &str, answer: u32, rule: &Value) -> Self {
        let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
        Self {
            program: program.to_owned(),
            syscall: text("syscall"),
            args: rule["args"].as_array().cloned().unwrap_or_default(),
            comment: text("comment"),
            answer,
        }
    }

    /// Returns arguments for which every condition holds.
    fn matching(&self) -> [u64; 6] {
        let mut args = [0; 6];
        for condition in &self.args {
            let index = condition["index"].as_u64().expect("an index");
            let index = usize::try_from(index).expect("there are six");
            let value = condition["val"].as_u64().expect("a value");
            match &condition["op"] {
                Value::String(op) if op == "eq" => args[index] = value,
                // No condition of the profiles is about a number this large.
                Value::String(op) if op == "ne" => args[index] = 0x00ab_cdef,
                mask => {
                    let mask = mask["masked_eq"].as_u64().expect("a mask");
                    args[index] = args[index] & !mask | value;
                }
            }
        }
        args
    }

    /// Returns the arguments with the upper halves that a caller may leave behind in them.
    fn with_garbage(&self) -> [u64; 6] {
        self.matching().map(|arg| arg | 0xdead_beef << 32)
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("the build read it")
}

fn default_profile() -> Value {
    json(include_str!("../../../../seccomp-profiles/default.json"))
}

fn strict_profile() -> Value {
    json(include_str!("../../../../seccomp-profiles/strict.json"))
}

fn nested_profile() -> Value {
    json(include_str!("../../../../seccomp-profiles/nested.json"))
}

/// Returns the rules of the default and the strict profile, by the program they end up in.
fn rules() -> Vec<Rule> {
    let mut rules = Vec::new();
    for (prefix, profile) in [("", default_profile()), ("strict-", strict_profile())] {
        for (name, filter) in profile.as_object().expect("filters by name") {
            let answer = match filter["filter_action"]["errno"].as_u64() {
                Some(errno) => 0x0005_0000 | u32::try_from(errno).expect("small"),
                None => 0x7fc0_0000,
            };
            let list = filter["filter"].as_array().expect("a list of rules");
            let name = format!("{prefix}{name}");
            rules.extend(list.iter().map(|rule| Rule::read(&name, answer, rule)));
        }
    }
    rules.extend(observed_rules());
    assert!(rules.len() > 150, "only {} rules were read", rules.len());
    rules
}

/// Returns the rules of the four programs that tell of calls, each of which joins some lists.
fn observed_rules() -> Vec<Rule> {
    let observed = json(include_str!("../../../../seccomp-profiles/observed.json"));
    let default = default_profile();
    let list = |filter: &Value, program: &str| -> Vec<Rule> {
        let rules = filter["filter"].as_array().expect("a list of rules").iter();
        rules
            .map(|rule| Rule::read(program, 0x7fc0_0000, rule))
            .collect()
    };
    let mut rules = Vec::new();
    for program in [
        "performed-writes",
        "performed-all",
        "observed-writes",
        "observed-all",
    ] {
        let (sees_connects, sees_reads) = (program.starts_with('p'), program.ends_with("all"));
        let mut own = Vec::new();
        if sees_connects {
            own.extend(list(&default["performed"], program));
        }
        if sees_reads {
            own.extend(list(&observed["reads"], program));
        }
        let is_named = |rule: &Rule| own.iter().any(|own: &Rule| own.syscall == rule.syscall);
        let mut writes = list(&observed["writes"], program);
        writes.retain(|rule| !is_named(rule));
        own.extend(writes);
        own.sort_by(|one, other| one.syscall.cmp(&other.syscall));
        rules.extend(own);
    }
    rules
}

#[test]
fn every_rule_of_every_profile_is_in_force_on_both_architectures() {
    for arch in [X86_64, AARCH64] {
        let programs = programs(arch);
        for rule in rules() {
            let number = number(&rule.syscall, arch);
            if number == LACKS {
                continue;
            }
            for args in [rule.matching(), rule.with_garbage()] {
                let given = run(programs[rule.program.as_str()], arch, number, &args);
                let (name, program) = (&rule.syscall, &rule.program);
                assert_eq!(
                    given, rule.answer,
                    "{program} on {arch:#x}: {name} {args:x?}"
                );
            }
        }
    }
}

#[test]
fn a_call_that_no_rule_names_passes_every_program() {
    let named = |program: &str, arch| {
        let of_program = rules().into_iter().filter(|rule| rule.program == program);
        let numbers = of_program.map(|rule| number(&rule.syscall, arch));
        numbers.collect::<BTreeSet<u32>>()
    };
    for arch in [X86_64, AARCH64] {
        for (name, program) in programs(arch) {
            if name.starts_with("refuse-") {
                continue;
            }
            let named = named(name, arch);
            // The last call known when the profiles were written is 469.
            for number in (0..470).filter(|number| !named.contains(number)) {
                let answer = run(program, arch, number, &[u64::MAX; 6]);
                assert_eq!(answer, 0x7fff_0000, "{name} on {arch:#x}: {number}");
            }
        }
    }
}

#[test]
fn every_call_that_aarch64_has_under_another_name_is_ruled_there_too() {
    // What stands in place of a legacy call: the same rule must name it.
    let successors = [
        ("chmod", "fchmodat"),
        ("chown", "fchownat"),
        ("creat", "openat"),
        ("futimesat", "utimensat"),
        ("lchown", "fchownat"),
        ("link", "linkat"),
        ("mkdir", "mkdirat"),
        ("mknod", "mknodat"),
        ("open", "openat"),
        ("rename", "renameat2"),
        ("rmdir", "unlinkat"),
        ("symlink", "symlinkat"),
        ("unlink", "unlinkat"),
        ("utime", "utimensat"),
        ("utimes", "utimensat"),
    ];
    // These have none: what they reach is not there.
    let without = [
        "_sysctl",
        "get_thread_area",
        "ioperm",
        "iopl",
        "modify_ldt",
        "set_thread_area",
        "sysfs",
        "uselib",
        "ustat",
    ];
    let rules = rules();
    let legacy = rules
        .iter()
        .filter(|rule| number(&rule.syscall, AARCH64) == LACKS);
    for rule in legacy {
        let name = rule.syscall.as_str();
        let successor = successors.iter().find(|(old, _)| *old == name);
        let found = successor.is_some_and(|(_, new)| {
            let same = |other: &Rule| other.program == rule.program && other.syscall == *new;
            rules.iter().any(same)
        });
        assert!(found || without.contains(&name), "{}: {name}", rule.program);
    }
}

#[test]
fn profiles_are_sorted_and_every_rule_gives_its_reason() {
    let nested = nested_profile();
    let lists = ["userns", "mounts"].map(|grade| {
        let rules = nested[grade].as_array().expect("a list").iter();
        rules
            .map(|rule| Rule::read(grade, 0, rule))
            .collect::<Vec<_>>()
    });
    for rules in lists.into_iter().chain([rules()]) {
        for rule in &rules {
            assert!(rule.comment.len() > 9, "{} {}", rule.program, rule.syscall);
        }
        for pair in rules.windows(2) {
            let sorted = pair[0].program != pair[1].program || pair[0].syscall <= pair[1].syscall;
            assert!(sorted, "{} before {}", pair[0].syscall, pair[1].syscall);
        }
    }
}

#[test]
fn no_rule_is_shadowed_by_another() {
    let rules = rules();
    for (at, rule) in rules.iter().enumerate() {
        // The strict programs run beside the default ones.
        let base = |program: &str| program.trim_start_matches("strict-").to_owned();
        let beside = rules.iter().enumerate().filter(|(other_at, other)| {
            *other_at != at
                && other.syscall == rule.syscall
                && base(&other.program) == base(&rule.program)
        });
        for (_, other) in beside {
            let other_decides = other.args.iter().all(|condition| {
                let plain = |condition: &Value| {
                    let parts = ["index", "op", "val"].map(|part| condition[part].to_string());
                    parts.join(" ")
                };
                rule.args.iter().any(|own| plain(own) == plain(condition))
            });
            assert!(!other_decides, "{}: {}", rule.program, rule.syscall);
        }
    }
}

#[test]
fn where_packet_sockets_are_told_of_the_broker_alone_refuses_them() {
    const AF_PACKET: u64 = 17;
    for arch in [X86_64, AARCH64] {
        let programs = programs(arch);
        let (socket, notified) = (number("socket", arch), 0x7fc0_0000);
        for name in ["refuse", "refuse-userns", "refuse-mounts"] {
            let seen = format!("{name}-seen");
            let answers = |number: u32, args: &[u64]| {
                [name, &seen].map(|name| run(programs[name], arch, number, args))
            };
            for number in 0..470 {
                for args in [[0; 6], [1; 6], [u64::MAX; 6]] {
                    let [plain, seen] = answers(number, &args);
                    assert_eq!(plain, seen, "{name}: {number} {args:?}");
                }
            }
            for family in 0..=64 {
                let [plain, seen] = answers(socket, &[family, 3, 0]);
                assert_eq!(plain == seen, family != AF_PACKET, "{name}: {family}");
            }
        }
        for name in ["performed-writes", "performed-all"] {
            let answer = run(programs[name], arch, socket, &[AF_PACKET, 3, 0]);
            assert_eq!(answer, notified, "{name}");
        }
        assert_eq!(
            run(programs["performed"], arch, socket, &[AF_PACKET, 3, 0]),
            0x7fff_0000
        );
    }
}

#[test]
fn nesting_lifts_what_its_ledger_says_and_nothing_else() {
    let nested = nested_profile();
    let refused = |rule: &Rule, program: &str, arch: u32| {
        let number = number(&rule.syscall, arch);
        number != LACKS
            && run(programs(arch)[program], arch, number, &rule.matching()) != 0x7fff_0000
    };
    let same = |one: &Rule, other: &Rule| one.syscall == other.syscall && one.args == other.args;
    let list = |grade: &str| -> Vec<Rule> {
        let rules = nested[grade].as_array().expect("a list").iter();
        rules.map(|rule| Rule::read(grade, 0, rule)).collect()
    };
    let (userns, mounts) = (list("userns"), list("mounts"));
    let of_refuse = rules().into_iter().filter(|rule| rule.program == "refuse");
    for rule in of_refuse {
        let by_userns = userns.iter().any(|lifted| same(lifted, &rule));
        let by_mounts = by_userns || mounts.iter().any(|lifted| same(lifted, &rule));
        for arch in [X86_64, AARCH64] {
            let is_there = refused(&rule, "refuse", arch);
            let name = &rule.syscall;
            assert_eq!(
                refused(&rule, "refuse-userns", arch),
                is_there && !by_userns,
                "{name}"
            );
            assert_eq!(
                refused(&rule, "refuse-mounts", arch),
                is_there && !by_mounts,
                "{name}"
            );
        }
    }
}

#[test]
fn no_grade_of_nesting_lifts_what_reaches_the_host() {
    for name in ["refuse-userns", "refuse-mounts"] {
        for call in [
            "bpf",
            "keyctl",
            "open_by_handle_at",
            "fspick",
            "init_module",
            "kexec_load",
            "perf_event_open",
            "quotactl",
            "reboot",
            "userfaultfd",
        ] {
            for arch in [X86_64, AARCH64] {
                let answer = run(programs(arch)[name], arch, number(call, arch), &[]);
                assert_eq!(answer, 0x0005_0001, "{name}: {call} on {arch:#x}");
            }
        }
    }
}

#[test]
fn the_table_that_is_printed_has_a_line_for_every_rule() {
    let native = if cfg!(target_arch = "aarch64") {
        AARCH64
    } else {
        X86_64
    };
    for rule in rules() {
        let is_it = |line: &Line| {
            line.filter == rule.program
                && line.syscall == rule.syscall
                && line.reason == rule.comment
                && line.conditions.matches("args[").count() == rule.args.len()
        };
        let expected = usize::from(number(&rule.syscall, native) != LACKS);
        let found = ledger().filter(is_it).count();
        // Two rules that differ in their values alone have the same reason.
        assert_eq!(found.min(1), expected, "{}: {}", rule.program, rule.syscall);
    }
    assert_eq!(lines(&[]), []);
}

#[test]
fn a_foreign_architecture_ends_the_process_in_every_program() {
    const I386: u32 = 0x4000_0003;
    const ARM: u32 = 0x4000_0028;
    const X32: u32 = 0x4000_0000;
    for arch in [X86_64, AARCH64] {
        let other = if arch == X86_64 { AARCH64 } else { X86_64 };
        for (name, program) in programs(arch) {
            for foreign in [I386, ARM, other] {
                for number in [0, 20, 39, 359] {
                    let answer = run(program, foreign, number, &[]);
                    assert_eq!(answer, 0x8000_0000, "{name}: {foreign:#x}");
                }
            }
        }
    }
    for (name, program) in programs(X86_64) {
        assert_eq!(run(program, X86_64, X32 | 39, &[]), 0x8000_0000, "{name}");
    }
}
