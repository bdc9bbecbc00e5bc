//! Numbers for property tests that look random and are the same in every run: a 64-bit linear
//! congruential generator with Knuth's MMIX constants.

/// A generator; its seed is what a failure is repeated with.
pub(super) struct Generator(pub(super) u64);

impl Generator {
    /// Draws a number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits are left") % bound
    }

    /// Draws one of `choices`.
    pub(super) fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    /// Draws up to `most` of `choices`, with repeats.
    pub(super) fn some<'a>(&mut self, choices: &[&'a str], most: usize) -> Vec<&'a str> {
        let count = self.below(most + 1);
        (0..count).map(|_| self.pick(choices)).collect()
    }
}
