//! What is asked: operations over records, drawn by distributions; by name, by property file or by lines of text. Files are listed bottom-up.

pub mod keys;

pub mod values;

pub mod zipfian;

pub mod distribution;

pub mod workload;

pub mod catalog;

pub mod property_file;

pub mod records;

pub mod text_operations;

pub mod generator;
