//! Any bytes as a settings file: taken or refused with a message that is safe to print, and the
//! same again when read again.

#![no_main]

use std::fs;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::error::Kind;
use sandbox_runtime::settings::Settings;

fuzz_target!(|content: &[u8]| {
    let file = PathBuf::from(format!("/dev/shm/srt-fuzz-{}.json", std::process::id()));
    fs::write(&file, content).expect("shared memory is writable");
    let read = || Settings::read(&file).map(|settings| format!("{:?}", settings.values));
    match (read(), read()) {
        (Ok(once), Ok(again)) => assert_eq!(once, again),
        (Err(once), Err(again)) => {
            let message = once.to_string();
            assert_eq!(message, again.to_string());
            assert_eq!(once.kind(), Kind::Settings);
            assert!(!message.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')));
        }
        (once, again) => panic!("{once:?} and then {again:?}"),
    }
});
