//! What the file layers cost ordinary work: inside against outside, net of the launch, with both
//! layers and with each alone.

mod report;
mod work;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use report::{Limit, Line, median, publish};
use work::{Build, repository, time};

/// Runs of each, in turns.
const RUNS: usize = 20;

/// Runs of what is over soon.
const SHORT_RUNS: usize = 60;

/// Files that are opened and closed.
const OPENED: usize = 300_000;

/// Outside, with both layers, with mounts alone, with Landlock alone.
const WAYS: [Option<&str>; 4] = [None, Some("both"), Some("mounts"), Some("landlock")];

/// How this program is told to do nothing but open and close a file.
const OPEN: &str = "open-and-close";

/// One kind of work.
struct Task<'a> {
    what: &'static str,
    limit: f64,
    runs: usize,
    time: Box<dyn Fn(&Start<'_>) -> f64 + 'a>,
}

/// Makes a command of words.
type Start<'a> = dyn Fn(&[&str]) -> Command + 'a;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().collect();
    if let [_, word, file] = &arguments[..]
        && word == OPEN
    {
        return open_and_close(file);
    }
    let scratch = std::env::temp_dir().join(format!("srt-bench-files-{}", std::process::id()));
    let tree = repository(&scratch);
    let build = Build::new(&scratch);
    let settings = scratch.join("settings.json");
    let text = format!(r#"{{"filesystem":{{"allowWrite":[{scratch:?}]}}}}"#);
    std::fs::write(&settings, text).expect("the temporary directory is writable");
    let lines: Vec<_> = tasks(&scratch, &tree, &build)
        .iter()
        .flat_map(|task| task.lines(&settings))
        .collect();
    std::fs::remove_dir_all(&scratch).expect("it is ours");
    match publish("Files", &lines) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn open_and_close(file: &str) -> ExitCode {
    for _ in 0..OPENED {
        drop(File::open(file).expect("it was made"));
    }
    ExitCode::SUCCESS
}

fn tasks<'a>(scratch: &Path, tree: &Path, build: &'a Build) -> Vec<Task<'a>> {
    let tree = text(tree);
    let whole = ["find", &tree, "-size", "+1k"].map(str::to_owned);
    let status = ["git", "-C", &tree, "status", "--short"].map(str::to_owned);
    let program = text(&std::env::current_exe().expect("it runs"));
    let open = [program, OPEN.to_owned(), text(&seven_deep(scratch))];
    let archive = text(&scratch.join("tree.tar"));
    let part: Vec<_> = (0..4).map(|number| number.to_string()).collect();
    let mut tar = Command::new("tar");
    time(tar.args(["-C", &tree, "-cf", &archive]).args(part));
    let out = scratch.join("out");
    vec![
        Task {
            what: "`find` in 50,000 files, inside / outside",
            limit: 1.03,
            runs: SHORT_RUNS,
            time: simple(whole),
        },
        Task {
            what: "`git status` on 50,000 files, inside / outside",
            limit: 1.03,
            runs: SHORT_RUNS,
            time: simple(status),
        },
        Task {
            what: "`cargo build` of 7 small crates, inside / outside",
            limit: 1.03,
            runs: RUNS,
            time: Box::new(|start| build.time(start)),
        },
        Task {
            what: "`tar x` of 2,000 files, inside / outside",
            limit: 1.03,
            runs: RUNS,
            time: Box::new(move |start| {
                drop(std::fs::remove_dir_all(&out));
                std::fs::create_dir(&out).expect("the directory is ours");
                time(&mut start(&["tar", "-C", &text(&out), "-xf", &archive]))
            }),
        },
        Task {
            what: "opening and closing a file seven levels deep, inside / outside",
            limit: 1.25,
            runs: SHORT_RUNS,
            time: simple(open),
        },
    ]
}

/// The seconds that one command takes.
fn simple<'a, const N: usize>(words: [String; N]) -> Box<dyn Fn(&Start<'_>) -> f64 + 'a> {
    Box::new(move |start| {
        let words = words.each_ref().map(String::as_str);
        time(&mut start(&words))
    })
}

fn text(path: &Path) -> String {
    let text = path.to_str().expect("the temporary directory is UTF-8");
    text.to_owned()
}

/// Makes a file whose path has seven names, the depth at which Landlock was measured first.
fn seven_deep(scratch: &Path) -> PathBuf {
    let mut path = scratch.to_path_buf();
    while path.components().count() < 7 {
        path.push("level");
    }
    std::fs::create_dir_all(&path).expect("the temporary directory is writable");
    path.push("file");
    std::fs::write(&path, "x").expect("the directory is ours");
    path
}

impl Task<'_> {
    /// Measures the work each way, and in the same turns what starting costs that way.
    fn lines(&self, settings: &Path) -> Vec<Line> {
        let mut whole = [const { Vec::new() }; WAYS.len()];
        let mut launch = [const { Vec::new() }; WAYS.len()];
        for _ in 0..self.runs {
            for (index, way) in WAYS.into_iter().enumerate() {
                let start = |words: &[&str]| command(way, settings, words);
                launch[index].push(time(&mut start(&["true"])));
                whole[index].push((self.time)(&start));
            }
        }
        let [outside, inside @ ..] = whole.map(median);
        let [nothing, started @ ..] = launch.map(median);
        let limits = [Limit::AtMost(self.limit), Limit::None, Limit::None];
        let ways = inside.into_iter().zip(started);
        let rows = [
            self.what,
            "the same, mounts alone",
            "the same, Landlock alone",
        ];
        let rows = rows.into_iter().zip(limits);
        rows.zip(ways)
            .map(|((what, limit), (inside, started))| Line {
                what,
                value: (inside - (started - nothing)) / outside,
                unit: "",
                limit,
            })
            .collect()
    }
}

fn command(way: Option<&str>, settings: &Path, words: &[&str]) -> Command {
    let Some(layers) = way else {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        return command;
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    command.env("SRT_TEST_LAYERS", layers).arg("-q").arg("-s");
    command.arg(settings).arg("--").args(words);
    command
}
