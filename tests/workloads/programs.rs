//! Programs of npm whose processes speak to each other by sockets of their own: installed with
//! the profile, then run with no host allowed.

use std::path::{Path, PathBuf};

use super::harness::{Scratch, Srt, skip};
use super::profiles::{assert_quiet, outside, with_profile};
use super::{Npm, hosts, run, tree};

#[test]
fn tsx_runs_a_program_and_again_what_its_process_told_it_of() {
    let scratch = Scratch::new("tsx");
    let projects = match installed(&scratch, "tsx") {
        Ok(projects) => projects,
        Err(reason) => return skip(reason),
    };
    // Which files were loaded, `watch` knows from the program, over a socket in TMPDIR.
    let script = r#"set -e
tsx() { exec node_modules/.bin/tsx "$@"; }
says() { grep -q "$1" said; }
again() { for _ in $(seq 60); do "$@" && return; sleep 0.5; done; cat said; return 1; }
echo 'import { word } from "./word"; console.log(word as string);' >main.ts
echo 'export const word: string = "first";' >word.ts
(tsx main.ts)
tsx watch --clear-screen=false main.ts >said 2>&1 &
again says first
# A change that comes before the file is watched is not seen.
changed() { echo 'export const word: string = "second";' >word.ts; sleep 0.5; says second; }
again changed
echo second
kill $!
"#;
    for ran in both(&scratch, &projects, script) {
        assert_eq!(ran, "first\nsecond\n");
    }
}

#[test]
fn jest_runs_tests_in_several_workers() {
    let scratch = Scratch::new("jest");
    let projects = match installed(&scratch, "jest") {
        Ok(projects) => projects,
        Err(reason) => return skip(reason),
    };
    // watchman would outlive the run outside, and wants a set-group-id directory inside.
    let script = r#"set -e
for name in a b c d; do
cat >$name.test.js <<'END'
test('a worker has a channel to its parent', async () => {
    expect(process.connected).toBe(true);
    require('fs').appendFileSync('workers', `${process.pid}\n`);
    await new Promise(done => setTimeout(done, 500));
});
END
done
node_modules/.bin/jest --watchman=false --maxWorkers=2 2>said || cat said
grep '^Tests:' said
sort -u workers | wc -l
"#;
    for ran in both(&scratch, &projects, script) {
        assert_eq!(ran, "Tests:       4 passed, 4 total\n2\n");
    }
}

/// Installs a package twice, outside and in a sandbox, and returns both projects.
fn installed(scratch: &Scratch, package: &str) -> Result<[PathBuf; 2], &'static str> {
    let npm = Npm::find().ok_or("npm does not run here")?;
    let words = ["npm", "install", package, "--loglevel", "http"];
    let words = [&words[..], &["--registry", &npm.registry]].concat();
    let project = |name: &str| {
        scratch.file(&format!("{name}/package.json"), r#"{"name":"demo"}"#);
        scratch.path(name)
    };
    let control = project("outside");
    let ran = run(outside(&words, scratch).current_dir(&control));
    if ran.status != 0 {
        return Err("npm's registry does not answer outside either");
    }
    let asked = hosts(&ran, "http fetch", "://");

    let inside = project("inside");
    let srt = with_profile(scratch, "node", &asked).allow_write(&inside);
    let ran = run(&mut srt.current_dir(&inside).into_command(&words)).succeeds();
    assert_quiet(&ran);
    let packages = |of: &Path| tree(&of.join("node_modules")).len();
    assert_eq!(packages(&inside), packages(&control));
    Ok([control, inside])
}

/// Runs a script in the first project outside, in the second in a sandbox; returns what it said.
fn both(scratch: &Scratch, [control, inside]: &[PathBuf; 2], script: &str) -> [String; 2] {
    let words = ["sh", "-c", script];
    let mut command = outside(&words, scratch);
    command.current_dir(control).env("TMPDIR", scratch.dir("t"));
    let control = run(&mut command).succeeds();
    let srt = Srt::new(scratch).allow_write(inside).current_dir(inside);
    let inside = run(&mut srt.into_command(&words)).succeeds();
    [control.stdout, inside.stdout]
}
