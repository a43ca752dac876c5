//! As much of JSON Schema as the description of the API uses. A word that is not known here fails.

use serde_json::Value;

/// Why a value does not fit a schema; nothing if it does.
pub fn misfit(document: &Value, schema: &Value, value: &Value, at: &str) -> Option<String> {
    let schema = resolve(document, schema);
    let wrong = |what: String| Some(format!("{at}: {what}: {value}"));
    for (word, wanted) in schema.as_object().expect("a schema is an object") {
        let found = match word.as_str() {
            "description" | "default" | "maxLength" | "minLength" | "pattern" => None,
            "type" => (!has_type(wanted, value)).then(|| format!("{at}: is no {wanted}: {value}")),
            "minimum" => below(value, wanted).and_then(|()| wrong(format!("below {wanted}"))),
            "maximum" => below(wanted, value).and_then(|()| wrong(format!("above {wanted}"))),
            "enum" => match wanted.as_array() {
                Some(all) if all.contains(value) => None,
                _ => wrong(format!("none of {wanted}")),
            },
            "oneOf" => {
                let all = wanted.as_array().expect("an array");
                let fits = all.iter().filter(|each| misfit(document, each, value, at).is_none());
                let fits = fits.count();
                if fits == 1 {
                    None
                } else {
                    wrong(format!("fits {fits} of several"))
                }
            }
            "items" => value.as_array().and_then(|items| {
                let each = |(i, item)| misfit(document, wanted, item, &format!("{at}[{i}]"));
                items.iter().enumerate().find_map(each)
            }),
            "minItems" | "maxItems" => value.as_array().and_then(|items| {
                let (limit, len) = (wanted.as_u64().expect("a number"), items.len() as u64);
                let fits = if word == "minItems" { len >= limit } else { len <= limit };
                if fits { None } else { wrong(format!("has {len} items")) }
            }),
            "required" => value.as_object().and_then(|fields| {
                let names = wanted.as_array().expect("an array").iter().filter_map(Value::as_str);
                let missing = names.into_iter().find(|name| !fields.contains_key(*name));
                missing.and_then(|name| wrong(format!("has no {name}")))
            }),
            "properties" => value.as_object().and_then(|fields| {
                let each = |(name, schema)| {
                    let field = fields.get(name)?;
                    misfit(document, schema, field, &format!("{at}.{name}"))
                };
                wanted.as_object().expect("an object").iter().find_map(each)
            }),
            "additionalProperties" => value.as_object().and_then(|fields| {
                assert_eq!(wanted, &Value::Bool(false));
                let unknown = fields
                    .keys()
                    .find(|name| schema["properties"].get(name.as_str()).is_none());
                unknown.and_then(|name| wrong(format!("has an unknown {name}")))
            }),
            other => panic!("{at}: the test knows no {other:?}"),
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

pub fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        None => schema,
        Some(reference) => {
            let path = reference.strip_prefix('#').expect("within the document");
            document
                .pointer(path)
                .unwrap_or_else(|| panic!("{reference} leads nowhere"))
        }
    }
}

fn has_type(wanted: &Value, value: &Value) -> bool {
    match wanted {
        Value::Array(any) => any.iter().any(|wanted| has_type(wanted, value)),
        Value::String(name) => match name.as_str() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("unknown type {other}"),
        },
        _ => panic!("no type: {wanted}"),
    }
}

/// Some, if both are numbers and the first is smaller.
fn below(one: &Value, other: &Value) -> Option<()> {
    (one.as_f64()? < other.as_f64()?).then_some(())
}

#[test]
fn a_value_that_does_not_fit_is_noticed() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 2}, "b": {"type": ["string", "null"]}},
    });
    let fits = |value: Value| misfit(&Value::Null, &schema, &value, "value").is_none();
    assert!(fits(serde_json::json!({"a": 1})) && fits(serde_json::json!({"a": 2, "b": null})));
    for wrong in [
        serde_json::json!({}),
        serde_json::json!({"a": 0}),
        serde_json::json!({"a": 3}),
        serde_json::json!({"a": 1.5}),
        serde_json::json!({"a": 1, "b": 7}),
        serde_json::json!({"a": 1, "c": 7}),
        serde_json::json!([]),
    ] {
        assert!(!fits(wrong.clone()), "{wrong}");
    }
}
