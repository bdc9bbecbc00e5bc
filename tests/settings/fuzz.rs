//! Files that are nearly settings, by a seed that every failure names.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_runtime::error::Kind;
use sandbox_runtime::settings::Settings;

use super::harness::Scratch;

/// Files that are taken, with most shapes of values.
const SEEDS: [&str; 4] = [
    r#"{"network":{"allowedDomains":["a.test","*.b.test:443"],"mode":"filtered","limits":{"connections":7}},"version":1}"#,
    "{\n// why\n\"filesystem\":{\"denyRead\":[\"~/.ssh\",{\"path\":\"[x]\",\"literal\":true},],\"disabled\":false},}",
    r#"{"env":{"set":{"A":"1","B":""},"deny":["@secrets"]},"limits":{"memory":"2G","seconds":1},"extends":["git"]}"#,
    r#"{"credentials":{"files":[{"path":"\u00e9","mode":"deny"}]},"ignoreViolations":{"*":["x"]},"weakeningReasons":{}}"#,
];

/// Bytes and words that matter to a reader of JSON or of settings.
const TOKENS: [&[u8]; 24] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b",",
    b":",
    b"null",
    b"true",
    b"-1",
    b"1e9",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\n",
    b"/*",
    b"//",
    b"\\ud800",
    b"\"denyRead\"",
    b"\"network\":{",
    b"18446744073709551616",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xae",
];

/// Knuth's MMIX generator.
struct Generator(u64);

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    fn mutated(&mut self) -> Vec<u8> {
        let mut bytes = SEEDS[self.below(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(12)).min(bytes.len());
            match self.below(4) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, piece);
                }
                _ => {
                    let token = TOKENS[self.below(TOKENS.len())];
                    bytes.splice(at..at, token.iter().copied());
                }
            }
        }
        bytes
    }
}

/// Reads one file; a panic names it. Returns whether it was taken.
fn is_taken(file: &Path, content: &[u8]) -> bool {
    fs::write(file, content).expect("the scratch is writable");
    let shown = String::from_utf8_lossy(content);
    match Settings::read(file) {
        Ok(settings) => {
            drop((settings.refuse_unbuilt(), settings.notes()));
            true
        }
        Err(error) => {
            let message = error.to_string();
            assert_eq!(error.kind(), Kind::Settings, "{shown}");
            assert!(message.contains("s.json"), "{shown}: {message}");
            assert!(message.len() < 20_000, "{shown}: {} bytes", message.len());
            let drives = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
            assert!(!message.contains(drives), "{shown}: {message:?}");
            false
        }
    }
}

#[test]
fn changed_files_are_taken_or_refused_and_nothing_else() {
    let scratch = Scratch::new("fuzz");
    let file = scratch.path("s.json");
    for seed in SEEDS {
        assert!(is_taken(&file, seed.as_bytes()), "{seed}");
    }
    let mut generator = Generator(1);
    let start = Instant::now();
    let (mut taken, mut refused) = (0, 0);
    while taken + refused < 4_000 && start.elapsed() < Duration::from_secs(2) {
        match is_taken(&file, &generator.mutated()) {
            true => taken += 1,
            false => refused += 1,
        }
    }
    assert!(taken > 2 && refused > 50, "{taken} {refused}");
}
