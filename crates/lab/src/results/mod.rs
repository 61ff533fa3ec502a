//! What came out: the document of a run, reports of it, several engines beside each other. Files are listed bottom-up.

pub mod document;

pub mod report;

pub mod settings;

pub mod comparison;

pub mod comparison_table;

pub mod sustained;
