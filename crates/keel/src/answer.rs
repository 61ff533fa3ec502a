//! Looking into the engine's answers: a figure by its path. One that is not there is nothing, as for a store that has none of it.

use serde_json::Value;

/// A number; 0 if it is not there.
pub fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// A number with a fraction; 0 if it is not there.
pub fn float(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

/// A text; empty if it is not there.
pub fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or("")
}

/// A list; empty if it is not there.
pub fn array<'a>(value: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(path).and_then(Value::as_array).into_iter().flatten()
}
