//! Reads compared with the model: ranges from either end and from both, cursors that turn.

use std::ops::Bound;
use std::rc::Rc;

use evenkeel::testing::Random;
use evenkeel::{Cursor, Result, Scan, ScanRange};

use super::operations::{Bounds, key};
use super::reference::Content;

/// A range for the store, and the same for the model: first key, and the one after the last.
pub fn range_of(bounds: Bounds) -> (ScanRange, Vec<u8>, Option<Vec<u8>>) {
    let range = |from: Option<Vec<u8>>, to: Option<Vec<u8>>| {
        let range = ScanRange::new(from.as_deref(), to.as_deref()).fill_cache(from.is_none());
        (range, from.unwrap_or_default(), to)
    };
    match bounds {
        Bounds::All => range(None, None),
        Bounds::Between(from, to) => range(Some(key(from)), Some(key(to))),
        Bounds::From(from) => range(Some(key(from)), None),
        Bounds::To(to) => range(None, Some(key(to))),
        Bounds::Prefix(of, length) => {
            let mut prefix = key(of);
            prefix.truncate(length);
            let mut end = prefix.clone();
            while end.last() == Some(&0xff) {
                end.pop();
            }
            if let Some(last) = end.last_mut() {
                *last += 1;
            }
            let end = (!end.is_empty()).then_some(end);
            (ScanRange::prefix(&prefix), prefix, end)
        }
    }
}

/// What the model holds of a range, in order.
pub fn expected(content: &Content, bounds: Bounds) -> Vec<(Rc<[u8]>, Rc<[u8]>)> {
    let (_, from, to) = range_of(bounds);
    let above = content.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded));
    let within = above.take_while(|(key, _)| to.as_deref().is_none_or(|to| &key[..] < to));
    within.map(|(key, value)| (Rc::clone(key), Rc::clone(value))).collect()
}

/// Compares a range read in every way: forward, backward, from both ends, and by a cursor that turns at random places.
pub fn check_range(
    want: &[(Rc<[u8]>, Rc<[u8]>)],
    scan: impl Fn() -> Result<Scan>,
    cursor: impl FnOnce() -> Result<Cursor>,
    seed: u64,
) {
    let mut random = Random::new(seed);
    let mut forward = want.iter();
    for entry in scan().unwrap() {
        same("forward", &entry.unwrap(), forward.next());
    }
    assert_eq!(forward.next(), None, "a scan forward ended early");
    let mut backward = want.iter();
    for entry in scan().unwrap().rev() {
        same("backward", &entry.unwrap(), backward.next_back());
    }
    assert_eq!(backward.next(), None, "a scan backward ended early");
    let (mut both, mut scan) = (want.iter(), scan().unwrap());
    loop {
        let (got, want) =
            if random.one_in(2) { (scan.next(), both.next()) } else { (scan.next_back(), both.next_back()) };
        let Some(got) = got else {
            assert_eq!(want, None, "a scan from both ends ended early");
            break;
        };
        same("from both ends", &got.unwrap(), want);
    }
    turn(want, &mut cursor().unwrap(), &mut random);
}

fn same(how: &str, got: &(Vec<u8>, Vec<u8>), want: Option<&(Rc<[u8]>, Rc<[u8]>)>) {
    let Some((key, value)) = want else { panic!("{how}: {:?} is too much", got.0) };
    assert_eq!(&got.0[..], &key[..], "{how}: the key");
    assert_eq!(&got.1[..], &value[..], "{how}: the value of {key:?}");
}

/// Forward to a random place, back to another, forward to the end; then the mirror image.
fn turn(want: &[(Rc<[u8]>, Rc<[u8]>)], cursor: &mut Cursor, random: &mut Random) {
    let last = want.len() as i64 - 1;
    let mut place = |below: i64| random.below(below.max(0) as u64 + 1) as i64;
    cursor.seek_to_first().unwrap();
    let first_turn = place(last);
    walk(want, cursor, 0, first_turn);
    let second_turn = place(first_turn);
    walk(want, cursor, first_turn, second_turn);
    walk(want, cursor, second_turn, last + 1);
    assert!(!cursor.valid(), "a cursor is beyond the last key");
    cursor.seek_to_last().unwrap();
    let turn = place(last);
    walk(want, cursor, last, turn);
    walk(want, cursor, turn, last);
    walk(want, cursor, last, -1);
    assert!(!cursor.valid(), "a cursor is before the first key");
}

/// From one place to another, which may be one beyond the keys.
fn walk(want: &[(Rc<[u8]>, Rc<[u8]>)], cursor: &mut Cursor, from: i64, to: i64) {
    let mut at = from;
    loop {
        match usize::try_from(at).ok().and_then(|at| want.get(at)) {
            Some((key, value)) => {
                assert!(cursor.valid(), "a cursor between {from} and {to} is nowhere instead of at {key:?}");
                assert_eq!(cursor.key(), &key[..], "a cursor between {from} and {to}");
                assert_eq!(cursor.value(), &value[..], "a cursor at {key:?}");
            }
            None => assert!(!cursor.valid(), "a cursor is at {:?} instead of nowhere", cursor.key()),
        }
        if at == to || !cursor.valid() {
            return;
        }
        if to > at {
            cursor.next().unwrap();
            at += 1;
        } else {
            cursor.prev().unwrap();
            at -= 1;
        }
    }
}

/// A cursor kept open over other operations, and what it sees.
pub struct Held {
    cursor: Cursor,
    want: Vec<(Rc<[u8]>, Rc<[u8]>)>,
    place: Option<usize>,
}

impl Held {
    pub fn new(cursor: Cursor, content: &Content, bounds: Bounds) -> Held {
        Held { cursor, want: expected(content, bounds), place: None }
    }

    /// Random moves, each compared.
    pub fn moves(&mut self, moves: u64, seed: u64) {
        let mut random = Random::new(seed);
        for _ in 0..moves {
            let target = key(random.below(super::operations::KEYS));
            let found = self.want.partition_point(|(key, _)| key[..] < target[..]);
            self.place = match (random.below(12), self.place) {
                (0, _) => self.cursor.seek_to_first().map(|()| Some(0)),
                (1, _) => self.cursor.seek_to_last().map(|()| self.want.len().checked_sub(1)),
                (2, _) => self.cursor.seek(&target).map(|()| Some(found)),
                (3, _) => self.cursor.seek_for_prev(&target).map(|()| {
                    if self.want.get(found).is_some_and(|(key, _)| key[..] == target[..]) {
                        Some(found)
                    } else {
                        found.checked_sub(1)
                    }
                }),
                (4..8, Some(place)) => self.cursor.next().map(|()| Some(place + 1)),
                (_, Some(place)) => self.cursor.prev().map(|()| place.checked_sub(1)),
                (_, None) => continue,
            }
            .unwrap()
            .filter(|place| *place < self.want.len());
            match self.place.map(|place| &self.want[place]) {
                Some((key, value)) => {
                    assert_eq!((self.cursor.key(), self.cursor.value()), (&key[..], &value[..]));
                }
                None => {
                    assert!(!self.cursor.valid(), "a held cursor is at {:?}, not nowhere", self.cursor.key());
                }
            }
        }
    }
}
