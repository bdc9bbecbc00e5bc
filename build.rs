//! Compiles `seccomp-profiles/*.json` to BPF, so that a launch installs bytes and parses none.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use seccompiler::{BpfProgram, TargetArch, compile_from_json, sock_filter};
use serde::{Deserialize, Serialize};
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Calls younger than seccompiler's table, with the number all architectures share; see
/// `scripts/syscall.tbl` of the kernel.
const NEWER: [(&str, u32); 1] = [("open_tree_attr", 467)];

/// First number that no call had when the profile was written: Linux 6.17 ends with
/// file_setattr.
const FIRST_UNKNOWN: u32 = 470;

/// Calls that only x86 has; other architectures have the `*at` form alone.
const X86_ONLY: [&str; 9] = [
    "chmod",
    "creat",
    "ioperm",
    "iopl",
    "mkdir",
    "mknod",
    "modify_ldt",
    "open",
    "uselib",
];

/// Longest program the kernel takes, BPF_MAXINSNS of linux/bpf_common.h.
const MAX_INSTRUCTIONS: usize = 4096;

/// Place of `LD nr` in a compiled program: behind the load and check of the architecture.
const LOAD_NUMBER: usize = 3;

// From linux/bpf_common.h and linux/seccomp.h.
const LD_W_ABS: u16 = 0x20;
const JMP_JEQ_K: u16 = 0x15;
const JMP_JGE_K: u16 = 0x35;
const RET_K: u16 = 0x06;
const RET_KILL_PROCESS: u32 = 0x8000_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;

/// Stands for the notification until the program is compiled.
const STAND_IN: u16 = 0xf00d;

/// Answer to calls whose users have a fallback.
const ENOSYS: u32 = 38;

/// First number of the x32 calls, __X32_SYSCALL_BIT of asm/unistd.h.
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

/// Number with which a tracer has a call skipped, as fault injection does; see "SECCOMP" in
/// ptrace(2). Filters see it, the kernel runs nothing.
const SKIPPED: u32 = u32::MAX;

/// A profile file: seccompiler's format, cut down to what the profiles use. A map would let a
/// second filter of one name take the place of the first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Profile {
    refuse: Filter,
    absent: Filter,
    unix: Filter,
    unix_types: Filter,
    performed: Filter,
    setid: Filter,
    setid_absent: Filter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    default_action: DefaultAction,
    filter_action: FilterAction,
    #[serde(rename = "filter")]
    rules: Vec<Rule>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DefaultAction {
    Allow,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FilterAction {
    /// The call fails with this number.
    Errno(u16),
    /// The broker performs the call and gives its answer.
    Notify,
}

impl FilterAction {
    /// Returns the action as seccompiler writes it, which knows no notification.
    fn for_seccompiler(&self) -> serde_json::Value {
        match self {
            Self::Errno(errno) => json!({ "errno": errno }),
            Self::Notify => json!({ "trace": STAND_IN }),
        }
    }

    /// Returns what the program gives to the kernel.
    fn answer(&self) -> u32 {
        match self {
            Self::Errno(errno) => RET_ERRNO | u32::from(*errno),
            Self::Notify => RET_USER_NOTIF,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    syscall: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Vec<Condition>>,
    #[serde(default)]
    comment: String,
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Condition {
    index: u8,
    #[serde(rename = "type")]
    width: Width,
    op: Operator,
    val: u32,
    #[serde(default)]
    comment: String,
}

/// The kernel reads an int: with a 64-bit comparison, garbage in the upper half passes.
#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Width {
    Dword,
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Operator {
    Eq,
    Ne,
    MaskedEq(u32),
}

#[allow(
    clippy::disallowed_methods,
    reason = "cargo speaks to build scripts by variables"
)]
fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=seccomp-profiles");
    println!("cargo:rerun-if-changed=build.rs");
    let arch_name = std::env::var("CARGO_CFG_TARGET_ARCH")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let profile = Path::new("seccomp-profiles/default.json");
    let text = fs::read_to_string(profile)?;
    // Both are compiled everywhere, so that a rule one of them lacks is found on the other.
    for (name, arch) in [
        ("x86_64", TargetArch::x86_64),
        ("aarch64", TargetArch::aarch64),
    ] {
        let directory = out.join(name);
        fs::create_dir_all(&directory)?;
        compile(&text, arch, &directory)
            .map_err(|error| format!("{}: {error}", profile.display()))?;
    }
    if !out.join(&arch_name).is_dir() {
        return Err(
            format!("no system call filter for {arch_name}: srt would run without one").into(),
        );
    }
    println!("cargo:rustc-env=SECCOMP_ARCH={arch_name}");
    Ok(())
}

fn compile(text: &str, arch: TargetArch, directory: &Path) -> Result<()> {
    let profile: Profile = serde_json::from_str(text)?;
    for (name, mut filter) in [
        ("refuse", profile.refuse),
        ("absent", profile.absent),
        ("unix", profile.unix),
        ("unix-types", profile.unix_types),
        ("performed", profile.performed),
        ("setid", profile.setid),
        ("setid-absent", profile.setid_absent),
    ] {
        check_ledger(name, &filter.rules)?;
        if arch != TargetArch::x86_64 {
            filter
                .rules
                .retain(|rule| !X86_ONLY.contains(&rule.syscall.as_str()));
        }
        let numbers = take_newer(&mut filter.rules)?;
        let single = json!({ name: {
            "default_action": filter.default_action,
            "filter_action": filter.filter_action.for_seccompiler(),
            "filter": filter.rules,
        }});
        let programs = compile_from_json(single.to_string().as_bytes(), arch)?;
        let program = guarded(&programs[name], arch, &filter.filter_action, &numbers)?;
        fs::write(directory.join(format!("{name}.bpf")), bytes(&program))?;
    }
    Ok(())
}

/// A profile is read by people: sorted, a reason for each rule, and no rule without effect.
fn check_ledger(name: &str, rules: &[Rule]) -> Result<()> {
    let mut problems = String::new();
    for pair in rules.windows(2) {
        let [one, two] = pair else { continue };
        let (first, second) = (&one.syscall, &two.syscall);
        if first > second {
            writeln!(problems, "{name}: {first} stands before {second}")?;
        }
        let shadowed = one.args.is_none() || two.args.is_none() || one.args == two.args;
        if first == second && shadowed {
            writeln!(problems, "{name}: two rules for {first} where one decides")?;
        }
    }
    for rule in rules.iter().filter(|rule| rule.comment.is_empty()) {
        let syscall = &rule.syscall;
        writeln!(
            problems,
            "{name}: {syscall} has no comment that gives the reason"
        )?;
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.into())
    }
}

/// Takes out the rules seccompiler does not know by name.
fn take_newer(rules: &mut Vec<Rule>) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for (name, number) in NEWER {
        for rule in rules.extract_if(.., |rule| rule.syscall == name) {
            if rule.args.is_some() {
                return Err(format!("{name}: a rule for a call by number takes no args").into());
            }
            numbers.push(number);
        }
    }
    Ok(numbers)
}

/// Adds what seccompiler leaves out: numbers above its table, those above every table, and the
/// x32 calls, which come with the architecture of x86_64.
fn guarded(
    program: &BpfProgram,
    arch: TargetArch,
    action: &FilterAction,
    numbers: &[u32],
) -> Result<BpfProgram> {
    let load = program.get(LOAD_NUMBER).ok_or("the program is too short")?;
    if load.code != LD_W_ABS || load.k != 0 {
        return Err("the program does not load the call's number where it did".into());
    }
    let refuse = give(action.answer());
    let mut guards = Vec::new();
    if arch == TargetArch::x86_64 {
        guards.extend([jump(JMP_JGE_K, X32_SYSCALL_BIT), give(RET_KILL_PROCESS)]);
    }
    if action.answer() == RET_ERRNO | ENOSYS {
        // What a call of a later kernel does is not known here, so that kernel lacks it.
        guards.extend([jump(JMP_JGE_K, FIRST_UNKNOWN), refuse.clone()]);
    }
    for &number in numbers {
        guards.extend([jump(JMP_JEQ_K, number), refuse.clone()]);
    }
    let over = sock_filter {
        code: JMP_JEQ_K,
        jt: u8::try_from(guards.len())?,
        jf: 0,
        k: SKIPPED,
    };
    guards.insert(0, over);
    // No jump crosses this place: the check before it only skips its own return.
    let mut whole = program.clone();
    for op in &mut whole {
        if op.code == RET_K && op.k == RET_TRACE | u32::from(STAND_IN) {
            op.k = action.answer();
        }
    }
    whole.splice(LOAD_NUMBER + 1..LOAD_NUMBER + 1, guards);
    if whole.len() > MAX_INSTRUCTIONS {
        return Err(format!(
            "{} instructions, the kernel takes {MAX_INSTRUCTIONS}",
            whole.len()
        )
        .into());
    }
    Ok(whole)
}

/// Goes on with the next instruction if the comparison holds, else skips it.
fn jump(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 1,
        k,
    }
}

fn give(k: u32) -> sock_filter {
    sock_filter {
        code: RET_K,
        jt: 0,
        jf: 0,
        k,
    }
}

fn bytes(program: &BpfProgram) -> Vec<u8> {
    let instruction = |op: &sock_filter| {
        let [a, b] = op.code.to_ne_bytes();
        let [c, d, e, f] = op.k.to_ne_bytes();
        [a, b, op.jt, op.jf, c, d, e, f]
    };
    program.iter().flat_map(instruction).collect()
}
