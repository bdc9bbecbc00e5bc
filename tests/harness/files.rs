//! Files of the host, as they are.

use std::fs;
use std::path::Path;

/// Lists a directory of the host, sorted.
pub fn listing(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("the test made it");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("the directory is readable").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Reads a file of the host.
pub fn content(file: &Path) -> String {
    fs::read_to_string(file).expect("the test made it")
}
