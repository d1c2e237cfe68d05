//! Errors of the engine.

/// Reason that the engine refused a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A worker thread could not be started.
    #[error("worker thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The grid has no workgroups, or more than can be counted.
    #[error("grid {grid:?} in workgroups of {workgroup:?} cannot be counted")]
    Grid {
        /// Work-items of the grid.
        grid: [u32; 3],
        /// Work-items of a workgroup.
        workgroup: [u32; 3],
    },
}
