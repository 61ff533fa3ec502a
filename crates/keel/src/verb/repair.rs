//! `keel repair`: sets apart what is damaged in a store, so that it opens with what is whole.

use evenkeel::Db;
use evenkeel::repair::{Damage, RepairReport};
use evenkeel_lab::results::report;
use serde_json::{Value, json};

use crate::escape::one_line;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::Spinner;
use crate::store::{Target, directory};

/// See `keel repair --help`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Do it; else nothing is changed, and it is only said what would be done and what would be lost.
    #[arg(long)]
    apply: bool,
    /// Print an object with `damage`, `repaired`, and the `tables` and `bytes` that were read.
    #[arg(long)]
    json: bool,
}

/// Shown below the help.
pub const EXAMPLES: &str = "\
Examples:
  keel repair --db shop.db             what is damaged, and what a repair would lose
  keel repair --db shop.db --apply     do it
  keel verify --db shop.db             is it sound now?

Nothing is deleted: damaged files go to the directory `lost` in the store. Of a table the whole blocks are kept, of the
log everything before the first damage. A copy of the directory (`cp -r`) beforehand costs nothing but space.";

impl Args {
    /// Does it.
    pub fn run(&self, target: &Target) -> Result<(), Failure> {
        let dir = directory(target)?;
        target.without_keyspace("repair")?;
        let spinner = Spinner::start("reading every byte");
        let report = Db::builder(dir).repair(self.apply);
        spinner.finish();
        let report = report.map_err(|error| Failure::from(error).without_verify())?;
        let mut out = Output::new();
        self.print(&mut out, &report)?;
        match report.damage.len() {
            0 => Ok(()),
            _ if report.repaired => Ok(()),
            1 => Err(Failure::work("1 file is damaged; with --apply it is set apart")),
            n => Err(Failure::work(format!("{n} files are damaged; with --apply they are set apart"))),
        }
    }

    fn print(&self, out: &mut Output, found: &RepairReport) -> Result<(), Failure> {
        if self.json {
            let damage: Vec<Value> = found.damage.iter().map(object).collect();
            let (repaired, tables, bytes) = (found.repaired, found.tables, found.bytes);
            let object = json!({ "damage": damage, "repaired": repaired, "tables": tables, "bytes": bytes });
            return out.line(&object.to_string());
        }
        for damage in &found.damage {
            out.line(&one_line(&format!("{}: {}", damage.file, damage.what)))?;
            let (kept, lost) =
                if found.repaired { ("done", "lost") } else { ("would be done", "would be lost") };
            out.line(&format!("  {kept}: {}", damage.remedy))?;
            if !damage.lost.is_empty() {
                out.line(&format!("  {lost}: {}", damage.lost))?;
            }
        }
        let read = format!("{} tables, {} read", report::count(found.tables), report::bytes(found.bytes));
        let all = match (found.damage.is_empty(), found.repaired) {
            (true, _) => "nothing is damaged",
            (false, true) => "repaired; what was damaged is in lost/",
            (false, false) => "nothing was changed",
        };
        out.line(&format!("{all}: {read}"))
    }
}

fn object(damage: &Damage) -> Value {
    let Damage { file, what, remedy, lost } = damage;
    json!({ "file": file, "what": what, "remedy": remedy, "lost": lost })
}
