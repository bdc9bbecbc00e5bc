use std::fs;
use std::os::unix::fs::symlink;

use crate::harness::{Scratch, is_root, skip};
use crate::{asking, kept, server, srt};

const ALLOW: [&str; 4] = ["ctl", "allow", "--last", "--yes"];

#[test]
fn what_was_denied_is_allowed_by_the_users_own_file_and_then_works() {
    let scratch = Scratch::new("allow");
    let target = server();
    let url = format!("http://{target}/");
    assert!(!srt(&scratch, &asking(&url)).shows("reached"));
    let file = scratch.path("home/.config/srt/settings.json");

    // Without a terminal nothing is written unasked.
    let said = srt(&scratch, &["ctl", "allow", "--last"]);
    assert_eq!(said.status, 2);
    assert!(
        said.stdout.contains(&format!("+       \"{target}\"")),
        "{said:?}"
    );
    assert!(!file.exists());

    srt(&scratch, &ALLOW).succeeds();
    let text = fs::read_to_string(&file).expect("it was written");
    assert!(
        text.contains(&format!("\"{target}\" // srt ctl allow\n")),
        "{text}"
    );
    assert_eq!(srt(&scratch, &asking(&url)).succeeds().stdout, "reached");
    assert_eq!(
        srt(&scratch, &["curl", "-s", "http://b.test/"])
            .stdout
            .matches("blocked")
            .count(),
        1
    );
}

#[test]
fn the_file_in_force_keeps_its_form_and_other_programs_file_gets_no_comment() {
    let scratch = Scratch::new("in-force");
    let old = "{\n  \"network\": {\n    \"allowedDomains\": [\n      \"a.test\",\n      \"c.test\"\n    ]\n  },\n  \"git\": {}\n}\n";
    let file = scratch.file("home/.srt-settings.json", old);
    srt(&scratch, &["curl", "-s", "http://b.test/"]);
    let said = srt(&scratch, &ALLOW).succeeds();
    assert!(
        said.stdout.contains("\n+       \"b.test:80\",\n"),
        "{}",
        said.stdout
    );
    let new = old.replace("      \"c.test\"", "      \"b.test:80\",\n      \"c.test\"");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), new);

    let again = srt(&scratch, &ALLOW);
    assert_eq!(again.status, 1);
    assert!(
        again.stdout.contains("allows all the rest already"),
        "{again:?}"
    );
    assert_eq!(fs::read_to_string(&file).expect("it is there"), new);
    assert!(!scratch.path("home/.config/srt/settings.json").exists());
}

#[test]
fn a_rule_that_denies_is_taken_out_and_the_host_listed() {
    let scratch = Scratch::new("take-out");
    let target = server();
    let url = format!("http://{target}/");
    let old = "{ \"network\": { \"deniedDomains\": [\"app.localhost\", \"x.test\"] } }";
    let file = scratch.file("home/.srt-settings.json", old);
    assert!(!srt(&scratch, &asking(&url)).shows("reached"));
    srt(&scratch, &ALLOW).succeeds();
    let text = fs::read_to_string(&file).expect("it is there");
    assert!(
        !text.contains("\"app.localhost\"") && text.contains("\"x.test\""),
        "{text}"
    );
    assert_eq!(
        srt(&scratch, &asking(&url)).succeeds().stdout,
        "reached",
        "{text}"
    );
}

#[test]
fn a_link_to_the_file_stays_one() {
    let scratch = Scratch::new("link");
    scratch.dir("home");
    let file = scratch.file("dotfiles/srt", "{}\n");
    let link = scratch.path("home/.srt-settings.json");
    symlink(&file, &link).expect("ours");
    srt(&scratch, &["curl", "-s", "http://b.test/"]);
    srt(&scratch, &ALLOW).succeeds();
    assert!(link.is_symlink());
    assert!(
        fs::read_to_string(&file)
            .expect("there")
            .contains("b.test:80")
    );
}

#[test]
fn neither_a_named_file_nor_a_projects_is_written() {
    let scratch = Scratch::new("others");
    let named = scratch.file("s.json", "{}");
    let name = named.to_str().expect("test paths are UTF-8");
    srt(&scratch, &["-s", name, "curl", "-s", "http://b.test/"]);
    let said = srt(&scratch, &ALLOW).succeeds();
    assert!(
        said.stdout
            .contains("add `b.test:80` to network.allowedDomains"),
        "{said:?}"
    );
    assert_eq!(fs::read_to_string(&named).expect("there"), "{}");
    assert!(!scratch.path("home/.config/srt/settings.json").exists());

    let project = scratch.file("cwd/.srt.json", "{}");
    srt(&scratch, &["curl", "-s", "http://c.test/"]);
    srt(&scratch, &ALLOW).succeeds();
    assert_eq!(fs::read_to_string(&project).expect("there"), "{}");
    let own = scratch.path("home/.config/srt/settings.json");
    assert!(
        fs::read_to_string(own)
            .expect("there")
            .contains("c.test:80")
    );
}

#[test]
fn where_nothing_can_be_allowed_that_is_said() {
    let scratch = Scratch::new("nothing");
    let said = srt(&scratch, &ALLOW);
    assert_eq!(said.status, 1);
    assert!(
        said.stdout.contains("no run was denied anything"),
        "{said:?}"
    );
    let mut homeless = crate::command(&scratch, &ALLOW);
    let said = crate::harness::run(homeless.env_remove("HOME"));
    assert_eq!(said.status, 2);
    assert!(said.stderr.contains("HOME"), "{said:?}");
}

#[test]
fn a_record_that_is_damaged_is_said_to_be() {
    let scratch = Scratch::new("damaged");
    srt(&scratch, &["curl", "-s", "http://b.test/"]);
    let record = kept(&scratch).remove(0);
    for text in ["", "{", "{\"v\":1}", "\u{0}"] {
        fs::write(&record, text).expect("it is ours");
        for words in [&ALLOW, &["ctl", "explain", "--last", "1"]] {
            let said = srt(&scratch, words);
            assert_eq!(said.status, 2, "{text:?}");
            assert!(said.stderr.contains("is damaged"), "{said:?}");
        }
    }
}

#[test]
fn a_command_inside_can_neither_allow_itself_more_nor_forge_what_was_denied() {
    let scratch = Scratch::new("inside");
    srt(&scratch, &["curl", "-s", "http://b.test/"]);
    let exe = env!("CARGO_BIN_EXE_srt");
    let home = scratch.path("home");
    let home = home.to_str().expect("test paths are UTF-8");
    let inside = |script: &str| {
        let words = ["-q", "--allow-write", home, "sh", "-c", script];
        srt(&scratch, &words)
    };
    inside(&format!("touch {home}/x")).succeeds();
    assert!(scratch.path("home/x").exists());
    let said = inside(&format!("HOME={home} {exe} ctl allow --last --yes"));
    assert!(
        said.stderr.contains("may not change what is allowed"),
        "{said:?}"
    );
    assert!(!scratch.path("home/.config/srt/settings.json").exists());
    let dir = "home/.local/state/srt/denied";
    let forged = scratch.path(&format!("{dir}/9999.json"));
    inside(&format!("cp {home}/{} {}", &dir[5..], forged.display()));
    inside(&format!(
        "echo x >{}; rm -rf {home}/.local/state/srt",
        forged.display()
    ));
    assert_eq!(kept(&scratch).len(), 1);
}

#[test]
fn a_file_of_another_user_is_not_written() {
    if !is_root() {
        return skip("only root finds a file of another in force");
    }
    let scratch = Scratch::new("another");
    let file = scratch.file("home/.srt-settings.json", "{}");
    srt(&scratch, &["curl", "-s", "http://b.test/"]);
    std::os::unix::fs::chown(&file, Some(12_345), None).expect("we are root");
    let said = srt(&scratch, &ALLOW);
    assert_eq!(said.status, 2);
    assert!(said.stderr.contains("another user"), "{said:?}");
    assert_eq!(fs::read_to_string(&file).expect("there"), "{}");
}
