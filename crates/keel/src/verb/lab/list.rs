//! `keel lab list`: every experiment with its claims, bars and time; and what is not reproduced.

use std::fmt::Write as _;

use evenkeel_lab::design_space;
use evenkeel_lab::design_space::cells::ROUNDS;
use evenkeel_lab::design_space::study::Study;
use evenkeel_lab::experiments::{ALL, BASELINE, NOT_REPRODUCED, SCHEDULES, STUDIES};
use evenkeel_lab::results::comparison::Unit;
use evenkeel_lab::results::comparison_table::COLUMNS;
use evenkeel_lab::results::settings::{OURS, Settings};
use evenkeel_lab::scheduling;
use evenkeel_lab::verdicts::cells::{self, Cell, Scale};
use evenkeel_lab::verdicts::expected::expected;

use super::{duration, runner};
use crate::failure::Failure;
use crate::output::Output;

/// What there is.
pub fn list(json: bool) -> Result<(), Failure> {
    let settings = Settings::ALL.map(|(_, settings)| settings);
    let bars = expected();
    let mut out = Output::new();
    let mut objects = Vec::new();
    for experiment in ALL {
        let scale = Scale::full(None);
        let all = cells::plan(&[*experiment], ALL, &[], &settings, scale);
        let duo: Vec<Cell> = all
            .iter()
            .filter(|cell| [OURS, BASELINE].contains(&cell.system.engine.as_str()))
            .cloned()
            .collect();
        if json {
            let claims = experiment.claims.iter().map(|claim| {
                serde_json::json!({ "id": claim.id, "claim": claim.text, "expected": bars.get(claim.id) })
            });
            objects.push(serde_json::json!({
                "id": experiment.id, "title": experiment.title, "cells": all.len(),
                "seconds": runner::estimate(&all, scale).round(), "claims": claims.collect::<Vec<_>>(),
            }));
            continue;
        }
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {}\n  about {} with {} engines ({} runs), {} with {OURS} and {BASELINE} alone",
            experiment.id,
            experiment.title,
            duration(runner::estimate(&all, scale)),
            experiment.engines.len(),
            all.len(),
            duration(runner::estimate(&duo, scale))
        );
        for claim in experiment.claims {
            let bar = bars.get(claim.id);
            let unit = claim.take.unit();
            let goal =
                bar.and_then(|b| b.goal).map_or_else(String::new, |g| format!(", goal {}", g.text(unit)));
            let bar = bar.map_or_else(String::new, |b| b.bar.text(unit));
            let _ = writeln!(text, "  {:<32} {}: {bar}{goal}", claim.id, claim.text);
        }
        debug_assert!(text.lines().all(|line| line.chars().count() <= COLUMNS + 20));
        out.text(&text)?;
    }
    for study in STUDIES {
        let cells = design_space::cells::plan(&[*study], 1..=ROUNDS);
        let seconds: f64 = cells.iter().map(|cell| cell.estimate(1)).sum();
        match json {
            true => objects.push(study_json(study, &cells, seconds)),
            false => out.text(&study_text(study, &cells, seconds))?,
        }
    }
    for study in SCHEDULES {
        let cells = scheduling::cells::plan(&[*study], 1..=scheduling::cells::ROUNDS);
        let seconds = scheduling::cells::estimate(&cells, 1, |cell| cell.estimate(1), |_| false);
        match json {
            true => objects.push(schedules_json(study, &cells, seconds)),
            false => out.text(&schedules_text(study, &cells, seconds))?,
        }
    }
    if !json {
        out.text("not reproduced:\n")?;
        for (figures, why) in NOT_REPRODUCED {
            out.text(&format!("  {figures}: {why}\n"))?;
        }
    }
    if json {
        let left_out =
            NOT_REPRODUCED.iter().map(|(id, why)| serde_json::json!({ "id": id, "not_reproduced": why }));
        objects.extend(left_out);
        let text = serde_json::to_string_pretty(&objects);
        return out.line(&text.map_err(|error| Failure::work(format!("the list is no JSON: {error}")))?);
    }
    Ok(())
}

/// A study as the list has it.
fn study_json(study: &Study, cells: &[design_space::cells::Cell], seconds: f64) -> serde_json::Value {
    let bars = expected();
    let claims = study.claims.iter().map(|claim| {
        serde_json::json!({
            "id": claim.id, "observation": claim.observation, "claim": claim.text, "expected": bars.get(claim.id),
        })
    });
    let mut points: Vec<String> = cells.iter().map(|cell| cell.point.name()).collect();
    points.dedup();
    points.truncate(cells.len() / usize::from(ROUNDS));
    serde_json::json!({
        "id": study.id, "title": study.title, "cells": cells.len(), "seconds": seconds.round(), "points": points,
        "claims": claims.collect::<Vec<_>>(),
    })
}

/// The same for people.
fn study_text(study: &Study, cells: &[design_space::cells::Cell], seconds: f64) -> String {
    let bars = expected();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ =
        writeln!(text, "{}: {}\n  about {}, {} runs", study.id, study.title, duration(seconds), cells.len());
    for claim in study.claims {
        let bar = bars.get(claim.id).map_or_else(String::new, |b| b.bar.text(Unit::Times));
        let _ = writeln!(text, "  {:<4} {:<30} {}: {bar}", claim.observation, claim.id, claim.text);
    }
    text
}

/// An experiment over schedules as the list has it.
fn schedules_json(
    study: &scheduling::study::Study,
    cells: &[scheduling::cells::Cell],
    seconds: f64,
) -> serde_json::Value {
    let bars = expected();
    let claims = study.claims.iter().map(|claim| {
        serde_json::json!({
            "id": claim.id, "observation": study.figure, "claim": claim.text, "expected": bars.get(claim.id),
        })
    });
    let rows: Vec<String> = (study.rows)().iter().map(scheduling::row::Row::id).collect();
    serde_json::json!({
        "id": study.id, "title": study.title, "cells": cells.len(), "seconds": seconds.round(), "rows": rows,
        "claims": claims.collect::<Vec<_>>(),
    })
}

/// The same for people.
fn schedules_text(
    study: &scheduling::study::Study,
    cells: &[scheduling::cells::Cell],
    seconds: f64,
) -> String {
    let bars = expected();
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ =
        writeln!(text, "{}: {}\n  about {}, {} runs", study.id, study.title, duration(seconds), cells.len());
    for claim in study.claims {
        let bar = bars.get(claim.id).map_or_else(String::new, |b| b.bar.text(Unit::Times));
        let _ = writeln!(text, "  {:<30} {}: {bar}", claim.id, claim.text);
    }
    text
}
