//! Finished cells of studies as their files have them: one counts only if it was asked for the same, of the same build.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// See the file's header.
pub trait Kept: Serialize + DeserializeOwned {
    /// The words that asked for it.
    fn arguments(&self) -> &[String];
    /// What tells the build that answered from another.
    fn program(&self) -> &str;
    /// How long it took, repetitions included.
    fn wall_seconds(&self) -> f64;
}

/// The cell of a file's text, if it was asked for the same, of the same build. A text that cannot be read is as none.
pub fn read<F: Kept>(text: &str, arguments: &[String], program: &str) -> Option<F> {
    let finished: F = serde_json::from_str(text).ok()?;
    (finished.arguments() == arguments && finished.program() == program).then_some(finished)
}

/// The text of a cell's file.
///
/// # Errors
/// If the cell is no JSON.
pub fn text<F: Kept>(finished: &F) -> serde_json::Result<String> {
    Ok(serde_json::to_string(finished)? + "\n")
}
