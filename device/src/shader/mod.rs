//! The shader engine: workgroups on worker threads.
//!
//! A dispatch is a list of workgroups. A worker takes a turn at a dispatch: it begins workgroups in ascending order and
//! runs each to its end, or until the turn's budget of instructions is used up; then the workgroup pauses and any
//! worker may go on with it later. The waves of a workgroup take turns on its worker, switching at `s_barrier`,
//! `s_sleep`, the end of the program and after a quantum, so LDS needs no locks. Queues take turns, and so do the
//! dispatches of a queue; new workgroups come before paused ones until the modelled GPU is full, so that grids whose
//! workgroups wait for each other make progress. A dispatch of a few waves that finds the workers idle gets a first, short
//! turn on the thread that submits it.
//!
//! | a queue is | turns begin | waves | ends by |
//! | --- | --- | --- | --- |
//! | running | yes | run | [`ShaderQueue::suspend`], [`ShaderEngine::remove`], a failed wave |
//! | suspended | no | kept | [`ShaderEngine::resume`], [`ShaderEngine::save_context`], [`ShaderEngine::remove`] |
//! | stopped | no | dropped | nothing |

mod chance;
mod code;
mod context;
mod dispatch;
mod engine;
mod failure;
mod gws;
mod launch;
mod placement;
mod queue;
mod scratch;
mod stats;
mod unclaimed;
mod worker;
mod workgroup;

pub use context::{ContextError, SavedDispatch, SavedGroup, SavedWave, WaveStates};
pub use dispatch::{Announcement, Notice, Owner, Runner};
pub use engine::{
    Error, RunningWave, RunningWaves, SeenDispatch, SeenWave, ShaderConfig, ShaderEngine, Steps,
};
pub(crate) use engine::{Restoring, SavedQueue, SavedShader, StepError};
pub use failure::{FailureClass, Reason, WaveFailure};
pub(crate) use gws::SavedGws;
pub use gws::{Gws, GwsWait};
pub use launch::{Launch, MAX_INITIAL_SGPRS, MAX_WORKGROUP_SIZE};
pub use queue::ShaderQueue;
pub(crate) use scratch::SavedScratch;
pub use scratch::ScratchPool;
pub use stats::Statistics;
pub use workgroup::Waiting;
