//! Promises about every key of the table: what it takes, what it refuses and where.

use std::path::Path;

use super::*;

fn read_text(text: &str) -> Result<Values> {
    read(
        &Source::from_bytes(Path::new("s.json"), text.into())?,
        Layer::Explicit,
    )
}

fn refusal(text: &str) -> String {
    read_text(text).expect_err(text).to_string()
}

/// Returns a text of this form, and texts that are not.
fn of_form(form: Form) -> (&'static str, &'static [&'static str]) {
    match form {
        Form::Any | Form::Host | Form::Path => ("a.example", &[""]),
        Form::Free => ("", &["a\\u0000b"]),
        Form::Absolute => ("/usr/bin/x", &["", "x", "./x"]),
        Form::Network => (
            "10.0.0.0/8",
            &["", "10.0.0.0/33", "[::1]", "10.1.1.1:80", "a"],
        ),
        Form::Variable => ("A_1", &["", "1A", "A-B", "A=B", "*"]),
        Form::VariablePattern => ("AWS_*", &["", "A=B", "@other"]),
        Form::Url => (
            "http://proxy.example:3128",
            &["", "proxy.example", "ftp://x", "http://"],
        ),
        Form::Regex => ("key=(.*)", &["", "key", "("]),
        Form::Service => ("com.example.*", &["", "a*b", "**"]),
        Form::Header => ("X-Token", &["", "a b", "a:"]),
        Form::Profile => ("node", &["", "Node", "../x", "a/b"]),
    }
}

/// Returns values that a key of this shape takes.
pub(in crate::settings) fn good(shape: Shape) -> Vec<String> {
    let quoted = |word: &&str| format!("\"{word}\"");
    let fixed: &[&str] = match shape {
        Shape::Section | Shape::Asked | Shape::Foreign => &["{}", "{ }"],
        Shape::Note => &["\"\"", "\"x\""],
        Shape::Bool => &["true", "false"],
        Shape::Size => &["1", "\"512M\"", "\"2G\""],
        Shape::Paths => &["[]", "[\"x\"]", "[{\"path\": \"x\", \"literal\": true}]"],
        Shape::Map(_) => &["{}", "{\"A\": \"b\"}"],
        Shape::Lists => &["{}", "{\"*\": [\"x\"]}"],
        Shape::Records => &["[]", "[{}]"],
        Shape::Switch(_) => &["true", "false"],
        Shape::List(_) | Shape::Numbers(..) => &["[]"],
        Shape::Int(..) | Shape::Choice(_) | Shape::Text(_) | Shape::Never(_) => &[],
    };
    let mut values: Vec<String> = fixed.iter().map(|text| (*text).to_owned()).collect();
    match shape {
        Shape::Int(low, high) => values.extend([low.to_string(), high.to_string()]),
        Shape::Choice(words) | Shape::Switch(words) => values.extend(words.iter().map(quoted)),
        Shape::Text(form) => values.push(quoted(&of_form(form).0)),
        Shape::List(form) => values.push(format!("[{}]", quoted(&of_form(form).0))),
        Shape::Numbers(low, high) => values.push(format!("[{low}, {high}]")),
        _ => {}
    }
    values
}

/// Returns values that a key of this shape refuses, each with the bytes before what is to blame.
pub(in crate::settings) fn bad(shape: Shape) -> Vec<(String, usize)> {
    let fixed: &[(&str, usize)] = match shape {
        Shape::Section | Shape::Asked | Shape::Foreign => &[("[]", 0), ("\"x\"", 0), ("true", 0)],
        Shape::Note => &[("1", 0), ("{}", 0)],
        Shape::Bool => &[("\"true\"", 0), ("0", 0), ("[]", 0)],
        Shape::Int(..) => &[
            ("-1", 0),
            ("1.5", 0),
            ("\"1\"", 0),
            ("99999999999999999999", 0),
        ],
        Shape::Size => &[("0", 0), ("-1", 0), ("\"2g\"", 0), ("\"\"", 0), ("true", 0)],
        Shape::Choice(_) => &[("\"other\"", 0), ("\"\"", 0), ("true", 0)],
        Shape::Switch(_) => &[("\"other\"", 0), ("1", 0)],
        Shape::Text(_) => &[("1", 0), ("[\"x\"]", 0)],
        Shape::List(_) => &[("\"x\"", 0), ("{}", 0), ("[1]", 1), ("[null]", 1)],
        Shape::Numbers(..) => &[("1", 0), ("{}", 0), ("[\"1\"]", 1), ("[-1]", 1)],
        Shape::Paths => &[
            ("\"x\"", 0),
            ("{}", 0),
            ("[\"\"]", 1),
            ("[1]", 1),
            ("[{}]", 1),
            ("[{\"path\": \"x\"}]", 1),
            ("[{\"path\": \"x\", \"literal\": false}]", 26),
            ("[{\"path\": \"x\", \"litral\": true}]", 15),
            ("[{\"path\": 1, \"literal\": true}]", 10),
        ],
        Shape::Map(_) => &[("[]", 0), ("\"x\"", 0), ("{\"A\": 1}", 6)],
        Shape::Lists => &[("[]", 0), ("{\"A\": \"x\"}", 6), ("{\"A\": [1]}", 7)],
        Shape::Records => &[("{}", 0), ("[1]", 1), ("[\"x\"]", 1)],
        Shape::Never(_) => &[("{}", 0), ("\"x\"", 0)],
    };
    let always = [("null", 0), ("1e999", 0)];
    let fixed = fixed.iter().chain(&always);
    let mut values: Vec<_> = fixed.map(|(text, at)| ((*text).to_owned(), *at)).collect();
    match shape {
        Shape::Int(low, high) => {
            let outside = [low.checked_sub(1), high.checked_add(1)];
            values.extend(outside.into_iter().flatten().map(|n| (n.to_string(), 0)));
        }
        Shape::Text(form) => {
            let texts = of_form(form).1.iter();
            values.extend(texts.map(|text| (format!("\"{text}\""), 0)));
        }
        Shape::List(form) => {
            let (one, others) = of_form(form);
            let lists = others.iter().map(|text| format!("[\"{one}\", \"{text}\"]"));
            values.extend(lists.map(|list| (list, one.len() + 5)));
        }
        _ => {}
    }
    values
}

/// Writes `value` under a dotted key, and returns where in the text it starts.
pub(in crate::settings) fn document(path: &str, value: &str) -> (String, usize) {
    let mut before = String::new();
    let mut after = String::new();
    for name in path.split('.') {
        let (name, array) = match name.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (name, false),
        };
        before.push_str(&format!("{{\"{name}\": {}", if array { "[" } else { "" }));
        after.insert_str(0, if array { "]}" } else { "}" });
    }
    let at = before.len();
    (format!("{before}{value}{after}"), at)
}

#[test]
fn every_key_takes_what_it_may_hold() {
    for key in schema::keys() {
        for value in good(key.shape) {
            let (text, _) = document(key.path, &value);
            if let Err(error) = read_text(&text) {
                panic!("{text}\n{error}");
            }
        }
        if let Some(default) = key.default {
            let (text, _) = document(key.path, default);
            assert!(read_text(&text).is_ok(), "{text}");
        }
    }
}

#[test]
fn every_key_refuses_what_it_may_not_hold_where_it_stands() {
    for key in schema::keys() {
        for (value, blamed) in bad(key.shape) {
            let (text, at) = document(key.path, &value);
            let message = refusal(&text);
            let place = format!("s.json:1:{}: ", at + blamed + 1);
            // A number too large for JSON is refused before keys are looked at.
            let ok = message.starts_with(&place) || value == "1e999";
            assert!(ok, "{text}\nexpected {place}\n{message}");
            let names_key = message.contains(key.path) || message.contains("`literal`");
            assert!(names_key || value == "1e999", "{text}\n{message}");
        }
    }
}

#[test]
fn every_misspelt_key_is_answered_with_the_right_one() {
    for key in schema::keys() {
        let name = key.name();
        // The last two letters swapped, or one too many where they are the same.
        let (head, tail) = name.split_at(name.len() - 2);
        let swapped: String = tail.chars().rev().collect();
        let wrong = match swapped == tail {
            true => format!("{name}x"),
            false => format!("{head}{swapped}"),
        };
        let path = match key.section() {
            "" => wrong.clone(),
            section => format!("{section}.{wrong}"),
        };
        let (text, at) = document(&path, "0");
        let message = refusal(&text);
        let name_at = at - wrong.len() - 4;
        let start = format!("s.json:1:{}: unknown key `{wrong}`", name_at + 1);
        assert!(
            message.starts_with(&start),
            "{text}\nexpected {start}\n{message}"
        );
        assert!(
            message.contains(&format!("did you mean `{name}`?")),
            "{text}\n{message}"
        );
    }
}

#[test]
fn every_key_at_a_wrong_level_is_refused_there() {
    let sections = schema::keys()
        .filter(|key| matches!(key.shape, Shape::Section | Shape::Asked | Shape::Records));
    let sections = sections.map(|key| match key.shape {
        Shape::Records => format!("{}[]", key.path),
        _ => key.path.to_owned(),
    });
    let sections: Vec<String> = std::iter::once(String::new()).chain(sections).collect();
    for key in schema::keys() {
        for section in sections.iter().filter(|section| *section != key.section()) {
            if schema::find(section, key.name()).is_some() {
                continue;
            }
            let path = match section.as_str() {
                "" => key.name().to_owned(),
                section => format!("{section}.{}", key.name()),
            };
            let (text, at) = document(&path, "0");
            let message = refusal(&text);
            let name_at = at - key.name().len() - 4;
            let start = format!("s.json:1:{}: unknown key `{}`", name_at + 1, key.name());
            assert!(message.starts_with(&start), "{text}\n{message}");
            let advised = message.contains("belongs") || message.contains("did you mean");
            assert!(advised, "{text}\n{message}");
        }
    }
}

#[test]
fn a_whole_number_may_have_a_fraction_of_nought_or_an_exponent() {
    let key = "network.limits.connections";
    for (written, expected) in [("1.0", 1), ("1e3", 1000), ("25.60E+2", 2560)] {
        let values = read_text(&document(key, written).0).expect(written);
        let json = values.get(key).map(Value::to_json);
        assert_eq!(json, Some(expected.into()), "{written}");
    }
    for written in ["1.5", "1e-3", "-1.0", "1e300", "0.0"] {
        refusal(&document(key, written).0);
    }
}

#[test]
fn an_excerpt_marks_the_part_to_blame() {
    let message = refusal("{\n\t\"filesystem\": {\n    \"denyWrit\": []\n  }\n}");
    let expected = "\
s.json:3:5: unknown key `denyWrit` in `filesystem`; did you mean `denyWrite`?
  |
3 |     \"denyWrit\": []
  |     ^^^^^^^^^^";
    assert_eq!(message, expected);
}

#[test]
fn an_excerpt_is_left_out_where_it_could_drive_or_flood_a_terminal() {
    let long = format!("{{\"x{}\": 1}}", "y".repeat(2000));
    assert_eq!(refusal(&long).lines().count(), 1);
    assert_eq!(refusal("{\"\u{9b}\": 1}").lines().count(), 1);
}

#[test]
fn all_problems_are_told_up_to_a_number() {
    let keys: Vec<String> = (0..30).map(|number| format!("\"zz{number}\": 1")).collect();
    let message = refusal(&format!("{{{}}}", keys.join(",\n")));
    assert_eq!(message.matches("unknown key").count(), 20);
    assert!(message.ends_with("and 10 more"), "{message}");
}
