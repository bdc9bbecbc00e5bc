//! Compiles the seccomp profiles to BPF.

fn main() {}
