//! Repairing a store that does not open, or reads with errors: what is damaged is set apart in `lost/`, and the store goes on with
//! what is whole. Nothing is deleted.
//!
//! ```text
//! look    CURRENT, manifest ─► OPTIONS ─► every table ─► logs           each damage: what is kept, and what is lost
//! repair  new tables, log, OPTIONS ─► manifest, CURRENT ─► damaged files to lost/
//! ```
//! Of a table the whole blocks stay, of the logs everything before the first damage. Where no manifest is whole, the tables and
//! what the logs hold are merged into new tables by the sequences of their entries (`salvage.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::builder::Builder;
use super::read_only::remembered;
use crate::base::class::{Class, IoClass};
use crate::base::clock::Clock;
use crate::base::error::{Error, Result, key_start};
use crate::base::units::{KeyspaceId, RunId, SeqNo, TableId};
use crate::db::files::file_ids::table_ids;
use crate::db::files::inspect_table::facts_of;
use crate::db::recovery::replay::{
    BrokenLog, ReplaySettings, check_logs, check_tables, next_file_number, replay_whole,
};
use crate::db::recovery::salvage::{
    Lost, chain_begin, copy_file, copy_log, empty_log, merge_tables, salvage_table, unless_damaged,
};
use crate::db::settings::in_force::settle;
use crate::db::settings::options_file::{self, Stored};
use crate::db::store::keyspace_state::DEFAULT_NAME;
use crate::execution::output::{JobContext, OutputShape};
use crate::execution::sync_lane::InlineSyncLane;
use crate::options::{Options, TableStyle};
use crate::storage::current::read_current;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::table_files::TableFiles;
use crate::table::meta::{Born, TableMeta};
use crate::table::verify::verify_table;
use crate::version::edit::{EditStep, RunPlace, VersionEdit};
use crate::version::manifest::{KeyspaceCreated, ManifestRecord};
use crate::version::run::TableRef;
use crate::version::version_set::VersionSet;
use crate::write::batch::DEFAULT_KEYSPACE;

/// Where damaged files go, in the store's directory.
const LOST: &str = "lost";

/// What is damaged in a store, and what it is without that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Each damage.
    pub damage: Vec<Damage>,
    /// The store has been repaired; else it was only looked at.
    pub repaired: bool,
    /// Tables that were read.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A damaged or missing file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its name in the store's directory.
    pub file: String,
    /// What is wrong with it.
    pub what: String,
    /// What a repair does.
    pub remedy: String,
    /// What is lost by it; nothing if empty.
    pub lost: String,
}

impl Builder {
    /// Looks for damage in a store that nobody has open, and repairs it if `apply` says so: the damaged files move to `lost/` in its
    /// directory, nothing is deleted, and without damage nothing is changed. Reads every table. Tables that take the place of
    /// damaged ones are written by the builder's options over the store's own.
    ///
    /// # Errors
    /// `Locked`; `InvalidArgument` where there is no store; `Unsupported` for a newer format, and where no manifest is whole and the
    /// tables are of several keyspaces; `Io`, `NoSpace`: the store is as it was, or the repair can be done again.
    pub fn repair(self, apply: bool) -> Result<RepairReport> {
        let (fs, dir) = (Arc::clone(&self.fs), self.path.clone());
        // A directory of others gets no lock from us.
        if !fs.exists(&dir)? || !fs.list(&dir)?.iter().any(|name| is_of_a_store(name)) {
            return Err(no_store(&dir));
        }
        let _lock = fs.lock(&FileName::Lock.path(&dir))?;
        let mut look = Look {
            fs,
            dir,
            clock: Arc::clone(&self.clock),
            report: RepairReport::default(),
            later: Vec::new(),
        };
        let mut found = look.find(&self.options)?;
        if apply && !look.report.damage.is_empty() {
            look.repair(&mut found)?;
            look.report.repaired = true;
        }
        Ok(look.report)
    }
}

/// What was looked at, and what was found.
struct Look {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    report: RepairReport,
    /// Logs after the first that is broken.
    later: Vec<FileName>,
}

/// What the store is made of after the repair.
struct Found {
    versions: VersionSet,
    stored: Stored,
    options: Options,
    /// Tables of the trees that are damaged.
    tables: Vec<(KeyspaceId, TableRef)>,
    /// Where no manifest is whole: what the trees are made of.
    rebuild: Option<Rebuild>,
    log: Option<BrokenLog>,
}

/// The tables of each tree, and whether they are whole.
type Rebuild = BTreeMap<KeyspaceId, Vec<(TableRef, bool)>>;

impl Look {
    fn find(&mut self, given: &Options) -> Result<Found> {
        let (versions, is_whole) = self.trees()?;
        versions.ids().file_at_least(next_file_number(&*self.fs, &self.dir)?);
        if let Ok(Some(named)) = read_current(&*self.fs, &self.dir) {
            versions.ids().file_at_least(named + 1);
        }
        let stored = self.stored(&versions, is_whole)?;
        let (options, _) = settle(given, &[], Some(&stored)).or_else(|_| settle(given, &[], None))?;
        let mut found = Found { options, stored, tables: Vec::new(), rebuild: None, log: None, versions };
        if is_whole {
            self.check_tables(&mut found)?;
        } else {
            found.rebuild = Some(self.check_files(&found)?);
            let logs = self.names()?.into_iter().filter_map(|name| match name {
                FileName::Wal(number) => Some(number),
                _ => None,
            });
            let begin = chain_begin(&*self.fs, &self.dir, &logs.collect::<Vec<u64>>())?;
            found.versions.set_recovered(SeqNo(0), begin);
        }
        self.check_logs(&mut found)?;
        Ok(found)
    }

    fn names(&self) -> Result<Vec<FileName>> {
        Ok(self.fs.list(&self.dir)?.iter().filter_map(|name| FileName::parse(name)).collect())
    }

    fn damaged(&mut self, name: FileName, what: &Error, remedy: impl Into<String>, lost: impl Into<String>) {
        let what = match what {
            Error::Corruption { offset: 0, what, .. } => what.clone(),
            Error::Corruption { offset, what, .. } => format!("at {offset}: {what}"),
            other => other.to_string(),
        };
        let (file, remedy, lost) = (name.to_string(), remedy.into(), lost.into());
        self.report.damage.push(Damage { file, what, remedy, lost });
    }

    /// The trees, and whether a manifest has all of them. If none does, those that the newest has before its damage.
    fn trees(&mut self) -> Result<(VersionSet, bool)> {
        let names = self.names()?;
        let current = read_current(&*self.fs, &self.dir);
        let error = match VersionSet::recover(Arc::clone(&self.fs), &self.dir) {
            Ok(Some(versions)) => return Ok((versions, true)),
            Ok(None) => Error::corruption(FileName::Current.path(&self.dir), 0, "this file is missing"),
            Err(error @ Error::Corruption { .. }) => error,
            Err(error) => return Err(error),
        };
        let damaged = match current {
            Ok(Some(number)) => FileName::Manifest(number),
            _ => FileName::Current,
        };
        let mut manifests: Vec<u64> = names
            .iter()
            .filter_map(|name| match name {
                FileName::Manifest(number) => Some(*number),
                _ => None,
            })
            .collect();
        manifests.sort_unstable();
        for number in manifests.iter().rev() {
            match VersionSet::read(Arc::clone(&self.fs), &self.dir, *number) {
                (versions, None)
                    if unless_damaged(check_tables(&*self.fs, &self.dir, &versions))?.is_some() =>
                {
                    self.damaged(
                        damaged,
                        &error,
                        format!("{} is taken, which is whole", FileName::Manifest(*number)),
                        "",
                    );
                    return Ok((versions, true));
                }
                (_, Some(error)) if !matches!(error, Error::Corruption { .. }) => return Err(error),
                _ => {}
            }
        }
        self.damaged(
            damaged,
            &error,
            "the tables are merged into new ones",
            "which tables the last compactions had replaced, so what was deleted before may be back",
        );
        let newest =
            manifests.last().map(|number| VersionSet::read(Arc::clone(&self.fs), &self.dir, *number).0);
        Ok((newest.unwrap_or_else(|| VersionSet::empty(Arc::clone(&self.fs), &self.dir)), false))
    }

    /// What the store was set to.
    fn stored(&mut self, versions: &VersionSet, is_whole: bool) -> Result<Stored> {
        let Some(number) = versions.options_file().filter(|_| is_whole) else {
            return Ok(remembered(&*self.fs, &self.dir).unwrap_or_default());
        };
        let name = FileName::Options(number);
        let path = name.path(&self.dir);
        match options_file::read(&*self.fs, &self.dir, number).map_err(|error| error.or_missing(&path)) {
            Err(error @ Error::Corruption { .. }) => {
                let lost = "options and strategies that were set";
                self.damaged(name, &error, "all is as by default", lost);
                Ok(Stored::default())
            }
            read => read,
        }
    }

    /// Reads the tables of the trees.
    fn check_tables(&mut self, found: &mut Found) -> Result<()> {
        let tables: Vec<(KeyspaceId, TableRef)> = tables_of(&found.versions).collect();
        for (id, table) in tables {
            if let Some(error) = self.damage_of(&table)? {
                let (lost, _) = salvage_table(&*self.fs, &self.dir, &table, None)?;
                self.table_damaged(&table, &error, &lost);
                found.tables.push((id, table));
            }
        }
        Ok(())
    }

    fn table_damaged(&mut self, table: &TableRef, error: &Error, lost: &Lost) {
        let of_it = match lost.kept {
            0 => format!("all of its {} entries", lost.of),
            kept => format!("{} of its {} entries", lost.of.saturating_sub(kept), lost.of),
        };
        let (from, to) = (key_start(&table.meta.smallest), key_start(&table.meta.largest));
        let remedy = if lost.kept == 0 {
            "the store goes on without it"
        } else {
            "what is whole of it goes into a new table"
        };
        let lost = format!("{of_it}, keys {from} to {to}: older values and deleted keys may be back there");
        self.damaged(FileName::Table(table.id().0), error, remedy, lost);
    }

    /// What is wrong with a table.
    fn damage_of(&mut self, table: &TableRef) -> Result<Option<Error>> {
        let path = FileName::Table(table.id().0).path(&self.dir);
        let verified = self.fs.open(&path).map_err(|error| error.or_missing(&path)).and_then(|file| {
            self.report.tables += 1;
            self.report.bytes += table.meta.bytes;
            verify_table(file, &table.meta, IoClass::Background(Class::Upkeep))
        });
        match verified {
            Err(error @ Error::Corruption { .. }) => Ok(Some(error)),
            outcome => outcome.map(|()| None),
        }
    }

    /// Where the trees are lost: which tables there are, by the keyspace that each is of.
    fn check_files(&mut self, found: &Found) -> Result<Rebuild> {
        let trees = found.versions.trees();
        let of_many = trees.len() > 1 || found.stored.keyspaces.keys().any(|name| name != DEFAULT_NAME);
        let known: BTreeMap<TableId, (KeyspaceId, TableRef)> =
            tables_of(&found.versions).map(|(id, table)| (table.id(), (id, table))).collect();
        let mut out = Rebuild::new();
        for name in self.names()? {
            let FileName::Table(number) = name else { continue };
            let facts = match facts_of(&self.fs.open(&name.path(&self.dir))?) {
                Err(error @ Error::Corruption { .. }) => {
                    self.damaged(name, &error, "the store goes on without it", "all that was in it");
                    continue;
                }
                facts => facts?,
            };
            let table = match known
                .get(&TableId(number))
                .filter(|(_, table)| table.meta.unique_id == facts.unique_id)
            {
                Some((id, table)) => (*id, table.clone()),
                None if of_many => {
                    return Err(Error::Unsupported(format!(
                        "{name} is of one of several keyspaces, and no manifest says of which: \
                         `keel inspect table {name} --entries` prints what it holds"
                    )));
                }
                None => (trees.keys().next().copied().unwrap_or(DEFAULT_KEYSPACE), whole(facts)),
            };
            let (id, table) = table;
            let damage = self.damage_of(&table)?;
            if let Some(error) = &damage {
                let (lost, _) = salvage_table(&*self.fs, &self.dir, &table, None)?;
                self.table_damaged(&table, error, &lost);
            }
            out.entry(id).or_default().push((table, damage.is_none()));
        }
        Ok(out)
    }

    fn check_logs(&mut self, found: &mut Found) -> Result<()> {
        let context = self.context(found);
        let settings = replay_settings(&found.options);
        found.log = check_logs(&context, &mut found.versions, &settings)?;
        let Some(BrokenLog { number, error, .. }) = &found.log else { return Ok(()) };
        let (number, error) = (*number, error.clone());
        let later = self.names()?.into_iter().filter(|name| matches!(name, FileName::Wal(n) if *n > number));
        let later: Vec<FileName> = later.collect();
        let and = if later.is_empty() { "" } else { ", and all of the logs after it" };
        let lost = format!("the writes from there on{and}");
        self.damaged(FileName::Wal(number), &error, "what comes before the damage is kept", lost);
        self.later = later;
        Ok(())
    }

    fn context(&self, found: &Found) -> Arc<JobContext> {
        let salt = self.clock.wall_ms() ^ (u64::from(std::process::id()) << 32);
        Arc::new(JobContext {
            fs: Arc::clone(&self.fs),
            dir: self.dir.clone(),
            clock: Arc::clone(&self.clock),
            lane: Arc::new(InlineSyncLane),
            files: TableFiles::new(Arc::clone(&self.fs), Arc::clone(&self.clock)),
            ids: table_ids(&found.versions, salt),
            block_bytes: AtomicU64::new(found.options.block_bytes),
            memory: Arc::default(),
        })
    }

    /// Does it. A crash on the way leaves the store as it was, or one that can be repaired again.
    fn repair(&self, found: &mut Found) -> Result<()> {
        let context = self.context(found);
        let lost = self.dir.join(LOST);
        self.fs.create_dir(&lost)?;
        let damaged = self.report.damage.iter().filter_map(|damage| FileName::parse(&damage.file));
        let mut aside: BTreeSet<FileName> = self.later.iter().copied().chain(damaged).collect();
        match found.rebuild.take() {
            None => self.replace_tables(found, &context)?,
            Some(trees) => {
                aside.extend(trees.values().flatten().map(|(table, _)| FileName::Table(table.id().0)));
                self.rebuild(found, &context, trees)?;
            }
        }
        let log = match &found.log {
            None => None,
            Some(log) => self.copy_log(log, &found.versions)?,
        };
        let number = found.versions.ids().file();
        options_file::write(&*self.fs, &self.dir, number, &found.stored)?;
        self.fs.sync_dir(&self.dir)?;
        found.versions.set_options_file(number);
        found.versions.set_recovered(SeqNo(0), found.versions.wal_from());
        // From CURRENT on the store does without what is damaged, and the next open removes what no manifest names: by then it has
        // a second name, where there can be one.
        let mut moves = Vec::new();
        let replaced = log.as_ref().map(|(_, name)| *name);
        for name in aside {
            let path = name.path(&self.dir);
            if self.fs.exists(&path)? {
                let to = self.free_name(&lost, name)?;
                let is_linked = self.fs.hard_link(&path, &to).is_ok();
                if replaced != Some(name) {
                    moves.push((name, path, to, is_linked));
                } else if !is_linked {
                    copy_file(&*self.fs, &*self.fs.open(&path)?, &to, IoClass::Background(Class::Upkeep))?;
                }
            }
        }
        self.fs.sync_dir(&lost)?;
        found.versions.begin_manifest()?;
        // At no moment is there no log of this name: a crash would leave nobody who knows that there was one.
        if let Some((temp, name)) = log {
            self.fs.rename(&temp, &name.path(&self.dir))?;
            self.fs.sync_dir(&self.dir)?;
        }
        // CURRENT is another file by now.
        for (_, path, to, is_linked) in moves.into_iter().filter(|(name, ..)| *name != FileName::Current) {
            if is_linked { self.fs.remove(&path)? } else { self.fs.rename(&path, &to)? }
        }
        self.fs.sync_dir(&lost)?;
        self.fs.sync_dir(&self.dir)
    }

    /// The beginning of the first log that is broken, and the name it is to have.
    fn copy_log(&self, log: &BrokenLog, versions: &VersionSet) -> Result<Option<(PathBuf, FileName)>> {
        let name = FileName::Wal(log.number);
        let temp = FileName::Temp(versions.ids().file()).path(&self.dir);
        let is_there = self.fs.exists(&name.path(&self.dir))?;
        if is_there && copy_log(&*self.fs, &self.dir, log.number, log.end, &temp)? {
            return Ok(Some((temp, name)));
        }
        // The first of the logs must be there, whatever is in it.
        if log.number != versions.wal_from() {
            return Ok(None);
        }
        empty_log(&*self.fs, log.number, versions.last_seq().next(), &temp)?;
        Ok(Some((temp, name)))
    }

    /// A name in `lost` that nothing has.
    fn free_name(&self, lost: &Path, name: FileName) -> Result<PathBuf> {
        let mut to = name.path(lost);
        for n in 1.. {
            if !self.fs.exists(&to)? {
                break;
            }
            to = lost.join(format!("{name}.{n}"));
        }
        Ok(to)
    }

    /// Puts what is whole of damaged tables in their places.
    fn replace_tables(&self, found: &mut Found, context: &Arc<JobContext>) -> Result<()> {
        for (id, table) in std::mem::take(&mut found.tables) {
            let shape = shape(&found.options, &table.meta);
            let (_, whole) = salvage_table(&*self.fs, &self.dir, &table, Some((context, shape)))?;
            let run = found.versions.trees().get(&id).and_then(|tree| {
                tree.version
                    .runs()
                    .find(|run| run.tables.iter().any(|t| t.id() == table.id()))
                    .map(|run| run.id)
            });
            let mut edit = VersionEdit::default();
            edit.steps.push(EditStep::DropTable { table: table.id() });
            if let (Some(run), Some(meta)) = (run, whole) {
                edit.steps.push(EditStep::AddTable {
                    run,
                    table: TableRef { entered_level_ms: table.entered_level_ms, ..TableRef::whole(meta, 0) },
                });
            }
            let record = ManifestRecord { edits: vec![(id, edit)], ..ManifestRecord::default() };
            found.versions.apply_unrecorded(&record)?;
        }
        Ok(())
    }

    /// Trees anew, of what all tables and the logs hold. A table may have newer writes than one that its flush had yet to write, so
    /// which writes of the logs are in tables nobody knows: they are merged with them.
    fn rebuild(&self, found: &mut Found, context: &Arc<JobContext>, mut trees: Rebuild) -> Result<()> {
        let mut versions = VersionSet::empty(Arc::clone(&self.fs), &self.dir);
        let before =
            std::mem::replace(&mut found.versions, VersionSet::empty(Arc::clone(&self.fs), &self.dir));
        versions.ids().file_at_least(before.ids().file());
        let mut names: BTreeMap<KeyspaceId, (String, bool)> =
            before.trees().iter().map(|(id, tree)| (*id, (tree.name.clone(), tree.no_wal))).collect();
        names.entry(DEFAULT_KEYSPACE).or_insert_with(|| (DEFAULT_NAME.to_owned(), false));
        let (logged, last_logged) = self.logged(&found.options, context, &before, &names)?;
        let passing: Vec<TableId> = logged.iter().map(|(_, table)| table.id()).collect();
        for (id, table) in logged {
            trees.entry(id).or_default().push((table, true));
        }
        for (id, (name, no_wal)) in names {
            versions.ids().keyspace_at_least(id.0 + 1);
            let group = versions.ids().group();
            let mut record = ManifestRecord::default();
            record.created.push(KeyspaceCreated { id, name, l0_group: Some(group), no_wal });
            let tables = trees.get(&id).map_or(&[][..], Vec::as_slice);
            let flushed_through =
                tables.iter().map(|(table, _)| table.meta.seqs.1).chain([last_logged]).max();
            let mut edit = VersionEdit { flushed_through, ..VersionEdit::default() };
            record.last_seq = flushed_through.unwrap_or_default();
            let merged = self.merge(found, context, tables)?;
            if !merged.is_empty() {
                let (run, _) = versions.ids().next_run_and_group();
                versions.ids().run_and_group_at_least(run + 1, 0);
                let run = RunId(run);
                edit.steps.push(EditStep::AddRun { level: 0, group, run, place: RunPlace::Newest });
                merged.into_iter().for_each(|meta| edit.add_whole(run, meta, self.clock.wall_ms()));
            }
            record.edits.push((id, edit));
            versions.apply_unrecorded(&record)?;
        }
        for id in passing {
            self.fs.remove(&FileName::Table(id.0).path(&self.dir))?;
        }
        // The tables took their numbers from the former.
        versions.ids().file_at_least(before.ids().file());
        versions.set_recovered(before.last_seq(), before.wal_from());
        found.versions = versions;
        Ok(())
    }

    /// What is whole of the logs, in tables of their own, and its last sequence.
    fn logged(
        &self,
        options: &Options,
        context: &Arc<JobContext>,
        before: &VersionSet,
        names: &BTreeMap<KeyspaceId, (String, bool)>,
    ) -> Result<(Vec<(KeyspaceId, TableRef)>, SeqNo)> {
        let mut versions = VersionSet::empty(Arc::clone(&self.fs), &self.dir);
        for (id, (name, no_wal)) in names {
            let group = Some(versions.ids().group());
            let created = KeyspaceCreated { id: *id, name: name.clone(), l0_group: group, no_wal: *no_wal };
            let flushed_through = before.trees().get(id).map(|tree| tree.flushed_through);
            let edit = VersionEdit { flushed_through, ..VersionEdit::default() };
            let (created, edits) = (vec![created], vec![(*id, edit)]);
            versions.apply_unrecorded(&ManifestRecord { created, edits, ..ManifestRecord::default() })?;
        }
        versions.set_recovered(SeqNo(0), before.wal_from());
        let last = replay_whole(context, &mut versions, &replay_settings(options))?;
        Ok((tables_of(&versions).collect(), last))
    }

    /// What these tables hold, in new ones; the whole parts of those that are damaged.
    fn merge(
        &self,
        found: &Found,
        context: &Arc<JobContext>,
        tables: &[(TableRef, bool)],
    ) -> Result<Vec<Arc<TableMeta>>> {
        let mut whole = Vec::new();
        let mut passing = Vec::new();
        for (table, is_whole) in tables {
            if *is_whole {
                whole.push(Arc::clone(&table.meta));
                continue;
            }
            let shape = shape(&found.options, &table.meta);
            let (_, meta) = salvage_table(&*self.fs, &self.dir, table, Some((context, shape)))?;
            passing.extend(meta.iter().map(|meta| FileName::Table(meta.id.0)));
            whole.extend(meta);
        }
        let merged = match &whole[..] {
            [] => Vec::new(),
            [first, ..] => {
                let shape = OutputShape { born: Born::Merge, ..shape(&found.options, first) };
                merge_tables(context, shape, &whole)?
            }
        };
        passing.iter().try_for_each(|name| self.fs.remove(&name.path(&self.dir)))?;
        Ok(merged)
    }
}

/// The tables of all trees.
fn tables_of(versions: &VersionSet) -> impl Iterator<Item = (KeyspaceId, TableRef)> {
    let trees = versions.trees().iter();
    trees.flat_map(|(id, tree)| tree.version.tables().map(|(_, table)| (*id, table.clone())))
}

/// A table of which nobody knows more than its file says. When loaded entries were written is not in it: they count as older than
/// all others.
fn whole(facts: TableMeta) -> TableRef {
    let seqs = if facts.born == Born::Load { (SeqNo(1), SeqNo(1)) } else { facts.seqs };
    TableRef::whole(Arc::new(TableMeta { seqs, ..facts }), 0)
}

fn shape(options: &Options, table: &TableMeta) -> OutputShape {
    let style = TableStyle::default();
    OutputShape {
        class: Class::Upkeep,
        born: table.born,
        table_bytes: options.table_bytes,
        filter_bits: options.filter_bits,
        filter_bits_above: options.filter_bits,
        reads: None,
        compression: style.compression_at(0, false, options),
        prefix_rule: style.prefix_rule(options),
        direct: false,
        oldest_tombstone_ms: table.oldest_tombstone_ms,
        cache: None,
    }
}

fn replay_settings(options: &Options) -> ReplaySettings {
    ReplaySettings { options: options.clone(), styles: BTreeMap::new(), looks: None, ttl_ms: BTreeMap::new() }
}

fn is_of_a_store(name: &str) -> bool {
    use FileName::{Current, Manifest, Table, Wal};
    matches!(FileName::parse(name), Some(Current | Manifest(_) | Table(_) | Wal(_)))
}

fn no_store(dir: &Path) -> Error {
    Error::invalid(format!("there is no store at {}", dir.display()))
}
