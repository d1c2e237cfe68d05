//! Indirect buffers of PM4 packets, which vendor packets of AQL queues lead to.
//!
//! What user space puts there: cache invalidation after loading code, and small reads and writes of memory for
//! profiling. An operation that is not modelled stops the queue under its name.

use belfry_abi::pm4::{IndirectBuffer, Opcode, Pm4Header};
use zerocopy::{FromBytes, IntoBytes};

use crate::pm4::{self, Effect, Error, Port};
use crate::regs::RegisterFile;
use crate::save::{Broken, count};
use crate::vm::{AddressSpace, Fault};

/// Buffers that may be nested: an AQL packet's, and one below it.
pub(super) const MAX_NESTING: usize = 4;
/// Packets executed before other queues have their turn.
const PACKETS_PER_STEP: u32 = 256;

/// What executing a part of a buffer led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The buffer is finished.
    Done,
    /// A WAIT_REG_MEM waits for memory.
    Waits,
    /// There is more to execute.
    More,
}

/// An indirect buffer being executed.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub(super) struct Execution {
    /// Buffers entered, innermost last: next address, dwords left.
    stack: Vec<(u64, u32)>,
}

/// What the packets reach: a process's memory and interrupt, and no registers.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) space: &'a AddressSpace,
    /// The 100 MHz counter, now.
    pub(super) now: u64,
    /// Context identifiers of the interrupts asked for.
    pub(super) interrupts: Vec<u32>,
}

impl Port for Context<'_> {
    fn memory(&self) -> &AddressSpace {
        self.space
    }

    fn registers(&self) -> Option<&RegisterFile> {
        None
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn interrupt(&mut self, context: u32) -> Result<(), Error> {
        self.interrupts.push(context);
        Ok(())
    }
}

impl Execution {
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
                let mut execution = Execution { stack: Vec::new() };
                execution.enter(&buffer)?;
                Ok(execution)
            }
            _ => Err(Error::NotABuffer(header.bits())),
        }
    }

    /// Whether packets could have led to it.
    pub(super) fn check(&self) -> Result<(), Broken> {
        count("nested indirect buffers", self.stack.len(), self.stack.len() <= MAX_NESTING)
    }

    /// Where it is: buffers entered, innermost last: next address, dwords left.
    pub(super) fn buffers(&self) -> &[(u64, u32)] {
        &self.stack
    }

    /// One that goes on in these buffers; `None` if it cannot be there.
    pub(super) fn restored(stack: Vec<(u64, u32)>) -> Option<Execution> {
        (stack.len() <= MAX_NESTING).then_some(Execution { stack })
    }

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

    /// Executes until the end, a wait, or enough for one go.
    pub(super) fn step(&mut self, context: &mut Context<'_>) -> Result<Step, Error> {
        for _ in 0..PACKETS_PER_STEP {
            let Some(&(at, left)) = self.stack.last() else { return Ok(Step::Done) };
            if left == 0 {
                self.stack.pop();
                continue;
            }
            let header = pm4::header(context.space.load_u32(at).map_err(unreadable)?)?;
            let body_dwords = header.body_dwords();
            if body_dwords >= left {
                return Err(Error::Overrun { opcode: header.opcode(), body: body_dwords, left: left - 1 });
            }
            let mut body = vec![0u32; body_dwords as usize];
            context.space.read_bytes(at.wrapping_add(4), body.as_mut_bytes()).map_err(unreadable)?;
            let next = (at.wrapping_add(4 + 4 * u64::from(body_dwords)), left - 1 - body_dwords);
            if header.packet_type() == 2 {
                self.advance(next);
                continue;
            }
            match pm4::execute(header.opcode(), &body, context)? {
                Effect::Done => self.advance(next),
                Effect::Wait => return Ok(Step::Waits),
                Effect::Enter(buffer) => {
                    self.advance(next);
                    self.enter(&buffer)?;
                }
            }
        }
        Ok(Step::More)
    }

    fn advance(&mut self, next: (u64, u32)) {
        if let Some(top) = self.stack.last_mut() {
            *top = next;
        }
    }
}

fn unreadable(fault: Fault) -> Error {
    Error::Memory { what: "indirect buffer", fault }
}
