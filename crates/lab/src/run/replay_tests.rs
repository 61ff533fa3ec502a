//! Files of operations on a map in memory: order, figures, errors, and checked answers.

use super::*;
use crate::run::map_engine::MapEngine;
use crate::run::phase::Unwatched;

fn replay(engine: &MapEngine, text: &str, check: bool) -> Result<(Dataset, Outcome), String> {
    let answers = check.then_some(engine as &dyn Answers);
    run(engine, text.as_bytes(), answers, &Unwatched).map_err(|error| error.to_string())
}

const TEXT: &str = "I a 1\nI b 22\nI c 333\nI d 4444\nU a 11\nD b \nR c d\nQ a\nQ b\nS a z\nS b b\n";

#[test]
fn operations_run_in_their_order() {
    let engine = MapEngine::default();
    let (data, outcome) = replay(&engine, TEXT, true).unwrap();
    let left: Vec<_> = engine.map.lock().unwrap().clone().into_iter().collect();
    assert_eq!(left, [(b"a".to_vec(), b"11".to_vec()), (b"d".to_vec(), b"4444".to_vec())]);
    assert_eq!((outcome.ops, outcome.records, outcome.live_bytes), (11, 2, 8));
    assert!(outcome.driver.ns_per_op > 0.0 && outcome.driver.floor_us.p50 > 0.0, "{:?}", outcome.driver);
    assert_eq!((data.key_bytes, data.value_bytes), (1, 2.into()));
    let count =
        |kind: OpKind| outcome.latencies[kind.index()].as_ref().map_or(0, hdrhistogram::Histogram::len);
    let counts = OpKind::ALL.map(count);
    assert_eq!(counts, [2, 1, 4, 2, 0, 1, 1, 0, 0]);
    assert_eq!(outcome.windows.iter().map(|w| w.ops).sum::<u64>(), 11);
}

#[test]
fn an_error_says_in_which_line() {
    let engine = MapEngine { fail_after: Some(2), ..MapEngine::default() };
    assert_eq!(replay(&engine, TEXT, false).unwrap_err(), "line 3: full");
    assert_eq!(replay(&MapEngine::default(), "I a 1\n\nQ", false).unwrap_err(), "line 3: `Q` takes a key");
    assert_eq!(replay(&MapEngine::default(), "", false).unwrap().1.ops, 0);
}

/// An engine that loses what it is told to lose.
struct Loses(MapEngine, &'static [u8]);

impl Answers for Loses {
    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        if key == self.1 { Ok(None) } else { self.0.value(key) }
    }

    fn between(&self, from: &[u8], to: Option<&[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>, EngineError> {
        let mut all = self.0.between(from, to)?;
        all.retain(|(key, _)| key != self.1);
        Ok(all)
    }
}

#[test]
fn a_wrong_answer_is_found_in_a_read_in_a_scan_and_at_the_end() {
    let check = |lost: &'static [u8], text: &str| {
        let engine = Loses(MapEngine::default(), lost);
        run(&engine.0, text.as_bytes(), Some(&engine), &Unwatched).map_err(|error| error.to_string())
    };
    assert!(check(b"z", TEXT).is_ok());
    assert_eq!(check(b"a", TEXT).unwrap_err(), "line 8: `a` gave nothing, and should give `11`");
    assert_eq!(
        check(b"d", TEXT).unwrap_err(),
        "line 10: record 2 of the scan is nothing or has another value, and should be `d`"
    );
    assert_eq!(
        check(b"a", "I a 1").unwrap_err(),
        "at the end: record 1 of the scan is nothing or has another value, and should be `a`"
    );
    // What is there and should not be: the store was not empty.
    let engine = MapEngine::default();
    engine.map.lock().unwrap().insert(b"old".to_vec(), Vec::new());
    assert!(replay(&engine, "Q old", true).unwrap_err().contains("gave ``, and should give nothing"));
}
