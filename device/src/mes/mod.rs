//! mes.
