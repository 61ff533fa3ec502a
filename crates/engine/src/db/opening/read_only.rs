//! Opening a store to look at it, while another process may go on writing to it.
//!
//! ```text
//! CURRENT, manifest ─► hold every table open ─► OPTIONS ─► logs, the newest first ─► manifest again: same logs, same keyspaces?
//!                                                                      yes ─► recovery as always, on what is held, in memory
//! ```
//! What is taken is a prefix of the commits: a log is read from its end and the later log before the earlier one, so whatever is
//! seen, everything written before it is seen too. The second look at the manifest shows that no log was recycled and no keyspace
//! came or went in between, and recovery that no bulk load ended in between, whose tables would be missing. A file that went away meanwhile, or a picture that does not fit together, is a reason to look
//! again; the same failure twice in a row is damage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::untrusted::Limits;
use crate::base::class::IoClass;
use crate::base::error::{Error, Result};
use crate::base::units::{KeyspaceId, SeqNo};
use crate::db::recovery::replay::check_never_used;
use crate::db::settings::options_file::{self, Stored};
use crate::storage::current::read_current;
use crate::storage::file_name::FileName;
use crate::storage::file_system::FileSystem;
use crate::storage::frozen::FrozenFileSystem;
use crate::version::version_set::VersionSet;

/// A writer that outruns so many looks is not waited for.
const LOOKS_MAX: u32 = 200;

/// Takes hold of the store in `dir` as it is and lets `open` recover it there. Looks again if the store was changed under it.
pub fn open_beside<T>(
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    limits: Limits,
    open: impl Fn(Arc<dyn FileSystem>, (SeqNo, SeqNo)) -> Result<T>,
) -> Result<T> {
    let mut last: Option<Error> = None;
    for _ in 0..LOOKS_MAX {
        let outcome = take(fs, dir, limits).and_then(|frozen| match frozen {
            None => Ok(None),
            Some((frozen, looks)) => {
                let opened = open(Arc::clone(&frozen) as _, looks)?;
                // Everything of them is in tables now.
                frozen.retain(|path| !is_log(path));
                Ok(Some(opened))
            }
        });
        match outcome {
            Ok(Some(opened)) => return Ok(opened),
            Ok(None) => last = None,
            Err(error @ (Error::Corruption { .. } | Error::Io { .. })) => {
                let again = error.to_string();
                if last.replace(error).is_some_and(|before| before.to_string() == again) {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        let context =
            format!("read {} beside its writer, which changes it faster than it can be read", dir.display());
        Error::io(context, std::io::ErrorKind::ResourceBusy.into())
    }))
}

/// What must be the same before and after: which keyspaces there are, and the first log that counts.
type Stamp = (BTreeMap<KeyspaceId, String>, u64);

fn stamp(versions: &VersionSet) -> Stamp {
    let names = versions.trees().iter().map(|(id, tree)| (*id, tree.name.clone()));
    (names.collect(), versions.wal_from())
}

/// Everything that recovery reads, and the last sequence of the two manifests.
type Taken = (Arc<FrozenFileSystem>, (SeqNo, SeqNo));

/// Takes hold of it; `None` if the store was changed meanwhile in a way that counts.
fn take(fs: &Arc<dyn FileSystem>, dir: &Path, limits: Limits) -> Result<Option<Taken>> {
    let frozen = FrozenFileSystem::new(Arc::clone(fs), limits.memory_bytes);
    let versions = manifest(&frozen, fs, dir, limits)?;
    limits.check_trees(&versions)?;
    for (_, table) in versions.trees().values().flat_map(|tree| tree.version.tables()) {
        let path = FileName::Table(table.id().0).path(dir);
        frozen.hold_file(&path).map_err(|e| e.or_missing(&path))?;
    }
    let names = fs.list(dir)?;
    let identity = FileName::Identity.path(dir);
    if fs.exists(&identity)? {
        limits.check_file(fs.open(&identity)?.len())?;
        frozen.hold_image(&identity, IoClass::Manifest)?;
    }
    if let Some(number) = versions.options_file().filter(|_| !limits.untrusted) {
        let path = FileName::Options(number).path(dir);
        // One that is not there is recovery's to complain of.
        if fs.exists(&path)? {
            frozen.hold_image(&path, IoClass::Manifest)?;
        }
    }
    let mut logs: Vec<u64> = names
        .iter()
        .filter_map(|name| match FileName::parse(name)? {
            FileName::Wal(number) => Some(number).filter(|number| *number >= versions.wal_from()),
            _ => None,
        })
        .collect();
    logs.sort_unstable();
    for number in logs.into_iter().rev() {
        let path = FileName::Wal(number).path(dir);
        limits.check_file(fs.open(&path)?.len())?;
        frozen.hold_image(&path, IoClass::Wal)?;
    }
    let again = manifest(&FrozenFileSystem::new(Arc::clone(fs), limits.memory_bytes), fs, dir, limits)?;
    let looks = (versions.last_seq(), again.last_seq());
    Ok((stamp(&versions) == stamp(&again)).then_some((frozen, looks)))
}

/// The trees as the manifest in force has them, read from images.
fn manifest(
    frozen: &Arc<FrozenFileSystem>,
    fs: &Arc<dyn FileSystem>,
    dir: &Path,
    limits: Limits,
) -> Result<VersionSet> {
    let current = FileName::Current.path(dir);
    let no_store = || Error::invalid(format!("there is no store at {}", dir.display()));
    if !fs.exists(&current)? {
        if fs.exists(dir)? {
            check_never_used(&**fs, dir)?;
        }
        return Err(no_store());
    }
    limits.check_file(fs.open(&current)?.len())?;
    frozen.hold_image(&current, IoClass::Manifest)?;
    if let Some(number) = read_current(&**frozen, dir)? {
        let path = FileName::Manifest(number).path(dir);
        limits.check_manifest(fs.open(&path).map_err(|e| e.or_missing(&path))?.len())?;
        frozen.hold_image(&path, IoClass::Manifest).map_err(|e| e.or_missing(&path))?;
    }
    VersionSet::recover(Arc::clone(frozen) as _, dir)?.ok_or_else(no_store)
}

/// The newest settings that can be read; the manifest may name others by now.
pub fn remembered(fs: &dyn FileSystem, dir: &Path) -> Option<Stored> {
    let names = fs.list(dir).ok()?;
    let options = names.iter().filter_map(|name| match FileName::parse(name)? {
        FileName::Options(number) => Some(number),
        _ => None,
    });
    options_file::read(fs, dir, options.max()?).ok()
}

fn is_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    matches!(name.and_then(FileName::parse), Some(FileName::Wal(_)))
}
