//! Holds every line of the profiles against what the compiled programs do, on both
//! architectures, with the numbers of the kernel's own tables.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::tests::{AARCH64, LACKS, X86_64, run};
use super::{Line, ledger, lines};

/// Number on x86_64, then on aarch64, of every call the profiles name; see
/// `arch/x86/entry/syscalls/syscall_64.tbl` and `scripts/syscall.tbl` of the kernel.
const NUMBERS: [(&str, u32, u32); 132] = [
    ("_sysctl", 156, LACKS),
    ("acct", 163, 89),
    ("add_key", 248, 217),
    ("bpf", 321, 280),
    ("cachestat", 451, 451),
    ("chmod", 90, LACKS),
    ("chroot", 161, 51),
    ("clock_settime", 227, 112),
    ("clone", 56, 220),
    ("clone3", 435, 435),
    ("connect", 42, 203),
    ("creat", 85, LACKS),
    ("delete_module", 176, 106),
    ("execve", 59, 221),
    ("execveat", 322, 281),
    ("fanotify_init", 300, 262),
    ("fanotify_mark", 301, 263),
    ("fchmod", 91, 52),
    ("fchmodat", 268, 53),
    ("fchmodat2", 452, 452),
    ("finit_module", 313, 273),
    ("fsconfig", 431, 431),
    ("fsmount", 432, 432),
    ("fsopen", 430, 430),
    ("fspick", 433, 433),
    ("fsetxattr", 190, 7),
    ("get_mempolicy", 239, 236),
    ("get_thread_area", 211, LACKS),
    ("init_module", 175, 105),
    ("io_cancel", 210, 3),
    ("io_destroy", 207, 1),
    ("io_getevents", 208, 4),
    ("io_pgetevents", 333, 292),
    ("io_setup", 206, 0),
    ("io_submit", 209, 2),
    ("io_uring_enter", 426, 426),
    ("io_uring_register", 427, 427),
    ("io_uring_setup", 425, 425),
    ("ioctl", 16, 29),
    ("ioperm", 173, LACKS),
    ("iopl", 172, LACKS),
    ("ioprio_set", 251, 30),
    ("kcmp", 312, 272),
    ("kexec_file_load", 320, 294),
    ("kexec_load", 246, 104),
    ("keyctl", 250, 219),
    ("kill", 62, 129),
    ("listen", 50, 201),
    ("listmount", 458, 458),
    ("lookup_dcookie", 212, 18),
    ("lsetxattr", 189, 6),
    ("lsm_get_self_attr", 459, 459),
    ("lsm_list_modules", 461, 461),
    ("lsm_set_self_attr", 460, 460),
    ("mbind", 237, 235),
    ("memfd_secret", 447, 447),
    ("migrate_pages", 256, 238),
    ("mkdir", 83, LACKS),
    ("mkdirat", 258, 34),
    ("mknod", 133, LACKS),
    ("mknodat", 259, 33),
    ("modify_ldt", 154, LACKS),
    ("mount", 165, 40),
    ("mount_setattr", 442, 442),
    ("move_mount", 429, 429),
    ("move_pages", 279, 239),
    ("mq_getsetattr", 245, 185),
    ("mq_notify", 244, 184),
    ("mq_open", 240, 180),
    ("mq_timedreceive", 243, 183),
    ("mq_timedsend", 242, 182),
    ("mq_unlink", 241, 181),
    ("name_to_handle_at", 303, 264),
    ("nfsservctl", 180, 42),
    ("open", 2, LACKS),
    ("open_by_handle_at", 304, 265),
    ("open_tree", 428, 428),
    ("open_tree_attr", 467, 467),
    ("openat", 257, 56),
    ("openat2", 437, 437),
    ("perf_event_open", 298, 241),
    ("personality", 135, 92),
    ("pidfd_getfd", 438, 438),
    ("pidfd_open", 434, 434),
    ("pidfd_send_signal", 424, 424),
    ("pivot_root", 155, 41),
    ("prctl", 157, 167),
    ("prlimit64", 302, 261),
    ("process_madvise", 440, 440),
    ("process_mrelease", 448, 448),
    ("process_vm_readv", 310, 270),
    ("process_vm_writev", 311, 271),
    ("ptrace", 101, 117),
    ("quotactl", 179, 60),
    ("quotactl_fd", 443, 443),
    ("reboot", 169, 142),
    ("recvfrom", 45, 207),
    ("recvmmsg", 299, 243),
    ("recvmsg", 47, 212),
    ("remap_file_pages", 216, 234),
    ("request_key", 249, 218),
    ("sched_setaffinity", 203, 122),
    ("sched_setattr", 314, 274),
    ("sched_setparam", 142, 118),
    ("sched_setscheduler", 144, 119),
    ("sendmmsg", 307, 269),
    ("sendmsg", 46, 211),
    ("sendto", 44, 206),
    ("set_mempolicy", 238, 237),
    ("set_mempolicy_home_node", 450, 450),
    ("set_thread_area", 205, LACKS),
    ("setdomainname", 171, 162),
    ("sethostname", 170, 161),
    ("setns", 308, 268),
    ("setpriority", 141, 140),
    ("setsockopt", 54, 208),
    ("settimeofday", 164, 170),
    ("setxattr", 188, 5),
    ("setxattrat", 463, 463),
    ("socket", 41, 198),
    ("socketpair", 53, 199),
    ("statmount", 457, 457),
    ("swapoff", 168, 225),
    ("swapon", 167, 224),
    ("sysfs", 139, LACKS),
    ("syslog", 103, 116),
    ("umount2", 166, 39),
    ("unshare", 272, 97),
    ("uselib", 134, LACKS),
    ("userfaultfd", 323, 282),
    ("ustat", 136, LACKS),
    ("vmsplice", 278, 75),
];

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
            "file-capabilities" "setid" "setid-absent"
            "strict-refuse" "strict-absent" "refuse-userns" "refuse-mounts" "proxies")
    } else {
        programs!("/aarch64": "refuse" "absent" "unix" "unix-types" "performed" "inet"
            "file-capabilities" "setid" "setid-absent"
            "strict-refuse" "strict-absent" "refuse-userns" "refuse-mounts" "proxies")
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
    assert!(rules.len() > 150, "only {} rules were read", rules.len());
    rules
}

fn number(name: &str, arch: u32) -> u32 {
    let found = NUMBERS.iter().find(|(known, ..)| *known == name);
    let (_, x86, arm) = found.unwrap_or_else(|| panic!("{name} has no number in this test"));
    if arch == X86_64 { *x86 } else { *arm }
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
        ("creat", "openat"),
        ("mkdir", "mkdirat"),
        ("mknod", "mknodat"),
        ("open", "openat"),
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
