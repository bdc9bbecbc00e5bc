//! As much of a JSON Schema validator as our schema needs. A keyword it does not know is a
//! panic, so that nothing is taken for checked that is not.

use serde_json::Value;

/// Says what is wrong with `value`, where there is something.
pub(super) fn problem(schema: &Value, value: &Value) -> Option<String> {
    let keywords = schema.as_object().expect("every schema here is an object");
    keywords
        .iter()
        .find(|(keyword, argument)| !holds(keyword, argument, schema, value))
        .map(|(keyword, _)| format!("{value} is not as `{keyword}` asks"))
}

fn takes(schema: &Value, value: &Value) -> bool {
    problem(schema, value).is_none()
}

fn holds(keyword: &str, argument: &Value, schema: &Value, value: &Value) -> bool {
    let all = |argument: &Value| argument.as_array().cloned().unwrap_or_default();
    match keyword {
        "$schema"
        | "title"
        | "description"
        | "default"
        | "deprecated"
        | "format"
        | "examples"
        | "allowComments"
        | "allowTrailingCommas" => true,
        "type" => is_of_type(argument.as_str().expect("one type"), value),
        "enum" => all(argument).contains(value),
        "const" => argument == value,
        "not" => !takes(argument, value),
        "anyOf" => all(argument).iter().any(|schema| takes(schema, value)),
        "minimum" => value.as_f64() >= argument.as_f64(),
        "maximum" => value.as_f64() <= argument.as_f64(),
        "minLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() as u64 >= argument.as_u64().expect("a count")),
        "pattern" => value.as_str().is_none_or(|text| {
            let regex = regress::Regex::new(argument.as_str().expect("a pattern"));
            regex.expect("it is one").find(text).is_some()
        }),
        "items" => all(value).iter().all(|item| takes(argument, item)),
        "required" => value.as_object().is_none_or(|object| {
            all(argument)
                .iter()
                .all(|name| object.contains_key(name.as_str().expect("a name")))
        }),
        "properties" => value.as_object().is_none_or(|object| {
            let known = object
                .iter()
                .filter_map(|(name, value)| Some((argument.get(name)?, value)));
            known
                .into_iter()
                .all(|(schema, value)| takes(schema, value))
        }),
        "additionalProperties" => value.as_object().is_none_or(|object| {
            let is_known = |name: &str| schema["properties"].get(name).is_some();
            let mut more = object.iter().filter(|(name, _)| !is_known(name));
            more.all(|(_, value)| argument.is_object() && takes(argument, value))
        }),
        _ => panic!("{keyword} is not known"),
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => panic!("type {name} is not known"),
    }
}
