//! The tree of a keyspace as data for a picture: levels with their runs, where the tombstones are, which jobs hold what.

use super::job_state::job_state;
use crate::base::error::{Error, Result, escaped};
use crate::compaction::claims::Claims;
use crate::compaction::cost_model::{debt_by_level, distance};
use crate::compaction::level_sizes::{goal_bytes, runs_max};
use crate::compaction::regroup::{GroupHeat, group_heats};
use crate::compaction::strategy::{Strategy, Trigger};
use crate::compaction::tree_view::TreeView;
use crate::db::jobs::install::tree_view;
use crate::db::store::decisions::because;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::observe::json::{Object, list, quoted};
use crate::version::level::Level;
use crate::version::picture::{draw, summarise};
use crate::version::run::{SortedRun, TableRef};

/// Runs that are listed of a level; the others are counted.
const RUNS_MAX: usize = 64;
/// Cells of a run's heat.
const CELLS: usize = 24;
/// Tables up to which the picture names each.
const DRAWN_TABLES_MAX: usize = 64;

/// The report as JSON.
pub fn report(store: &Store, keyspace: &KeyspaceState) -> Result<String> {
    let view = keyspace.view.load_full();
    let strategy = keyspace.strategy.load_full();
    let now_ms = store.clock.wall_ms();
    let (levels, distance) = {
        let tree = store.tree();
        let Some(tree) = tree_view(store, &tree, keyspace.id) else {
            return Err(Error::invalid(format!("keyspace `{}` was dropped", keyspace.name)));
        };
        let distance = distance(tree.version, &strategy.strategy);
        let levels = keyspace.heat.tell(|known| {
            levels(&tree, &strategy.strategy, now_ms, &|level, table| known.heat(level, table))
        });
        (levels, distance)
    };
    let version = &view.version;
    let few = version.tables().count() <= DRAWN_TABLES_MAX;
    let memtables = Object::new().raw("active_bytes", view.active.bytes());
    let memtables = memtables.raw("waiting", view.immutable.len()).raw("waiting_bytes", view.waiting_bytes());
    let object = Object::new().text("keyspace", &keyspace.name).text("strategy", &strategy.text);
    let object = object.raw("memtable_bytes", keyspace.memtable_bytes()).raw("memtables", memtables.end());
    let object =
        object.raw("distance_bytes", distance).raw("levels", levels).raw("jobs", jobs(store, keyspace));
    Ok(object.text("picture", &if few { draw(version) } else { summarise(version) }).end())
}

/// The levels as a JSON list.
fn levels(
    tree: &TreeView<'_>,
    strategy: &Strategy,
    now_ms: u64,
    heat: &dyn Fn(usize, &TableRef) -> Option<f64>,
) -> String {
    let (version, claims) = (tree.version, tree.claims);
    let debts = debt_by_level(version, strategy);
    list(version.levels.iter().enumerate().map(|(i, level)| {
        let policy = strategy.levels.get(i, version.levels.len());
        let bounds = level.groups.iter().map(|group| policy.layout.of_group(group).max_runs());
        let max_runs = bounds.max().unwrap_or(policy.layout.max_runs());
        let max_runs = runs_max(&strategy.size, version, i, max_runs);
        let groups = group_heats(version, strategy, i, &|table| heat(i, table));
        let runs = || level.runs().filter(|r| !r.tables.is_empty());
        let tables = || runs().flat_map(|r| &r.tables);
        let oldest = tables().filter_map(|t| t.meta.oldest_tombstone_ms).min();
        let object = Object::new().raw("level", i).raw("max_runs", max_runs);
        let object = object.raw("groups", level.groups.len()).raw("runs", runs().count());
        let object = object.raw("tables", tables().count()).raw("bytes", level.bytes());
        let object = object.raw("target_bytes", goal_bytes(&strategy.size, version, i));
        let counted = !policy.triggers.iter().any(|trigger| matches!(trigger, Trigger::Saturation(_)));
        let object = object.text("full_by", if counted { "runs" } else { "bytes" });
        let object = object.raw("debt_bytes", debts.get(i).copied().unwrap_or(0));
        let object = object.raw("busy_bytes", busy_bytes(level, claims));
        let object = object.raw("entries", tables().map(entries).sum::<u64>());
        let object = object.raw("tombstones", tables().map(|t| t.meta.tombstones).sum::<u64>());
        let age = oldest.map(|ms| (now_ms.saturating_sub(ms) / 1000).to_string());
        let object = object.raw("tombstone_oldest_seconds", age.as_deref().unwrap_or("null"));
        let object = object.raw("group_list", list(groups.iter().map(group_json)));
        object.raw("run_list", list(runs().take(RUNS_MAX).map(|run| run_json(run, claims)))).end()
    }))
}

/// A group by heat: `from` and `to` are its bounds, empty where it has none.
fn group_json(group: &GroupHeat) -> String {
    let key = |key: &[u8]| quoted(&if key.is_empty() { String::new() } else { escaped(key) });
    let object = Object::new().raw("is_hot", group.is_hot);
    let object = object.raw("from", key(&group.range.lo));
    let object = object.raw("to", key(group.range.hi.as_deref().unwrap_or_default()));
    let object = object.raw("runs", group.runs).raw("max_runs", group.run_bound).raw("bytes", group.bytes);
    let looks = group.heat.map_or_else(|| "null".to_owned(), |heat| format!("{heat:.4}"));
    object.raw("looks_per_get", looks).fraction("hot_votes", group.votes).end()
}

fn entries(table: &TableRef) -> u64 {
    table.meta.entries.saturating_sub(table.consumed)
}

fn busy_bytes(level: &Level, claims: &Claims) -> u64 {
    level.tables().filter(|t| claims.holder(t.id()).is_some()).map(TableRef::bytes).sum()
}

fn run_json(run: &SortedRun, claims: &Claims) -> String {
    let key = |key: Option<&[u8]>| quoted(&key.map(escaped).unwrap_or_default());
    let tables = &run.tables;
    let mut jobs: Vec<u64> = tables.iter().filter_map(|t| claims.holder(t.id())).map(|job| job.0).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let object = Object::new().raw("run", run.id).raw("tables", tables.len()).raw("bytes", run.bytes());
    let object = object.raw("entries", tables.iter().map(entries).sum::<u64>());
    let object = object.raw("tombstones", tables.iter().map(|t| t.meta.tombstones).sum::<u64>());
    let object = object.raw("from", key(tables.first().map(|t| &t.meta.smallest[..])));
    let object = object.raw("to", key(tables.last().map(|t| &t.meta.largest[..])));
    let heat = heat(tables).iter().map(|share| format!("{share:.2}")).collect::<Vec<_>>();
    object.raw("heat", list(heat)).raw("jobs", list(jobs.iter().map(ToString::to_string))).end()
}

/// The share of tombstones along a run, in at most `CELLS` equal numbers of tables.
fn heat(tables: &[TableRef]) -> Vec<f64> {
    let cells = tables.len().min(CELLS);
    let cell = |i: usize| {
        let part = tables.get(i * tables.len() / cells..(i + 1) * tables.len() / cells).unwrap_or_default();
        let tombstones: u64 = part.iter().map(|t| t.meta.tombstones).sum();
        tombstones as f64 / part.iter().map(|t| t.meta.entries).sum::<u64>().max(1) as f64
    };
    (0..cells).map(cell).collect()
}

/// The open jobs of a keyspace as a JSON list, most urgent first.
fn jobs(store: &Store, keyspace: &KeyspaceState) -> String {
    list(job_state(store).into_iter().filter(|job| job.keyspace == keyspace.id).map(|job| {
        let object = Object::new().raw("job", job.id).text("class", &job.class.to_string());
        let object = object.raw("level", job.levels.0).raw("output_level", job.levels.1);
        let object = object.raw("bytes", job.bytes).raw("read_bytes", job.read_bytes);
        let object = object.text("reason", &job.reason).text("because", &because(&job.reason));
        let object = object.text("state", job.state);
        let due = job.due_in.map_or_else(|| "null".to_owned(), |due| due.as_secs().to_string());
        object.raw("seconds", job.open_for.as_secs()).raw("due_in_seconds", due).end()
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::units::SeqNo;
    use crate::compaction::tree_view::Ids;
    use crate::version::picture_parse::parse;
    use crate::version::version::Version;

    #[test]
    fn heat_is_the_share_of_tombstones_along_the_run() {
        let tree = "L0 L 1[a-b entries=10 dels=10] 2[c-d entries=10 dels=0] 3[e-f entries=30 dels=10]";
        let tree = parse(tree).unwrap();
        let run = &tree.levels[0].groups[0].runs[0];
        assert_eq!(heat(&run.tables), [1.0, 0.0, 1.0 / 3.0]);
        assert_eq!(heat(&[]), [] as [f64; 0]);
    }

    #[test]
    fn keys_are_printed_as_everywhere() {
        assert_eq!(escaped(b"user:123 a\\b\xd0"), "user:123\\x20a\\\\b\\xd0");
        assert_eq!(escaped(b""), "\\e");
    }

    fn levels_of(version: &Version, strategy: &str, heat: fn(usize, &TableRef) -> Option<f64>) -> String {
        let (claims, cursors) = (Claims::default(), BTreeMap::new());
        let view = TreeView {
            version,
            claims: &claims,
            cursors: &cursors,
            ids: Ids::above(version),
            now_ms: 5000,
            oldest_snapshot: SeqNo::MAX,
            space_amp: 0.0,
        };
        levels(&view, &strategy.parse().unwrap(), 5000, &heat)
    }

    #[test]
    fn groups_by_heat_say_how_much_they_are_read() {
        let tree =
            "L0 T4\nL1 L{..d} 1[a-c bytes=60 reads=80] T4{d..} 3[d-f bytes=40] | 2[d-e bytes=9 reads=5]";
        let strategy = "when=saturation how=by-heat:1:4:share=0.5 much=level; L0: how=runs:4";
        let heat = |_: usize, table: &TableRef| Some(table.meta.access.reads() as f64 / 100.0);
        let json = levels_of(&parse(tree).unwrap(), strategy, heat);
        for part in [
            r#"{"is_hot":true,"from":"","to":"d","runs":1,"max_runs":1,"bytes":60,"looks_per_get":0.8000,"hot_votes":1"#,
            r#"{"is_hot":false,"from":"d","to":"","runs":2,"max_runs":4,"bytes":49,"looks_per_get":0.0500,"hot_votes":0"#,
            r#""level":1,"max_runs":4,"groups":2"#,
        ] {
            assert!(json.contains(part), "no {part} in {json}");
        }
    }

    #[test]
    fn a_level_says_what_it_holds_and_what_it_should() {
        let tree = parse("L0 T 2[c-d bytes=70 entries=7 dels=1] | 1[a-k bytes=30 entries=3]").unwrap();
        let strategy = "when=runs how=runs:2 much=runs; size: l0=400 base=400 ratio=10 table=100";
        let json = levels_of(&tree, strategy, |_, _| None);
        for part in [
            r#""level":0,"max_runs":2,"groups":1,"runs":2,"tables":2,"bytes":100,"target_bytes":400,"full_by":"runs""#,
            r#""debt_bytes":100,"busy_bytes":0,"entries":10,"tombstones":1"#,
            r#""tables":1,"bytes":30,"entries":3,"tombstones":0,"from":"a","to":"k","heat":[0.00],"jobs":[]"#,
        ] {
            assert!(json.contains(part), "no {part} in {json}");
        }
    }
}
