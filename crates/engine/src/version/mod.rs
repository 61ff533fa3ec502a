//! Floor 5: the tree, immutable, and the log of its changes.

pub mod apply;
pub mod check;
pub mod edit;
pub mod edit_codec;
pub mod group;
pub mod heads;
pub mod level;
pub mod manifest;
pub mod picture;
pub mod picture_parse;
pub mod run;
#[expect(clippy::module_inception, reason = "the file is named after the type it defines, like every other")]
pub mod version;
pub mod version_set;
