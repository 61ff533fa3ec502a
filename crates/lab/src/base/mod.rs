//! What every part of the lab needs: time, random numbers, the machine and where a figure comes from. Files are listed bottom-up.

pub mod random;

pub mod clock;

pub mod machine;

pub mod device;

pub mod provenance;
