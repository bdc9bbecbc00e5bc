//! A denied path that is a link is kept as a name too: the link stays in its place, and leads
//! where it led.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::harness::{Scratch, Srt, canary};
use super::{content, listing, python};

/// Acts on the link `dir/conf`, which leads to `real`, in the directory of the first word, by their
/// names in the others. Says of each what came of it.
const ACTS: &str = "
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def over_by_link():
    os.symlink('mine', 'other')
    try:
        os.rename('other', 'dir/conf')
    except OSError:
        os.unlink('other')
        raise
def write(path):
    with open(path, 'w') as file:
        file.write('new')
acts = {
    'unlink': lambda: os.unlink('dir/conf'),
    'away': lambda: os.rename('dir/conf', 'gone'),
    'over': lambda: os.rename('mine', 'dir/conf'),
    'over-by-link': over_by_link,
    'exchange': lambda: exchange('mine', 'dir/conf'),
    'exchange-directory': lambda: exchange('dir/conf', 'empty'),
    'by-directory': lambda: (os.unlink('dir/conf'), os.mkdir('dir/conf')),
    'ln': lambda: subprocess.run(['ln', '-sfn', '../mine', 'dir/conf'], check=True),
    'hard-link': lambda: os.link('dir/conf', 'hard', follow_symlinks=False),
    'times': lambda: os.utime('dir/conf', (1, 1), follow_symlinks=False),
    'owner': lambda: os.lchown('dir/conf', os.getuid(), os.getgid()),
    'parent': lambda: os.rename('dir', 'dir2'),
    'exchange-parent': lambda: exchange('dir', 'empty'),
    'target': lambda: os.rename('real', 'real2'),
    'write': lambda: write('dir/conf' if os.path.isfile('real') else 'dir/conf/f'),
}
os.chdir(sys.argv[1])
for name in sys.argv[2:] or acts:
    try:
        acts[name]()
        print(name, 'done')
    except (OSError, subprocess.CalledProcessError):
        print(name, 'refused')
";

/// What an act could change: everything but the times of directories.
type State = BTreeMap<PathBuf, (Vec<u64>, String)>;

fn state(dir: &Path) -> State {
    let mut state = State::new();
    let mut ahead = vec![dir.to_owned()];
    while let Some(path) = ahead.pop() {
        let meta = path.symlink_metadata().expect("the test made it");
        let owners = [meta.ino(), meta.mode().into(), meta.uid().into()];
        let times = [meta.nlink(), meta.mtime() as u64, meta.ctime_nsec() as u64];
        let (numbers, text) = match () {
            () if meta.is_symlink() => {
                let target = fs::read_link(&path).expect("it is a link");
                ([owners, times].concat(), target.display().to_string())
            }
            () if meta.is_dir() => {
                ahead.extend(listing(&path).into_iter().map(|name| path.join(name)));
                (owners.to_vec(), String::new())
            }
            () => ([owners, times].concat(), content(&path)),
        };
        state.insert(path, (numbers, text));
    }
    state
}

/// Makes `dir/conf`, which leads to `real`, a directory with `f` in it or a file.
fn tree(scratch: &Scratch, real: &str) -> PathBuf {
    let work = scratch.dir("work");
    scratch.file(&format!("work/{real}"), "original");
    scratch.file("work/mine", "mine");
    scratch.dir("work/empty");
    symlink("../real", scratch.dir("work/dir").join("conf")).expect("the name is free");
    work
}

#[test]
fn a_denied_link_cannot_be_removed_moved_replaced_or_changed() {
    for real in ["real/f", "real"] {
        let scratch = Scratch::new("held");
        let work = tree(&scratch, real);
        let before = state(&work);
        let mut acts = Vec::new();
        for denying in [Srt::deny_write, Srt::deny_read] {
            let srt = denying(Srt::new(&scratch), work.join("dir/conf"));
            let ran = python(srt.allow_write(&work), ACTS, &[&work]).succeeds();
            let answers = ran.stdout.lines().map(|line| line.split_once(' '));
            acts = answers
                .map(|answer| answer.expect("two words"))
                .inspect(|(act, answer)| assert_eq!(*answer, "refused", "{act} {real}"))
                .map(|(act, _)| act.to_owned())
                .collect();
            assert_eq!(state(&work), before);
        }
        assert!(acts.len() >= 15, "{acts:?}");
        for act in &acts {
            let control = Scratch::new("held-control");
            let work = tree(&control, real);
            let before = state(&work);
            let srt = Srt::new(&control).allow_write(&work);
            let ran = python(srt, ACTS, &[&work, Path::new(act)]).succeeds();
            assert!(ran.stdout.ends_with(" done\n"), "{}", ran.stdout);
            assert_ne!(state(&work), before, "{act} changes nothing: no control");
        }
    }
}

#[test]
fn a_held_link_is_followed_as_before_and_what_is_beside_it_is_free() {
    let scratch = Scratch::new("held-use");
    let work = tree(&scratch, "real/f");
    let script = format!(
        "cd {} && readlink dir/conf && cat dir/conf/f && ls -l dir | grep -c 'conf -> ' && \
         stat -c %F dir/conf && find . -name conf -type l && tar cf - dir | tar tf - && \
         echo > dir/new && mv dir/new dir/moved && rm mine && mv empty full",
        work.display()
    );
    let plain = Srt::new(&scratch).allow_write(&work).sh(&script);
    let plain = plain.succeeds().stdout;
    assert!(plain.starts_with("../real\noriginal"), "{plain}");
    fs::remove_dir_all(&work).expect("the test made it");
    let work = tree(&scratch, "real/f");
    let srt = Srt::new(&scratch).deny_write(work.join("dir/conf"));
    assert_eq!(srt.allow_write(&work).sh(&script).succeeds().stdout, plain);
    assert_eq!(listing(&work), ["dir", "full", "real"]);
    assert_eq!(listing(&work.join("dir")), ["conf", "moved"]);
}

#[test]
fn every_link_of_a_chain_is_held() {
    let scratch = Scratch::new("chain");
    let (work, other) = (scratch.dir("work"), scratch.dir("other/deep"));
    scratch.file("work/real/f", "original");
    // From outside, over both granted trees, through a directory that is a link.
    symlink(work.join("a"), scratch.path("outer")).expect("free");
    symlink("b/c", work.join("a")).expect("free");
    symlink(&other, work.join("b")).expect("free");
    symlink("../../work/real", other.join("c")).expect("free");
    let links = [work.join("a"), work.join("b"), other.join("c")];
    let srt = || {
        let srt = Srt::new(&scratch).allow_write(&work);
        srt.allow_write(scratch.path("other"))
    };
    let denied = || srt().deny_write(scratch.path("outer"));

    for link in &links {
        let script = format!(
            "rm {0}; mkdir {0}; mv {1} {1}.old; echo new > {2}/f",
            link.display(),
            link.parent().expect("it has one").display(),
            scratch.path("outer").display()
        );
        denied().sh(&script).fails();
        assert!(links.iter().all(|link| link.is_symlink()), "{link:?}");
        assert_eq!(content(&scratch.path("outer/f")), "original");
    }
    let shown = denied().flags(&["--dry-run"]).run(&["true"]).succeeds();
    for link in &links {
        let line = format!("mount: hold the link {}\n", link.display());
        assert!(shown.stdout.contains(&line), "{}", shown.stdout);
    }
    for link in &links {
        srt().sh(&format!("rm {}", link.display())).succeeds();
        assert!(!link.is_symlink(), "without the rule the same act succeeds");
    }
}

/// Makes `work/conf`, whose text goes down to `x/way` and up again before it names `real`.
fn crossing(scratch: &Scratch) -> PathBuf {
    let work = scratch.dir("work");
    scratch.file("work/real/f", "original");
    scratch.dir("work/x/way");
    symlink("x/way/../../real", work.join("conf")).expect("free");
    // What it would lead to over a link in place of `x` or `x/way`.
    scratch.dir("evil/below/deep/way");
    scratch.file("evil/below/real/f", "evil");
    scratch.file("evil/real/f", "evil");
    work
}

#[test]
fn a_directory_that_a_link_leads_through_cannot_be_put_elsewhere() {
    for name in ["x/way", "x"] {
        let [denied, control] = ["crossed", "crossed-control"].map(Scratch::new);
        let [work, free] = [&denied, &control].map(crossing);
        let script = |scratch: &Scratch| {
            let (work, evil) = (scratch.path("work"), scratch.path("evil/below/deep"));
            let [work, evil] = [work, evil].map(|path| path.display().to_string());
            format!("cd {work} && mv {name} old && ln -s {evil} {name}")
        };
        let srt = Srt::new(&denied).allow_write(&work);
        let ran = srt.deny_write(work.join("conf")).sh(&script(&denied));
        ran.fails();
        assert_eq!(content(&work.join("conf/f")), "original", "{name}");
        let srt = Srt::new(&control).allow_write(&free);
        srt.sh(&script(&control)).succeeds();
        assert_eq!(content(&free.join("conf/f")), "evil", "{name}: no control");
    }
}

#[test]
fn a_link_through_a_directory_that_could_be_made_is_refused() {
    let scratch = Scratch::new("crossed-missing");
    let work = crossing(&scratch);
    symlink("missing/../real", work.join("lost")).expect("free");
    let srt = || Srt::new(&scratch).deny_write(work.join("lost"));

    let ran = srt().allow_write(&work).run(&["true"]);
    ran.is_refused("work/missing, which does not exist in a writable directory");
    srt().run(&["true"]).succeeds();
}

#[test]
fn of_a_dangling_link_the_name_is_held_and_the_target_is_judged_where_it_lies() {
    let scratch = Scratch::new("dangling");
    let (work, outside) = (scratch.dir("work"), scratch.dir("outside"));
    let link = work.join("conf");
    symlink(outside.join("later"), &link).expect("free");
    let script = format!("echo new > {0}; rm {0}", link.display());
    let srt = || Srt::new(&scratch).allow_write(&work);

    srt().deny_write(&link).sh(&script).fails();
    assert!(link.is_symlink() && listing(&outside).is_empty());
    // Where it could be made, nothing would keep it from being written.
    let refused = srt().allow_write(&outside).deny_write(&link);
    refused
        .run(&["true"])
        .is_refused("does not exist in a writable directory");
    srt().allow_write(&outside).sh(&script).succeeds();
    assert_eq!(
        (listing(&work), listing(&outside)),
        (vec![], vec!["later".to_owned()])
    );
}

#[test]
fn what_a_denied_link_leads_to_is_hidden_by_all_its_names() {
    let scratch = Scratch::new("hidden-link");
    let work = scratch.dir("work");
    let secret = canary();
    scratch.file("store/keys/key", &secret);
    scratch.file("work/own/key", "own");
    symlink(scratch.path("store/keys"), work.join("keys")).expect("free");
    let script = format!(
        "cat {0}/keys/key {1}/store/keys/key; cd {0} && rm keys && ln -s own keys",
        work.display(),
        scratch.path("").display()
    );
    let srt = || Srt::new(&scratch).allow_write(&work);

    let ran = srt().deny_read(work.join("keys")).sh(&script);
    assert!(!ran.shows(&secret));
    ran.fails();
    assert_eq!(content(&work.join("keys/key")), secret);
    assert!(srt().sh(&script).succeeds().shows(&secret));
    assert_eq!(content(&work.join("keys/key")), "own", "no control");
}

#[test]
fn a_store_of_secrets_behind_a_link_is_hidden_and_its_name_held() {
    let scratch = Scratch::new("store-link");
    let secret = canary();
    scratch.file("dotfiles/aws/credentials", &secret);
    let home = scratch.dir("home");
    symlink("../dotfiles/aws", home.join(".aws")).expect("free");
    let script = format!(
        "cat {0}/.aws/credentials {0}/../dotfiles/aws/credentials; rm {0}/.aws",
        home.display()
    );
    let srt = || Srt::new(&scratch).allow_write(&home);

    let ran = srt().sh(&script);
    assert!(!ran.shows(&secret));
    ran.fails();
    assert!(home.join(".aws").is_symlink());
    let opened = srt().allow_read(scratch.path("dotfiles/aws"));
    assert!(opened.sh(&script).succeeds().shows(&secret));
    assert!(!home.join(".aws").is_symlink());
}

#[test]
fn a_pattern_that_fits_a_planted_link_says_what_it_denies() {
    let scratch = Scratch::new("planted");
    let work = scratch.dir("work");
    let outside = scratch.file("outside/f", "f");
    symlink(&outside, work.join("x.env")).expect("free");
    scratch.file("work/y.env", "y");
    let pattern = format!("{}/*.env", work.display());
    let srt = || Srt::new(&scratch).allow_write(&work);
    let cat = format!("cat {}", outside.display());

    let ran = srt().deny_read(&pattern).sh(&cat).succeeds();
    assert_eq!(ran.stdout, "", "what the link leads to is hidden");
    let said = format!("leads to is denied too, {}", outside.display());
    assert!(ran.stderr.contains(&said), "{}", ran.stderr);
    fs::remove_file(work.join("x.env")).expect("the test made it");
    let ran = srt().deny_read(&pattern).sh(&cat).succeeds();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("f", ""));
}

#[test]
fn a_home_a_workspace_and_grants_behind_links_work() {
    let scratch = Scratch::new("linked");
    let disk = scratch.dir("disk");
    for name in ["house", "project", "cache"] {
        scratch.dir(&format!("disk/{name}"));
        symlink(disk.join(name), scratch.path(name)).expect("free");
    }
    scratch.file("disk/project/closed", "closed");
    let srt = Srt::new(&scratch)
        .env("HOME", scratch.path("house"))
        .env("PWD", scratch.path("project"))
        .current_dir(scratch.path("project"))
        .allow_write(".")
        .allow_write("~/state/")
        .allow_write(scratch.path("cache"))
        .deny_write("closed");
    let script = "set -e; pwd; pwd -P; echo 1 > here; echo 2 > $HOME/state/f; echo 3 > ../cache/f
        echo 4 > $OLD/f; ! echo 5 > closed; ! echo 6 > $PWD/closed; ! echo 7 > $HOME/f";
    let ran = srt.env("OLD", scratch.path("cache")).sh(script).succeeds();
    let dirs = format!(
        "{}\n{}\n",
        scratch.path("project").display(),
        disk.join("project").display()
    );
    assert_eq!(ran.stdout, dirs, "{}", ran.stderr);
    assert_eq!(content(&disk.join("project/here")), "1\n");
    assert_eq!(content(&disk.join("project/closed")), "closed");
    assert_eq!(content(&disk.join("house/state/f")), "2\n");
    assert_eq!(content(&disk.join("cache/f")), "4\n");
    assert_eq!(listing(&disk.join("house")), ["state"]);
}
