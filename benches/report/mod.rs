//! Puts what a benchmark found into its section of `docs/performance.md`.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// One line of a section: what was compared, the ratio, and what it has to be.
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) limit: Limit,
}

/// What a value has to be.
#[allow(dead_code, reason = "each benchmark uses a part")]
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    None,
}

impl Line {
    fn holds(&self) -> bool {
        match self.limit {
            Limit::AtMost(limit) => self.value <= limit,
            Limit::AtLeast(limit) => self.value >= limit,
            Limit::None => true,
        }
    }

    fn row(&self) -> String {
        let limit = match self.limit {
            Limit::AtMost(limit) => format!("≤ {limit}"),
            Limit::AtLeast(limit) => format!("≥ {limit}"),
            Limit::None => "-".to_owned(),
        };
        format!(
            "| {} | {:.2}{} | {limit} |\n",
            self.what, self.value, self.unit
        )
    }
}

/// Prints the lines, writes them under `## name`, and returns whether all hold.
pub(crate) fn publish(name: &str, lines: &[Line]) -> bool {
    let mut section = format!("## {name}\n\n{}\n\n", machine());
    section.push_str("| what | measured | must be |\n|---|---|---|\n");
    section.extend(lines.iter().map(Line::row));
    print(&section);
    replace_section(name, &section);
    lines.iter().all(Line::holds)
}

/// Returns the median, which one disturbed run does not move.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn print(text: &str) {
    drop(std::io::stdout().write_all(text.as_bytes()));
}

fn replace_section(name: &str, section: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/performance.md");
    let old = fs::read_to_string(&path).unwrap_or_else(|_| TITLE.to_owned());
    let heading = format!("## {name}\n");
    let (before, rest) = old.split_once(&heading).unwrap_or((&old, ""));
    let after = rest.find("\n## ").map_or("", |at| &rest[at + 1..]);
    let new = format!("{}\n\n{section}\n{after}", before.trim_end());
    fs::write(path, format!("{}\n", new.trim_end())).expect("docs/ is writable");
}

const TITLE: &str = "# Performance\n\nWritten by `make bench`. Every figure is a ratio of things measured in the same run, in turns, since absolute times say more about the machine than about `srt`.\n";

fn machine() -> String {
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok();
        output.map_or(String::new(), |output| {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{}, Linux {} {}, {cpus} CPUs",
        run("date", &["-u", "+%Y-%m-%d"]),
        run("uname", &["-r"]),
        run("uname", &["-m"])
    )
}
