//! As much of Markdown as our documents use, as the macros of man(7): headings, paragraphs,
//! lists, tables, fenced blocks, and code, emphasis and links in a line.

use roff::{Inline, Roff, bold, italic, roman};

/// Appends a document without its title.
pub(super) fn write(roff: &mut Roff, text: &str) {
    let mut lines = text.lines().peekable();
    // Right after a heading a paragraph starts by itself.
    let mut after_heading = false;
    while let Some(line) = lines.next() {
        let was_after_heading = std::mem::take(&mut after_heading);
        if line.is_empty() || line.starts_with("# ") || line.starts_with("<!--") {
            after_heading = was_after_heading;
        } else if let Some(title) = line.strip_prefix("## ") {
            roff.control("SH", [title.to_uppercase().as_str()]);
            after_heading = true;
        } else if let Some(title) = line.strip_prefix("### ") {
            roff.control("SS", [title]);
            after_heading = true;
        } else if line.starts_with("```") {
            let block = lines.by_ref().take_while(|line| *line != "```");
            if !was_after_heading {
                roff.control("PP", []);
            }
            write_block(roff, block);
        } else if line.starts_with('|') {
            let mut table = vec![line];
            while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
                table.push(row);
            }
            write_table(roff, &table);
        } else {
            let mut paragraph = line.to_owned();
            let starts = ["|", "```", "- ", "#"];
            let goes_on = |line: &&str| {
                !line.is_empty() && !starts.iter().any(|start| line.starts_with(start))
            };
            while let Some(more) = lines.next_if(goes_on) {
                paragraph += "\n";
                paragraph += more;
            }
            if let Some(item) = paragraph.strip_prefix("- ") {
                roff.control("IP", ["\\(bu", "2"]);
                paragraph = item.to_owned();
            } else if !was_after_heading {
                roff.control("PP", []);
            }
            roff.text(inline(&paragraph));
        }
    }
}

fn write_block<'a>(roff: &mut Roff, lines: impl Iterator<Item = &'a str>) {
    roff.control("RS", ["4"]);
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff.control("RE", []);
}

/// Writes each row under its first cell; of more than two columns, each cell under its title.
fn write_table(roff: &mut Roff, rows: &[&str]) {
    let cells = |row: &&str| -> Vec<String> {
        let inner = row.trim_matches('|').split('|');
        inner.map(|cell| cell.trim().to_owned()).collect()
    };
    let titles = rows.first().map(cells).unwrap_or_default();
    for row in rows.iter().skip(2).map(cells) {
        roff.control("TP", []);
        roff.text(inline(&row[0]));
        let mut body = Vec::new();
        for (title, cell) in titles.iter().zip(&row).skip(1) {
            if cell.is_empty() {
                continue;
            }
            if titles.len() > 2 {
                if !body.is_empty() {
                    body.push(Inline::LineBreak);
                }
                body.extend([italic(title.as_str()), roman(": ")]);
            }
            body.extend(inline(cell));
        }
        roff.text(body);
    }
}

/// Returns a line with its code in bold, its emphasis in italics and links as their text.
pub(super) fn inline(text: &str) -> Vec<Inline> {
    let mut inlines = Vec::new();
    for (number, part) in text.split('`').enumerate() {
        if number % 2 == 1 {
            inlines.push(bold(part));
            continue;
        }
        for (number, part) in without_links(part).split('*').enumerate() {
            inlines.push(match number % 2 {
                1 => italic(part),
                _ => roman(part),
            });
        }
    }
    inlines.retain(|inline| !matches!(inline, Inline::Roman(text) if text.is_empty()));
    inlines
}

fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("](") {
        let (text, label) = before.rsplit_once('[').unwrap_or((before, ""));
        out += text;
        out += label;
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut roff = Roff::new();
        write(&mut roff, text);
        roff.to_roff()
    }

    #[test]
    fn blocks_become_macros() {
        let table = [
            ("# Title\n\n## A b\n\nText.\n", ".SH \"A B\"\nText.\n"),
            (
                "### C\n\none\n`two`\n\nthree\n",
                ".SS C\none\n\\fBtwo\\fR\n.PP\nthree\n",
            ),
            ("- a\n- b\n", ".IP \\(bu 2\na\n.IP \\(bu 2\nb\n"),
            (
                "```console\n$ x\n.y\n```\n",
                ".PP\n.RS 4\n.nf\n$ x\n\\&.y\n.fi\n.RE\n",
            ),
            ("| a | b |\n|---|---|\n| `c` | d |\n", ".TP\n\\fBc\\fR\nd\n"),
            (
                "| a | b | e |\n|---|---|---|\n| c | d | f |\n",
                ".TP\nc\n\\fIb\\fR: d\n.br\n\\fIe\\fR: f\n",
            ),
            ("<!-- x -->\n", ""),
        ];
        for (text, expected) in table {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn code_emphasis_and_links_are_told_apart() {
        let line = "a `*.b` *c* [d](e.md#f) `[g](h)`";
        let expected = ".PP\na \\fB*.b\\fR \\fIc\\fR d \\fB[g](h)\\fR\n";
        assert_eq!(written(line), expected);
    }
}
