//! What a decision costs: every strategy of the catalogue picks on trees of ten thousand tables and of a hundred thousand.
//!
//! `cargo run --release -p evenkeel --example picking` prints a line for each strategy and size of tree, in microseconds. A tree
//! has more in each level than fits, in turn most of all in each but the last, so that every level is the one compacted:
//! *middle* and *most* are over these levels. *First* is the first decision after a compaction has changed two runs, which
//! adds their tables up anew. *Plain* does the same without noting why other candidates were not taken.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use evenkeel::plan::{
    Claims, Group, GroupId, Ids, KeyRange, Level, Permit, Pick, Picked, RunId, SeqNo, SortedRun, TableRef,
    TreeView, Version, attempt, candidates, fabricated_meta, pick,
};
use evenkeel::strategy::{Strategy, catalog, with_sizes};
use evenkeel::testing::Random;
use evenkeel::{Options, Result};

const TABLE_BYTES: u64 = 2 << 20;
const RATIO: u64 = 10;
const RUNS: usize = 4;
/// Tables of a tree, levels below L0, and the most microseconds that a decision may take there.
const TREES: [(usize, usize, f64); 2] = [(10_000, 3, 50.0), (100_000, 4, 1000.0)];
const REPEATS: usize = 31;
/// Nor more often than takes so long.
const ENOUGH_US: f64 = 300_000.0;
/// What a level has beyond its size, in tenths: one that is to be compacted first, and the others.
const FULL: (u64, u64) = (14, 11);

fn main() -> ExitCode {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let names = catalog()
        .iter()
        .map(|row| row.name)
        .filter(|name| asked.is_empty() || asked.iter().any(|a| a == name));
    println!(
        "{:>8} {:>8} {:>8} {:>8} {:>8}  {:>9}  strategy",
        "tables", "middle", "most", "first", "plain", "inputs"
    );
    let mut slow = 0;
    for name in names {
        for (tables, levels, bar_us) in TREES {
            match costs(name, tables, levels) {
                Ok(cost) => slow += usize::from(cost.print(name, tables, bar_us)),
                Err(error) => {
                    eprintln!("picking: {name}: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    println!(
        "{slow} above the bar of {} µs on {} tables, {} µs on {}",
        TREES[0].2, TREES[0].0, TREES[1].2, TREES[1].0
    );
    ExitCode::SUCCESS
}

/// Microseconds.
#[derive(Default)]
struct Cost {
    middle: f64,
    most: f64,
    first: f64,
    plain: f64,
    inputs: usize,
}

impl Cost {
    /// True if it is above the bar.
    fn print(&self, name: &str, tables: usize, bar_us: f64) -> bool {
        let Cost { middle, most, first, plain, inputs } = self;
        let above = *most > bar_us;
        let mark = if above { "  above" } else { "" };
        println!(
            "{tables:>8} {middle:>8.1} {most:>8.1} {first:>8.1} {plain:>8.1}  {inputs:>9}  {name}{mark}"
        );
        above
    }
}

fn costs(name: &str, tables: usize, levels: usize) -> Result<Cost> {
    let mut options = Options { table_bytes: TABLE_BYTES, level_ratio: RATIO as u32, ..Options::default() };
    let last = tables as u64 * TABLE_BYTES * 9 / 10;
    options.level_base_bytes = last / RATIO.pow(levels as u32 - 1);
    let strategy = with_sizes(name, &options)?;
    let (mut warms, mut out) = (Vec::new(), Cost::default());
    for hot in 0..levels {
        let version = tree(&strategy, tables, levels, hot);
        let open = Default::default();
        let all = Permit::everything();
        if let Pick::Run(picked) = pick(&view(&version, &open), &strategy, &all) {
            out.inputs = out.inputs.max(picked.compaction.tables().count());
        }
        let warm = timed(|| (), |()| pick(&view(&version, &open), &strategy, &all));
        let first = timed(|| changed(&version, hot), |new| (pick(&view(&new, &open), &strategy, &all), new));
        let plain = timed(|| (), |()| without_reasons(&view(&version, &open), &strategy));
        warms.push(warm);
        out.most = out.most.max(warm);
        out.first = out.first.max(first);
        out.plain = out.plain.max(plain);
    }
    warms.sort_by(f64::total_cmp);
    out.middle = warms.get(warms.len() / 2).copied().unwrap_or_default();
    Ok(out)
}

/// What a decision looks at where nothing is open.
fn view<'a>(version: &'a Version, open: &'a (Claims, BTreeMap<usize, Box<[u8]>>)) -> TreeView<'a> {
    TreeView {
        version,
        claims: &open.0,
        cursors: &open.1,
        ids: Ids { next_run: 1 << 40, next_group: 1 << 40 },
        now_ms: 1000,
        oldest_snapshot: SeqNo::MAX,
        space_amp: 0.0,
    }
}

/// The first candidate that can be served.
fn without_reasons(view: &TreeView<'_>, strategy: &Strategy) -> Option<Box<Picked>> {
    let all = candidates(view, strategy);
    all.iter().find_map(|candidate| match attempt(view, strategy, &Permit::everything(), candidate) {
        Pick::Run(picked) => Some(picked),
        _ => None,
    })
}

/// The least of several times, microseconds: others may use the machine.
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
fn timed<T, R>(prepare: impl Fn() -> T, act: impl Fn(T) -> R) -> f64 {
    let (mut least, mut all) = (f64::INFINITY, 0.0);
    for _ in 0..REPEATS {
        let prepared = prepare();
        let began = Instant::now();
        let done = black_box(act(black_box(prepared)));
        let us = began.elapsed().as_secs_f64() * 1e6;
        drop(done);
        least = least.min(us);
        all += us;
        if all > ENOUGH_US {
            break;
        }
    }
    least
}

/// The same tree after a compaction of this level into the next.
fn changed(version: &Version, level: usize) -> Version {
    let mut out = version.clone();
    for level in out.levels.iter_mut().skip(level).take(2) {
        for group in &mut level.groups {
            for run in Arc::make_mut(group).runs.iter_mut().take(1) {
                *run = Arc::new(SortedRun::clone(run));
            }
        }
    }
    out
}

/// `levels` below L0, the last with nine tenths of the tables; in each as many runs as it may have.
fn tree(strategy: &Strategy, tables: usize, levels: usize, hot: usize) -> Version {
    let mut random = Random::new(3);
    let mut next = 1;
    let mut level = |number: usize| {
        let count = if number == levels {
            tables * 9 / 10
        } else {
            let tenths = if number == hot { FULL.0 } else { FULL.1 };
            let size = tables as u64 * 9 / 10 / RATIO.pow((levels - number) as u32);
            (size.max(RUNS as u64) * tenths / 10) as usize
        };
        let max = strategy.levels.get(number, levels + 1).layout.max_runs() as usize;
        // A level of one run has it; of several, the last has one less than makes it a candidate.
        let runs = if number == levels { max.saturating_sub(1).max(1) } else { max };
        let run = |at: usize| {
            let share = (count / runs).max(1);
            let run = RunId(1000 * number as u64 + at as u64 + 1);
            Arc::new(SortedRun::new(run, row(&mut next, share, &mut random)))
        };
        let runs = (0..runs).map(run).collect();
        let group =
            Group { id: GroupId(number as u64 + 1), range: KeyRange::all(), runs, run_bound: max as u32 };
        Level { groups: vec![Arc::new(group)] }
    };
    Version { levels: (0..=levels).map(&mut level).collect() }
}

/// Tables side by side, of about the usual size, some entries of each deletes.
fn row(next: &mut u64, count: usize, random: &mut Random) -> Vec<TableRef> {
    let width = u64::MAX / count as u64;
    let table = |at: usize| {
        let lo = at as u64 * width + random.below(width / 8);
        let hi = lo + width / 2 + random.below(width / 8);
        let mut meta = fabricated_meta(*next, &lo.to_be_bytes(), &hi.to_be_bytes());
        meta.bytes = TABLE_BYTES * (90 + random.below(20)) / 100;
        meta.entries = meta.bytes / 128;
        meta.blocks = meta.bytes / 4096;
        meta.tombstones = random.below(meta.entries / 10);
        meta.oldest_tombstone_ms = Some(random.below(1000));
        meta.created_ms = random.below(1000);
        meta.seqs = (SeqNo(random.below(1 << 30)), SeqNo(1 << 31));
        *next += 1;
        TableRef::whole(Arc::new(meta), 1)
    };
    (0..count).map(table).collect()
}
