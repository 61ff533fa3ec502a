//! Experiments beside each other in cells, and what is claimed of them, judged. Files are listed bottom-up.

pub mod experiment;

pub mod expected;

pub mod rounds;

pub mod cells;

pub mod judging;

pub mod verdict_table;

pub mod verdict_page;

pub mod kept;
