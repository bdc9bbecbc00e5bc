//! `srt ctl doctor`: what this machine gives, and which system calls a command does without.

use clap::Args;
use serde_json::{Value, json};

use super::LayerFlags;
use super::ctl::{Answer, print};
use crate::error::Result;
use crate::linux::support::MAX_LANDLOCK_ABI;
use crate::linux::support::probe::{Finding, Machine, Need};
use crate::policy::Host;
use crate::sandbox::{self, Line};

/// What `srt ctl doctor` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// print one JSON object
    #[arg(long)]
    json: bool,

    /// print the system calls a command does without, and why
    #[arg(long)]
    syscalls: bool,

    #[command(flatten)]
    layers: LayerFlags,
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    if options.syscalls {
        let host = Host::read()?;
        let settings = options.layers.load(&host, &host.cwd)?;
        let lines = sandbox::system_calls(&settings, &host)?;
        print(&match options.json {
            true => format!("{}\n", calls_as_json(&lines)),
            false => calls_as_table(&lines),
        })?;
        return Ok(Answer::Yes);
    }
    let machine = Machine::find_out()?;
    print(&match options.json {
        true => format!("{}\n", as_json(&machine)),
        false => as_text(&machine),
    })?;
    match machine.rung() {
        1 => Ok(Answer::Yes),
        _ => Ok(Answer::No),
    }
}

/// Says what holds on a rung.
fn guarantees(rung: u8) -> &'static str {
    match rung {
        1 => "namespaces, mounts, Landlock and a system call filter: commands run",
        2 => "Landlock and a system call filter, no namespaces: commands are refused",
        _ => "not enough to confine a command: commands are refused",
    }
}

/// The parts of the answer, and whose findings stand in each.
const PARTS: [(&str, &[Need]); 3] = [
    ("every run needs", &[Need::Both, Need::First]),
    ("used where the kernel has it", &[Need::Wanted]),
    (
        "not asked for in this version",
        &[Need::Second, Need::Later],
    ),
];

/// What is said in a sandbox, where most acts are refused.
const INSIDE: &str = "inside a sandbox of srt: a run is refused, or with `nested` \"inner\" has \
                      Landlock and a system call filter alone\n";

fn as_text(machine: &Machine) -> String {
    let rung = machine.rung();
    let mut text = format!(
        "rung {rung} of 3: {}\nLinux {} on {}, Landlock ABI {}\n",
        guarantees(rung),
        machine.kernel,
        std::env::consts::ARCH,
        machine.landlock_abi,
    );
    if machine.is_inside {
        text.push_str(INSIDE);
    }
    for (title, needs) in PARTS {
        text.push_str(&format!("\n{title}:\n"));
        let of_part = machine.findings.iter();
        for finding in of_part.filter(|finding| needs.contains(&finding.need)) {
            text.push_str(&as_lines(finding));
        }
    }
    text
}

fn as_lines(finding: &Finding) -> String {
    match (&finding.lack, finding.remedy) {
        (None, _) => format!("  yes  {}\n", finding.name),
        (Some(lack), remedy) => {
            let remedy = remedy.map(|remedy| format!("       hint: {remedy}\n"));
            format!(
                "  no   {}: {lack}\n{}",
                finding.name,
                remedy.unwrap_or_default()
            )
        }
    }
}

fn as_json(machine: &Machine) -> Value {
    let protections: Vec<Value> = machine.findings.iter().map(finding_as_json).collect();
    json!({
        "v": 1,
        "rung": machine.rung(),
        "guarantees": guarantees(machine.rung()),
        "kernel": machine.kernel,
        "architecture": std::env::consts::ARCH,
        "inside": machine.is_inside,
        "landlockAbi": {
            "asked": MAX_LANDLOCK_ABI,
            "enforced": machine.landlock_abi.min(MAX_LANDLOCK_ABI),
        },
        "protections": protections,
    })
}

fn finding_as_json(finding: &Finding) -> Value {
    let rungs: &[u8] = match finding.need {
        Need::Both => &[1, 2],
        Need::First => &[1],
        Need::Second => &[2],
        Need::Wanted | Need::Later => &[],
    };
    let error = finding
        .lack
        .as_ref()
        .map(|lack| json!({ "call": lack.call, "errno": lack.name() }));
    json!({
        "name": finding.name,
        "rungs": rungs,
        "asked": !matches!(finding.need, Need::Second | Need::Later),
        "enforced": finding.lack.is_none(),
        "error": error,
        "hint": finding.remedy,
    })
}

fn calls_as_table(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let call = match line.conditions {
            "" => line.syscall.to_owned(),
            conditions => format!("{} if {conditions}", line.syscall),
        };
        text.push_str(&format!("{call}\t{}\t{}\n", line.action, line.reason));
    }
    text
}

fn calls_as_json(lines: &[Line]) -> Value {
    let calls: Vec<Value> = lines
        .iter()
        .map(|line| {
            json!({
                "name": line.syscall,
                "conditions": line.conditions,
                "action": line.action,
                "reason": line.reason,
                "filter": line.filter,
            })
        })
        .collect();
    json!({ "v": 1, "architecture": std::env::consts::ARCH, "calls": calls })
}
