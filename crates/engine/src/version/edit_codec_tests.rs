//! Edits as bytes: a round trip for every step, and no damage that is read as something else.

use super::{BadEdit, VersionEdit};
use crate::base::coding::Decoder;
use crate::base::key_range::KeyRange;
use crate::base::units::{GroupId, RunId, SeqNo, TableId};
use crate::version::edit::{EditStep, RunPlace};
use crate::version::picture::draw_full;
use crate::version::picture_parse::parse;
use crate::version::version::Version;

const TREE: &str = "\
L0 T4 9[c-z] | 8[a-k]
L1 L 4[a-f] 5[g/j+-m consumed=3] 6[n-z]
L2 T4{..n} 1[a-d] 2[e-m] | 3[b-k] L{n..} 7[n-t]
L3 L
";

fn bytes_of(edit: &VersionEdit) -> Vec<u8> {
    let mut out = Vec::new();
    edit.encode(&mut out);
    out
}

fn every_step() -> VersionEdit {
    let version = parse(TREE).unwrap();
    let mut edit = VersionEdit::snapshot_of(&version);
    let run = RunId(300);
    for place in [RunPlace::Newest, RunPlace::Oldest, RunPlace::Above(RunId(1)), RunPlace::Below(RunId(2))] {
        edit.steps.push(EditStep::AddRun { level: 2, group: GroupId(900), run, place });
    }
    let trimmed = KeyRange::new(b"g\0", Some(b"m\0"));
    edit.steps.extend([
        EditStep::RemoveLastLevel,
        EditStep::InsertLevel { level: 1, group: GroupId(901), run_bound: 4 },
        EditStep::RemoveLevel { level: 2 },
        EditStep::RemoveRun { run },
        EditStep::TrimTable {
            table: TableId(5),
            bounds: trimmed.clone(),
            consumed: 1 << 40,
            under_deletes_ms: None,
        },
        EditStep::TrimTable {
            table: TableId(5),
            bounds: trimmed,
            consumed: 7,
            under_deletes_ms: Some(1 << 41),
        },
        EditStep::DropTable { table: TableId(6) },
        EditStep::FuseRuns { newer: run, older: RunId(4) },
        EditStep::MergeGroups { left: GroupId(3), right: GroupId(4) },
    ]);
    edit.flushed_through = Some(SeqNo(77));
    edit.cursors = vec![(1, (*b"k").into()), (3, (*b"").into())];
    edit
}

#[test]
fn a_snapshot_record_makes_the_same_tree() {
    let version = parse(TREE).unwrap();
    let edit = VersionEdit::snapshot_of(&version);
    let bytes = bytes_of(&edit);
    let mut from = Decoder::new(&bytes);
    let again = Version::default().apply(&VersionEdit::decode(&mut from).unwrap()).unwrap();
    assert!(from.is_empty());
    assert_eq!(draw_full(&again), draw_full(&version));
}

#[test]
fn every_step_survives_the_codec() {
    let edit = every_step();
    let bytes = bytes_of(&edit);
    let again = VersionEdit::decode(&mut Decoder::new(&bytes)).unwrap();
    assert_eq!(format!("{again:?}"), format!("{edit:?}"));
}

#[test]
fn no_bytes_make_the_decoder_panic() {
    let bytes = bytes_of(&every_step());
    for cut in 0..bytes.len() {
        assert!(VersionEdit::decode(&mut Decoder::new(&bytes[..cut])).is_err(), "cut at {cut}");
    }
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            // Anything but a panic: the record's checksum tells damage, this only must not fall over.
            if let Ok(edit) = VersionEdit::decode(&mut Decoder::new(&bad)) {
                let _ = Version::default().apply(&edit);
            }
        }
    }
}

#[test]
fn an_unknown_step_is_told_from_damage() {
    let unknown = VersionEdit::decode(&mut Decoder::new(&[1, 99])).unwrap_err();
    assert_eq!(unknown, BadEdit::Unknown("edit step 1 has the unknown kind 99".to_owned()));
    let damaged = VersionEdit::decode(&mut Decoder::new(&[1, 7])).unwrap_err();
    assert_eq!(damaged, BadEdit::Damaged("edit step 1 of kind 7 is damaged".to_owned()));
}
