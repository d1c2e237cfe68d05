//! The place of a preempted queue's state: its context save area in the memory of its process.
//!
//! | from | to | contents |
//! | --- | --- | --- |
//! | 0 | 40 | header, which user space and the driver fill |
//! | `stack` | `stack_size` | control stack, which grows downwards |
//! | `stack_size` | `waves` | contexts of waves, which grow upwards |
//! | `size` | | memory of debuggers, not of the queue's |
//!
//! Source: linux `kfd_mqd_manager_v11.c`, `get_wave_state`.

/// A context save area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct ContextArea {
    /// GPU virtual address.
    pub base: u64,
    /// Bytes, without those of debuggers.
    pub size: u32,
    /// Bytes of the control stack, less than `size`.
    pub stack_size: u32,
}

/// Offsets of the parts of an area that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub struct ContextOffsets {
    /// Start of the control stack.
    pub stack: u32,
    /// End of the waves.
    pub waves: u32,
}
