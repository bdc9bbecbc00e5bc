//! Compiles `seccomp-profiles/*.json` to BPF, so that a launch installs bytes and parses none.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use seccompiler::{BpfProgram, TargetArch, compile_from_json, sock_filter};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Calls younger than seccompiler's table, with the number all architectures share; see
/// `scripts/syscall.tbl` of the kernel.
const NEWER: [(&str, u32); 1] = [("open_tree_attr", 467)];

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

/// First number of the x32 calls, __X32_SYSCALL_BIT of asm/unistd.h.
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

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
    let mut profile: Value = serde_json::from_str(text)?;
    let filters = profile
        .as_object_mut()
        .ok_or("a profile is a map of filters")?;
    let mut newer = Vec::new();
    for (name, filter) in filters.iter_mut() {
        let errno = filter["filter_action"]["errno"]
            .as_u64()
            .ok_or(format!("{name}: no errno"))?;
        let rules = filter["filter"]
            .as_array_mut()
            .ok_or(format!("{name}: no rules"))?;
        check_ledger(name, rules)?;
        if arch != TargetArch::x86_64 {
            rules.retain(|rule| !X86_ONLY.contains(&syscall(rule)));
        }
        newer.push((name.clone(), u32::try_from(errno)?, take_newer(rules)?));
    }
    let programs = compile_from_json(profile.to_string().as_bytes(), arch)?;
    for (name, errno, numbers) in newer {
        let program = guarded(&programs[&name], arch, RET_ERRNO | errno, &numbers)?;
        fs::write(directory.join(format!("{name}.bpf")), bytes(&program))?;
    }
    Ok(())
}

/// A profile is read by people: sorted, a reason for each rule, and no rule without effect.
fn check_ledger(name: &str, rules: &[Value]) -> Result<()> {
    let mut problems = String::new();
    for pair in rules.windows(2) {
        let [one, two] = pair else { continue };
        if syscall(one) > syscall(two) {
            writeln!(
                problems,
                "{name}: {} stands before {}",
                syscall(one),
                syscall(two)
            )?;
        }
        let shadowed =
            one.get("args").is_none() || two.get("args").is_none() || one["args"] == two["args"];
        if syscall(one) == syscall(two) && shadowed {
            writeln!(
                problems,
                "{name}: two rules for {} where one decides",
                syscall(one)
            )?;
        }
    }
    for rule in rules
        .iter()
        .filter(|rule| rule["comment"].as_str().is_none_or(str::is_empty))
    {
        writeln!(
            problems,
            "{name}: {} has no comment that gives the reason",
            syscall(rule)
        )?;
    }
    // The kernel reads an int: with a 64-bit comparison, garbage in the upper half passes.
    let wide = |rule: &&Value| {
        rule["args"]
            .as_array()
            .is_some_and(|args| args.iter().any(|arg| arg["type"] != "dword"))
    };
    for rule in rules.iter().filter(wide) {
        writeln!(
            problems,
            "{name}: {} compares 64 bits of an int",
            syscall(rule)
        )?;
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.into())
    }
}

fn syscall(rule: &Value) -> &str {
    rule["syscall"].as_str().unwrap_or_default()
}

/// Takes out the rules seccompiler does not know by name.
fn take_newer(rules: &mut Vec<Value>) -> Result<Vec<u32>> {
    let number = |rule: &Value| {
        NEWER
            .iter()
            .find(|(name, _)| *name == syscall(rule))
            .map(|(_, number)| *number)
    };
    let numbers = rules.iter().filter_map(number).collect();
    if rules
        .iter()
        .any(|rule| number(rule).is_some() && rule.get("args").is_some())
    {
        return Err("a rule for a call by number takes no args".into());
    }
    rules.retain(|rule| number(rule).is_none());
    Ok(numbers)
}

/// Adds what seccompiler leaves out: numbers above its table, and the x32 calls, which come
/// with the architecture of x86_64.
fn guarded(
    program: &BpfProgram,
    arch: TargetArch,
    refuse: u32,
    numbers: &[u32],
) -> Result<BpfProgram> {
    let load = program.get(LOAD_NUMBER).ok_or("the program is too short")?;
    if load.code != LD_W_ABS || load.k != 0 {
        return Err("the program does not load the call's number where it did".into());
    }
    let mut added = Vec::new();
    if arch == TargetArch::x86_64 {
        added.push(jump(JMP_JGE_K, X32_SYSCALL_BIT));
        added.push(give(RET_KILL_PROCESS));
    }
    for &number in numbers {
        added.push(jump(JMP_JEQ_K, number));
        added.push(give(refuse));
    }
    // No jump crosses this place: the check before it only skips its own return.
    let mut whole = program.clone();
    whole.splice(LOAD_NUMBER + 1..LOAD_NUMBER + 1, added);
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
