//! What earlier runs were denied, and why.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use serde_json::{Value, json};

use crate::audit::Denials;
use crate::cli::ctl::{Answer, print};
use crate::cli::history::{self, Run};
use crate::cli::summary;
use crate::error::{Error, Kind, Result, printable};
use crate::policy::Host;
use crate::settings::shown;

/// Shows what the last runs were denied.
pub(super) fn run(host: &Host, count: usize, as_json: bool) -> Result<Answer> {
    let runs = history::last(host, count)?;
    for run in &runs {
        print(&match as_json {
            true => format!("{}\n", json!(run)),
            false => text(run),
        })?;
    }
    if runs.is_empty() && !as_json {
        print("no run was denied anything\n")?;
    }
    Ok(answer(runs.is_empty()))
}

/// Shows what the runs of an event file were denied.
pub(super) fn events(file: &Path, as_json: bool) -> Result<Answer> {
    let (runs, broken) = read(file)?;
    let mut is_clean = true;
    for (run, denials) in runs.iter().filter(|(_, denials)| !denials.is_empty()) {
        is_clean = false;
        let head = || format!("run {}\n", printable(run));
        print(&match as_json {
            true => format!(
                "{}\n",
                json!({ "v": 1, "run": run, "denied": denials.groups(), "more": denials.more })
            ),
            false => head() + &summary::lines(denials),
        })?;
    }
    if is_clean && !as_json {
        print("nothing was denied\n")?;
    }
    if broken > 0 {
        let said = format!("{broken} lines of {} are no events", shown(file));
        return Err(Error::new(Kind::Usage, said).with_hint("what the others say is shown"));
    }
    Ok(answer(is_clean))
}

fn answer(is_clean: bool) -> Answer {
    match is_clean {
        true => Answer::Yes,
        false => Answer::No,
    }
}

fn text(run: &Run) -> String {
    let head = format!(
        "{} {} in {}\n",
        printable(&run.time),
        printable(&run.program),
        shown(&run.cwd)
    );
    let denials = Denials::of(run.denied.clone(), run.more);
    head + &summary::lines(&denials)
}

/// Longest line that is read; no event comes near it.
const LONGEST: u64 = 1 << 20;

/// Counts what each run of an event file was denied, and the lines that are no events.
fn read(file: &Path) -> Result<(BTreeMap<String, Denials>, u64)> {
    let unreadable = |call, error| {
        Error::new(Kind::Usage, format!("cannot read {}", shown(file))).call(call, error)
    };
    // A FIFO that nobody writes must not hold us up.
    let opened = File::options()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(file)
        .map_err(|error| unreadable("open", error))?;
    let mut runs: BTreeMap<String, Denials> = BTreeMap::new();
    let mut broken = 0;
    let mut reader = BufReader::new(opened);
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LONGEST).read_until(b'\n', &mut line);
        if read.map_err(|error| unreadable("read", error))? == 0 {
            break;
        }
        if line.len() as u64 == LONGEST {
            let said = format!(
                "{} has a line that is no event: it is too long",
                shown(file)
            );
            return Err(Error::new(Kind::Usage, said));
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let event = serde_json::from_slice::<Value>(&line).ok();
        let run = event.as_ref().and_then(|event| event["run"].as_str());
        match (run, std::str::from_utf8(&line)) {
            (Some(run), Ok(line)) => runs.entry(run.to_owned()).or_default().count_line(line),
            _ => broken += 1,
        }
    }
    Ok((runs, broken))
}
