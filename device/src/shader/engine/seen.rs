//! The waves on the engine with all their state, for tools that inspect the device.

use std::sync::Arc;

use belfry_isa::wave::Wave;

use super::{Dispatch, ShaderEngine};
use crate::shader::launch::Launch;
use crate::shader::workgroup::Waiting;
use crate::vm::AddressSpace;

/// A dispatch on the engine.
#[derive(Clone, Copy, Debug)]
pub struct SeenDispatch<'a> {
    /// Dispatches submitted before it.
    pub number: u64,
    /// Index of its packet.
    pub packet: u64,
    /// The kernel, and the grid.
    pub launch: &'a Launch,
    /// Address space of its process.
    pub space: &'a Arc<AddressSpace>,
    /// Workgroups.
    pub workgroups: u64,
    /// Workgroups that have not begun.
    pub left: u64,
    /// Workgroups that have ended.
    pub ended: u64,
}

/// A wave that has begun and not ended.
#[derive(Debug)]
pub struct SeenWave<'a> {
    /// Its dispatch.
    pub dispatch: SeenDispatch<'a>,
    /// Its workgroup.
    pub workgroup: [u32; 3],
    /// Its number in the workgroup.
    pub number: u32,
    /// Event that it waits for.
    pub waiting: Waiting,
    /// Its registers.
    pub wave: &'a Wave,
    /// Bytes of its workgroup's LDS.
    pub lds: &'a [u8],
}

impl ShaderEngine {
    /// Calls `dispatches` for each dispatch, then `waves` for its waves. The engine is held meanwhile, so that all
    /// waves are between two instructions. The caller keeps the firmware's lock, so that no thread submits.
    pub(crate) fn look(
        &self,
        dispatches: &mut dyn FnMut(&SeenDispatch<'_>),
        waves: &mut dyn FnMut(&SeenWave<'_>),
    ) {
        let _held = self.hold();
        let all: Vec<Arc<Dispatch>> = {
            let state = self.shared.lock();
            state.queues.iter().flat_map(|active| &active.dispatches).cloned().collect()
        };
        for dispatch in all.iter().filter(|dispatch| !dispatch.is_settled()) {
            let seen = SeenDispatch {
                number: dispatch.number(),
                packet: dispatch.owner().packet(),
                launch: dispatch.launch(),
                space: dispatch.queue().space(),
                workgroups: dispatch.total(),
                left: dispatch.unclaimed.left(),
                ended: dispatch.ended(),
            };
            dispatches(&seen);
            dispatch.each_workgroup(&mut |group| {
                group.each_wave(&mut |workgroup, number, waiting, wave| {
                    let lds = group.lds();
                    waves(&SeenWave { dispatch: seen, workgroup, number, waiting, wave, lds });
                });
            });
        }
    }
}
