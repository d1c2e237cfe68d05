//! Lines of the driver in the log.

/// Importance of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed that a user will notice.
    Error,
    /// Something is wrong and was survived.
    Warn,
    /// Milestones of bring-up and tear-down.
    Info,
    /// Everything else.
    Debug,
}
