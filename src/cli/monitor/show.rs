//! One event as one line for people.

use serde_json::Value;

use crate::audit::event::Code;
use crate::error::printable;

/// How events are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Show {
    in_colour: bool,
}

const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const FAINT: &str = "2";

impl Show {
    pub(super) fn new(in_colour: bool) -> Self {
        Self { in_colour }
    }

    /// Puts an event into a line without its end: `12:00:00 denied connect no.test:443 …`.
    pub(super) fn event(self, event: &Value) -> String {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        let time = printable(text("time").get(11..19).unwrap_or("--------"));
        let (word, colour) = match (text("verdict"), text("kind")) {
            ("denied", _) => ("denied", RED),
            ("failed", _) => ("failed", YELLOW),
            ("allowed", _) => ("allowed", GREEN),
            (_, "weakening") => ("weakened", YELLOW),
            (_, "limit") => ("limit", YELLOW),
            (_, kind) => (kind, FAINT),
        };
        let what = format!("{} {}", text("op"), text("target"));
        let program = event["process"]["exe"].as_str();
        let program = program.and_then(|exe| exe.rsplit('/').next());
        let program = match (program, event["process"]["pid"].as_u64()) {
            (Some(name), Some(pid)) => format!("  {name}[{pid}]"),
            (None, Some(pid)) => format!("  [{pid}]"),
            _ => String::new(),
        };
        let why = match event["verdict"] == "denied" {
            true => {
                let meaning = Code::named(text("code")).map_or("", Code::meaning);
                let reason = event["reason"].as_str().unwrap_or(meaning);
                format!("  {} ({})", reason.trim_end_matches('.'), text("code"))
            }
            false => String::new(),
        };
        let predicted = match event["predicted"] == true {
            true => "  predicted",
            false => "",
        };
        let rest = printable(&format!("{}{program}{why}{predicted}", what.trim_end()));
        format!(
            "{time} {} {rest}",
            self.coloured(&format!("{word:<8}"), colour)
        )
    }

    fn coloured(self, text: &str, colour: &str) -> String {
        match self.in_colour {
            true => format!("\u{1b}[{colour}m{}\u{1b}[0m", printable(text)),
            false => printable(text),
        }
    }
}
