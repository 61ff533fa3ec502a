//! Once a second: keyspaces whose reads have enough to teach learn it, and now and then `HEAT` is written.

use std::sync::Arc;
use std::time::Duration;

use crate::db::files::heat_file::{self, Predictors};
use crate::db::store::heat::LessonRule;
use crate::db::store::keyspace_state::KeyspaceState;
use crate::db::store::state::Store;
use crate::db::store::ticker_state::Ticker;
use crate::hotness::predictor::Learning;
use crate::observe::event::Event;

/// `HEAT` is written so seldom, and at the end.
const SAVE_EVERY: Duration = Duration::from_secs(60);

/// Goes on from what was learnt before the store was closed.
pub fn resume(store: &Store) {
    let mut learnt = heat_file::read(&*store.fs, &store.dir, Learning::default());
    for keyspace in store.keyspaces.load().by_name.values() {
        if let Some(predictor) = learnt.remove(&keyspace.id) {
            keyspace.heat.resume(predictor);
        }
    }
}

/// Has every keyspace learn for which it is time, and keeps what they know if that is due.
pub fn look(store: &Store, ticker: &mut Ticker) {
    let (lessons, now) = (LessonRule::of(&store.options.load()), store.clock.now());
    let learn = |keyspace: &Arc<KeyspaceState>| {
        let view = keyspace.view.load_full();
        keyspace.heat.look(&view.version, lessons, now)
    };
    let keyspaces = store.keyspaces.load_full();
    let learnt = keyspaces.by_name.values().filter(|keyspace| learn(keyspace)).count();
    ticker.heat_is_newer |= learnt > 0;
    if learnt > 0 {
        // Levels by heat are divided anew.
        store.background.work_changed();
    }
    if now.saturating_sub(ticker.heat_saved_at) >= SAVE_EVERY {
        save(store, ticker);
    }
}

/// Writes `HEAT`, if something was learnt since the last time.
pub fn save(store: &Store, ticker: &mut Ticker) {
    if !std::mem::take(&mut ticker.heat_is_newer) || store.read_only || store.check_settled().is_err() {
        return;
    }
    ticker.heat_saved_at = store.clock.now();
    let keyspaces = store.keyspaces.load_full();
    let learnt: Predictors = keyspaces.by_name.values().map(|k| (k.id, k.heat.predictor())).collect();
    let number = store.tree().versions.ids().file();
    if let Err(error) = heat_file::write(&*store.fs, &store.dir, number, &learnt) {
        store.event(&Event::NotWritten { file: "HEAT", error: error.to_string() });
    }
}
