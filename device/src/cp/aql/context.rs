//! Saving an AQL queue to its context save area, and restoring it from there.

use std::sync::Arc;

use belfry_abi::aql::{KernelDispatchPacket, PacketHeader, PacketType};

use super::{AqlQueue, MAX_IN_FLIGHT, Source, Waiting, dispatch, parse};
use crate::cp::AqlConfig;
use crate::cp::context::{Context, Leaving, Scratch, put_buffers, read_buffers, restore, take_groups};
use crate::cp::control_stack::{self, Reader, Waves, encode, put_number, put_ranges};
use crate::cp::env::CpEnv;
use crate::cp::error::{Cause, QueueError};
use crate::cp::preempted::Preempted;
use crate::cp::state::{InFlight, QueueState};
#[cfg(doc)]
use crate::queue::QueueEngine;
use crate::queue::{ContextArea, ContextOffsets, Progress};
use crate::shader::{ContextError, Gws, Launch, Owner, SavedDispatch, ShaderEngine};
use crate::vm::AddressSpace;

/// Part of a started packet that is not in its ring.
enum Started {
    Done,
    Running(Running),
}

struct Running {
    /// Time of its start, if timestamps are wanted.
    start: Option<u64>,
    scratch: Option<Scratch>,
    /// Workgroups that have not begun.
    unclaimed: Vec<std::ops::Range<u64>>,
}

/// State of the packet processor beside the ring and the waves.
struct State {
    waiting: Waiting,
    /// Started packets, from the read index on.
    started: Vec<Started>,
}

impl Preempted for AqlQueue {
    fn parts(&self) -> (&Arc<ShaderEngine>, &Arc<QueueState>) {
        (&self.shader, &self.state)
    }

    fn unread(&self) -> Option<Context> {
        match self.waiting {
            Waiting::Context(context) => Some(context),
            _ => None,
        }
    }

    fn set_unread(&mut self, context: Context) {
        self.waiting = Waiting::Context(context);
    }

    fn leaving(&mut self) -> &mut Option<Leaving> {
        &mut self.leaving
    }

    fn fail(&mut self, cause: Cause) -> Progress<QueueError> {
        self.fail_packet(cause)
    }

    fn control_stack(&self, saved: &[SavedDispatch]) -> Vec<u32> {
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
                    let scratch = Scratch::of(launch);
                    let unclaimed = unclaimed.clone();
                    Started::Running(Running { start: packet.start(), scratch, unclaimed })
                }
                // The dispatch has ended, and its signal waits for a page.
                (Some(packet), None) if packet.waits() => {
                    Started::Running(Running { start: packet.start(), scratch: None, unclaimed: Vec::new() })
                }
                _ => Started::Done,
            });
        }
        let state = State { waiting: self.waiting.clone(), started };
        encode(&state.bytes(), &waves, self.shader.chip().shader.stack)
    }

    fn read_context(&mut self, area: Option<&ContextArea>, offsets: ContextOffsets) -> Result<(), Cause> {
        let area = area.ok_or(ContextError::NoArea)?;
        let (state, mut waves) =
            control_stack::read(self.state.space(), area, offsets, self.shader.chip().shader.stack)?;
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
                let groups = take_groups(&mut waves, at);
                if groups.is_empty() && running.unclaimed.is_empty() {
                    owner.set_waits();
                    continue;
                }
                let saved = SavedDispatch { packet: index, launch, unclaimed: running.unclaimed, groups };
                dispatches.push((saved, owner as Arc<dyn Owner>));
            }
        }
        self.waiting = waiting;
        restore(&self.shader, &self.state.shader, dispatches, &waves, (area, offsets.waves))?;
        Ok(())
    }

    fn forget(&mut self) {
        self.started.clear();
        self.fetch_index = self.read_index;
        self.scratch = None;
    }
}

impl AqlQueue {
    /// Makes a queue that goes on from the context that [`QueueEngine::save`] has written. The guest may have changed
    /// it since. If the process waits for pages (XNACK), the queue waits for missing ones first.
    ///
    /// # Errors
    ///
    /// Returns an error if the queue cannot go on. The runtime and the driver have then been informed that it has
    /// stopped.
    pub fn from_context(
        config: AqlConfig,
        space: Arc<AddressSpace>,
        gws: Arc<Gws>,
        env: &CpEnv,
        (area, offsets): (Option<&ContextArea>, ContextOffsets),
    ) -> Result<AqlQueue, QueueError> {
        let mut queue = AqlQueue::new(config, space, gws, env);
        queue.begin_from(area, offsets)?;
        Ok(queue)
    }

    /// Makes the launch of a packet that was started before.
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
        let mut launch = dispatch::prepare(&self.state.space().enter(), source, self.shader.chip())?.launch;
        self.complete_launch(&mut launch, index);
        if let Some(scratch) = running.scratch {
            scratch.give_again(&mut launch, &mut self.scratch)?;
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
            Waiting::Nothing | Waiting::Context(_) | Waiting::Stopped => bytes.push(0),
            Waiting::Inactive(signal) => {
                bytes.push(1);
                bytes.extend(signal.to_le_bytes());
            }
            Waiting::Reclaim => bytes.push(2),
            Waiting::Pm4(execution) => {
                bytes.push(3);
                put_buffers(&mut bytes, execution);
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
            if let Some(scratch) = scratch {
                scratch.put(&mut bytes);
            }
            put_ranges(&mut bytes, unclaimed);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Self, ContextError> {
        let mut reader = Reader(bytes);
        let waiting = match reader.byte()? {
            0 => Waiting::Nothing,
            1 => Waiting::Inactive(reader.quad()?),
            2 => Waiting::Reclaim,
            3 => Waiting::Pm4(read_buffers(&mut reader)?),
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
    let scratch = if flags & 4 == 0 { None } else { Some(Scratch::read(reader)?) };
    Ok(Started::Running(Running { start, scratch, unclaimed: reader.ranges()? }))
}
