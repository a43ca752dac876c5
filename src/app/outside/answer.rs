//! What a child answers: one JSON object a line.
//!
//! `{"ok":true}`, with `"effects":[…]` if there are any, and with a `"result"` for whoever asked for the outcome; `{"error":"text"}`; `{"retry":"text","after":"5s"}`. An answer with
//! the message's `"number"` may come in any order; one without it answers the oldest message.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::app::args::item::{there, written};
use crate::app::args::sources::duration;
use crate::app::base64;
use crate::message::Effect;
use crate::node::handle::{Failure, Handled};

/// What is not known here is refused: a typing error must not cost an effect.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    number: Option<u64>,
    ok: Option<bool>,
    error: Option<String>,
    retry: Option<String>,
    after: Option<String>,
    #[serde(default)]
    effects: Vec<Change>,
    /// Any JSON, as a payload of `push --json`.
    #[serde(default, deserialize_with = "there")]
    result: Option<Box<RawValue>>,
    result_base64: Option<String>,
}

/// An effect: exactly one of `add`, `set`, `set_field` and `push` names the key, or `publish` says what is published.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    add: Option<String>,
    set: Option<String>,
    set_field: Option<String>,
    push: Option<String>,
    publish: Option<String>,
    publish_base64: Option<String>,
    by: Option<i64>,
    field: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
    delay: Option<String>,
    group: Option<String>,
    headers: Option<BTreeMap<String, String>>,
}

const FORMS: &str = r#"an answer is {"ok":true} with or without "effects" and "result", {"error":"text"} or {"retry":"text","after":"5s"}"#;
const EFFECTS: &str = r#"an effect is {"add":"key","by":1}, {"set":"key","value":"v"}, {"set_field":"key","field":"f","value":"v"}, {"push":"key","value":"v"} or {"publish":"payload","delay":"5s","group":"g","headers":{"n":"v"}}"#;

/// The number of the message, if the answer says it, and its outcome. An error is no answer at all.
pub(super) fn read(line: &[u8]) -> Result<(Option<u64>, Handled), String> {
    // What nearly all answers are, as JavaScript and as Python write it.
    if line == br#"{"ok":true}"# || line == br#"{"ok": true}"# {
        return Ok((None, Ok(Vec::new())));
    }
    let answer: Answer = serde_json::from_slice(line).map_err(|error| format!("{FORMS} ({error})"))?;
    let number = answer.number;
    outcome(answer).map(|handled| (number, handled))
}

fn outcome(answer: Answer) -> Result<Handled, String> {
    let result = result(answer.result, answer.result_base64)?;
    let is_plain = answer.after.is_none() && answer.effects.is_empty() && result.is_none();
    match (answer.ok, answer.error, answer.retry) {
        (Some(true), None, None) if answer.after.is_none() => {
            let effects: Result<Vec<Effect>, String> = answer.effects.into_iter().map(effect).collect();
            effects.map(|mut effects| {
                effects.extend(result);
                Ok(effects)
            })
        }
        (None, Some(text), None) if is_plain => Ok(Err(Failure::Error(text))),
        (None, None, Some(error)) if answer.effects.is_empty() && result.is_none() => {
            let after = answer.after.map(|text| duration(&text)).transpose();
            let after = after.map_err(|reason| format!("after: {reason}"))?;
            Ok(Err(Failure::Retry { error, after }))
        }
        _ => Err(FORMS.into()),
    }
}

fn result(value: Option<Box<RawValue>>, base64: Option<String>) -> Result<Option<Effect>, String> {
    match (value, base64) {
        (None, None) => Ok(None),
        (Some(value), None) => written(&value).map(|bytes| Some(Effect::result(bytes))),
        (None, Some(text)) => match base64::decode(&text) {
            Some(bytes) => Ok(Some(Effect::result(bytes))),
            None => Err("\"result_base64\" is no base64".into()),
        },
        _ => Err("an answer has either \"result\" or \"result_base64\"".into()),
    }
}

fn effect(change: Change) -> Result<Effect, String> {
    let wrong = || EFFECTS.to_string();
    if change.publish.is_some() || change.publish_base64.is_some() {
        return published(change);
    }
    let value = bytes(change.value, change.value_base64)?;
    let Change {
        add,
        set,
        set_field,
        push,
        by,
        field,
        delay: None,
        group: None,
        headers: None,
        ..
    } = change
    else {
        return Err(wrong());
    };
    match (add, set, set_field, push, by, field, value) {
        (Some(key), None, None, None, by, None, None) => Ok(Effect::Add {
            key,
            by: by.unwrap_or(1),
        }),
        (None, Some(key), None, None, None, None, Some(value)) => Ok(Effect::Set { key, value }),
        (None, None, Some(key), None, None, Some(field), Some(value)) => Ok(Effect::SetField { key, field, value }),
        (None, None, None, Some(key), None, None, Some(value)) => Ok(Effect::Push { key, value }),
        _ => Err(wrong()),
    }
}

/// A text, or bytes in base64, or neither.
fn bytes(text: Option<String>, base64: Option<String>) -> Result<Option<Vec<u8>>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(Some(text.into_bytes())),
        (None, Some(text)) => base64::decode(&text).map(Some).ok_or_else(|| EFFECTS.into()),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(EFFECTS.into()),
    }
}

fn published(change: Change) -> Result<Effect, String> {
    let Change {
        add: None,
        set: None,
        set_field: None,
        push: None,
        by: None,
        field: None,
        value: None,
        value_base64: None,
        publish,
        publish_base64,
        delay,
        group,
        headers,
    } = change
    else {
        return Err(EFFECTS.into());
    };
    let payload = bytes(publish, publish_base64)?.ok_or(EFFECTS)?;
    let delay = delay.map(|text| duration(&text)).transpose();
    let delay = delay.map_err(|reason| format!("delay: {reason}"))?;
    let mut effect = Effect::publish_after(payload, delay.unwrap_or_default());
    for (name, value) in headers.iter().flatten() {
        effect = effect.with_header(name, value);
    }
    Ok(match group {
        Some(group) => effect.in_group(group),
        None => effect,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_form_of_answer_is_understood() {
        let answer = |line: &str| read(line.as_bytes()).unwrap().1;
        for line in [
            r#"{"ok":true}"#,
            r#"{"ok": true}"#,
            r#" { "ok" : true , "effects": [] } "#,
            r#"{"number":7,"ok":true}"#,
        ] {
            assert_eq!(answer(line), Ok(Vec::new()), "{line}");
        }
        assert_eq!(read(br#"{"number":7,"ok":true}"#), Ok((Some(7), Ok(Vec::new()))));
        assert_eq!(
            answer(r#"{"error":"no\nhost"}"#),
            Err(Failure::Error("no\nhost".into()))
        );
        assert_eq!(answer(r#"{"retry":"busy"}"#), Err(Failure::retry("busy")));
        let later = Failure::retry_after("busy", Duration::from_secs(5));
        assert_eq!(answer(r#"{"retry":"busy","after":"5s"}"#), Err(later));
        for (line, result) in [
            (r#"{"ok":true,"result":"é"}"#, "é".as_bytes()),
            (r#"{"ok":true,"result":{"a": 1}}"#, br#"{"a": 1}"#),
            (r#"{"ok":true,"result_base64":"//77"}"#, b"\xff\xfe\xfb"),
        ] {
            assert_eq!(answer(line), Ok(vec![Effect::result(result)]), "{line}");
        }
        let effects = r#"{"ok":true,"effects":[{"add":"a"},{"add":"a","by":-3},{"set":"s","value":"é"},
            {"set_field":"h","field":"f","value":""},{"push":"l","value_base64":"//77"},
            {"publish":"next"},{"publish":"","delay":"5s"},{"publish_base64":"//77","delay":"1ms"},
            {"publish":"x","group":"tenant 7"},{"publish":"y","headers":{"Tenant":"7"}}]}"#;
        let key = |key: &str| key.to_string();
        let wanted = vec![
            Effect::Add { key: key("a"), by: 1 },
            Effect::Add { key: key("a"), by: -3 },
            Effect::Set {
                key: key("s"),
                value: "é".into(),
            },
            Effect::SetField {
                key: key("h"),
                field: key("f"),
                value: Vec::new(),
            },
            Effect::Push {
                key: key("l"),
                value: vec![0xff, 0xfe, 0xfb],
            },
            Effect::publish("next"),
            Effect::publish_after("", Duration::from_secs(5)),
            Effect::publish_after(vec![0xff, 0xfe, 0xfb], Duration::from_millis(1)),
            Effect::publish("x").in_group("tenant 7"),
            Effect::publish("y").with_header("tenant", "7"),
        ];
        assert_eq!(answer(effects), Ok(wanted));
    }

    #[test]
    fn whatever_else_is_no_answer() {
        for line in [
            "",
            "hello",
            "{}",
            "true",
            r#"{"ok":false}"#,
            r#"{"ok":true,"error":"x"}"#,
            r#"{"ok":true,"after":"1s"}"#,
            r#"{"ok":true,"number":-8}"#,
            r#"{"error":"x","effects":[{"add":"k"}]}"#,
            r#"{"error":"x","after":"5s"}"#,
            r#"{"error":"x","result":"y"}"#,
            r#"{"retry":"x","result":"y"}"#,
            r#"{"ok":true,"result":1,"result_base64":"Zg=="}"#,
            r#"{"ok":true,"result_base64":"?"}"#,
            r#"{"retry":"x","after":"5"}"#,
            r#"{"retry":"x","after":5}"#,
            r#"{"ok":true,"effects":[{"add":"k","value":"v"}]}"#,
            r#"{"ok":true,"effects":[{"set":"k"}]}"#,
            r#"{"ok":true,"effects":[{"set":"k","value":"v","value_base64":"Zg=="}]}"#,
            r#"{"ok":true,"effects":[{"push":"k","value_base64":"Zg="}]}"#,
            r#"{"ok":true,"effects":[{"add":"k","set":"k","value":"v"}]}"#,
            r#"{"ok":true,"effects":[{"add":"k","delay":"5s"}]}"#,
            r#"{"ok":true,"effects":[{"publish":"p","delay":"5"}]}"#,
            r#"{"ok":true,"effects":[{"publish":"p","value":"v"}]}"#,
            r#"{"ok":true,"effects":[{"publish":"p","publish_base64":"Zg=="}]}"#,
            r#"{"ok":true,"effects":[{"publish":"p","add":"k"}]}"#,
            r#"{"ok":true,"effects":[{"add":"k","group":"g"}]}"#,
            r#"{"ok":true,"effects":[{"add":"k","headers":{}}]}"#,
            r#"{"error":"x","effects":[{"publish":"p"}]}"#,
            r#"{"ok":true,"efects":[]}"#,
            "{\"error\":\"\\ud800\"}",
            "\u{feff}{\"ok\":true}",
        ] {
            assert!(read(line.as_bytes()).is_err(), "{line}");
        }
    }
}
