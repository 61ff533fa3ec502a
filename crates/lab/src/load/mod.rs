//! When it is asked: load shapes, and the moments at which requests are due. Files are listed bottom-up.

pub mod load_shape;

pub mod arrivals;
