//! Reading the fields of answers, with care: answers come from another process, and contain data of guests' memory.

use serde_json::Value;

/// Largest number of items of a list that are shown.
const MOST_ITEMS: usize = 8192;
/// Largest number of characters of a text that are shown.
const MOST_CHARACTERS: usize = 512;

/// Returns true if a character could change other parts of a terminal's screen.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns a text as it may be shown: of bounded length, without characters that act on the terminal.
pub(super) fn plain(text: &str) -> String {
    let shown = text.chars().take(MOST_CHARACTERS);
    shown.map(|character| if is_harmful(character) { '?' } else { character }).collect()
}

/// Returns a value in one word: `-` for nothing, and for a value that does not fit one word.
pub(super) fn word(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Number(number) => number.to_string(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null | Value::Array(_) | Value::Object(_) => "-".to_owned(),
    }
}

/// Returns a field in one word.
pub(super) fn field(value: &Value, name: &str) -> String {
    word(&value[name])
}

/// Returns a field that is a number, or a text with a number in hexadecimal.
pub(super) fn number(value: &Value, name: &str) -> Option<u64> {
    match &value[name] {
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        value => value.as_u64(),
    }
}

/// Returns true if a field is true.
pub(super) fn is(value: &Value, name: &str) -> bool {
    value[name] == true
}

/// Returns the items of a list, a bounded number of them; none if the value is no list.
pub(super) fn items(value: &Value) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    items[..items.len().min(MOST_ITEMS)].iter()
}

/// Returns the fields of an object by name, a bounded number of them.
pub(super) fn fields(value: &Value) -> impl Iterator<Item = (String, &Value)> {
    let fields = value.as_object().into_iter().flatten();
    fields.take(MOST_ITEMS).map(|(name, value)| (plain(name), value))
}

/// Returns three numbers with an `x` between each two.
pub(super) fn volume(value: &Value) -> String {
    let words: Vec<String> = items(value).take(3).map(word).collect();
    words.join("x")
}

/// Returns the eight digits of a register's value, from a text without `0x`.
pub(super) fn digits(value: &Value) -> String {
    let word = word(value);
    let digits = word.strip_prefix("0x").unwrap_or(&word);
    format!("{digits:0>8}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_cannot_act_on_the_terminal_and_are_bounded() {
        assert_eq!(plain("a\x1b[2Jb\n\u{202e}c"), "a?[2Jb??c");
        assert_eq!(plain(&"x".repeat(100_000)).len(), MOST_CHARACTERS);
    }

    #[test]
    fn fields_of_any_form_are_read() {
        let value =
            json!({ "a": "0x10", "b": 7, "c": true, "d": [1, 2, 3, 4], "e": null, "f": "0xzz", "g": -1 });
        assert_eq!(
            (number(&value, "a"), number(&value, "b"), number(&value, "f")),
            (Some(16), Some(7), None)
        );
        assert_eq!(
            (number(&value, "g"), number(&value, "none"), number(&json!([]), "a")),
            (None, None, None)
        );
        assert_eq!(
            (field(&value, "a"), field(&value, "c"), field(&value, "d")),
            ("0x10".into(), "yes".into(), "-".into())
        );
        assert!(is(&value, "c") && !is(&value, "b") && !is(&json!(3), "c"));
        assert_eq!(
            (items(&value["d"]).len(), items(&value).len(), volume(&value["d"])),
            (4, 0, "1x2x3".into())
        );
        assert_eq!((digits(&json!("0x1f")), digits(&Value::Null)), ("0000001f".into(), "0000000-".into()));
        assert_eq!(items(&json!(vec![0; 20_000])).len(), MOST_ITEMS);
    }
}
