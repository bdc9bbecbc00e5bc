//! What is not built into the binary that is shipped.

/// Expects that the binary knows no switch with this name.
pub(crate) fn has_no_switch(name: &str) {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_srt")).expect("cargo built it");
    let holds = |text: &str| {
        binary
            .windows(text.len())
            .any(|bytes| bytes == text.as_bytes())
    };
    assert!(
        holds("SANDBOX_RUNTIME"),
        "a variable that it does know is found"
    );
    assert!(!holds(name), "{name}");
}
