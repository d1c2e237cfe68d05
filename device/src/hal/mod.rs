//! hal.
