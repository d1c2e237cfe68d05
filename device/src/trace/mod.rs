//! Trace points, named after the steps a packet takes through the device, and the form of their records.
//!
//! A step is a [`TraceEvent`]. A [`Tracer`] adds the time, the [`Job`] and the [`Owner`], and gives the
//! result to its [`TraceSink`] as a [`Record`]; without a sink, the cost is one branch. [`Ring`] is the sink
//! that keeps the last records in shared memory.

mod counters;
mod event;
mod job;
mod owner;
mod record;
mod ring;
mod timeline;
mod tracer;

use std::time::Duration;

use belfry_isa::exec::Step;

pub use counters::{Counter, PerWhat};
pub use event::{Path, TraceEvent, Way};
pub use job::{Job, JobScope};
pub use owner::{Engine, Owner};
pub use record::{ARGUMENTS, Kind, MAX_TEXT, Record};
pub use ring::{Contents, Ring, RingError};
pub use timeline::Timeline;
pub use tracer::Tracer;

/// A wave, by its dispatch, workgroup and number.
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
    /// The time of the events begins at this point in the time of the device's source.
    fn begins(&self, _start: Duration) {}

    /// One step was taken.
    fn record(&self, record: &Record);

    /// Returns true if [`wants_wave`](Self::wants_wave) is to be asked at all.
    fn wants_waves(&self) -> bool {
        false
    }

    /// Returns true if the instructions of a wave are wanted. The device asks whenever the wave goes on.
    ///
    /// Such a wave is executed step by step, many times slower than others.
    fn wants_wave(&self, _wave: &WaveId) -> bool {
        false
    }

    /// A wanted wave has executed an instruction.
    fn instruction(&self, _wave: &WaveId, _step: &Step<'_>) {}
}
