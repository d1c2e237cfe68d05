//! Trace points, named after the steps a packet takes through the device, and what they are recorded as.
//!
//! A step is a [`TraceEvent`]. A [`Tracer`] adds the time, the [`Job`] and the [`Owner`], and gives the whole to its [`TraceSink`]
//! as a [`Record`]; without a sink that is one branch. [`Ring`] is the sink that keeps the last records in shared memory.

mod counters;
mod event;
mod job;
mod owner;
mod record;
mod ring;
mod tracer;

use belfry_isa::exec::Step;

pub use counters::{Counter, PerWhat};
pub use event::{Path, TraceEvent, Way};
pub use job::{Job, JobScope};
pub use owner::{Engine, Owner};
pub use record::{ARGUMENTS, Kind, MAX_TEXT, Record};
pub use ring::{Contents, Ring, RingError};
pub use tracer::Tracer;

/// A wave, by where it belongs.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct WaveId {
    /// Dispatches started on the device before its own.
    pub dispatch: u64,
    /// Workgroup within the grid.
    pub workgroup: [u32; 3],
    /// Wave within the workgroup.
    pub wave: u32,
}

/// `DISPATCH:X,Y,Z:WAVE`.
impl std::fmt::Display for WaveId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(f, "{}:{x},{y},{z}:{}", self.dispatch, self.wave)
    }
}

/// Receiver of trace events; called from any thread of the device, so it must be quick and must not call back.
pub trait TraceSink: Send + Sync + std::fmt::Debug {
    /// One step was taken.
    fn record(&self, record: &Record);

    /// Whether [`wants_wave`](Self::wants_wave) is to be asked at all.
    fn wants_waves(&self) -> bool {
        false
    }

    /// Whether the instructions of a wave are wanted, which is asked whenever the wave goes on.
    ///
    /// Such a wave is executed step by step, many times slower than others.
    fn wants_wave(&self, _wave: &WaveId) -> bool {
        false
    }

    /// A wave that is wanted has executed an instruction.
    fn instruction(&self, _wave: &WaveId, _step: &Step<'_>) {}
}
