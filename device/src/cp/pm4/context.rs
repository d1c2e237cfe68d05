//! Saving a PM4 queue to its context save area, and restoring it from there. Its compute registers go to its MQD.

use std::sync::Arc;

use belfry_abi::pm4::ReleaseMem;
use zerocopy::IntoBytes;

use super::dispatch::Pm4Dispatch;
use super::registers::ComputeRegisters;
use super::{MAX_STARTED, Pm4Config, Pm4Queue, Started, launch};
use crate::cp::context::{Context, Leaving, Scratch, put_buffers, read_buffers, restore, take_groups};
use crate::cp::control_stack::{self, Reader, Waves, encode, put_number};
use crate::cp::env::CpEnv;
use crate::cp::error::{Cause, QueueError};
use crate::cp::indirect::Execution;
use crate::cp::preempted::Preempted;
use crate::cp::state::QueueState;
#[cfg(doc)]
use crate::queue::QueueEngine;
use crate::queue::{ContextArea, ContextOffsets, Progress};
use crate::shader::{ContextError, Gws, Launch, Owner, SavedDispatch, ShaderEngine};
use crate::vm::AddressSpace;

/// Part of a started packet that is not in the waves.
enum Kept {
    Dispatch(Running),
    Release(ReleaseMem),
}

struct Running {
    registers: ComputeRegisters,
    scratch: Option<Scratch>,
    /// Workgroups that have not begun.
    unclaimed: Vec<std::ops::Range<u64>>,
}

impl Preempted for Pm4Queue {
    fn parts(&self) -> (&Arc<ShaderEngine>, &Arc<QueueState>) {
        (&self.shader, &self.state)
    }

    fn unread(&self) -> Option<Context> {
        self.returning.filter(|_| !self.stopped)
    }

    fn set_unread(&mut self, context: Context) {
        self.returning = Some(context);
    }

    fn leaving(&mut self) -> &mut Option<Leaving> {
        &mut self.leaving
    }

    fn fail(&mut self, cause: Cause) -> Progress<QueueError> {
        self.fail_packet(cause)
    }

    fn control_stack(&self, saved: &[SavedDispatch]) -> Vec<u32> {
        let mut waves = Vec::new();
        let mut kept = Vec::new();
        for started in &self.started {
            match started {
                Started::Release(packet) => kept.push(Kept::Release(*packet)),
                // An ended dispatch keeps nothing waiting.
                Started::Dispatch(dispatch) if dispatch.is_done() => {}
                Started::Dispatch(dispatch) => {
                    let mine = saved.iter().find(|saved| saved.packet == dispatch.number());
                    let Some(SavedDispatch { launch, unclaimed, groups, .. }) = mine else { continue };
                    if !groups.is_empty() {
                        let at = kept.len() as u32;
                        waves.push((Waves { dispatch: at, groups: groups.clone() }, launch));
                    }
                    let scratch = Scratch::of(launch);
                    let (registers, unclaimed) = (dispatch.registers().clone(), unclaimed.clone());
                    kept.push(Kept::Dispatch(Running { registers, scratch, unclaimed }));
                }
            }
        }
        let own = bytes((self.hdp_flush, self.invocations), &self.buffers, &kept);
        encode(&own, &waves, self.shader.chip().shader.stack)
    }

    fn read_context(&mut self, area: Option<&ContextArea>, offsets: ContextOffsets) -> Result<(), Cause> {
        let area = area.ok_or(ContextError::NoArea)?;
        let (state, mut waves) =
            control_stack::read(self.state.space(), area, offsets, self.shader.chip().shader.stack)?;
        let kept = self.read_state(&state)?;
        let mut dispatches = Vec::new();
        for (at, kept) in (0u32..).zip(kept) {
            let running = match kept {
                Kept::Release(packet) => {
                    self.started.push_back(Started::Release(packet));
                    continue;
                }
                Kept::Dispatch(running) => running,
            };
            let launch = self.launch_again(&running)?;
            let number = self.dispatches;
            self.dispatches += 1;
            let owner = Arc::new(Pm4Dispatch::new(&self.state, number, running.registers, false));
            self.started.push_back(Started::Dispatch(Arc::clone(&owner)));
            let groups = take_groups(&mut waves, at);
            let saved = SavedDispatch { packet: number, launch, unclaimed: running.unclaimed, groups };
            dispatches.push((saved, owner as Arc<dyn Owner>));
        }
        restore(&self.shader, &self.state.shader, dispatches, &waves, (area, offsets.waves))?;
        self.returning = None;
        Ok(())
    }

    fn forget(&mut self) {
        self.started.clear();
        self.dispatches = 0;
        self.scratch = None;
        self.hdp_flush = 0;
        self.invocations = 0;
        self.buffers = Execution::default();
    }
}

impl Pm4Queue {
    /// Makes a queue that goes on from the context that [`QueueEngine::save`] has written. The guest may have changed
    /// it since. If the process waits for pages (XNACK), the queue waits for missing ones first.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue cannot go on. The driver has then been informed that it has stopped.
    pub fn from_context(
        config: Pm4Config,
        space: Arc<AddressSpace>,
        gws: Arc<Gws>,
        env: &CpEnv,
        registers: &[u32],
        (area, offsets): (Option<&ContextArea>, ContextOffsets),
    ) -> Result<Pm4Queue, QueueError> {
        let mut queue = Pm4Queue::new(config, space, gws, env, registers);
        queue.begin_from(area, offsets)?;
        Ok(queue)
    }

    /// Makes the launch of a dispatch that was started before.
    fn launch_again(&mut self, running: &Running) -> Result<Launch, Cause> {
        let prepared = launch::prepare(self.state.space(), &running.registers, self.shader.chip())?;
        let mut launch = prepared.ok_or(ContextError::Corrupt("a dispatch of no workgroups"))?.launch;
        self.complete_launch(&mut launch);
        if let Some(scratch) = running.scratch {
            scratch.give_again(&mut launch, &mut self.scratch)?;
        }
        Ok(launch)
    }

    fn read_state(&mut self, bytes: &[u8]) -> Result<Vec<Kept>, ContextError> {
        let mut reader = Reader(bytes);
        self.hdp_flush = reader.word()?;
        self.invocations = reader.quad()?;
        self.buffers = read_buffers(&mut reader)?;
        let count = reader.number()?;
        if count > MAX_STARTED as u64 {
            return Err(ContextError::Corrupt("more packets than can be in flight"));
        }
        (0..count).map(|_| read_kept(&mut reader)).collect()
    }
}

fn bytes((hdp_flush, invocations): (u32, u64), buffers: &Execution, kept: &[Kept]) -> Vec<u8> {
    let mut bytes = hdp_flush.to_le_bytes().to_vec();
    bytes.extend(invocations.to_le_bytes());
    put_buffers(&mut bytes, buffers);
    put_number(&mut bytes, kept.len() as u64);
    for kept in kept {
        let Running { registers, scratch, unclaimed } = match kept {
            Kept::Release(packet) => {
                bytes.push(0);
                bytes.extend(packet.as_bytes());
                continue;
            }
            Kept::Dispatch(running) => running,
        };
        bytes.push(1 | u8::from(scratch.is_some()) << 1);
        registers.put(&mut bytes);
        if let Some(scratch) = scratch {
            scratch.put(&mut bytes);
        }
        control_stack::put_ranges(&mut bytes, unclaimed);
    }
    bytes
}

fn read_kept(reader: &mut Reader<'_>) -> Result<Kept, ContextError> {
    let flags = reader.byte()?;
    if flags & 1 == 0 {
        let mut words = [0; 7];
        for word in &mut words {
            *word = reader.word()?;
        }
        return Ok(Kept::Release(zerocopy::transmute!(words)));
    }
    let mask = reader.quad()?;
    let registers = ComputeRegisters::take(mask, || reader.word())?;
    let scratch = if flags & 2 == 0 { None } else { Some(Scratch::read(reader)?) };
    Ok(Kept::Dispatch(Running { registers, scratch, unclaimed: reader.ranges()? }))
}
