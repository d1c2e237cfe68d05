//! Indirect buffers of PM4 packets, which vendor packets of AQL queues and packets of PM4 queues lead to.
//!
//! User space puts these packets into buffers of AQL queues: cache invalidation after loading code, and small reads and
//! writes of memory for profiling. An operation that is not modelled stops the queue under its name.

use belfry_abi::pm4::{IndirectBuffer, Opcode, Pm4Header};
use zerocopy::{FromBytes, IntoBytes};

use crate::chip::Pm4Packets;
use crate::pm4::{self, Effect, Error, Port};
use crate::save::{Broken, count};
use crate::vm::{AddressSpace, Fault};

/// Most buffers that may be nested, the outermost one included.
pub(super) const MAX_NESTING: usize = 4;
/// Packets executed before other queues have their turn.
const PACKETS_PER_STEP: u32 = 256;

/// Result of executing a part of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The buffer is finished.
    Done,
    /// A WAIT_REG_MEM waits for memory.
    Waits,
    /// There is more to execute.
    More,
}

/// A packet that was read from its buffer.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) header: Pm4Header,
    pub(crate) body: Vec<u32>,
}

impl Packet {
    /// Returns its dwords, header included.
    pub(crate) fn dwords(&self) -> u32 {
        1 + self.header.body_dwords()
    }
}

/// An indirect buffer being executed.
#[derive(Clone, Debug, Default, serde::Deserialize, serde::Serialize)]
pub(crate) struct Execution {
    /// Buffers entered, innermost last: next address, dwords left.
    stack: Vec<(u64, u32)>,
    /// The graphics core that executes it: the first one, and then the others.
    xcc: u8,
}

/// Shift of the core's number above the dwords left of the outermost buffer, in the saved state.
const XCC_SHIFT: u32 = 24;

/// Parts that the packets reach: a process's memory and interrupt, and no registers.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) space: &'a AddressSpace,
    /// The 100 MHz counter, now.
    pub(super) now: u64,
    /// Packets that the chip knows.
    pub(super) packets: Pm4Packets,
    /// The graphics core that executes them.
    pub(super) xcc: u8,
    /// Context identifiers of the interrupts that packets ask for.
    pub(super) interrupts: Vec<u32>,
}

impl Port for Context<'_> {
    fn memory(&self) -> &AddressSpace {
        self.space
    }

    fn read_register(&mut self, packet: &'static str, _index: u32) -> Result<u32, Error> {
        Err(Error::Registers(packet))
    }

    fn write_register(&mut self, packet: &'static str, _index: u32, _value: u32) -> Result<(), Error> {
        Err(Error::Registers(packet))
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn packets(&self) -> Pm4Packets {
        self.packets
    }

    fn xcc(&self) -> u8 {
        self.xcc
    }

    fn interrupt(&mut self, context: u32) -> Result<(), Error> {
        self.interrupts.push(context);
        Ok(())
    }
}

impl Execution {
    /// Returns the core that executes it.
    pub(super) fn xcc(&self) -> u8 {
        self.xcc
    }

    /// Starts at the buffer of an INDIRECT_BUFFER packet, on the next core.
    pub(super) fn on_next_core(&mut self, header: u32, body: &[u32; 3]) -> Result<(), Error> {
        *self = Execution { xcc: self.xcc.saturating_add(1), ..Self::new(header, body)? };
        Ok(())
    }

    /// Starts at the buffer of an INDIRECT_BUFFER packet.
    pub(super) fn new(header: u32, body: &[u32; 3]) -> Result<Execution, Error> {
        let header = Pm4Header::from_bits(header);
        let buffer = IndirectBuffer::read_from_bytes(body.as_bytes());
        match buffer {
            Ok(buffer)
                if header.packet_type() == 3
                    && header.opcode() == Opcode::INDIRECT_BUFFER
                    && header.body_dwords() == 3 =>
            {
                let mut execution = Execution::default();
                execution.enter(&buffer)?;
                execution.leave();
                Ok(execution)
            }
            _ => Err(Error::NotABuffer(header.bits())),
        }
    }

    /// Returns true if it is in no buffer.
    pub(crate) fn is_over(&self) -> bool {
        self.stack.is_empty()
    }

    /// Checks that packets could have led to it.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        count("nested indirect buffers", self.stack.len(), self.stack.len() <= MAX_NESTING)?;
        count("dwords left of an indirect buffer", 0, self.stack.last().is_none_or(|&(_, left)| left != 0))
    }

    /// Returns its position: the buffers entered, innermost last, each with the next address and the dwords left.
    pub(super) fn buffers(&self) -> Vec<(u64, u32)> {
        let mut buffers = self.stack.clone();
        if let Some((_, left)) = buffers.first_mut() {
            *left |= u32::from(self.xcc) << XCC_SHIFT;
        }
        buffers
    }

    /// Makes an execution that goes on in these buffers; `None` if they are nested too deeply.
    pub(super) fn restored(mut stack: Vec<(u64, u32)>) -> Option<Execution> {
        let mut xcc = 0;
        if let Some((_, left)) = stack.first_mut() {
            xcc = (*left >> XCC_SHIFT) as u8;
            *left &= (1 << XCC_SHIFT) - 1;
        }
        let mut execution = (stack.len() <= MAX_NESTING).then_some(Execution { stack, xcc })?;
        execution.leave();
        Some(execution)
    }

    /// Goes on in a buffer. Unless the buffer is chained, execution comes back after the packet.
    fn enter(&mut self, buffer: &IndirectBuffer) -> Result<(), Error> {
        if !buffer.control.valid() {
            return Err(Error::InvalidBuffer);
        }
        if buffer.control.chain() {
            self.stack.pop();
        }
        if self.stack.len() == MAX_NESTING {
            return Err(Error::Nesting(MAX_NESTING));
        }
        let address = pm4::quad(buffer.base_lo & !3, buffer.base_hi);
        self.stack.push((address, buffer.control.size()));
        Ok(())
    }

    /// Reads the next packet; `None` at the end.
    pub(crate) fn fetch(&self, space: &AddressSpace) -> Result<Option<Packet>, Error> {
        let Some(&(at, left)) = self.stack.last() else { return Ok(None) };
        let header = pm4::header(space.load_u32(at).map_err(unreadable)?)?;
        let body_dwords = header.body_dwords();
        if body_dwords >= left {
            return Err(Error::Overrun { opcode: header.opcode(), body: body_dwords, left: left - 1 });
        }
        let mut body = vec![0u32; body_dwords as usize];
        space.read_bytes(at.wrapping_add(4), body.as_mut_bytes()).map_err(unreadable)?;
        Ok(Some(Packet { header, body }))
    }

    /// Moves on by this many dwords.
    pub(crate) fn advance(&mut self, dwords: u32) {
        if let Some((at, left)) = self.stack.last_mut() {
            *at = at.wrapping_add(4 * u64::from(dwords));
            *left = left.saturating_sub(dwords);
        }
        self.leave();
    }

    /// Leaves the buffers that are at their end.
    fn leave(&mut self) {
        while self.stack.pop_if(|(_, left)| *left == 0).is_some() {}
    }

    /// Moves on by a packet and the dwords after it that it skips.
    pub(crate) fn skip(&mut self, packet: u32, dwords: u32) -> Result<(), Error> {
        let left = self.stack.last().map_or(0, |&(_, left)| left.saturating_sub(packet));
        if dwords > left {
            return Err(Error::Skip { dwords, left });
        }
        self.advance(packet + dwords);
        Ok(())
    }

    /// Executes packets until the end, a wait, or the limit of one turn.
    pub(super) fn step(&mut self, context: &mut Context<'_>) -> Result<Step, Error> {
        for _ in 0..PACKETS_PER_STEP {
            let Some(packet) = self.fetch(context.space)? else { return Ok(Step::Done) };
            let dwords = packet.dwords();
            let effect = match packet.header.packet_type() {
                2 => Effect::Done,
                _ => pm4::execute(packet.header.opcode(), &packet.body, context)?,
            };
            match effect {
                Effect::Done => self.advance(dwords),
                Effect::Wait => return Ok(Step::Waits),
                Effect::Skip(skipped) => self.skip(dwords, skipped)?,
                Effect::Enter(buffer) => self.go_to(dwords, &buffer)?,
            }
        }
        Ok(Step::More)
    }

    /// Moves on by a packet of this many dwords, and from there into a buffer.
    ///
    /// # Errors
    ///
    /// Returns an error for a buffer that is not valid, and if buffers are nested too deeply.
    pub(crate) fn go_to(&mut self, packet: u32, buffer: &IndirectBuffer) -> Result<(), Error> {
        if let Some((at, left)) = self.stack.last_mut() {
            *at = at.wrapping_add(4 * u64::from(packet));
            *left = left.saturating_sub(packet);
        }
        self.enter(buffer)?;
        self.leave();
        Ok(())
    }
}

fn unreadable(fault: Fault) -> Error {
    Error::Memory { what: "indirect buffer", fault }
}
