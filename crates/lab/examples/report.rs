//! Draws one report from documents of `keel bench --json`, for whoever changes how reports look.
//!
//! `cargo run -p evenkeel-lab --example report -- DIR one.json other.json …`
#![forbid(unsafe_code)]

use std::error::Error;
use std::path::Path;

use evenkeel_lab::results::document::Document;
use evenkeel_lab::results::report::{PAGE, Report, Run};

#[expect(clippy::disallowed_methods, reason = "documents, not a store's files")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("say where the report goes, then which documents it is of")?;
    let mut runs = Vec::new();
    for path in args {
        let document = Document::from_json(&std::fs::read_to_string(&path)?)?;
        let settings =
            Path::new(&path).file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
        runs.push(Run::new(&settings, document));
    }
    let dir = Path::new(&dir);
    Report::new(runs).write(dir)?;
    println!("{}", dir.join(PAGE).display());
    Ok(())
}
