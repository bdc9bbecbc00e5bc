//! Compiles the data files: `seccomp-profiles/*.json` to BPF, `data/*.json` to tables. A
//! launch parses none.

mod base;
mod ladder;
mod protected;
mod secrets;

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
const NEWER: [(&str, u32); 3] = [
    ("open_tree_attr", 467),
    ("removexattrat", 466),
    ("setxattrat", 463),
];

/// First number that no call had when the profile was written: Linux 6.17 ends with
/// file_setattr.
const FIRST_UNKNOWN: u32 = 470;

/// Calls that only x86 has; other architectures have the `*at` form alone.
const X86_ONLY: [&str; 24] = [
    "_sysctl",
    "chmod",
    "chown",
    "creat",
    "futimesat",
    "get_thread_area",
    "ioperm",
    "iopl",
    "lchown",
    "link",
    "mkdir",
    "mknod",
    "modify_ldt",
    "open",
    "rename",
    "rmdir",
    "set_thread_area",
    "symlink",
    "sysfs",
    "unlink",
    "uselib",
    "ustat",
    "utime",
    "utimes",
];

/// From linux/socket.h.
const AF_PACKET: u32 = 17;

/// Longest program the kernel takes, BPF_MAXINSNS of linux/bpf_common.h.
const MAX_INSTRUCTIONS: usize = 4096;

/// Place of `LD nr` in a compiled program: behind the load and check of the architecture.
const LOAD_NUMBER: usize = 3;

// From linux/bpf_common.h and linux/seccomp.h.
const LD_W_ABS: u16 = 0x20;
const JMP_JA: u16 = 0x05;
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

/// `default.json`: seccompiler's format, cut down to what the profiles use. A map would let a
/// second filter of one name take the place of the first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Profile {
    refuse: Filter,
    absent: Filter,
    unix: Filter,
    unix_types: Filter,
    performed: Filter,
    proxies: Filter,
    inet: Filter,
    file_capabilities: Filter,
    setid: Filter,
    setid_absent: Filter,
    owners: Filter,
}

/// `strict.json`: what is refused besides. A program of its own, since the strictest answer
/// of all programs counts.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    refuse: Filter,
    absent: Filter,
}

/// `nested.json`: rules of `refuse` that each grade of nesting lifts, the second those of the
/// first too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nested {
    userns: Vec<Rule>,
    mounts: Vec<Rule>,
}

/// `observed.json`: calls that are told of besides, where somebody records; the second list
/// where reads and programs are told of too.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Observed {
    writes: Filter,
    reads: Filter,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    default_action: DefaultAction,
    filter_action: FilterAction,
    #[serde(rename = "filter")]
    rules: Vec<Rule>,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DefaultAction {
    Allow,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FilterAction {
    /// The call fails with this number.
    Errno(u16),
    /// The broker performs the call and gives its answer.
    Notify,
}

impl FilterAction {
    /// Returns the action as seccompiler writes it, which knows no notification.
    fn for_seccompiler(self) -> serde_json::Value {
        match self {
            Self::Errno(errno) => json!({ "errno": errno }),
            Self::Notify => json!({ "trace": STAND_IN }),
        }
    }

    /// Returns what the program gives to the kernel.
    fn answer(self) -> u32 {
        match self {
            Self::Errno(errno) => RET_ERRNO | u32::from(errno),
            Self::Notify => RET_USER_NOTIF,
        }
    }

    /// Names the action for people; see the table of `srt ctl doctor --syscalls`.
    fn shown(self) -> Result<&'static str> {
        match self {
            Self::Errno(0) => Ok("success"),
            Self::Errno(1) => Ok("EPERM"),
            Self::Errno(38) => Ok("ENOSYS"),
            Self::Errno(95) => Ok("EOPNOTSUPP"),
            Self::Errno(errno) => Err(format!("errno {errno} has no name here").into()),
            Self::Notify => Ok("broker"),
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    syscall: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Vec<Condition>>,
    #[serde(default)]
    comment: String,
}

#[derive(Clone, Serialize, Deserialize, PartialEq)]
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

impl Condition {
    fn shown(&self) -> String {
        let Self { index, val, .. } = self;
        let test = match self.op {
            Operator::Eq => format!("args[{index}] == {val:#x}"),
            Operator::Ne => format!("args[{index}] != {val:#x}"),
            Operator::MaskedEq(mask) => format!("args[{index}] & {mask:#x} == {val:#x}"),
        };
        match self.comment.as_str() {
            "" => test,
            comment => format!("{test} ({comment})"),
        }
    }
}

/// The kernel reads an int: with a 64-bit comparison, garbage in the upper half passes.
#[derive(Clone, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Width {
    Dword,
}

#[derive(Clone, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Operator {
    Eq,
    Ne,
    MaskedEq(u32),
}

#[allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "cargo speaks to build scripts by variables, and they to it by lines"
)]
fn main() -> Result<()> {
    println!("cargo:rerun-if-changed=seccomp-profiles");
    println!("cargo:rerun-if-changed=data/base.json");
    println!("cargo:rerun-if-changed=data/protected.json");
    println!("cargo:rerun-if-changed=data/secrets.json");
    println!("cargo:rerun-if-changed=build");
    let arch_name = std::env::var("CARGO_CFG_TARGET_ARCH")?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let filters = filters(Path::new("seccomp-profiles"))?;
    // Both are compiled everywhere, so that a rule one of them lacks is found on the other.
    for (name, arch) in [
        ("x86_64", TargetArch::x86_64),
        ("aarch64", TargetArch::aarch64),
    ] {
        let directory = out.join(name);
        fs::create_dir_all(&directory)?;
        let mut ledger = String::new();
        for (name, filter) in &filters {
            let rules = of_architecture(&filter.rules, arch);
            write_ledger(&mut ledger, name, filter.filter_action, &rules)?;
            compile(name, filter, rules, arch, &directory)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        fs::write(directory.join("ledger.tsv"), ledger)?;
    }
    if !out.join(&arch_name).is_dir() {
        return Err(
            format!("no system call filter for {arch_name}: srt would run without one").into(),
        );
    }
    println!("cargo:rustc-env=SECCOMP_ARCH={arch_name}");
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        // In place of libgcc_s.so: to load it takes a twentieth of a launch.
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
    let table = secrets::table(Path::new("data/secrets.json"))?;
    fs::write(out.join("secrets.rs"), table)?;
    let table = base::table(Path::new("data/base.json"))?;
    fs::write(out.join("base.rs"), table)?;
    let tables = protected::tables(Path::new("data/protected.json"))?;
    fs::write(out.join("protected.rs"), tables)?;
    Ok(())
}

/// Reads the profiles and returns every program to compile with its name.
fn filters(profiles: &Path) -> Result<Vec<(&'static str, Filter)>> {
    let profile: Profile = read(&profiles.join("default.json"))?;
    let strict: Strict = read(&profiles.join("strict.json"))?;
    let nested: Nested = read(&profiles.join("nested.json"))?;
    for (stricter, base) in [
        (&strict.refuse, &profile.refuse),
        (&strict.absent, &profile.absent),
    ] {
        check_adds(&stricter.rules, &base.rules)?;
    }
    let observed: Observed = read(&profiles.join("observed.json"))?;
    let userns = lifted(&profile.refuse, &nested.userns)?;
    let mounts = lifted(&userns, &nested.mounts)?;
    let everything = joined(&observed.reads, &observed.writes);
    let filters = vec![
        ("refuse-seen", without_packets(&profile.refuse)?),
        ("refuse-userns-seen", without_packets(&userns)?),
        ("refuse-mounts-seen", without_packets(&mounts)?),
        (
            "performed-writes",
            joined(&profile.performed, &observed.writes),
        ),
        ("performed-all", joined(&profile.performed, &everything)),
        ("observed-writes", observed.writes),
        ("observed-all", everything),
        ("refuse", profile.refuse),
        ("absent", profile.absent),
        ("unix", profile.unix),
        ("unix-types", profile.unix_types),
        ("performed", profile.performed),
        ("proxies", profile.proxies),
        ("inet", profile.inet),
        ("file-capabilities", profile.file_capabilities),
        ("setid", profile.setid),
        ("setid-absent", profile.setid_absent),
        ("owners", profile.owners),
        ("strict-refuse", strict.refuse),
        ("strict-absent", strict.absent),
        ("refuse-userns", userns),
        ("refuse-mounts", mounts),
    ];
    for (name, filter) in &filters {
        check_ledger(name, &filter.rules)?;
    }
    check_ledger("nested userns", &nested.userns)?;
    check_ledger("nested mounts", &nested.mounts)?;
    Ok(filters)
}

fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> Result<T> {
    let text = fs::read_to_string(file)?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()).into())
}

/// A rule that the default profile has already would tell readers of a difference that is none.
fn check_adds(rules: &[Rule], base: &[Rule]) -> Result<()> {
    let known = |rule: &&Rule| {
        base.iter().any(|other| {
            other.syscall == rule.syscall && (other.args.is_none() || other.args == rule.args)
        })
    };
    match rules.iter().find(known) {
        Some(rule) => Err(format!("strict: {} is refused by default", rule.syscall).into()),
        None => Ok(()),
    }
}

/// Takes `rules` out of a filter. One that is not in it is an error: the ledger of what is
/// lifted would tell of something else than what is.
fn lifted(filter: &Filter, rules: &[Rule]) -> Result<Filter> {
    let mut left = filter.clone();
    for rule in rules {
        let same = |other: &Rule| other.syscall == rule.syscall && other.args == rule.args;
        let at = left.rules.iter().position(same);
        let at = at.ok_or_else(|| format!("nested: no rule for {} to lift", rule.syscall))?;
        left.rules.remove(at);
    }
    Ok(left)
}

/// Makes one filter of two: only one in force can have a listener. Where both name a call, what
/// the first says of it holds.
fn joined(first: &Filter, second: &Filter) -> Filter {
    let mut whole = first.clone();
    let named = |rule: &&Rule| first.rules.iter().any(|own| own.syscall == rule.syscall);
    let more = second.rules.iter().filter(|rule| !named(rule));
    whole.rules.extend(more.cloned());
    // Stable: rules for one call keep their order.
    whole
        .rules
        .sort_by(|one, other| one.syscall.cmp(&other.syscall));
    whole
}

/// Leaves packet sockets to the program with the listener, which refuses them too, and tells
/// who asked: of two answers an errno would be the stricter.
fn without_packets(filter: &Filter) -> Result<Filter> {
    let packets = Condition {
        index: 0,
        width: Width::Dword,
        op: Operator::Ne,
        val: AF_PACKET,
        comment: "AF_PACKET, which the broker refuses".to_owned(),
    };
    let mut left = filter.clone();
    let of_families = |rule: &&mut Rule| {
        let is_other = |condition: &Condition| condition.op == Operator::Ne && condition.index == 0;
        rule.syscall == "socket" && rule.args.iter().flatten().all(is_other)
    };
    let rule = left.rules.iter_mut().find(of_families);
    let args = rule.and_then(|rule| rule.args.as_mut());
    args.ok_or("no rule refuses other families")?.push(packets);
    Ok(left)
}

fn of_architecture(rules: &[Rule], arch: TargetArch) -> Vec<Rule> {
    let has =
        |rule: &&Rule| arch == TargetArch::x86_64 || !X86_ONLY.contains(&rule.syscall.as_str());
    rules.iter().filter(has).cloned().collect()
}

/// Adds the rules to the table that `srt ctl doctor --syscalls` prints.
fn write_ledger(
    ledger: &mut String,
    filter: &str,
    action: FilterAction,
    rules: &[Rule],
) -> Result<()> {
    let action = action.shown()?;
    for rule in rules {
        let conditions = rule.args.iter().flatten().map(Condition::shown);
        let conditions = conditions.collect::<Vec<_>>().join(" and ");
        let (syscall, reason) = (rule.syscall.as_str(), rule.comment.as_str());
        let line = [filter, syscall, &conditions, action, reason].join("\t");
        if line.matches(['\t', '\n']).count() != 4 {
            return Err(format!("{syscall}: a tab or a line break in a text").into());
        }
        writeln!(ledger, "{line}")?;
    }
    Ok(())
}

fn compile(
    name: &str,
    filter: &Filter,
    mut rules: Vec<Rule>,
    arch: TargetArch,
    directory: &Path,
) -> Result<()> {
    let numbers = take_newer(&mut rules)?;
    let single = json!({ name: {
        "default_action": filter.default_action,
        "filter_action": filter.filter_action.for_seccompiler(),
        "filter": rules,
    }});
    let programs = compile_from_json(single.to_string().as_bytes(), arch)?;
    let program = guarded(&programs[name], arch, filter.filter_action, &numbers)?;
    fs::write(directory.join(format!("{name}.bpf")), bytes(&program))?;
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
    action: FilterAction,
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
    let (head, chain) = program.split_at(LOAD_NUMBER + 1);
    let mut whole = [head, &ladder::laddered(chain)?].concat();
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
