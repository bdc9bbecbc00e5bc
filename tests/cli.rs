//! The command line as a user types it.

mod harness;

use harness::{Scratch, Srt};

#[test]
fn a_command_keeps_its_own_flags() {
    let scratch = Scratch::new("flags");
    let ran = Srt::new(&scratch)
        .run(&["python3", "-c", "print(1)"])
        .succeeds();
    assert_eq!(ran.stdout, "1\n");
}
