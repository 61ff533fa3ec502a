//! Floor 4: the newest data: batch, log, memtable.
