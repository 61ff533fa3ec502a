//! Memory that only code with `unsafe` can lay out so: the memtable's B+tree over an arena, with one writer and readers that never
//! lock, and blocks whose memory goes round (`block`).
//!
//! Entries (user key, trailer, value) are copied into chunks and never move or die before the whole tree
//! does; nodes of 512 bytes hold eight-byte key prefixes and four-byte references to them. Order is user key
//! upward, then trailer **downward**, so the newest entry of a key comes first. See `node` for the protocol
//! between writer and readers, and `writer` for why a split never hides an entry.
//!
//! ```text
//!   sync ◄ block
//!   sync ◄ prefix ◄ entry ◄ arena ◄ node ◄ tree ◄ writer
//!                                             ▲ cursor     (files, bottom-up)
//! ```
//! With `evenkeel-sys` this is the only crate of the workspace that contains `unsafe`.

mod arena;
mod block;
mod cursor;
mod entry;
mod node;
mod prefix;
mod sync;
mod tree;
mod writer;

pub use arena::Spare;
pub use block::{Block, BlockPool};
pub use cursor::Cursor;
pub use tree::{PinnedValue, Tree};
pub use writer::{Writer, tree, tree_with};

#[cfg(all(test, not(loom)))]
mod model_tests;
