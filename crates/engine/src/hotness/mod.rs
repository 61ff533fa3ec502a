//! Floor 3: what reads teach: how hot a table will be, from where its keys lie.

pub mod access_window;
pub mod key_histogram;
pub mod linear_model;
pub mod predictor;
pub mod predictor_codec;
pub mod read_profile;
pub mod temperature;
