//! Random operations as data: one list, run under every strategy.
//!
//! Operations name keys and keyspaces by number, so that the list means the same whatever the store looks like. Writes come
//! in spells of different kinds (even, hot, deletions), and background work comes in bursts, so that trees pile up and settle.

use evenkeel::testing::{CrashPolicy, Random};

/// Different keys.
pub const KEYS: u64 = 600;

/// Schedules that come for a while, under whatever strategy.
pub const SCHEDULES: [&str; 5] =
    ["silk:jobs=2", "dlc-full:every=10ms,softness=1", "dlc-burst-part", "paced", "unlimited"];

/// Names of keyspaces; the first always exists.
pub const NAMES: [&str; 4] = ["default", "events", "index", "w"];

/// A write: keyspace, key, and what becomes of it.
pub type Write = (usize, u64, Effect);

/// What a write does.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// A value of this length.
    Put(usize),
    Delete,
    /// From the key to below this one, which may be below it; `None` is above every key.
    DeleteTo(Option<u64>),
}

/// Bounds of a read, as key numbers.
#[derive(Clone, Copy, Debug)]
pub enum Bounds {
    All,
    Between(u64, u64),
    From(u64),
    To(u64),
    /// A key's first bytes.
    Prefix(u64, usize),
}

/// How a store is left before it is opened again.
#[derive(Clone, Copy, Debug)]
pub enum End {
    Close,
    KillProcess,
    /// The machine loses its power.
    LosePower(CrashPolicy),
}

/// One operation. `seed` is for the choices that depend on what the store looks like.
#[derive(Clone, Debug)]
pub enum Operation {
    Write {
        writes: Vec<Write>,
        sync: bool,
    },
    Get {
        space: usize,
        key: u64,
    },
    MultiGet {
        space: usize,
        keys: Vec<u64>,
    },
    Scan {
        space: usize,
        bounds: Bounds,
        seed: u64,
    },
    Snapshot,
    DropSnapshot {
        at: usize,
    },
    ReadSnapshot {
        at: usize,
        space: usize,
        key: u64,
        bounds: Bounds,
        seed: u64,
    },
    HoldCursor {
        space: usize,
        bounds: Bounds,
    },
    MoveHeld {
        at: usize,
        moves: u64,
        seed: u64,
    },
    DropHeld {
        at: usize,
    },
    Flush {
        space: usize,
    },
    CompactRange {
        space: usize,
        bounds: Bounds,
    },
    /// From a level, one level down or all the way; cancelled when it has told of itself so often.
    CompactLevels {
        space: usize,
        from: usize,
        one: bool,
        cancel_after: Option<u64>,
    },
    /// Sorted records straight into tables; `finish` false: dropped at the end instead.
    BulkLoad {
        space: usize,
        first: u64,
        count: u64,
        finish: bool,
    },
    Sync,
    /// Background work; `compactions` false for flushes alone.
    Step {
        steps: u64,
        compactions: bool,
        seed: u64,
    },
    /// A few steps, then every open job is asked to yield, then more steps.
    Yield {
        before: u64,
        after: u64,
        seed: u64,
    },
    /// As many flushes as this without a step of compaction between them, then compactions that yield in the middle, so that
    /// tables are left that are consumed in part; and scans of that.
    PileUp {
        space: usize,
        flushes: u64,
        seed: u64,
    },
    /// `None`: back to the strategy under test.
    SetStrategy {
        space: usize,
        to: Option<usize>,
    },
    /// `None`: back to the schedule under test.
    SetSchedule {
        to: Option<usize>,
    },
    /// Everything in the background stands still for so many writes.
    Pause {
        space: usize,
        writes: u64,
        seed: u64,
    },
    Create {
        space: usize,
    },
    Drop {
        space: usize,
    },
    WaitIdle,
    Advance {
        ms: u64,
    },
    Check {
        verify: bool,
    },
    /// A checkpoint, opened as a store of its own.
    Copy {
        seed: u64,
    },
    /// A read-only open beside the one that is open.
    Look {
        seed: u64,
    },
    Reopen {
        end: End,
        seed: u64,
    },
}

/// The list of a seed.
pub fn generate(seed: u64, count: usize) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut operations = Vec::with_capacity(count);
    let mut reopens = 0;
    let mut spell = Spell { hot: None, deletions: 8, ranges: 80, large: 60, stepping: 3, space: None };
    while operations.len() < count {
        if random.one_in(400) {
            spell = Spell {
                hot: random.one_in(3).then(|| random.below(KEYS)),
                deletions: [3, 8, 1000][random.below(3) as usize],
                ranges: [12, 60, 200, 10_000][random.below(4) as usize],
                large: [20, 60, 400][random.below(3) as usize],
                stepping: [0, 1, 3, 6][random.below(4) as usize],
                space: random.one_in(2).then(|| random.below(NAMES.len() as u64) as usize),
            };
        }
        if operations.len() % 700 == 699 {
            let verify = operations.len() % 2100 == 2099;
            operations.push(Operation::Check { verify });
        }
        let mut operation = draw(&mut random, &spell);
        if let Operation::Reopen { end, .. } = &mut operation {
            // Every other reopen is a crash.
            reopens += 1;
            if reopens % 2 == 0 {
                *end = End::Close;
            }
        }
        operations.push(operation);
    }
    operations.push(Operation::WaitIdle);
    operations.push(Operation::Check { verify: true });
    operations
}

/// What writes and steps are like for a while.
struct Spell {
    hot: Option<u64>,
    deletions: u64,
    ranges: u64,
    large: u64,
    stepping: u64,
    space: Option<usize>,
}

impl Spell {
    fn space(&self, random: &mut Random) -> usize {
        match self.space {
            Some(space) if !random.one_in(4) => space,
            _ => random.below(NAMES.len() as u64) as usize,
        }
    }

    fn write(&self, random: &mut Random) -> Write {
        let key = match self.hot {
            Some(hot) if !random.one_in(4) => (hot + random.below(40)) % KEYS,
            _ => random.below(KEYS),
        };
        if random.one_in(self.ranges) {
            let (from, to) = range_deleted(random, key);
            return (self.space(random), from, Effect::DeleteTo(to));
        }
        let length = match random.below(self.large) {
            0 => 1000 + random.below(5000) as usize,
            1 => 0,
            _ => 1 + random.below(100) as usize,
        };
        let deletes = random.one_in(self.deletions);
        (self.space(random), key, if deletes { Effect::Delete } else { Effect::Put(length) })
    }
}

/// A few keys mostly; at times many, none, all from one on or to one, and everything there is.
fn range_deleted(random: &mut Random, key: u64) -> (u64, Option<u64>) {
    match random.below(100) {
        0 => (0, None),
        1..4 => (KEYS - 1 - random.below(100), None),
        4..7 => (0, Some(random.below(100))),
        7..12 => (key, Some(key)),
        12..15 => (key, Some(random.below(KEYS))),
        15..40 => (key, Some((key + random.below(80)).min(KEYS))),
        _ => (key, Some(key + 1 + random.below(9))),
    }
}

fn draw(random: &mut Random, spell: &Spell) -> Operation {
    let space = spell.space(random);
    let (key, at) = (random.below(KEYS), random.below(64) as usize);
    let seed = random.next_u64();
    match random.below(1000) {
        0..560 => Operation::Write { writes: vec![spell.write(random)], sync: random.one_in(200) },
        560..610 => {
            let writes = (0..2 + random.below(30)).map(|_| spell.write(random)).collect();
            Operation::Write { writes, sync: random.one_in(50) }
        }
        610..680 => Operation::Get { space, key },
        680..700 => {
            Operation::MultiGet { space, keys: (0..random.below(12)).map(|_| random.below(KEYS)).collect() }
        }
        700..740 => Operation::Scan { space, bounds: bounds(random), seed },
        740..746 => Operation::Snapshot,
        746..751 => Operation::DropSnapshot { at },
        751..770 => Operation::ReadSnapshot { at, space, key, bounds: bounds(random), seed },
        770..776 => Operation::HoldCursor { space, bounds: bounds(random) },
        776..790 => Operation::MoveHeld { at, moves: random.below(20), seed },
        790..795 => Operation::DropHeld { at },
        795..800 => Operation::Flush { space },
        800..802 => Operation::CompactRange { space, bounds: bounds(random) },
        802..804 => Operation::Sync,
        804 => {
            let cancel_after = random.one_in(2).then(|| 1 + random.below(12));
            Operation::CompactLevels {
                space,
                from: random.below(4) as usize,
                one: random.one_in(2),
                cancel_after,
            }
        }
        805 => {
            let (first, count) = (random.below(KEYS), 1 + random.below(120));
            Operation::BulkLoad { space, first, count, finish: !random.one_in(5) }
        }
        806..836 => Operation::Step { steps: 1 + random.below(30), compactions: false, seed },
        836..900 => Operation::Step { steps: random.below(12) * spell.stepping, compactions: true, seed },
        900..950 => Operation::Yield { before: random.below(24), after: random.below(40), seed },
        950..953 => Operation::SetStrategy { space, to: Some(random.below(10) as usize) },
        953..959 => Operation::SetStrategy { space, to: None },
        959..967 => Operation::Create { space },
        967..968 => Operation::Drop { space },
        968..971 => Operation::WaitIdle,
        971..973 => Operation::PileUp { space, flushes: 4 + random.below(14), seed },
        973..990 => Operation::Advance { ms: random.below(2000) },
        990..993 => Operation::Copy { seed },
        993..996 => Operation::Look { seed },
        996 => Operation::Check { verify: false },
        997 if random.one_in(3) => Operation::Pause { space, writes: 1 + random.below(30), seed },
        997 => {
            let to = random.one_in(2).then(|| random.below(SCHEDULES.len() as u64) as usize);
            Operation::SetSchedule { to }
        }
        _ => Operation::Reopen { end: end(random), seed },
    }
}

fn end(random: &mut Random) -> End {
    let policies = CrashPolicy::ALL.len() as u64;
    match random.below(3) {
        0 => End::KillProcess,
        _ => End::LosePower(CrashPolicy::ALL[random.below(policies) as usize]),
    }
}

fn bounds(random: &mut Random) -> Bounds {
    let (from, length) = (random.below(KEYS), random.below(60));
    match random.below(10) {
        0 => Bounds::All,
        1 => Bounds::From(KEYS - 1 - length),
        2 => Bounds::To(length),
        3 | 4 => Bounds::Prefix(from, random.below(9) as usize),
        5 => Bounds::Between(from, random.below(KEYS)),
        _ => Bounds::Between(from, (from + length).min(KEYS)),
    }
}

/// The bytes of a key: of different shapes and lengths, some with long heads in common, one empty. In the order of their
/// numbers but for the longest, which keeps ranges short.
pub fn key(number: u64) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        1..100 => vec![number as u8],
        100..200 => [&b"user/\0"[..], &number.to_be_bytes()[6..]].concat(),
        _ if number.is_multiple_of(7) => {
            [b"user/a long head that keys have in common/".repeat(3), number.to_string().into_bytes()]
                .concat()
        }
        _ => format!("user:{number:04}").into_bytes(),
    }
}

/// A value of this length that no other write has.
pub fn value(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![b'.'; length];
    let random = length.min(16 + length / 2);
    Random::new(number).fill(&mut bytes[..random]);
    bytes
}
