//! `srt ctl completions SHELL`: a script by which the shell completes `srt`.
//!
//! Flags and words come from the definitions of the command line. The words of the command
//! that `srt` runs are left to the completion of that command.

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use super::ctl::{Answer, print};
use super::whole_command;
use crate::error::Result;

/// What `srt ctl completions` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// for which shell
    shell: Supported,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Supported {
    Bash,
    Zsh,
    Fish,
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    print(&script(options.shell)).map(|()| Answer::Yes)
}

fn script(shell: Supported) -> String {
    let (generator, hand_over) = match shell {
        Supported::Bash => (Shell::Bash, include_str!("completions/bash")),
        Supported::Zsh => (Shell::Zsh, include_str!("completions/zsh")),
        Supported::Fish => (Shell::Fish, include_str!("completions/fish")),
    };
    let mut generated = Vec::new();
    generate(generator, &mut whole_command(), "srt", &mut generated);
    let mut generated = String::from_utf8(generated).expect("our definitions are UTF-8");
    // What zsh is to call comes last, and is ours to say.
    let call = generated.rfind("\nif [ \"$funcstack[1]\"");
    generated.truncate(call.unwrap_or(generated.len()));
    let separator = match shell {
        Supported::Fish => " ",
        Supported::Bash | Supported::Zsh => "|",
    };
    let valued = valued_flags().join(separator);
    format!("{generated}\n{}", hand_over.replace("@VALUED@", &valued))
}

/// Returns the flags of `srt` itself that take the next word as their value.
fn valued_flags() -> Vec<String> {
    let mut flags = Vec::new();
    for argument in whole_command().get_arguments() {
        if argument.get_action().takes_values() {
            let shorts = argument.get_short_and_visible_aliases().unwrap_or_default();
            flags.extend(shorts.iter().map(|short| format!("-{short}")));
            let longs = argument.get_long().into_iter();
            let longs = longs.chain(argument.get_all_aliases().unwrap_or_default());
            flags.extend(longs.map(|long| format!("--{long}")));
        }
    }
    flags
}
