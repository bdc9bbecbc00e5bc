//! Denials that `ignoreViolations` leaves out of reports, and nothing else of them.

use serde_json::json;

use crate::harness::{Scratch, Srt};
use crate::{events, inside, told, tree};

#[test]
fn what_the_settings_leave_out_is_in_no_report_and_stays_denied() {
    let scratch = Scratch::new("ignored");
    let acts = ["mkdir", "create", "fine-write"];
    let lists = [
        (json!({}), 2),
        (json!({ "*": ["mkdir /"] }), 1),
        (json!({ "python3": ["ro/new"] }), 0),
        (json!({ "npm": ["ro/new"] }), 2),
        (json!({ "*": ["w/new"], "python": ["create", "mkdir"] }), 0),
    ];
    for (number, (ignored, left)) in lists.into_iter().enumerate() {
        let tree = tree(&scratch, &format!("tree-{number}"));
        let file = scratch.path(&format!("events-{number}"));
        let srt = Srt::new(&scratch).allow_write(tree.join("w")).events(&file);
        let srt = srt.top("ignoreViolations", ignored.clone());
        let ran = inside(srt, &tree, &acts).succeeds();
        let expected = "mkdir errno 30\ncreate errno 30\nfine-write done\n";
        assert_eq!(ran.stdout, expected, "{ignored}");
        assert!(!tree.join("ro/new").exists());
        assert_eq!(told(&events(&file)).len(), left, "{ignored}");
    }
}
