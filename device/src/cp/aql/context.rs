//! How an AQL queue is written to its context save area, and goes on from there.

use std::sync::Arc;

use belfry_abi::aql::{KernelDispatchPacket, PacketHeader, PacketType};

use super::{AqlQueue, MAX_IN_FLIGHT, MAX_SCRATCH_SLOTS, Source, Waiting, dispatch, parse};
use crate::cp::control_stack::{Reader, Waves, decode, encode, put_number};
use crate::cp::env::CpEnv;
use crate::cp::error::{Cause, QueueError};
use crate::cp::state::InFlight;
use crate::cp::{AqlConfig, indirect};
use crate::queue::{ContextArea, ContextOffsets, Progress, QueueEngine};
use crate::shader::{ContextError, Gws, Launch, SavedDispatch, ScratchPool, WaveStates};
use crate::vm::AddressSpace;
use zerocopy::IntoBytes;

/// Bytes before the control stack: `kfd_context_save_area_header`, and the eight that the kernel adds to it.
const HEADER: u32 = 48;
/// Control stacks are not larger, whatever a descriptor says.
const MAX_STACK: u32 = 1 << 20;

/// What of a started packet is not in its ring.
enum Started {
    Done,
    Running(Running),
}

struct Running {
    /// When it started, if that is wanted.
    start: Option<u64>,
    /// Address, bytes of a wave, and slots of its scratch memory.
    scratch: Option<(u64, u64, u32)>,
    /// Workgroups that have not begun.
    unclaimed: Vec<std::ops::Range<u64>>,
}

/// What the packet processor has beside the ring and the waves.
struct State {
    waiting: Waiting,
    /// From the read index on.
    started: Vec<Started>,
}

impl AqlQueue {
    /// [`QueueEngine::save`].
    pub(super) fn save_context(
        &mut self,
        area: Option<&ContextArea>,
    ) -> Result<Option<ContextOffsets>, QueueError> {
        if let Some(error) = self.state.take_failure() {
            self.stop();
            return Err(error);
        }
        if self.state.shader.is_stopping() {
            // The thread that stopped the queue reports the failure.
            self.stop();
            return Err(QueueError { packet: self.read_index, cause: Cause::Context(ContextError::Stopped) });
        }
        if !self.is_busy() {
            self.stop();
            return Ok(None);
        }
        match self.write_context(area) {
            Ok(offsets) => {
                self.stop();
                Ok(Some(offsets))
            }
            Err(error) => Err(self.stop_for(Cause::Context(error))),
        }
    }

    fn stop_for(&mut self, cause: Cause) -> QueueError {
        match self.fail(cause) {
            Progress::Error(error) => error,
            _ => QueueError { packet: self.read_index, cause: Cause::Context(ContextError::Stopped) },
        }
    }

    fn write_context(&mut self, area: Option<&ContextArea>) -> Result<ContextOffsets, ContextError> {
        let &ContextArea { base, size, stack_size } = area.ok_or(ContextError::NoArea)?;
        let mut states = WaveStates { base, bounds: (stack_size, size), used: stack_size };
        let saved = self.shader.save_context(&self.state.shader, &mut states)?;
        let mut waves = Vec::new();
        let mut started = Vec::new();
        for (at, packet) in self.started.iter().enumerate() {
            let index = self.read_index.wrapping_add(at as u64);
            let dispatch = saved.iter().find(|dispatch| dispatch.packet == index);
            started.push(match (packet, dispatch) {
                (Some(packet), Some(SavedDispatch { launch, unclaimed, groups, .. }))
                    if !packet.is_done() =>
                {
                    if !groups.is_empty() {
                        waves.push((Waves { dispatch: at as u32, groups: groups.clone() }, launch));
                    }
                    let scratch =
                        launch.scratch.as_ref().map(|pool| (pool.base(), pool.wave_bytes(), pool.slots()));
                    let unclaimed = unclaimed.clone();
                    Started::Running(Running { start: packet.start(), scratch, unclaimed })
                }
                _ => Started::Done,
            });
        }
        let state = State { waiting: std::mem::take(&mut self.waiting), started };
        let words = encode(&state.bytes(), &waves);
        let bytes = words.as_bytes();
        let room = stack_size.saturating_sub(HEADER);
        let Some(stack) = u32::try_from(bytes.len()).ok().filter(|&bytes| bytes <= room) else {
            return Err(ContextError::StackTooLarge { needed: bytes.len() as u64, size: room.into() });
        };
        let stack = stack_size - stack;
        self.state
            .space()
            .write_bytes(base.wrapping_add(stack.into()), bytes)
            .map_err(ContextError::Stack)?;
        Ok(ContextOffsets { stack, waves: states.used })
    }

    /// A queue that goes on from what [`QueueEngine::save`] has written. The guest may have changed it since.
    ///
    /// # Errors
    ///
    /// When it cannot go on. The runtime and the driver have then been told that the queue has stopped.
    pub fn from_context(
        config: AqlConfig,
        space: Arc<AddressSpace>,
        gws: Arc<Gws>,
        env: &CpEnv,
        (area, offsets): (Option<&ContextArea>, ContextOffsets),
    ) -> Result<AqlQueue, QueueError> {
        let mut queue = AqlQueue::new(config, space, gws, env);
        match queue.read_context(area, offsets) {
            Ok(()) => Ok(queue),
            Err(cause) => Err(queue.stop_for(cause)),
        }
    }

    fn read_context(&mut self, area: Option<&ContextArea>, offsets: ContextOffsets) -> Result<(), Cause> {
        let corrupt = |what| Err(Cause::Context(ContextError::Corrupt(what)));
        let &ContextArea { base, size, stack_size } = area.ok_or(ContextError::NoArea)?;
        let ContextOffsets { stack, waves } = offsets;
        let length = stack_size.checked_sub(stack).filter(|&length| length <= MAX_STACK);
        let Some(length) = length.filter(|length| length % 4 == 0 && stack >= HEADER) else {
            return corrupt("where the control stack is");
        };
        if waves < stack_size || waves > size {
            return corrupt("where the waves are");
        }
        let mut words = vec![0u32; length as usize / 4];
        let at = base.wrapping_add(stack.into());
        self.state.space().read_bytes(at, words.as_mut_bytes()).map_err(ContextError::Stack)?;
        let (state, mut groups) = decode(&words)?;
        let State { waiting, started } = State::read(&state)?;
        let mut dispatches = Vec::new();
        for (at, started) in (0u32..).zip(started) {
            let index = self.read_index.wrapping_add(at.into());
            let (in_flight, running) = match started {
                Started::Done => (None, None),
                Started::Running(running) => {
                    let (in_flight, launch) = self.launch_again(index, &running)?;
                    (Some(in_flight), Some((running, launch)))
                }
            };
            self.started.push_back(in_flight.clone());
            self.fetch_index = index.wrapping_add(1);
            if let (Some(owner), Some((running, launch))) = (in_flight, running) {
                let mine = groups.iter().position(|waves| waves.dispatch == at);
                let groups = mine.map_or_else(Vec::new, |mine| groups.remove(mine).groups);
                let saved = SavedDispatch { packet: index, launch, unclaimed: running.unclaimed, groups };
                dispatches.push((saved, owner));
            }
        }
        if !groups.is_empty() {
            return corrupt("waves of no dispatch");
        }
        self.waiting = waiting;
        let waves_of = |(saved, _): &(SavedDispatch, _)| {
            saved.groups.len() as u64 * u64::from(saved.launch.waves_per_workgroup())
        };
        if dispatches.iter().map(waves_of).sum::<u64>() > self.shader.capacity() {
            return corrupt("more waves than the GPU holds");
        }
        // No workgroup begins before all have what is theirs: it would get, and write to, scratch memory of those to come.
        self.state.shader.suspend();
        let mut states = WaveStates { base, bounds: (stack_size, size), used: waves };
        for (saved, owner) in dispatches.into_iter().rev() {
            self.shader.restore_context(&self.state.shader, saved, owner, &mut states)?;
        }
        if states.used != stack_size {
            return corrupt("more state than there are waves of");
        }
        self.shader.resume(&self.state.shader);
        Ok(())
    }

    /// The launch of a packet that was started before.
    fn launch_again(&mut self, index: u64, running: &Running) -> Result<(Arc<InFlight>, Launch), Cause> {
        let address = self.slot(index);
        let words: [u32; 16] =
            self.state.space().read(address).map_err(|fault| Cause::Memory { what: "ring", fault })?;
        let header = PacketHeader::from_bits(words[0] as u16);
        if header.packet_type() != PacketType::KERNEL_DISPATCH {
            return Err(ContextError::Corrupt("a dispatch whose packet is none").into());
        }
        let packet: KernelDispatchPacket = parse(&words)?;
        let queue = self.amd_queue()?;
        let source =
            Source { packet: &packet, address, index, queue: queue.as_ref().map(|(at, queue)| (*at, queue)) };
        let mut launch = dispatch::prepare(self.state.space(), source, self.shader.chip())?.launch;
        self.complete_launch(&mut launch);
        if let Some((base, wave_bytes, slots)) = running.scratch {
            if u64::from(slots) > MAX_SCRATCH_SLOTS {
                return Err(ContextError::Corrupt("scratch memory").into());
            }
            let pool = match &self.scratch {
                Some(pool) if pool.is(base, wave_bytes, slots) => Arc::clone(pool),
                // Dispatches never have different scratch memory at the same time.
                Some(_) => return Err(ContextError::Corrupt("scratch memory").into()),
                None => Arc::new(ScratchPool::new(base, wave_bytes, slots)),
            };
            launch.scratch_bytes_per_lane =
                u32::try_from(wave_bytes / u64::from(launch.lanes())).unwrap_or(u32::MAX);
            launch.scratch = Some(Arc::clone(&pool));
            self.scratch = Some(pool);
        }
        let inactive = queue.map_or(0, |(_, queue)| queue.queue_inactive_signal);
        let in_flight = InFlight::new(&self.state, index, &packet, running.start, inactive);
        Ok((Arc::new(in_flight), launch))
    }
}

impl State {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &self.waiting {
            Waiting::Nothing | Waiting::Stopped => bytes.push(0),
            Waiting::Inactive(signal) => {
                bytes.push(1);
                bytes.extend(signal.to_le_bytes());
            }
            Waiting::Reclaim => bytes.push(2),
            Waiting::Pm4(execution) => {
                bytes.push(3);
                put_number(&mut bytes, execution.buffers().len() as u64);
                for (address, dwords) in execution.buffers() {
                    bytes.extend(address.to_le_bytes());
                    bytes.extend(dwords.to_le_bytes());
                }
            }
        }
        put_number(&mut bytes, self.started.len() as u64);
        for started in &self.started {
            let Started::Running(Running { start, scratch, unclaimed }) = started else {
                bytes.push(0);
                continue;
            };
            bytes.push(1 | u8::from(start.is_some()) << 1 | u8::from(scratch.is_some()) << 2);
            bytes.extend(start.iter().flat_map(|start| start.to_le_bytes()));
            if let Some((base, wave_bytes, slots)) = scratch {
                bytes.extend(base.to_le_bytes());
                put_number(&mut bytes, *wave_bytes);
                put_number(&mut bytes, (*slots).into());
            }
            put_number(&mut bytes, unclaimed.len() as u64);
            let mut end = 0;
            for range in unclaimed {
                put_number(&mut bytes, range.start - end);
                put_number(&mut bytes, range.end - range.start);
                end = range.end;
            }
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, ContextError> {
        let mut reader = Reader(bytes);
        let waiting = match reader.byte()? {
            0 => Waiting::Nothing,
            1 => Waiting::Inactive(reader.quad()?),
            2 => Waiting::Reclaim,
            3 => {
                let count = reader.number()?.min(indirect::MAX_NESTING as u64 + 1);
                let buffers = (0..count).map(|_| Ok((reader.quad()?, reader.word()?)));
                let buffers = buffers.collect::<Result<Vec<_>, ContextError>>()?;
                let execution = indirect::Execution::restored(buffers);
                Waiting::Pm4(execution.ok_or(ContextError::Corrupt("indirect buffers nested too deeply"))?)
            }
            _ => return Err(ContextError::Corrupt("what the packet processor waits for")),
        };
        let count = reader.number()?;
        if count > MAX_IN_FLIGHT as u64 {
            return Err(ContextError::Corrupt("more packets than can be in flight"));
        }
        let started = (0..count).map(|_| read_started(&mut reader)).collect::<Result<_, _>>()?;
        Ok(State { waiting, started })
    }
}

fn read_started(reader: &mut Reader<'_>) -> Result<Started, ContextError> {
    let flags = reader.byte()?;
    if flags & 1 == 0 {
        return Ok(Started::Done);
    }
    let start = if flags & 2 != 0 { Some(reader.quad()?) } else { None };
    let scratch = match flags & 4 {
        0 => None,
        _ => {
            let (base, wave_bytes, slots) = (reader.quad()?, reader.number()?, reader.number()?);
            let slots = u32::try_from(slots).map_err(|_| ContextError::Corrupt("scratch memory"))?;
            Some((base, wave_bytes, slots))
        }
    };
    let mut unclaimed = Vec::new();
    let mut end = 0u64;
    for _ in 0..reader.number()? {
        let (gap, length) = (reader.number()?, reader.number()?);
        let range = end.checked_add(gap).and_then(|start| Some(start..start.checked_add(length)?));
        let range = range.ok_or(ContextError::Corrupt("workgroups beyond any grid"))?;
        end = range.end;
        unclaimed.push(range);
    }
    Ok(Started::Running(Running { start, scratch, unclaimed }))
}
