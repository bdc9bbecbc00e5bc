//! Several sandboxes in one directory, which start and end in any order.

#[path = "harness/mod.rs"]
mod harness;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use harness::{
    Allowance, Killed, Scratch, Snapshot, Srt, Surroundings, canary, content, listing,
    nothing_runs_in, processes_with, wait_until,
};

/// A sandbox that does what it is told, one script after the other.
struct Run {
    number: usize,
    process: Killed,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Run {
    fn start(scratch: &Scratch, number: usize) -> Self {
        let w = scratch.path("w");
        let srt = Srt::new(scratch)
            .env("TMPDIR", scratch.dir("tmp"))
            .env("RUN", format!("{}-run-{number}", scratch.marker()))
            .allow_write(scratch.path("outside"))
            .current_dir(&w);
        let srt = match number {
            0 => srt
                .allow_write(&w)
                .deny_write(w.join("kept"))
                .deny_read(w.join("hidden")),
            1 => srt
                .allow_write(&w)
                .deny_write(w.join("link"))
                .deny_read(w.join("deep/hidden")),
            _ => srt
                .allow_write(w.join("deep"))
                .deny_write(w.join("deep/kept"))
                .deny_read("deep/h*"),
        };
        let mut command = srt.into_command(&["sh"]);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("it was built");
        let input = child.stdin.take().expect("piped above");
        let output = BufReader::new(child.stdout.take().expect("piped above"));
        Self {
            number,
            process: Killed(child),
            input,
            output,
        }
    }

    /// Runs a script inside and returns what it prints.
    fn act(&mut self, script: &str) -> String {
        writeln!(self.input, "( {script} ) 2>/dev/null; echo END").expect("it runs");
        let mut said = String::new();
        while !said.ends_with("END\n") {
            let read = self.output.read_line(&mut said).expect("it is text");
            assert_ne!(read, 0, "run {} has ended: {said}", self.number);
        }
        said.trim_end_matches("END\n").to_owned()
    }

    /// What must fail, and must succeed beside it.
    fn holds(&mut self, secret: &str) {
        let (denied, hidden, above, own) = match self.number {
            0 => ("kept", "hidden/f", "hidden", "own"),
            1 => ("link", "deep/hidden/f", "deep", "own"),
            _ => ("deep/kept", "deep/hidden/f", "deep", "deep/own"),
        };
        let script = format!(
            "echo x > {denied}; rm -f {denied}; mv {denied} moved; ln -sf own {denied}; chmod 777 {denied}; \
             mv {above} moved; cat {hidden}; rm -rf {hidden}; echo x > {own} && rm {own} && echo free"
        );
        let said = self.act(&script);
        assert_eq!(said, "free\n", "run {}", self.number);
        assert!(!said.contains(secret));
    }

    fn end(self, how: End, scratch: &Scratch) {
        let Self {
            number,
            mut process,
            input,
            ..
        } = self;
        let marker = format!("{}-run-{number}", scratch.marker());
        match how {
            // The end of its input is the end of the shell.
            End::Own => {
                drop(input);
                let status = process.0.wait().expect("it is our child");
                assert!(status.success(), "{status}");
            }
            End::Kill => process.end(),
        }
        let is_gone = || processes_with(&marker).is_empty();
        assert!(wait_until(is_gone), "run {number} is still there");
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Own,
    Kill,
}

fn tree(scratch: &Scratch, secret: &str) -> PathBuf {
    for file in ["kept", "deep/kept"] {
        scratch.file(&format!("w/{file}"), file);
    }
    for file in ["hidden/f", "deep/hidden/f"] {
        scratch.file(&format!("w/{file}"), secret);
    }
    scratch.file("outside/real", "real");
    symlink("../outside/real", scratch.path("w/link")).expect("free");
    scratch.path("w")
}

/// What differs from `before`, but for the times of directories that are written in.
fn changes(before: &Snapshot, w: &Path) -> Vec<String> {
    let allowance = Allowance {
        passing: vec![w.to_owned(), w.join("deep")],
        ..Allowance::default()
    };
    before.forbidden_changes(&Snapshot::of(w), &allowance)
}

const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

const ENDS: [[End; 3]; 2] = [
    [End::Own, End::Kill, End::Own],
    [End::Kill, End::Own, End::Kill],
];

#[test]
fn runs_in_one_directory_keep_their_denies_and_leave_nothing_in_any_order_of_ends() {
    let scratch = Scratch::new("together");
    let secret = canary();
    let w = tree(&scratch, &secret);
    let before = Snapshot::of(&w);
    let around = || Surroundings::seen_by("self", &[]);
    let before_all = around();
    let unchanged = |when: &str| {
        let mut found = changes(&before, &w);
        let new = before_all.left_in(&around(), Duration::ZERO);
        // Other programs of the machine may mount meanwhile.
        found.extend(
            new.into_iter()
                .filter(|line| line.contains(scratch.marker())),
        );
        assert!(found.is_empty(), "{when}:\n{}", found.join("\n"));
    };

    let orders = ORDERS.iter().zip(ORDERS.iter().rev());
    for ((starts, order), ends) in orders.zip(ENDS.iter().cycle()) {
        let when = format!("started {starts:?}, ended {order:?} {ends:?}");
        let numbers = starts.iter();
        let mut runs: Vec<_> = numbers
            .map(|number| Run::start(&scratch, *number))
            .collect();
        for (number, how) in order.iter().zip(ends) {
            runs.iter_mut().for_each(|run| run.holds(&secret));
            unchanged(&when);
            let at = runs.iter().position(|run| run.number == *number);
            runs.remove(at.expect("each ends once")).end(*how, &scratch);
            unchanged(&when);
        }
    }
    nothing_runs_in(&scratch);
    // What a kill leaves, the next start removes.
    let tmp = scratch.path("tmp");
    Srt::new(&scratch)
        .env("TMPDIR", &tmp)
        .host_changes(&tmp, "what kills have left goes")
        .run(&["true"])
        .succeeds();
    let left: Vec<_> = listing(&tmp)
        .iter()
        .flat_map(|name| listing(&tmp.join(name)))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(content(&scratch.path("outside/real")), "real");
}

#[test]
fn what_one_run_may_write_stays_denied_in_another() {
    let scratch = Scratch::new("another");
    let secret = canary();
    let w = tree(&scratch, &secret);
    let mut first = Run::start(&scratch, 0);
    first.holds(&secret);
    // It starts later, may write what the first may not, and ends by a kill.
    let mut second = Run::start(&scratch, 1);
    assert_eq!(
        second.act("cat hidden/f && echo new > kept && cat kept"),
        format!("{secret}new\n")
    );
    first.holds(&secret);
    assert_eq!(first.act("cat kept; echo x > link; cat link"), "new\nx\n");
    second.holds(&secret);
    second.end(End::Kill, &scratch);
    first.holds(&secret);
    assert_eq!(content(&w.join("kept")), "new\n");
    let mut third = Run::start(&scratch, 2);
    third.holds(&secret);
    first.end(End::Own, &scratch);
    third.holds(&secret);
    third.end(End::Own, &scratch);
    // The control: the acts that were refused succeed once no run denies them.
    let free = Srt::new(&scratch).allow_write(&w).current_dir(&w);
    let said = free
        .sh("cat hidden/f; rm kept link; mv deep moved && cat moved/hidden/f")
        .succeeds();
    assert_eq!(said.stdout, secret.repeat(2));
    assert_eq!(listing(&w), ["hidden", "moved"]);
}
