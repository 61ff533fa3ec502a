//! `keel bench soak`: minutes of everything at once, and whether memory, writers and admission kept their bars.

use evenkeel_lab::run::soak::{self, Account, Accountable, SoakPlan, SoakReport};

use crate::evenkeel_engine::EvenkeelEngine;
use crate::failure::Failure;
use crate::progress::BenchProgress;
use crate::stoppable::{Stoppable, failed};

impl Accountable for EvenkeelEngine {
    fn account(&self) -> Account {
        let metrics = self.db.metrics();
        let m = metrics.memory;
        let classes = [
            ("memtables", m.memtables),
            ("blocks", m.blocks),
            ("tables", m.tables),
            ("cursors", m.cursors),
            ("jobs", m.jobs),
            ("batches", m.batches),
        ];
        Account {
            classes: classes.map(|(name, bytes)| (name.to_owned(), bytes)).into(),
            counted_bytes: m.total(),
            limit_bytes: m.limit,
            admission_bytes_per_sec: metrics.admission_bytes_per_sec,
        }
    }
}

/// Runs it.
pub fn run(engine: &Stoppable<'_>, plan: SoakPlan) -> Result<SoakReport, Failure> {
    let progress = BenchProgress::default();
    let report = soak::run(engine, plan, &progress);
    progress.clear();
    report.map_err(|error| failed(&error))
}

/// What failed, as the command's failure.
pub fn verdict(report: &SoakReport) -> Result<(), Failure> {
    let failed: Vec<&str> =
        report.verdicts.iter().filter(|v| v.holds == Some(false)).map(|verdict| verdict.what).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::work(format!("the soak missed its bar: {}", failed.join("; ")))),
    }
}
