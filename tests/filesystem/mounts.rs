//! Hosts with mounts in the way, each in a mount namespace of the test's own.

use super::harness::{self, Ran, Scratch, Srt, canary, is_root, skip, wrapped};
use super::listing;

/// Starts in the scratch directory, where it may write below `path`.
fn writing(scratch: &Scratch, path: &str) -> Srt {
    Srt::new(scratch)
        .allow_write(path)
        .current_dir(scratch.path(""))
}

/// Runs a script in `srt` after `prepare`, in a mount namespace of its own.
fn after(prepare: &str, srt: Srt, script: &str) -> Ran {
    let namespace = if is_root() { "-m" } else { "-rm" };
    let prepare = format!("{prepare} && exec \"$@\"");
    let words = ["unshare", namespace, "sh", "-c", &prepare, "sh"];
    srt.watched(&["sh", "-c", script], |command| {
        harness::run(&mut wrapped(&words, command))
    })
}

#[test]
fn mounts_below_a_granted_directory_follow_the_rules() {
    let scratch = Scratch::new("nested");
    let canary = canary();
    for name in [
        "w/denied/m",
        "w/hidden/m",
        "w/free/m",
        "w/read-only/m",
        "x/m",
    ] {
        scratch.dir(name);
    }
    let prepare = format!(
        "cd {} && for d in w/denied/m w/hidden/m w/free/m w/read-only/m x/m; do mount -t tmpfs t $d && echo {canary} > $d/f; done && mount -o remount,ro,bind w/read-only/m",
        scratch.path("").display()
    );
    let script = "for d in w/denied w/hidden w/free w/read-only x; do
        cat $d/m/f >/dev/null 2>&1 && echo read $d; (echo w > $d/m/f) 2>/dev/null && echo write $d; mv $d/m $d/n 2>/dev/null && echo move $d; done; true";
    let srt = || writing(&scratch, "w");

    let control = after(&prepare, srt(), script);
    let open = "read w/denied\nwrite w/denied\nread w/hidden\nwrite w/hidden\nread w/free\nwrite w/free\nread w/read-only\nread x\n";
    assert_eq!(control.stdout, open, "{}", control.stderr);

    let ruled = srt().deny_write("w/denied").deny_read("w/hidden");
    let ran = after(&prepare, ruled, script);
    assert_eq!(
        ran.stdout, "read w/denied\nread w/free\nwrite w/free\nread w/read-only\nread x\n",
        "{}",
        ran.stderr
    );
}

#[test]
fn a_mount_point_can_be_denied_granted_and_stacked() {
    let scratch = Scratch::new("point");
    let canary = canary();
    for name in ["hidden", "kept", "open"] {
        scratch.dir(name);
    }
    let prepare = format!(
        "cd {} && for d in hidden kept open; do mount -t tmpfs t $d && mount -t tmpfs t $d && echo {canary} > $d/f; done",
        scratch.path("").display()
    );
    let script = "cat hidden/f kept/f open/f; for d in hidden kept open; do (echo w > $d/g) 2>/dev/null && echo write $d; done; true";
    let srt = || writing(&scratch, ".");

    let control = after(&prepare, srt(), script);
    assert_eq!(
        control.stdout.matches(&canary).count(),
        3,
        "{}",
        control.stderr
    );
    assert_eq!(control.stdout.matches("write").count(), 3);
    let ran = after(
        &prepare,
        srt().deny_read("hidden").deny_write("kept"),
        script,
    );
    assert_eq!(
        ran.stdout,
        format!("{canary}\n{canary}\nwrite open\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_names_of_mount_points_may_be_any_bytes() {
    let scratch = Scratch::new("point-names");
    let prepare = format!(
        "cd {} && mkdir w && for n in 'a b' \"$(printf 'a\\nb')\" 'a\\040b' \"$(printf '\\377\\302\\205')\"; do mkdir \"w/$n\" && mount -t tmpfs t \"w/$n\"; done",
        scratch.path("").display()
    );
    let srt = writing(&scratch, "w");
    // The working directory is entered before the mounts exist, so the grant is by name.
    std::fs::create_dir(scratch.path("w")).expect("the name is free");
    let prepare = prepare.replace("mkdir w && ", "");
    let script = "for d in w/*; do touch \"$d/f\" && echo written; done; touch f 2>/dev/null && echo OUT; true";
    let ran = after(&prepare, srt, script);
    assert_eq!(ran.stdout, "written\n".repeat(4), "{}", ran.stderr);
}

#[test]
fn other_names_of_a_denied_tree_are_covered_too() {
    let scratch = Scratch::new("alias");
    let canary = canary();
    scratch.file("w/denied/below/f", &canary);
    for name in ["w/whole", "w/part", "x/whole"] {
        scratch.dir(name);
    }
    let prepare = format!(
        "cd {} && mount --bind w/denied w/whole && mount --bind w/denied/below w/part && mount --bind w x/whole",
        scratch.path("").display()
    );
    let script = "for f in w/denied/below/f w/whole/below/f w/part/f x/whole/denied/below/f; do cat $f 2>/dev/null; (echo w >> $f) 2>/dev/null && echo write $f; done; true";
    let srt = || writing(&scratch, "w");

    let control = after(&prepare, srt(), script);
    assert_eq!(
        control.stdout.matches(&canary).count(),
        4,
        "{}",
        control.stderr
    );
    assert_eq!(control.stdout.matches("write").count(), 3);

    let read = after(&prepare, srt().deny_read("w/denied"), script);
    assert_eq!(read.stdout, "", "{}", read.stderr);
    let write = after(&prepare, srt().deny_write("w/denied"), script);
    assert_eq!(write.stdout.matches("write").count(), 0, "{}", write.stdout);
}

#[test]
fn other_names_of_a_store_of_secrets_show_no_more() {
    let scratch = Scratch::new("alias-store");
    let canary = canary();
    scratch.file("home/.aws/credentials", &canary);
    scratch.file("home/.npmrc", format!("_auth={canary}\nfund=false\n"));
    scratch.dir("w/alias");
    let root = scratch.path("");
    let prepare = format!("cd {} && mount --bind home w/alias", root.display());
    let script = "cat w/alias/.aws/credentials w/alias/.npmrc";
    let open = writing(&scratch, "w").set("filesystem.protectSecrets", false.into());
    let control = after(&prepare, open, script);
    assert_eq!(
        control.stdout.matches(&canary).count(),
        2,
        "{}",
        control.stderr
    );
    let ran = after(&prepare, writing(&scratch, "w"), script);
    assert!(!ran.shows(&canary), "{}", ran.stdout);
    assert_eq!(ran.stdout, "fund=false\n", "{}", ran.stderr);
}

#[test]
fn device_nodes_of_the_host_cannot_be_opened_below_a_grant() {
    let scratch = Scratch::new("nodes");
    let work = scratch.dir("w");
    if !is_root() {
        skip("only root can make the device node that the control opens");
        return;
    }
    let prepare = format!(
        "mount -t tmpfs -o dev t {0} && mknod {0}/zero c 1 5 && head -c 3 {0}/zero | wc -c",
        work.display()
    );
    let script = "head -c 3 w/zero | wc -c; ls w";
    let srt = writing(&scratch, "w");
    let ran = after(&prepare, srt, script);
    assert_eq!(ran.stdout, "3\n0\nzero\n", "{}", ran.stderr);
}

#[test]
fn no_mount_travels_out_of_the_sandbox() {
    let scratch = Scratch::new("propagation");
    let (work, tables) = (scratch.dir("w"), scratch.dir("tables"));
    let inside = format!(
        "cat /proc/self/mountinfo; until test -e {}/go; do sleep 0.01; done",
        tables.display()
    );
    let script = "cp /proc/self/mountinfo before && { \"$@\" > inside & }
        until grep -q srt-test inside; do sleep 0.01; done
        cp /proc/self/mountinfo during; touch go; wait; cp /proc/self/mountinfo after";
    let namespace = if is_root() { "-m" } else { "-rm" };
    let words = ["unshare", namespace, "--propagation", "shared"];
    let words = [&words[..], &["sh", "-c", script, "sh"]].concat();
    let srt = Srt::new(&scratch)
        .current_dir(&tables)
        .allow_write(&work)
        .deny_read(&work)
        .host_changes(&tables, "what starts the run keeps its tables there");
    srt.watched(&["sh", "-c", &inside], |srt| {
        harness::run(&mut wrapped(&words, srt))
    })
    .succeeds();

    let read = |name: &str| std::fs::read_to_string(tables.join(name)).expect("it was made");
    assert!(
        read("before").contains("shared:"),
        "nothing could travel: no control"
    );
    assert!(
        read("inside").contains(" tmpfs "),
        "the sandbox has mounts of its own"
    );
    assert_eq!(read("during"), read("before"));
    assert_eq!(read("after"), read("before"));
    assert!(listing(&work).is_empty());
}

#[test]
fn what_the_host_mounts_later_stays_outside_and_what_it_unmounts_is_gone() {
    let scratch = Scratch::new("later");
    for name in ["w/late", "w/early"] {
        scratch.dir(name);
    }
    let inside = "echo x > w/early/f; touch w/ready; until test -e w/go; do sleep 0.01; done; ls w/late; echo x > w/late/f";
    let host = "mount -t tmpfs t w/early && { \"$@\" & } && until test -e w/ready; do sleep 0.01; done
        mount -t tmpfs t w/late && touch w/late/marker && ls w/early && umount w/early && touch w/go; wait
        ls w/late; umount w/late; ls w/late; rm -f w/go w/ready w/late/f";
    let namespace = if is_root() { "-m" } else { "-rm" };
    let words = ["unshare", namespace, "--propagation", "shared"];
    let words = [&words[..], &["sh", "-c", host, "sh"]].concat();

    let mut plain = std::process::Command::new("unshare");
    let slave = ["-m", "--propagation", "slave", "sh", "-c", inside];
    plain.args(slave).current_dir(scratch.path(""));
    let control = harness::run(&mut wrapped(&words, &plain)).succeeds();
    assert_eq!(
        control.stdout, "f\nmarker\nf\nmarker\n",
        "{}",
        control.stderr
    );

    let ran = writing(&scratch, "w").watched(&["sh", "-c", inside], |srt| {
        harness::run(&mut wrapped(&words, srt))
    });
    assert_eq!(ran.stdout, "f\nmarker\nf\n", "{}", ran.stderr);
}

#[test]
fn a_working_directory_on_an_overlay_or_a_mount_of_its_own_works() {
    let scratch = Scratch::new("own-mount");
    for name in ["tmpfs", "overlay"] {
        let dir = scratch.dir(name);
        let mount = match name {
            "tmpfs" => "true",
            _ => {
                "mkdir l u w m && echo q > l/q && mount -t overlay o -o userxattr,lowerdir=l,upperdir=u,workdir=w m && cd m && touch q"
            }
        };
        let prepare = format!("mount -t tmpfs t {0} && cd {0} && {mount}", dir.display());
        let srt = Srt::new(&scratch).allow_write(".");
        let script = "echo x > x && mkdir d && mv x d/y && cat d/y && pwd; touch ../../out";
        let ran = after(&prepare, srt, script);
        let end = if name == "tmpfs" { name } else { "overlay/m" };
        let here = scratch.path(end);
        assert_eq!(
            ran.stdout,
            format!("x\n{}\n", here.display()),
            "{}",
            ran.stderr
        );
        assert_ne!(ran.status, 0, "nothing beside it is granted");
    }
}
