//! Schedules of background work beside each other: experiments after the figures of SILK (ATC 2019) and DLC (EDBT 2021), on one
//! engine and an emulated device, in peaks and valleys chosen by what the device sustains.
//!
//! ```text
//! Study ─► rows ─► cells: a `keel bench` each, from one settled store ─► documents ─┐
//!   │        └─► probes, once: X_max and W* ─► the rates of the loads               │
//!   └─► claims ────────────────────────── judge ◄───────────────────────────────────┘ ─► verdicts, page
//! ```
//!
//! Beside `design_space`, where time is not asked for: here it is all that is. Files are listed bottom-up.

pub mod row;

pub mod study;

pub mod cells;

pub mod judge;

pub mod page;
