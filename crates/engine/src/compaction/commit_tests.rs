//! Commits on drawn trees: prefix commits, moves, flushes and ends; the tree before, the work, the tree after.

use std::collections::BTreeMap;

use super::*;
use crate::compaction::picker::{Pick, Wish, manual};
use crate::compaction::tree_view::TreeView;
use crate::version::check::check;
use crate::version::picture::draw;
use crate::version::picture_parse::{fabricated_meta, parse};

const TIER: &str = "when=runs how=runs:4 much=runs";
const LEVELED: &str = "when=saturation how=runs:1 much=level";

fn wish(range: KeyRange) -> Wish {
    Wish { range, to_level: None, until: SeqNo::MAX, before: TableId(1000) }
}

/// A tree, its open jobs, and the newest table number.
struct Scene {
    version: Version,
    claims: Claims,
    ids: Ids,
    strategy: Strategy,
    jobs: u64,
    next_table: u64,
}

impl Scene {
    fn new(strategy: &str, tree: &str) -> Scene {
        let version = parse(tree).unwrap();
        let ids = Ids::above(&version);
        let strategy = format!("{strategy}; size: sizes=fixed").parse().unwrap();
        Scene { version, claims: Claims::default(), ids, strategy, jobs: 0, next_table: 100 }
    }

    fn look(&self, range: KeyRange, level: usize) -> Pick {
        let Scene { version, claims, ids, .. } = self;
        let view = TreeView {
            version,
            claims,
            cursors: &BTreeMap::new(),
            ids: *ids,
            now_ms: 0,
            oldest_snapshot: SeqNo::MAX,
            space_amp: 0.0,
        };
        manual(&view, &self.strategy, &wish(range), level)
    }

    fn pick(&self, level: usize, from: &str, to: &str) -> Picked {
        match self.look(KeyRange::closed(from.as_bytes(), to.as_bytes()), level) {
            Pick::Run(picked) => *picked,
            other => panic!("{other:?}"),
        }
    }

    /// Opens a job that moves the tables between two keys one level down.
    fn open(&mut self, level: usize, from: &str, to: &str) -> JobId {
        let picked = self.pick(level, from, to);
        self.version = self.version.apply(&picked.before).unwrap();
        self.ids = picked.ids;
        self.jobs += 1;
        self.claims.claim(JobId(self.jobs), Arc::new(picked.compaction)).unwrap();
        JobId(self.jobs)
    }

    /// Commits outputs `[first-last]` into the first slot, up to a cut, and draws the tree.
    fn commit(&mut self, job: JobId, outputs: &[(&str, &str)], cut: Option<&str>) -> Result<String> {
        let metas = outputs.iter().map(|(first, last)| {
            self.next_table += 1;
            let mut meta = fabricated_meta(self.next_table, first.as_bytes(), last.as_bytes());
            meta.seqs = (SeqNo(1), SeqNo(900));
            Arc::new(meta)
        });
        let outputs = vec![metas.collect()];
        let consumed = self.claims.compaction(job).unwrap().tables().map(|t| (t.id(), 5)).collect();
        let cut = cut.map(|c| c.as_bytes().into());
        let part = CommitPart { outputs, ends: cut.is_none(), cut, consumed };
        let done = commit_part(&self.version, &self.claims, job, &part, 0)?;
        Ok(self.install(done, part.ends.then_some(job)))
    }

    fn install(&mut self, done: Committed, ended: Option<JobId>) -> String {
        self.claims.committed(&done.edit);
        if let Some(job) = ended {
            self.claims.release(job);
        }
        self.version = done.version;
        crate::version::check::check_shape(&self.version).unwrap();
        draw(&self.version)
    }
}

#[test]
fn a_prefix_is_committed_and_the_rest_stays_readable() {
    let mut scene = Scene::new(LEVELED, "L0 L 5[a-m]\nL1 L 6[a-f] 7[g-z]\nL2 L 8[a-z]");
    let job = scene.open(0, "a", "m");
    let want = "L0 L 5[a/h-m]\nL1 L 101[a-g] 7[g/h-z]\nL2 L 8[a-z]\n";
    assert_eq!(scene.commit(job, &[("a", "g")], Some("h")).unwrap(), want);
    assert_eq!(check(&scene.version, &scene.claims.open_claims()), Ok(()));
    let want = "L0 L\nL1 L 101[a-g] 102[h-z]\nL2 L 8[a-z]\n";
    assert_eq!(scene.commit(job, &[("h", "z")], None).unwrap(), want);
    assert_eq!(check(&scene.version, &[]), Ok(()));
}

#[test]
fn an_input_that_the_cut_ends_at_goes_whole() {
    let mut scene = Scene::new(LEVELED, "L0 L 5[a-m]\nL1 L 6[a-f] 7[g-z]\nL2 L 8[a-z]");
    let job = scene.open(0, "a", "m");
    // Between f and g: 6 is consumed, of 7 nothing.
    let want = "L0 L 5[a/f+-m]\nL1 L 101[a-f] 7[g-z]\nL2 L 8[a-z]\n";
    assert_eq!(scene.commit(job, &[("a", "f")], Some("f\0")).unwrap(), want);
}

#[test]
fn a_slot_stays_where_it_is_when_another_job_adds_a_newer_run() {
    let tree = "L0 T 4[a-c] | 3[x-z]\nL1 T 1[a-z]\nL2 T 2[a-z]";
    let mut scene = Scene::new(TIER, tree);
    let first = scene.open(0, "a", "c");
    let second = scene.open(0, "x", "z");
    // Both are to go just above the run of table 1, which was the newest for both.
    let want = "L0 T4 4[a/b-c] | 3[x-z]\nL1 T4 101[a-a] | 1[a-z]\nL2 T4 2[a-z]\n";
    assert_eq!(scene.commit(first, &[("a", "a")], Some("b")).unwrap(), want);
    // The second's place is no longer the top. Its run is not fused with the first's: that job is still open.
    let want = "L0 T4 4[a/b-c]\nL1 T4 101[a-a] | 102[x-z] | 1[a-z]\nL2 T4 2[a-z]\n";
    assert_eq!(scene.commit(second, &[("x", "z")], None).unwrap(), want);
    // The first goes on into its own run; when it has ended, nothing keeps the two apart.
    let want = "L0 T4\nL1 T4 101[a-a] 103[b-c] 102[x-z] | 1[a-z]\nL2 T4 2[a-z]\n";
    assert_eq!(scene.commit(first, &[("b", "c")], None).unwrap(), want);
    assert_eq!(check(&scene.version, &[]), Ok(()));
}

#[test]
fn a_run_that_a_job_has_its_slot_at_stays_even_empty() {
    let mut scene = Scene::new(TIER, "L0 T 4[a-c]\nL1 T 1[k-m]\nL2 T 2[a-c]");
    let above = scene.open(0, "a", "c");
    let down = scene.pick(1, "k", "m");
    assert!(down.compaction.trivial_move);
    let moved = move_tables(&scene.version, &scene.claims, &down, 7).unwrap();
    // Table 1 is fused with 2 below; its empty run is still what the open job's output goes above.
    assert_eq!(scene.install(moved, None), "L0 T4 4[a-c]\nL1 T4 ()\nL2 T4 2[a-c] 1[k-m]\n");
    assert!(check(&scene.version, &[]).unwrap_err().contains("is empty and no open job holds it"));
    assert_eq!(check(&scene.version, &scene.claims.open_claims()), Ok(()));
    let want = "L0 T4\nL1 T4 101[a-c]\nL2 T4 2[a-c] 1[k-m]\n";
    assert_eq!(scene.commit(above, &[("a", "c")], None).unwrap(), want);
    assert_eq!(check(&scene.version, &[]), Ok(()));
}

#[test]
fn a_group_is_not_edited_under_a_job_nor_used_under_an_edit() {
    let mut scene = Scene::new(LEVELED, "L0 L 5[a-m]\nL1 L 6[a-f] 7[g-z]\nL2 L 8[a-z]");
    let editor = JobId(77);
    scene.claims.claim_group(editor, GroupId(3)).unwrap();
    let job = scene.open(0, "a", "m");
    let refused = scene.claims.claim_group(editor, GroupId(2)).unwrap_err().to_string();
    assert_eq!(refused, format!("group 2 is in use by job {job}"));
    assert!(scene.claims.claim_group(editor, GroupId(1)).is_err(), "inputs count as well");
    scene.claims.release(job);
    scene.claims.claim_group(editor, GroupId(2)).unwrap();
    let picked = scene.pick_blocked();
    assert_eq!(picked, [editor]);
    scene.claims.release(editor);
    scene.open(0, "a", "m");
}

impl Scene {
    fn pick_blocked(&self) -> Vec<JobId> {
        match self.look(KeyRange::all(), 0) {
            Pick::Blocked { by, .. } => by,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn work_that_is_not_legal_any_more_is_refused() {
    let mut scene = Scene::new(TIER, "L0 T 4[a-c]\nL1 T\nL2 T 2[a-c]");
    let job = scene.open(0, "a", "c");
    // Somebody who ignores the claims puts a table between the input and its place.
    let mut edit = VersionEdit::default();
    let place = RunPlace::Below(RunId(1));
    edit.steps.push(EditStep::AddRun { level: 0, group: GroupId(1), run: RunId(50), place });
    edit.add_whole(RunId(50), Arc::new(fabricated_meta(60, b"b", b"b")), 0);
    let before = scene.version.clone();
    scene.version = scene.version.apply(&edit).unwrap();
    let refused = scene.commit(job, &[("a", "c")], None).unwrap_err().to_string();
    let want = "table 60 lies between table 4 and the output's place, and is no input";
    assert_eq!(refused, format!("the compaction is not legal any more: {want}"));
    // Or takes its input away.
    let drop_input = EditStep::DropTable { table: TableId(4) };
    scene.version = before.apply(&VersionEdit { steps: vec![drop_input], ..VersionEdit::default() }).unwrap();
    let refused = scene.commit(job, &[("a", "c")], None).unwrap_err().to_string();
    assert_eq!(refused, "input table 4 is not in the tree any more");
}

#[test]
fn outputs_stay_in_their_place() {
    let mut scene = Scene::new(LEVELED, "L0 L 5[a-m]\nL1 L 6[a-f]\nL2 L 8[a-z]");
    let job = scene.open(0, "a", "m");
    let refused = scene.commit(job, &[("a", "k")], Some("h")).unwrap_err().to_string();
    assert!(refused.starts_with("output 101 at [a, k"), "{refused}");
    let refused = scene.commit(job, &[("a", "p")], None).unwrap_err().to_string();
    assert!(refused.starts_with("output 102 at [a, p"), "{refused}");
}

#[test]
fn a_job_that_ends_without_work_leaves_the_tree_as_it_was() {
    let tree = "L0 T4 4[a-c]\nL1 T4 1[k-m]\nL2 T4\n";
    let mut scene = Scene::new(TIER, tree);
    let job = scene.open(0, "a", "c");
    let done = end_job(&scene.version, &scene.claims, job).unwrap();
    assert_eq!(scene.install(done, Some(job)), tree);
}

#[test]
fn a_flush_is_the_newest_run_of_each_group_it_touches() {
    let scene = Scene::new(TIER, "L0 T{..k} 1[a-c] T{k..} 2[k-m]\nL1 T");
    let mut ids = scene.ids;
    let metas = [("a", "b"), ("d", "e"), ("x", "z")].into_iter().enumerate();
    let tables = metas
        .map(|(i, (first, last))| Arc::new(fabricated_meta(10 + i as u64, first.as_bytes(), last.as_bytes())))
        .collect();
    let done = flush(&scene.version, &scene.claims, &mut ids, tables, SeqNo(9), 0).unwrap();
    // The second group's arrival does not overlap what is there, so the two runs are one.
    assert_eq!(draw(&done.version), "L0 T4{..k} 10[a-b] 11[d-e] | 1[a-c] T4{k..} 2[k-m] 12[x-z]\nL1 T4\n");
    assert_eq!(done.edit.flushed_through, Some(SeqNo(9)));
    assert_eq!(ids.next_run, scene.ids.next_run + 2);
}

#[test]
fn a_flush_beside_an_open_job_is_not_fused() {
    let mut scene = Scene::new(TIER, "L0 T 1[a-c]\nL1 T\nL2 T 2[a-z]");
    let job = scene.open(0, "a", "c");
    let mut ids = scene.ids;
    let table = Arc::new(fabricated_meta(10, b"x", b"z"));
    let done = flush(&scene.version, &scene.claims, &mut ids, vec![table], SeqNo(9), 0).unwrap();
    scene.ids = ids;
    assert_eq!(scene.install(done, None), "L0 T4 10[x-z] | 1[a-c]\nL1 T4\nL2 T4 2[a-z]\n");
    let done = end_job(&scene.version, &scene.claims, job).unwrap();
    assert_eq!(scene.install(done, Some(job)), "L0 T4 1[a-c] 10[x-z]\nL1 T4\nL2 T4 2[a-z]\n");
}

#[test]
fn bounds_follow_a_new_strategy_where_the_shape_fits_and_nobody_works() {
    let scene = Scene::new(LEVELED, "L0 T 2[a-c] | 1[a-c]\nL1 T 3[a-c]\nL2 L 4[a-c]");
    let done = set_bounds(&scene.version, &scene.claims, &scene.strategy).unwrap().unwrap();
    assert_eq!(draw(&done.version), "L0 T4 2[a-c] | 1[a-c]\nL1 L 3[a-c]\nL2 L 4[a-c]\n");
    assert!(set_bounds(&done.version, &scene.claims, &scene.strategy).unwrap().is_none());
}

#[test]
fn recovery_removes_what_only_lost_jobs_kept() {
    let version = parse("L0 T 2[a-c] | () | 1[x-z]\nL1 L ()").unwrap();
    assert_eq!(draw(&recover(&version).unwrap().version), "L0 T4 2[a-c] 1[x-z]\nL1 L\n");
}

#[test]
fn range_tombstones_are_cut_with_the_rest() {
    // Of 5 everything but range tombstones ends at c; the cut goes through those.
    let mut scene = Scene::new(LEVELED, "L0 L 5[a-c..m]\nL1 L 6[a-f] 7[g-z]\nL2 L 8[a-z]");
    let job = scene.open(0, "a", "m");
    let want = "L0 L 5[a/h-c..m]\nL1 L 101[a-g] 7[g/h-z]\nL2 L 8[a-z]\n";
    assert_eq!(scene.commit(job, &[("a", "g")], Some("h")).unwrap(), want);
    assert_eq!(check(&scene.version, &scene.claims.open_claims()), Ok(()));
}

#[test]
fn covered_tables_go_unless_a_job_has_them() {
    let mut scene = Scene::new(LEVELED, "L0 T 9[c..s]\nL1 L 4[a-b] 5[d-g] 6[h-m]\nL2 L 7[e-f] 8[k-l]");
    scene.open(1, "h", "m");
    let covered: BTreeSet<TableId> = [5, 6, 7, 8, 77].into_iter().map(TableId).collect();
    let done = drop_covered(&scene.version, &scene.claims, &covered).unwrap();
    // 8 is an input too: it lies under the range of 6.
    let want = "L0 T4 9[c..s]\nL1 L 4[a-b] 6[h-m]\nL2 L 8[k-l]\n";
    assert_eq!(scene.install(done, None), want);
    assert_eq!(check(&scene.version, &scene.claims.open_claims()), Ok(()));
    scene.claims.release(JobId(1));
    let done = drop_covered(&scene.version, &scene.claims, &covered).unwrap();
    assert_eq!(scene.install(done, None), "L0 T4 9[c..s]\nL1 L 4[a-b]\nL2 L\n");
    let nothing = drop_covered(&scene.version, &scene.claims, &covered).unwrap();
    assert!(nothing.edit.steps.is_empty());
}

#[test]
fn levels_come_and_go_with_the_last_one_and_open_jobs_find_theirs() {
    let text = "when=saturation how=runs:1 much=file which=oldest; size: l0=200 base=300 ratio=2 table=100";
    let strategy: Strategy = text.parse().unwrap();
    let version = parse("L0 L 9[a-c]\nL1 L 1[a-c bytes=301]").unwrap();
    let mut ids = Ids::above(&version);
    let mut claims = Claims::default();
    let cursors = BTreeMap::new();
    let view = TreeView {
        version: &version,
        claims: &claims,
        cursors: &cursors,
        ids,
        now_ms: 0,
        oldest_snapshot: SeqNo::MAX,
        space_amp: 0.0,
    };
    let Pick::Run(picked) = manual(&view, &strategy, &wish(KeyRange::all()), 0) else { panic!() };
    claims.claim(JobId(1), Arc::new(picked.compaction)).unwrap();
    // The job from L0 to L1 is open, and L1 is above 300: the new level comes between the two.
    let born = set_levels(&version, &claims, &strategy, &mut ids).unwrap().unwrap();
    assert_eq!(draw(&born.version), "L0 L 9[a-c]\nL1 L\nL2 L 1[a-c]\n");
    let mut born_cursors = BTreeMap::from([(0, Box::from(*b"x")), (1, Box::from(*b"y"))]);
    born.edit.move_cursors(&mut born_cursors);
    assert_eq!(born_cursors.keys().copied().collect::<Vec<_>>(), [0, 2]);
    let mut meta = fabricated_meta(50, b"a", b"c");
    meta.bytes = 150;
    let outputs = vec![vec![Arc::new(meta)]];
    let part = CommitPart { outputs, cut: None, consumed: Vec::new(), ends: true };
    let done = commit_part(&born.version, &claims, JobId(1), &part, 0).unwrap();
    assert_eq!(draw(&done.version), "L0 L\nL1 L\nL2 L 50[a-c]\n");
    // The job did away with so much that the new level is one too many; it is free, and goes.
    claims.release(JobId(1));
    let gone = set_levels(&done.version, &claims, &strategy, &mut ids).unwrap().unwrap();
    assert_eq!(draw(&gone.version), "L0 L\nL1 L 50[a-c]\n");
    assert!(set_levels(&gone.version, &claims, &strategy, &mut ids).unwrap().is_none());
}
