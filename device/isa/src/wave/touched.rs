//! Places of a wave's storage that code may leave changed.

/// Scalar registers of a line.
pub(crate) const LINE: usize = 16;

/// Places of a wave's storage that a region may change: all others are as they were when the wave came into the
/// region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Lines of scalar registers, sixteen each.
    pub(crate) lines: u16,
    /// Rows of vector registers, in ascending ranges: the first one, and one past the last.
    pub(crate) rows: Box<[(u32, u32)]>,
}
