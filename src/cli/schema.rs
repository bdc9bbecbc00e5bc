//! `srt ctl schema`: the JSON Schema of settings files.

use super::ctl::{Answer, print};
use crate::error::Result;
use crate::settings::json_schema::json_schema;

pub(super) fn run() -> Result<Answer> {
    // `#` pretty-prints.
    print(&format!("{:#}\n", json_schema())).map(|()| Answer::Yes)
}
