//! Each file layer holds alone: mounts only, Landlock only, and both.
//!
//! Run with `cargo test --features test-hooks --test filesystem_layers`. Without the feature
//! all that is left is the test that the switch itself is not built in.
//!
//! Landlock grants and cannot subtract: what `denyRead` hides, and `denyWrite` below a grant,
//! are kept by mounts alone, as are changes of metadata.

#[cfg(feature = "test-hooks")]
mod harness;

#[cfg(not(feature = "test-hooks"))]
#[path = "harness/shipped.rs"]
mod shipped;

#[cfg(not(feature = "test-hooks"))]
#[test]
fn the_shipped_binary_has_no_switch_for_layers() {
    shipped::has_no_switch("SRT_TEST_LAYERS");
}

#[cfg(feature = "test-hooks")]
mod each_layer {
    use std::fs;

    use super::harness::{self, Scratch, Srt, canary, content, listing};

    const LANDLOCK: [&str; 3] = ["both", "mounts", "landlock"];
    const MOUNTS: [&str; 2] = ["both", "mounts"];

    #[test]
    fn what_is_not_granted_cannot_be_read_where_the_root_is_hidden() {
        let scratch = Scratch::new("closed");
        let canary = canary();
        let (mine, other) = (
            scratch.file("cwd/mine", "mine\n"),
            scratch.file("other/f", &canary),
        );
        let script = format!(
            "cat {} {}; cat /etc/shadow; cp {1} copied; head -c 9 /usr/bin/env >/dev/null && echo base; \
             cat < {1}; /usr/bin/python3 -c 'print(open(\"{1}\").read())'; true",
            mine.display(),
            other.display()
        );
        let srt = || Srt::new(&scratch).allow_write(scratch.path("cwd"));
        assert!(srt().layers("landlock").sh(&script).shows(&canary));
        fs::remove_file(scratch.path("cwd/copied")).expect("the control made it");
        for layers in LANDLOCK {
            let ran = srt().deny_read("/").layers(layers).sh(&script).succeeds();
            assert_eq!(ran.stdout, "mine\nbase\n", "{layers}: {}", ran.stderr);
            assert_eq!(listing(&scratch.path("cwd")), ["mine"], "{layers}");
        }
        // Names rest on mounts.
        let list = format!("ls {}", scratch.path("other").display());
        for layers in LANDLOCK {
            let ran = srt().deny_read("/").layers(layers).sh(&list);
            assert_eq!(
                ran.stdout == "f\n",
                layers == "landlock",
                "{layers}: {}",
                ran.stderr
            );
        }
    }

    #[test]
    fn one_layer_can_be_switched_off() {
        let scratch = Scratch::new("switch");
        let file = scratch.file("secret", "s");
        let script = format!(
            "cat {}; grep -c ' ro,' /proc/self/mountinfo; true",
            file.display()
        );
        let run = |layers| {
            Srt::new(&scratch)
                .deny_read(&file)
                .layers(layers)
                .sh(&script)
                .stdout
        };
        assert!(!run("both").starts_with('s'));
        assert!(!run("mounts").starts_with('s'));
        assert!(
            run("landlock").starts_with('s'),
            "Landlock alone hides nothing"
        );
    }

    #[test]
    fn nothing_is_written_outside_the_granted_paths() {
        for layers in LANDLOCK {
            let scratch = Scratch::new("outside");
            let (work, victim) = (scratch.dir("work"), scratch.file("x/f", "original"));
            scratch.file("work/a", "a");
            let script = "for act in 'echo n > x/f' 'echo n >> x/f' 'truncate -s 0 x/f' 'mkdir x/d' 'touch x/n' 'cp work/a x/c'
                'ln work/a x/h' 'ln x/f work/h' 'ln -s a x/s' 'mv work/a x/m' 'mv x/f x/g' 'mkfifo x/p' 'rm x/f' 'rmdir x'; do
                sh -c \"$act\" 2>/dev/null && echo \"$act\"; done; echo w > work/w; true"
                .replace("'\n                '", "' '");
            let srt = || {
                Srt::new(&scratch)
                    .layers(layers)
                    .current_dir(scratch.path(""))
            };

            let ran = srt().allow_write(&work).sh(&script).succeeds();
            assert_eq!(ran.stdout, "", "{layers}");
            assert_eq!(content(&victim), "original", "{layers}");
            assert_eq!(listing(&scratch.path("x")), ["f"], "{layers}");
            assert_eq!(listing(&work), ["a", "w"], "{layers}");

            let control = srt().allow_write(scratch.path("")).sh(&script).succeeds();
            assert!(
                control.stdout.lines().count() >= 10,
                "{layers}: {}",
                control.stdout
            );
        }
    }

    #[test]
    fn writing_through_a_link_is_judged_where_it_lands() {
        for layers in LANDLOCK {
            let scratch = Scratch::new("through");
            let (work, victim) = (scratch.dir("work"), scratch.file("x/f", "original"));
            let script = format!(
                "cd {}; ln -s {} l; echo new > l; rm l",
                work.display(),
                victim.display()
            );

            Srt::new(&scratch)
                .layers(layers)
                .allow_write(&work)
                .sh(&script)
                .succeeds();
            assert_eq!(content(&victim), "original", "{layers}");
            Srt::new(&scratch)
                .layers(layers)
                .allow_write(&work)
                .allow_write(&victim)
                .sh(&script)
                .succeeds();
            assert_eq!(content(&victim), "new\n", "{layers}");
        }
    }

    #[test]
    fn a_grant_below_a_deny_opens_nothing() {
        for layers in LANDLOCK {
            let scratch = Scratch::new("precedence");
            let work = scratch.dir("a/b");
            let script = format!("echo w > {}/f; true", work.display());

            let denied = Srt::new(&scratch)
                .layers(layers)
                .allow_write(&work)
                .deny_write(scratch.path("a"));
            denied.sh(&script).succeeds();
            assert!(listing(&work).is_empty(), "{layers}");
            Srt::new(&scratch)
                .layers(layers)
                .allow_write(&work)
                .sh(&script)
                .succeeds();
            assert_eq!(listing(&work), ["f"], "{layers}");
        }
    }

    #[test]
    fn what_builds_do_works_in_a_granted_directory() {
        for layers in LANDLOCK {
            let scratch = Scratch::new("builds");
            let work = scratch.dir("work");
            let script = "mkdir -p a/b c && echo x > a/f && ln a/f c/hard && mv a/f c/f && mv a/b c/b && ln -s c/f soft && mkfifo p
                truncate -s 1M sparse && chmod 755 c/f && rm -r a && tar cf t.tar c && mkdir out && tar xpf t.tar -C out && mktemp";
            let srt = Srt::new(&scratch)
                .layers(layers)
                .allow_write(&work)
                .current_dir(&work);
            srt.sh(script).succeeds();
            assert_eq!(
                listing(&work),
                ["c", "out", "p", "soft", "sparse", "t.tar"],
                "{layers}"
            );
            assert_eq!(listing(&work.join("out/c")), ["b", "f", "hard"], "{layers}");
        }
    }

    #[test]
    fn files_of_the_kernel_cannot_be_opened_for_writing() {
        for layers in LANDLOCK {
            let scratch = Scratch::new("kernel");
            let script = "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/self/oom_score_adj /proc/sysrq-trigger /sys/power/state; do
                (exec 3>>$f) 2>/dev/null && echo open $f; done; true";
            assert!(
                harness::outside(script)
                    .stdout
                    .contains("open /proc/self/oom_score_adj")
            );
            assert_eq!(
                Srt::new(&scratch).layers(layers).sh(script).stdout,
                "",
                "{layers}"
            );
        }
    }

    #[test]
    fn links_of_proc_do_not_lead_around_a_write_rule() {
        for layers in LANDLOCK {
            let scratch = Scratch::new("proc-links");
            let victim = scratch.file("x/f", "original");
            let script = format!(
                "for p in /proc/[0-9]* /proc/self; do echo n > $p/root{0}; echo n > $p/cwd/../x/f; done; exec 3<{0}; echo n > /proc/self/fd/3; true",
                victim.display()
            );
            Srt::new(&scratch).layers(layers).sh(&script).succeeds();
            assert_eq!(content(&victim), "original", "{layers}");
            Srt::new(&scratch)
                .layers(layers)
                .allow_write(&victim)
                .sh(&script)
                .succeeds();
            assert_eq!(content(&victim), "n\n", "{layers}");
        }
    }

    #[test]
    fn hidden_files_stay_hidden_by_mounts_alone() {
        for layers in MOUNTS {
            let scratch = Scratch::new("hidden");
            let canary = canary();
            let file = scratch.file("secret/f", &canary);
            let script = format!(
                "cat {0}; ls {1}; cat /proc/self/root{0}; true",
                file.display(),
                scratch.path("secret").display()
            );

            let hidden = Srt::new(&scratch)
                .layers(layers)
                .deny_read(scratch.path("secret"));
            assert!(!hidden.sh(&script).succeeds().shows(&canary), "{layers}");
            assert!(
                Srt::new(&scratch)
                    .layers(layers)
                    .sh(&script)
                    .succeeds()
                    .shows(&canary),
                "{layers}"
            );
        }
    }

    #[test]
    fn denied_names_stay_in_their_places_by_mounts_alone() {
        for layers in MOUNTS {
            let scratch = Scratch::new("places");
            let work = scratch.dir("work");
            scratch.file("work/a/denied", "original");
            scratch.file("work/new", "new");
            let script = "mv -f new a/denied; ln -f new a/denied; rm -f a/denied; mv a/denied x; mv a b; rm -rf a; true";
            let srt = || {
                Srt::new(&scratch)
                    .layers(layers)
                    .allow_write(&work)
                    .current_dir(&work)
            };
            let denied = srt().deny_write("a/denied");
            denied.sh(script).succeeds();
            assert_eq!(content(&work.join("a/denied")), "original", "{layers}");
            srt().sh(script).succeeds();
            assert!(!work.join("a").exists(), "{layers}");
        }
    }

    #[test]
    fn what_is_shown_again_below_a_hidden_directory_is_all_that_is_seen_by_mounts_alone() {
        for layers in MOUNTS {
            let scratch = Scratch::new("again");
            scratch.file("top/x", "hidden-x");
            scratch.file("top/in/y", "shown-y");
            scratch.file("top/in/deep/z", "hidden-z");
            let script =
                "cat top/x top/in/y top/in/deep/z; touch top/n top/in/n top/in/deep/n; true";
            let srt = || {
                Srt::new(&scratch)
                    .layers(layers)
                    .current_dir(scratch.path(""))
            };
            let open = srt().sh(script).succeeds();
            assert_eq!(open.stdout, "hidden-xshown-yhidden-z", "{layers}");
            let ruled = srt()
                .deny_read("top")
                .allow_read("top/in")
                .deny_read("top/in/deep");
            assert_eq!(ruled.sh(script).succeeds().stdout, "shown-y", "{layers}");
        }
    }

    #[test]
    fn a_host_fifo_is_closed_to_writers_by_landlock_alone() {
        for layers in ["both", "landlock"] {
            let scratch = Scratch::new("fifo");
            let fifo = scratch.path("fifo");
            harness::outside(&format!("mkfifo {}", fifo.display())).succeeds();
            // Opened for both ends, so that nobody waits for the other.
            let script = format!(
                "(exec 3<>{}) 2>/dev/null && echo open; true",
                fifo.display()
            );
            let srt = || Srt::new(&scratch).layers(layers);
            assert_eq!(srt().allow_write(&fifo).sh(&script).stdout, "open\n");
            assert_eq!(srt().sh(&script).succeeds().stdout, "", "{layers}");
        }
    }

    #[test]
    fn device_nodes_cannot_be_made_by_either_layer() {
        for layers in LANDLOCK {
            let scratch = Scratch::new("nodes");
            let work = scratch.dir("work");
            let script = format!("mknod {0}/c c 1 3; mknod {0}/f p; true", work.display());
            let srt = Srt::new(&scratch).layers(layers).allow_write(&work);
            srt.sh(&script).succeeds();
            assert_eq!(listing(&work), ["f"], "{layers}");
        }
    }

    #[test]
    fn write_denies_below_a_grant_hold_by_mounts_alone() {
        for layers in MOUNTS {
            let scratch = Scratch::new("below");
            let (work, kept) = (scratch.dir("work"), scratch.file("work/a/kept", "original"));
            let script = format!(
                "cd {}; echo n > a/kept; rm -f a/kept; mv a b; echo n > new; mv -f new a/kept; true",
                work.display()
            );
            let srt = || Srt::new(&scratch).layers(layers).allow_write(&work);

            srt().deny_write(&kept).sh(&script).succeeds();
            assert_eq!(content(&kept), "original", "{layers}");
            srt().sh(&script).succeeds();
            assert!(!kept.exists(), "{layers}");
        }
    }

    #[test]
    fn metadata_is_kept_by_mounts_alone() {
        for layers in MOUNTS {
            let scratch = Scratch::new("metadata");
            let victim = scratch.file("x/f", "original");
            harness::outside(&format!("chmod 644 {}", victim.display())).succeeds();
            let script = format!(
                "chmod 600 {0}; touch -d @1 {0}; stat -c '%a %Y' {0}",
                victim.display()
            );

            let ran = Srt::new(&scratch).layers(layers).sh(&script).succeeds();
            assert!(
                ran.stdout.starts_with("644 ") && !ran.stdout.contains(" 1\n"),
                "{layers}"
            );
            let granted = Srt::new(&scratch)
                .layers(layers)
                .allow_write(&victim)
                .sh(&script);
            assert_eq!(granted.stdout, "600 1\n", "{layers}");
        }
    }
}
