//! Parses the command line, runs the command, prints one message and sets the exit status.

fn main() {}
