//! The package of the reference: installed once below the target directory, asked through node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{self, Ran, skip};

const NAME: &str = "@anthropic-ai/sandbox-runtime";
const VERSION: &str = "0.0.83";
/// Longest that fetching it may take.
const FETCH_LIMIT: Duration = Duration::from_secs(300);

/// The installed package.
#[derive(Debug)]
pub(crate) struct Package {
    modules: PathBuf,
}

/// Returns the package, or says why there is none.
pub(crate) fn reference() -> Option<&'static Package> {
    static PACKAGE: OnceLock<Result<Package, String>> = OnceLock::new();
    match PACKAGE.get_or_init(install) {
        Ok(package) => Some(package),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

impl Package {
    /// Answers questions by the package's own code; `decide.mjs` describes them.
    pub(crate) fn decide(&self, questions: &Value) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference/decide.mjs");
        let mut command = Command::new(self.node());
        command.arg(script).arg(self.root());
        let ran = harness::run_with_input(&mut command, questions.to_string().as_bytes());
        serde_json::from_str(&ran.succeeds().stdout).expect("decide.mjs prints JSON")
    }

    /// Returns its program, with the words of `srt`.
    pub(crate) fn srt(&self) -> Command {
        let mut command = Command::new(self.node());
        command.arg(self.root().join("dist/cli.js"));
        command
    }

    /// Reads its README.
    pub(crate) fn readme(&self) -> String {
        fs::read_to_string(self.root().join("README.md")).expect("the package has one")
    }

    /// Returns its directory.
    pub(crate) fn root(&self) -> PathBuf {
        self.modules.join(NAME)
    }

    fn node(&self) -> PathBuf {
        self.modules.join(".bin/node")
    }
}

/// Runs the reference, again if it does not start: it gives up looking for its helpers after a
/// second, which a busy machine may need.
pub(crate) fn patiently<T>(run: impl Fn() -> Result<T, String>) -> Result<T, String> {
    run().or_else(|_| run()).or_else(|_| run())
}

fn install() -> Result<Package, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("it is below the target directory");
    let home = target.join(format!("reference-{VERSION}"));
    let package = Package {
        modules: home.join("node_modules"),
    };
    if !home.exists() {
        let fresh = target.join(format!("reference-{VERSION}.{}", std::process::id()));
        let fetched = fetch(&fresh);
        // Another run may have put its copy there meanwhile: it is as good.
        drop(fs::rename(&fresh, &home));
        drop(fs::remove_dir_all(&fresh));
        fetched?;
    }
    let ran = answer(Command::new(package.node()).arg("--version"))?;
    match ran.status {
        0 => Ok(package),
        _ => Err(format!("the installed node does not run: {}", ran.stderr)),
    }
}

fn fetch(dir: &Path) -> Result<(), String> {
    fs::create_dir(dir)
        .and_then(|()| fs::write(dir.join("package.json"), r#"{"private":true}"#))
        .map_err(|error| format!("cannot install the reference: {}: {error}", dir.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund"])
        .args([format!("{NAME}@{VERSION}"), "node@24".to_owned()])
        .current_dir(dir);
    answer(Command::new("npm").arg("--version"))?;
    let ran = harness::run_within(&mut npm, b"", FETCH_LIMIT);
    match ran.status {
        0 => Ok(()),
        _ => {
            drop(fs::remove_dir_all(dir));
            Err("npm does not get the reference from its registry".to_owned())
        }
    }
}

fn answer(command: &mut Command) -> Result<Ran, String> {
    let program = command.get_program().to_owned();
    match command.output() {
        Ok(output) => Ok(output.into()),
        Err(error) => Err(format!("{} does not run: {error}", program.display())),
    }
}
