//! PM4 indirect buffers of vendor packets.
//!
//! What user space puts there: cache invalidation after loading code, and small reads and writes of memory for
//! profiling. Caches are coherent here, so cache actions need nothing done; an operation that is not modelled stops the
//! queue under its name.

use belfry_abi::pm4::{
    AcquireMem, COPY_DATA_DST_MEMORY, COPY_DATA_DST_TC_L2, COPY_DATA_SRC_GPU_CLOCK, COPY_DATA_SRC_IMMEDIATE,
    COPY_DATA_SRC_MEMORY, COPY_DATA_SRC_TC_L2, CopyData, IndirectBuffer, Opcode, Pm4Header, ReleaseMem,
    WRITE_DATA_DST_GL2, WRITE_DATA_DST_MEMORY, WRITE_DATA_DST_MEMORY_SYNC, WaitRegMem, WriteData,
};
use zerocopy::{FromBytes, IntoBytes};

use super::error::Cause;
use crate::vm::{AddressSpace, Fault};

/// Buffers that may be nested: an AQL packet's, and one below it.
const MAX_NESTING: usize = 4;
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
#[derive(Clone, Debug)]
pub(super) struct Execution {
    /// Buffers entered, innermost last: next address, dwords left.
    stack: Vec<(u64, u32)>,
}

/// Effects beyond memory.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) space: &'a AddressSpace,
    /// The 100 MHz counter, now.
    pub(super) now: u64,
    /// Context identifiers of the interrupts asked for.
    pub(super) interrupts: Vec<u32>,
}

impl Execution {
    /// Starts at the buffer of an INDIRECT_BUFFER packet.
    pub(super) fn new(header: u32, body: &[u32; 3]) -> Result<Execution, Cause> {
        let header = Pm4Header::from_bits(header);
        if header.packet_type() != 3
            || header.opcode() != Opcode::INDIRECT_BUFFER
            || header.body_dwords() != 3
        {
            return Err(Cause::Vendor(format!("{:#010x} is not an INDIRECT_BUFFER", header.bits())));
        }
        let mut execution = Execution { stack: Vec::new() };
        execution.enter(&parse(body)?)?;
        Ok(execution)
    }

    fn enter(&mut self, buffer: &IndirectBuffer) -> Result<(), Cause> {
        if !buffer.control.valid() {
            return Err(Cause::Vendor("INDIRECT_BUFFER without VALID".into()));
        }
        if buffer.control.chain() {
            self.stack.pop();
        }
        if self.stack.len() == MAX_NESTING {
            return Err(Cause::Vendor(format!("INDIRECT_BUFFER nested more than {MAX_NESTING} deep")));
        }
        let address = address(buffer.base_lo & !3, buffer.base_hi);
        self.stack.push((address, buffer.control.size()));
        Ok(())
    }

    /// Executes until the end, a wait, or enough for one go.
    pub(super) fn step(&mut self, context: &mut Context<'_>) -> Result<Step, Cause> {
        for _ in 0..PACKETS_PER_STEP {
            let Some(&(at, left)) = self.stack.last() else { return Ok(Step::Done) };
            if left == 0 {
                self.stack.pop();
                continue;
            }
            let header = Pm4Header::from_bits(context.space.load_u32(at).map_err(unreadable)?);
            let body_dwords = header.body_dwords();
            if header.packet_type() != 3 && header.packet_type() != 2 {
                return Err(Cause::Vendor(format!("PM4 header {:#010x} is not of type 3", header.bits())));
            }
            if body_dwords >= left {
                let name = name(header.opcode());
                return Err(Cause::Vendor(format!("{name} has {body_dwords} dwords with {} left", left - 1)));
            }
            let mut body = vec![0u32; body_dwords as usize];
            context.space.read_bytes(at.wrapping_add(4), body.as_mut_bytes()).map_err(unreadable)?;
            let next = (at.wrapping_add(4 + 4 * u64::from(body_dwords)), left - 1 - body_dwords);
            if header.packet_type() == 2 {
                self.advance(next);
                continue;
            }
            match execute(header.opcode(), &body, context)? {
                Effect::None => self.advance(next),
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

enum Effect {
    None,
    Wait,
    Enter(IndirectBuffer),
}

fn execute(opcode: Opcode, body: &[u32], context: &mut Context<'_>) -> Result<Effect, Cause> {
    match opcode {
        // A coherent model has no caches to act on and no pipeline to drain: the events complete at once.
        Opcode::NOP | Opcode::EVENT_WRITE | Opcode::PFP_SYNC_ME => {}
        Opcode::ACQUIRE_MEM => {
            let _: AcquireMem = parse(body)?;
        }
        Opcode::INDIRECT_BUFFER => return Ok(Effect::Enter(parse(body)?)),
        Opcode::WRITE_DATA => write_data(body, context)?,
        Opcode::WAIT_REG_MEM => return wait_reg_mem(body, context),
        Opcode::COPY_DATA => copy_data(body, context)?,
        Opcode::RELEASE_MEM => release_mem(body, context)?,
        opcode => return Err(Cause::Vendor(format!("PM4 operation {} is not modelled", name(opcode)))),
    }
    Ok(Effect::None)
}

fn write_data(body: &[u32], context: &mut Context<'_>) -> Result<(), Cause> {
    let (head, data) = body.split_at(body.len().min(3));
    let packet: WriteData = parse(head)?;
    match packet.control.dst_sel() {
        WRITE_DATA_DST_MEMORY_SYNC | WRITE_DATA_DST_GL2 | WRITE_DATA_DST_MEMORY => {}
        other => return Err(Cause::Vendor(format!("WRITE_DATA to destination {other} is not modelled"))),
    }
    let base = address(packet.addr_lo & !3, packet.addr_hi);
    for (index, &value) in (0u64..).zip(data) {
        let offset = if packet.control.one_addr() { 0 } else { index * 4 };
        context
            .space
            .store_u32(base.wrapping_add(offset), value)
            .map_err(|fault| memory("WRITE_DATA", fault))?;
    }
    Ok(())
}

fn wait_reg_mem(body: &[u32], context: &mut Context<'_>) -> Result<Effect, Cause> {
    let packet: WaitRegMem = parse(body)?;
    if packet.control.mem_space() != 1 || packet.control.operation() != 0 {
        return Err(Cause::Vendor("WAIT_REG_MEM of a register is not modelled".into()));
    }
    let at = address(packet.addr_lo & !3, packet.addr_hi);
    let value = context.space.load_u32(at).map_err(|fault| memory("WAIT_REG_MEM", fault))? & packet.mask;
    let reference = packet.reference;
    let satisfied = match packet.control.function() {
        0 => true,
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        function => return Err(Cause::Vendor(format!("WAIT_REG_MEM function {function} does not exist"))),
    };
    Ok(if satisfied { Effect::None } else { Effect::Wait })
}

fn copy_data(body: &[u32], context: &mut Context<'_>) -> Result<(), Cause> {
    let packet: CopyData = parse(body)?;
    let wide = packet.control.count_sel();
    let source = address(packet.src_lo, packet.src_hi);
    let failed = |fault| memory("COPY_DATA", fault);
    let value = match packet.control.src_sel() {
        COPY_DATA_SRC_MEMORY | COPY_DATA_SRC_TC_L2 if wide => {
            context.space.load_u64(source).map_err(failed)?
        }
        COPY_DATA_SRC_MEMORY | COPY_DATA_SRC_TC_L2 => {
            u64::from(context.space.load_u32(source).map_err(failed)?)
        }
        COPY_DATA_SRC_IMMEDIATE => source,
        COPY_DATA_SRC_GPU_CLOCK => context.now,
        other => return Err(Cause::Vendor(format!("COPY_DATA from source {other} is not modelled"))),
    };
    let destination = address(packet.dst_lo, packet.dst_hi);
    match packet.control.dst_sel() {
        COPY_DATA_DST_MEMORY | COPY_DATA_DST_TC_L2 if wide => context.space.store_u64(destination, value),
        COPY_DATA_DST_MEMORY | COPY_DATA_DST_TC_L2 => context.space.store_u32(destination, value as u32),
        other => return Err(Cause::Vendor(format!("COPY_DATA to destination {other} is not modelled"))),
    }
    .map_err(failed)
}

fn release_mem(body: &[u32], context: &mut Context<'_>) -> Result<(), Cause> {
    let packet: ReleaseMem = parse(body)?;
    let at = address(packet.addr_lo, packet.addr_hi);
    let data = address(packet.data_lo, packet.data_hi);
    let failed = |fault| memory("RELEASE_MEM", fault);
    match packet.select.data_sel() {
        0 => {}
        1 => context.space.store_u32(at, packet.data_lo).map_err(failed)?,
        2 => context.space.store_u64(at, data).map_err(failed)?,
        3 => context.space.store_u64(at, context.now).map_err(failed)?,
        other => return Err(Cause::Vendor(format!("RELEASE_MEM data {other} is not modelled"))),
    }
    if packet.select.int_sel() != 0 {
        context.interrupts.push(packet.int_ctxid);
    }
    Ok(())
}

fn parse<T: FromBytes>(body: &[u32]) -> Result<T, Cause> {
    T::read_from_bytes(body.as_bytes())
        .map_err(|_| Cause::Vendor(format!("PM4 packet with {} dwords", body.len())))
}

fn address(lo: u32, hi: u32) -> u64 {
    u64::from(lo) | u64::from(hi) << 32
}

fn name(opcode: Opcode) -> String {
    opcode.name().map_or_else(|| format!("{:#04x}", opcode.0), str::to_owned)
}

fn unreadable(fault: Fault) -> Cause {
    Cause::Memory { what: "indirect buffer", fault }
}

fn memory(what: &'static str, fault: Fault) -> Cause {
    Cause::Memory { what, fault }
}
