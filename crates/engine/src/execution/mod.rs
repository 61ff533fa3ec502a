//! Floor 8: doing the work; knows no policy; nothing in it blocks or sleeps.
