//! The page of verdicts, and the cells as a table for other programs.
//!
//! One file that needs nothing else; each work's own page (`crate::results::report`) lies beside and is linked.

use maud::{Markup, html};

use crate::base::provenance::{Host, Provenance};
use crate::results::comparison::OTHERS_CORES_MAX;
use crate::results::comparison_table::{quantity, times};
use crate::results::report::csv_row;
use crate::results::report::numbers::{UNKNOWN, bytes, cores, count, known, moment};
use crate::results::report::whole_page;
use crate::verdicts::cells::Finished;
use crate::verdicts::experiment::Take;
use crate::verdicts::judging::Verdict;
use crate::verdicts::verdict_table::{found, spread, word};

/// What the page says beside verdicts.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The command and the machine.
    pub provenance: &'a Provenance,
    /// The commit that the command was built of, if it is known.
    pub commit: Option<&'a str>,
    /// Sentences for the head.
    pub notes: &'a [String],
    /// Name and address of each work's own page.
    pub pages: &'a [(String, String)],
    /// Names of files with a line for each cell.
    pub tables: &'a [&'static str],
    /// Experiments over the design space and over schedules.
    pub studies: &'a Studies,
}

/// What the page has of experiments over the design space, or over schedules.
#[derive(Debug, Default)]
pub struct Studies {
    /// Their names.
    pub names: Vec<&'static str>,
    /// A section each.
    pub sections: Vec<Markup>,
    /// Cells that are finished.
    pub cells: usize,
    /// Cores that others used in the busiest of them.
    pub busiest: Option<f64>,
    /// How often cells were run again.
    pub repeats: u32,
    /// Only a part was run.
    pub quick: bool,
}

impl Studies {
    /// These and others.
    #[must_use]
    pub fn and(mut self, more: Studies) -> Studies {
        self.names.extend(more.names);
        self.sections.extend(more.sections);
        self.cells += more.cells;
        self.busiest = self.busiest.into_iter().chain(more.busiest).reduce(f64::max);
        self.repeats += more.repeats;
        self.quick |= more.quick;
        self
    }
}

/// The whole file.
pub fn page(about: &About<'_>, verdicts: &[Verdict], finished: &[Finished]) -> String {
    let mut experiments: Vec<&str> = verdicts.iter().map(|v| v.experiment.as_str()).collect();
    experiments.dedup();
    let named: Vec<&str> = experiments.iter().chain(&about.studies.names).copied().collect();
    let title = format!("Verdicts: {}", named.join(", "));
    let body = html! {
        (head(about, verdicts, finished))
        @for experiment in experiments {
            section { h2 { (experiment) } (table(verdicts.iter().filter(|v| v.experiment == experiment).collect())) }
        }
        @for section in &about.studies.sections { (section) }
        @if !about.pages.is_empty() {
            section { h2 { "Runs" } ul { @for (name, address) in about.pages { li { a href=(address) { (name) } } } } }
        }
        footer { p {
            "As data: " a href="verdicts.json" { "verdicts.json" }
            @for table in about.tables { ", " a href=(table) { (table) } }
            "; docs/lab.md says how to read them."
        } }
    };
    whole_page(&title, &body)
}

fn head(about: &About<'_>, verdicts: &[Verdict], finished: &[Finished]) -> Markup {
    let Provenance { command, began_ms, host } = about.provenance;
    let Host { cores: machine_cores, cpu, memory_bytes, kernel, disk } = host;
    let text = |text: &Option<String>| known(text.clone(), |text| text);
    let studies = about.studies;
    let busiest = finished.iter().filter_map(|cell| cell.run.document.others_cores);
    let busiest = busiest.chain(studies.busiest).reduce(f64::max);
    let repeats = finished.iter().map(|cell| cell.run.repeats).sum::<u32>() + studies.repeats;
    let facts = [
        ("Command", command.clone()),
        ("Began", moment(*began_ms)),
        ("Commit", about.commit.unwrap_or(UNKNOWN).to_owned()),
        ("Cores", known(*machine_cores, count)),
        ("Processor", text(cpu)),
        ("Memory", known(*memory_bytes, bytes)),
        ("Kernel", text(kernel)),
        ("Disk", text(disk)),
        ("Cells", count((finished.len() + studies.cells) as u64)),
        ("CPU of others, at most", known(busiest, cores)),
        ("Repeated because disturbed", count(u64::from(repeats))),
    ];
    html! {
        @if verdicts.iter().any(|v| v.quick) || studies.quick {
            p.warning { strong { "Beware: " } "only a part of the data and time was run; nothing here is to be quoted." }
        }
        @if busiest.is_some_and(|busiest| busiest > OTHERS_CORES_MAX) {
            p.warning { strong { "Beware: " } "others used the CPU in some cells; what rests on those is not valid." }
        }
        @for note in about.notes { p.note { (note) } }
        dl.facts {
            @for (name, value) in &facts { div.wide[value.len() > 24] { dt { (name) } dd { (value) } } }
        }
    }
}

fn table(verdicts: Vec<&Verdict>) -> Markup {
    let mut engines: Vec<&str> = Vec::new();
    for engine in verdicts.iter().flat_map(|v| &v.engines) {
        if !engines.contains(&engine.engine.as_str()) {
            engines.push(&engine.engine);
        }
    }
    let floors = verdicts.iter().any(|v| v.floor.is_some());
    html! {
        div.scroll role="region" aria-label="Verdicts" tabindex="0" { table {
            thead { tr {
                th scope="col" { "claim" }
                th scope="col" { "settings" }
                @for name in ["wanted", "goal", "found", "spread"] { th.number scope="col" { (name) } }
                th scope="col" { "verdict" }
                @for engine in &engines { th.number scope="col" { (engine) } }
                @if floors { th.number scope="col" { "floor" } }
            } }
            tbody { @for v in verdicts { (row(v, &engines, floors)) } }
        } }
    }
}

fn row(v: &Verdict, engines: &[&str], floors: bool) -> Markup {
    let class = match v.holds {
        Some(true) => "met",
        Some(false) => "missed",
        None => "",
    };
    let cell = |engine: &&str| {
        let figure = v.engines.iter().find(|figure| figure.engine == *engine)?;
        let median = quantity(figure.median?, v.unit);
        let ratio = figure.ratio.filter(|_| figure.engine != v.baseline);
        Some(ratio.map_or(median.clone(), |ratio| format!("{median} ({})", times(ratio))))
    };
    html! {
        tr {
            th scope="row" { (v.claim) br; code { (v.id) } }
            td { (v.settings) }
            td.number { (v.expected.bar.text(v.unit)) }
            td.number { (v.expected.goal.map_or_else(|| "–".to_owned(), |goal| goal.text(v.unit))) }
            td.number { (found(v)) }
            td.number { (spread(v)) }
            td {
                span class=(class) { (word(v)) }
                @if let Some(why) = v.why_not_valid.as_ref().or(v.note.as_ref()) { br; (why) }
            }
            @for engine in engines { td.number { (cell(engine).unwrap_or_else(|| "–".to_owned())) } }
            @if floors { td.number { (v.floor.map_or_else(|| "–".to_owned(), |x| quantity(x, v.unit))) } }
        }
    }
}

/// One line a cell; names first, units in the names.
pub fn csv(finished: &[Finished]) -> String {
    let figures: [(&str, Take); 8] = [
        ("throughput_ops_per_sec", Take::Throughput),
        ("p99_us", Take::P99),
        ("p999_us", Take::P999),
        ("worst_second_p99_us", Take::WorstSecond),
        ("write_amplification", Take::WriteAmplification),
        ("space_amplification", Take::SpaceAmplification),
        ("peak_rss_bytes", Take::PeakMemory),
        ("cpu_us_per_op", Take::CpuPerOp),
    ];
    let names = ["experiment", "work", "engine", "settings", "seed", "repeats", "wall_seconds"];
    let steady: [(&str, Take); 3] = [
        ("steady_p99_us", Take::P99),
        ("steady_p999_us", Take::P999),
        ("steady_worst_second_p99_us", Take::WorstSecond),
    ];
    let names = names.into_iter().chain(figures.map(|(name, _)| name)).chain(["max_rate", "others_cores"]);
    let names = names.chain(steady.map(|(name, _)| name)).chain(["halted_seconds"]);
    let mut out = csv_row(names.map(str::to_owned));
    for cell in finished {
        let d = &cell.run.document;
        let number = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
        let what = [
            cell.experiment.clone(),
            cell.work.clone(),
            d.engine.clone(),
            cell.run.settings.clone(),
            cell.seed.to_string(),
            cell.run.repeats.to_string(),
            cell.wall_seconds.to_string(),
        ];
        let measured = figures.iter().map(|(_, take)| number(take.of(d)));
        let last = [number(Take::HighestRate.of(d)), number(d.others_cores)];
        let halted = d.steady.as_ref().map(|steady| steady.halted_seconds as f64);
        let steady = steady.iter().map(|(_, take)| number(take.steady(d))).chain([number(halted)]);
        out += &csv_row(what.into_iter().chain(measured).chain(last).chain(steady));
    }
    out
}
