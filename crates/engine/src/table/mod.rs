//! Floor 4: one table file, written once, read through checksums.
//!
//! Bottom-up: the facts of a table (`meta`, `key_sample`, `access`), its blocks (`format` to `facts`, `range_block`), writing (`writer`), what stays in memory
//! (`residents`, `pieces`, `waiting_blocks`, `block_cache`, `written_blocks`), reading (`block_file`, `partition`, `reader`, `table_iterator`, `table_cache`), and reading everything
//! (`verify`).

pub mod access;
pub mod block;
pub mod block_builder;
pub mod block_cache;
pub mod block_file;
pub mod compression;
pub mod facts;
pub mod filter;
pub mod format;
pub mod key_sample;
pub mod meta;
pub mod partition;
pub mod pieces;
pub mod prefix_rule;
pub mod range_block;
pub mod reader;
pub mod residents;
pub mod table_cache;
pub mod table_iterator;
pub mod verify;
pub mod waiting_blocks;
pub mod writer;
pub mod written_blocks;

#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod bench_tests;
#[cfg(test)]
mod test_files;
