//! `srt ctl man PAGE`: the manual pages, from the definitions of flags, words and keys.

mod markdown;

use clap::{Arg, Args, Command, CommandFactory, ValueEnum};
use roff::{Inline, Roff, bold, italic, roman};

use super::ctl::{Answer, print};
use super::{Flags, ctl};
use crate::error::Result;
use crate::settings::reference;

/// What `srt ctl man` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// which page
    #[arg(default_value = "srt")]
    page: Page,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Page {
    /// srt(1)
    Srt,
    /// srt-settings(5)
    SrtSettings,
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    print(&page(options.page)).map(|()| Answer::Yes)
}

fn page(page: Page) -> String {
    let mut roff = Roff::new();
    match page {
        Page::Srt => write_srt(&mut roff),
        Page::SrtSettings => write_settings(&mut roff),
    }
    // Older troffs read bytes, not UTF-8.
    let text = roff.render();
    let ascii = text.chars().map(|c| match c.is_ascii() {
        true => c.to_string(),
        false => format!("\\[u{:04X}]", u32::from(c)),
    });
    ascii.collect()
}

fn title<'a>(roff: &mut Roff, name: &'a str, section: &'a str, about: &str) {
    let source = concat!("srt ", env!("CARGO_PKG_VERSION"));
    roff.control("TH", [name, section, "\"\"", source, "\"\""]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(about)]);
}

fn write_srt(roff: &mut Roff) {
    const PROSE: &str = include_str!("man/srt.md");
    const FLAGS: &str = "<!-- flags -->";
    const WORDS: &str = "<!-- words -->";
    title(roff, "SRT", "1", "srt - run a command confined");
    let (before, rest) = PROSE.split_once(FLAGS).unwrap_or((PROSE, ""));
    let (between, after) = rest.split_once(WORDS).unwrap_or((rest, ""));
    markdown::write(roff, before);
    let command = Flags::command();
    for flag in command.get_arguments().filter(|flag| !flag.is_hide_set()) {
        write_argument(roff, flag);
    }
    markdown::write(roff, between);
    let mut words = ctl::Options::command();
    words.build();
    write_words(roff, &words, "srt ctl");
    markdown::write(roff, after);
}

/// Writes the words below `command`, each with its arguments.
fn write_words(roff: &mut Roff, command: &Command, before: &str) {
    for word in command.get_subcommands() {
        let name = format!("{before} {}", word.get_name());
        if word.has_subcommands() {
            write_words(roff, word, &name);
            continue;
        }
        let is_shown = |argument: &&Arg| argument.get_id() != "help" && !argument.is_hide_set();
        let arguments: Vec<&Arg> = word.get_arguments().filter(is_shown).collect();
        let mut header = vec![bold(name)];
        for argument in &arguments {
            header.push(roman(" "));
            header.extend(brief(argument));
        }
        roff.control("TP", []);
        roff.text(header);
        let about = word.get_about().map(ToString::to_string);
        roff.text(markdown::inline(&about.unwrap_or_default()));
        if arguments.is_empty() {
            continue;
        }
        roff.control("RS", []);
        for argument in arguments {
            write_argument(roff, argument);
        }
        roff.control("RE", []);
    }
}

/// Returns an argument as it stands in a synopsis.
fn brief(argument: &Arg) -> Vec<Inline> {
    let name = match argument.is_positional() {
        true => value_name(argument),
        false => vec![bold(format!(
            "--{}",
            argument.get_long().unwrap_or_default()
        ))],
    };
    if argument.is_required_set() {
        return name;
    }
    let brackets = (vec![roman("[")], vec![roman("]")]);
    [brackets.0, name, brackets.1].concat()
}

fn write_argument(roff: &mut Roff, argument: &Arg) {
    let mut header = Vec::new();
    if let Some(short) = argument.get_short() {
        header.push(bold(format!("-{short}")));
    }
    if let Some(long) = argument.get_long() {
        if !header.is_empty() {
            header.push(roman(", "));
        }
        header.push(bold(format!("--{long}")));
    }
    if argument.get_action().takes_values() {
        if !header.is_empty() {
            header.push(roman(" "));
        }
        header.extend(value_name(argument));
    }
    roff.control("TP", []);
    roff.text(header);
    let help = argument.get_help().map(ToString::to_string);
    roff.text(markdown::inline(&help.unwrap_or_default()));
}

/// Returns the words an argument may be, or what stands for its value.
fn value_name(argument: &Arg) -> Vec<Inline> {
    let words = argument.get_possible_values();
    if !words.is_empty() {
        let words: Vec<_> = words.iter().map(|word| word.get_name()).collect();
        return vec![bold(words.join("|"))];
    }
    let names = argument.get_value_names().unwrap_or_default();
    vec![italic(names.join(" ").to_lowercase())]
}

fn write_settings(roff: &mut Roff) {
    const PROSE: &str = include_str!("../../docs/settings.md");
    title(
        roff,
        "SRT-SETTINGS",
        "5",
        "srt-settings - what a command that srt runs may do",
    );
    let (before, rest) = PROSE.split_once(reference::START).unwrap_or((PROSE, ""));
    let (_, after) = rest.split_once(reference::END).unwrap_or_default();
    roff.control("SH", ["DESCRIPTION"]);
    markdown::write(roff, before);
    write_keys(roff);
    markdown::write(roff, after);
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold("srt"), roman("(1)")]);
}

fn write_keys(roff: &mut Roff) {
    for (name, about, keys) in reference::sections() {
        roff.control("SS", [name]);
        roff.text(markdown::inline(about));
        for key in keys {
            roff.control("TP", []);
            roff.text([bold(key.path)]);
            let default = key.default.map(|json| format!("; default `{json}`"));
            let layers = match reference::layers(key).as_str() {
                "" => String::new(),
                layers => format!(" Layers: {layers}."),
            };
            let text = format!(
                "{}{}. {}{layers}",
                reference::value(key),
                default.unwrap_or_default(),
                reference::meaning(key)
            );
            roff.text(markdown::inline(&text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::schema;

    #[test]
    fn the_page_of_settings_names_every_key_and_the_prose_around_them() {
        let page = page(Page::SrtSettings);
        for key in schema::keys() {
            let tag = match (key.section(), key.shape) {
                ("", schema::Shape::Section) => format!("\n.SS {}\n", key.path),
                _ => format!("\n.TP\n\\fB{}\\fR\n", key.path),
            };
            assert!(page.contains(&tag), "{}", key.path);
        }
        for heading in [".SH LAYERS\n", ".SH HOSTS\n", ".SS Trust\n"] {
            assert!(page.contains(heading), "{heading}");
        }
    }

    #[test]
    fn the_page_of_srt_names_every_flag_and_every_word() {
        let page = page(Page::Srt).replace("\\-", "-");
        let command = Flags::command();
        for flag in command.get_opts().filter(|flag| !flag.is_hide_set()) {
            let name = flag
                .get_long()
                .map_or("-c".to_owned(), |long| format!("--{long}"));
            assert!(page.contains(&format!("\\fB{name}\\fR")), "{name}");
        }
        for word in ctl::Options::command().get_subcommands() {
            let name = format!("\\fBsrt ctl {}", word.get_name());
            assert!(page.contains(&name), "{name}");
        }
        assert!(page.contains(".SH EXIT STATUS") || page.contains(".SH \"EXIT STATUS\""));
    }

    #[test]
    fn pages_are_ascii() {
        assert!(page(Page::Srt).is_ascii() && page(Page::SrtSettings).is_ascii());
    }
}
