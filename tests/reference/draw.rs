//! What is drawn, from a seed that repeats it.

use std::io::Write;

/// Numbers that look drawn: SplitMix64.
#[derive(Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    /// Starts from SRT_TEST_SEED, else from a seed of its own, and prints which.
    #[allow(
        clippy::disallowed_methods,
        reason = "the test is the caller; it has no Host to read this from"
    )]
    pub(crate) fn start(test: &str) -> Self {
        let seed = match std::env::var("SRT_TEST_SEED") {
            Ok(text) => text.parse().expect("SRT_TEST_SEED is a number"),
            Err(_) => {
                let mut bytes = [0; 4];
                getrandom::fill(&mut bytes).expect("the kernel has randomness");
                u64::from(u32::from_ne_bytes(bytes))
            }
        };
        say(&format!("seed {seed}: {test}"));
        Self(seed)
    }

    /// Draws a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let end = u64::try_from(end).expect("a length fits in 64 bits");
        usize::try_from(bits % end).expect("it is below a length")
    }

    /// Draws one of `from`.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Tells whether something comes to pass that does in `percent` of all cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Prints a line that is shown whether or not the test fails.
pub(crate) fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}
