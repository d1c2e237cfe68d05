//! PM4 packets: one processor for all streams of packets, from any source.
//!
//! A stream's [`Port`] holds the parts that its packets reach: the memory of their addresses, the registers, the
//! interrupt. Packets of the queue manager belong to the firmware, which executes them itself and hands the others to
//! [`execute`].
//!
//! Packets: Linux `drivers/gpu/drm/amd/amdgpu/nvd.h` (`PACKET3_*`). Packets that a driver sends: `amdgpu/gfx_v11_0.c`
//! (`gfx11_kiq_*`, `gfx_v11_0_ring_emit_*`).

mod atomic;
mod dma;
mod error;

use belfry_abi::pm4::{
    AcquireMem, AcquireMemGfx9, AtomicMem, COPY_DATA_DST_MEMORY, COPY_DATA_DST_TC_L2,
    COPY_DATA_SRC_GPU_CLOCK, COPY_DATA_SRC_IMMEDIATE, COPY_DATA_SRC_MEMORY, COPY_DATA_SRC_TC_L2, CondExec,
    CopyData, DmaData, IndirectBuffer, Opcode, Pm4Header, PredExec, ReleaseMem, WRITE_DATA_DST_GL2,
    WRITE_DATA_DST_MEMORY, WRITE_DATA_DST_MEMORY_SYNC, WRITE_DATA_DST_REGISTER, WaitRegMem, WaitRegMem64,
    WriteData,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::chip::Pm4Packets;
use crate::guest_error::GuestError;
use crate::vm::{AddressSpace, Fault};
pub(crate) use atomic::{COMPARE_SWAP, perform as atomic};
pub use error::Error;

/// First register that `SET_UCONFIG_REG` counts from (`PACKET3_SET_UCONFIG_REG_START`).
pub(crate) const UCONFIG_START: u32 = 0xc000;
/// First register that `SET_CONTEXT_REG` counts from (`PACKET3_SET_CONTEXT_REG_START`).
const CONTEXT_START: u32 = 0xa000;
/// Bits of a packet's register number.
const REGISTER_MASK: u32 = 0x3_ffff;
/// Selector of COPY_DATA: a register, as source or destination.
const COPY_DATA_REGISTER: u8 = 0;
/// COPY_DATA destination: memory, through the GRBM.
const COPY_DATA_DST_MEMORY_SYNC: u8 = 1;

/// Parts of the device that the packets of a stream reach.
pub(crate) trait Port {
    /// Returns the memory that their addresses are in.
    fn memory(&self) -> &AddressSpace;

    /// Reads the register at an absolute dword index, for the packet of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream may not read it.
    fn read_register(&mut self, packet: &'static str, index: u32) -> Result<u32, Error>;

    /// Writes the register at an absolute dword index, for the packet of this name.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream may not write it.
    fn write_register(&mut self, packet: &'static str, index: u32, value: u32) -> Result<(), Error>;

    /// Reads the 100 MHz counter.
    fn now(&self) -> u64;

    /// Returns the packets that the stream takes.
    fn packets(&self) -> Pm4Packets;

    /// Returns the number, in its partition, of the graphics core that executes them.
    fn xcc(&self) -> u8 {
        0
    }

    /// Asks for the end-of-pipe interrupt with a context identifier.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream has no such interrupt.
    fn interrupt(&mut self, context: u32) -> Result<(), Error>;
}

/// Work that is left to do after a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Done,
    /// Its condition on memory does not hold: execute it again later.
    Wait,
    /// Go on in this buffer.
    Enter(IndirectBuffer),
    /// Go on after this many dwords that follow the packet.
    Skip(u32),
}

/// Returns the header in these bits.
///
/// The predicate is one of graphics, and reserved in packets for compute (PAL `gfx9_plus_merged_f32_mec_pm4_packets.h`,
/// `PM4_MEC_TYPE_3_HEADER`). A packet with it is refused: its producer relies on a condition that this device does not
/// check.
pub(crate) fn header(bits: u32) -> Result<Pm4Header, Error> {
    let header = Pm4Header::from_bits(bits);
    match header.packet_type() {
        3 if header.predicate() => Err(Error::Predicate(header.opcode())),
        2 | 3 => Ok(header),
        _ => Err(Error::Type(bits)),
    }
}

/// Reads a body that is exactly as long as its structure.
pub(crate) fn exact<T: FromBytes>(opcode: Opcode, body: &[u32]) -> Result<T, Error> {
    T::read_from_bytes(body.as_bytes()).map_err(|_| Error::Length { opcode, dwords: body.len() })
}

/// Reads the structure a body begins with.
pub(crate) fn prefix<T: FromBytes>(opcode: Opcode, body: &[u32]) -> Result<T, Error> {
    T::read_from_prefix(body.as_bytes())
        .map(|(value, _)| value)
        .map_err(|_| Error::Length { opcode, dwords: body.len() })
}

/// Joins two dwords to 64 bits.
pub(crate) fn quad(lo: u32, hi: u32) -> u64 {
    u64::from(lo) | u64::from(hi) << 32
}

fn memory(what: &'static str) -> impl FnOnce(Fault) -> Error {
    move |fault| Error::Memory { what, fault }
}

/// Returns true if a comparison of WAIT_REG_MEM holds.
pub(crate) fn holds<T: Copy + Ord>(function: u8, value: T, reference: T) -> Result<bool, Error> {
    Ok(match function {
        0 => true,
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        other => return Err(Error::Function(other)),
    })
}

/// Executes one packet of type 3.
pub(crate) fn execute(opcode: Opcode, body: &[u32], port: &mut impl Port) -> Result<Effect, Error> {
    match opcode {
        // A coherent model has no caches to act on and no pipeline to drain: the events complete at once.
        Opcode::NOP | Opcode::EVENT_WRITE | Opcode::PFP_SYNC_ME => {}
        Opcode::ACQUIRE_MEM => match port.packets() {
            Pm4Packets::V9 => drop(exact::<AcquireMemGfx9>(opcode, body)?),
            Pm4Packets::V10 | Pm4Packets::V12 => drop(exact::<AcquireMem>(opcode, body)?),
        },
        Opcode::PRED_EXEC if port.packets() == Pm4Packets::V9 => {
            let packet: PredExec = exact(opcode, body)?;
            let executes = u32::from(packet.virtual_xcc_id_select()) >> port.xcc() & 1 == 1;
            return Ok(if executes { Effect::Done } else { Effect::Skip(packet.exec_count().into()) });
        }
        Opcode::INDIRECT_BUFFER => return Ok(Effect::Enter(exact(opcode, body)?)),
        Opcode::WRITE_DATA => write_data(body, port)?,
        Opcode::WAIT_REG_MEM => return wait_reg_mem(&exact(opcode, body)?, port),
        Opcode::WAIT_REG_MEM64 => return wait_reg_mem64(&exact(opcode, body)?, port),
        Opcode::COPY_DATA => copy_data(&exact(opcode, body)?, port)?,
        Opcode::RELEASE_MEM => release_mem(&release(port.packets(), body)?, port)?,
        Opcode::SET_UCONFIG_REG => set_uconfig_reg(body, port)?,
        Opcode::COND_EXEC => return cond_exec(&exact(opcode, body)?, port),
        Opcode::ATOMIC_MEM => {
            let packet: AtomicMem = exact(opcode, body)?;
            return atomic::execute(&packet, port.memory());
        }
        Opcode::DMA_DATA => {
            let packet: DmaData = exact(opcode, body)?;
            dma::execute(&packet, port.memory())?;
        }
        other => return Err(Error::Operation(other)),
    }
    Ok(Effect::Done)
}

/// Executes one packet of type 3 of a stream of the kernel's, which may be one of graphics.
pub(crate) fn execute_of_kernel(opcode: Opcode, body: &[u32], port: &mut impl Port) -> Result<Effect, Error> {
    match opcode {
        // State of drawing, which is not modelled: there is nothing to reset and nothing to switch.
        Opcode::CLEAR_STATE
        | Opcode::CONTEXT_CONTROL
        | Opcode::PREAMBLE_CNTL
        | Opcode::SWITCH_BUFFER
        | Opcode::FRAME_CONTROL => {}
        Opcode::SET_CONTEXT_REG => set_registers("SET_CONTEXT_REG", CONTEXT_START, body, port)?,
        Opcode::INDIRECT_BUFFER => {
            // Graphics rings do not say that a buffer is valid.
            let mut buffer: IndirectBuffer = exact(opcode, body)?;
            buffer.control.set_valid(true);
            return Ok(Effect::Enter(buffer));
        }
        _ => return execute(opcode, body, port),
    }
    Ok(Effect::Done)
}

/// Writes registers that follow each other, as SET_CONTEXT_REG and SET_SH_REG do.
pub(crate) fn set_registers(
    packet: &'static str,
    first: u32,
    body: &[u32],
    port: &mut impl Port,
) -> Result<(), Error> {
    let Some((&start, values)) = body.split_first() else { return Ok(()) };
    for (index, &value) in (first + (start & 0xffff)..).zip(values) {
        port.write_register(packet, index, value)?;
    }
    Ok(())
}

fn write_data(body: &[u32], port: &mut impl Port) -> Result<(), Error> {
    let (head, data) = body.split_at(body.len().min(3));
    let packet: WriteData = exact(Opcode::WRITE_DATA, head)?;
    let step = u32::from(!packet.control.one_addr());
    match packet.control.dst_sel() {
        WRITE_DATA_DST_REGISTER => {
            let first = packet.addr_lo & REGISTER_MASK;
            for (index, &value) in (0u32..).zip(data) {
                port.write_register("WRITE_DATA", first.wrapping_add(index * step), value)?;
            }
        }
        WRITE_DATA_DST_MEMORY_SYNC | WRITE_DATA_DST_GL2 | WRITE_DATA_DST_MEMORY => {
            let base = quad(packet.addr_lo & !3, packet.addr_hi);
            for (index, &value) in (0u64..).zip(data) {
                let at = base.wrapping_add(index * u64::from(step) * 4);
                port.memory().store_u32(at, value).map_err(memory("WRITE_DATA"))?;
            }
        }
        value => return Err(Error::Selector { what: "WRITE_DATA to destination", value }),
    }
    Ok(())
}

/// Executes WAIT_REG_MEM. Registers change at once in this device, so a condition on one that does not hold now would
/// never hold.
fn wait_reg_mem(packet: &WaitRegMem, port: &mut impl Port) -> Result<Effect, Error> {
    let control = packet.control;
    let of_memory = match control.mem_space() {
        0 => false,
        1 => true,
        value => return Err(Error::Selector { what: "WAIT_REG_MEM space", value }),
    };
    let value = if of_memory {
        check_memory_wait("WAIT_REG_MEM of memory with operation", control.operation())?;
        let at = quad(packet.addr_lo & !3, packet.addr_hi);
        port.memory().load_u32(at).map_err(memory("WAIT_REG_MEM"))?
    } else {
        let looked_at = match control.operation() {
            0 => packet.addr_lo,
            1 => {
                port.write_register("WAIT_REG_MEM", packet.addr_lo & REGISTER_MASK, packet.reference)?;
                packet.addr_hi
            }
            value => return Err(Error::Selector { what: "WAIT_REG_MEM operation", value }),
        };
        port.read_register("WAIT_REG_MEM", looked_at & REGISTER_MASK)?
    };
    let reference = if of_memory { packet.reference } else { packet.reference & packet.mask };
    if holds(control.function(), value & packet.mask, reference)? {
        Ok(Effect::Done)
    } else if of_memory {
        Ok(Effect::Wait)
    } else {
        Err(Error::Refused(GuestError::WaitForever))
    }
}

/// Executes WAIT_REG_MEM64, for memory alone: registers have 32 bits, and no public source names the two that a wait
/// for 64 reads.
fn wait_reg_mem64(packet: &WaitRegMem64, port: &impl Port) -> Result<Effect, Error> {
    let control = packet.control;
    if control.mem_space() != 1 {
        return Err(Error::Selector { what: "WAIT_REG_MEM64 space", value: control.mem_space() });
    }
    check_memory_wait("WAIT_REG_MEM64 with operation", control.operation())?;
    let at = quad(packet.addr_lo & !7, packet.addr_hi);
    let value = port.memory().load_u64(at).map_err(memory("WAIT_REG_MEM64"))?;
    let (reference, mask) =
        (quad(packet.reference_lo, packet.reference_hi), quad(packet.mask_lo, packet.mask_hi));
    let over = holds(control.function(), value & mask, reference)?;
    Ok(if over { Effect::Done } else { Effect::Wait })
}

/// Accepts a wait for memory, preemptable or not: every queue that waits here can be preempted.
fn check_memory_wait(what: &'static str, operation: u8) -> Result<(), Error> {
    if matches!(operation, 0 | 3) { Ok(()) } else { Err(Error::Selector { what, value: operation }) }
}

fn copy_data(packet: &CopyData, port: &mut impl Port) -> Result<(), Error> {
    let wide = packet.control.count_sel();
    let source = quad(packet.src_lo, packet.src_hi);
    let failed = memory("COPY_DATA");
    let value = match packet.control.src_sel() {
        COPY_DATA_REGISTER if !wide => port.read_register("COPY_DATA", packet.src_lo & REGISTER_MASK)?.into(),
        COPY_DATA_SRC_MEMORY | COPY_DATA_SRC_TC_L2 if wide => {
            port.memory().load_u64(source).map_err(memory("COPY_DATA"))?
        }
        COPY_DATA_SRC_MEMORY | COPY_DATA_SRC_TC_L2 => {
            port.memory().load_u32(source).map_err(memory("COPY_DATA"))?.into()
        }
        COPY_DATA_SRC_IMMEDIATE => source,
        COPY_DATA_SRC_GPU_CLOCK => port.now(),
        value => return Err(Error::Selector { what: "COPY_DATA from source", value }),
    };
    let destination = quad(packet.dst_lo, packet.dst_hi);
    match packet.control.dst_sel() {
        COPY_DATA_REGISTER if !wide => {
            port.write_register("COPY_DATA", packet.dst_lo & REGISTER_MASK, value as u32)
        }
        COPY_DATA_DST_MEMORY_SYNC | COPY_DATA_DST_MEMORY | COPY_DATA_DST_TC_L2 if wide => {
            port.memory().store_u64(destination, value).map_err(failed)
        }
        COPY_DATA_DST_MEMORY_SYNC | COPY_DATA_DST_MEMORY | COPY_DATA_DST_TC_L2 => {
            port.memory().store_u32(destination & !3, value as u32).map_err(failed)
        }
        value => Err(Error::Selector { what: "COPY_DATA to destination", value }),
    }
}

/// Reads the fields of RELEASE_MEM.
pub(crate) fn release(packets: Pm4Packets, body: &[u32]) -> Result<ReleaseMem, Error> {
    const DWORDS: usize = size_of::<ReleaseMem>() / 4;
    match <&[u32; DWORDS - 1]>::try_from(body) {
        // This form lacks the word that comes back in the interrupt.
        Ok(short) if packets == Pm4Packets::V9 => {
            let mut whole = [0; DWORDS];
            whole[..DWORDS - 1].copy_from_slice(short);
            exact(Opcode::RELEASE_MEM, &whole)
        }
        _ => exact(Opcode::RELEASE_MEM, body),
    }
}

/// Writes the value of RELEASE_MEM, and asks for its interrupt.
pub(crate) fn release_mem(packet: &ReleaseMem, port: &mut impl Port) -> Result<(), Error> {
    let at = quad(packet.addr_lo, packet.addr_hi);
    let written = match packet.select.data_sel() {
        0 => Ok(()),
        1 => port.memory().store_u32(at, packet.data_lo),
        2 => port.memory().store_u64(at, quad(packet.data_lo, packet.data_hi)),
        3 => port.memory().store_u64(at, port.now()),
        value => return Err(Error::Selector { what: "RELEASE_MEM data", value }),
    };
    written.map_err(memory("RELEASE_MEM"))?;
    match packet.select.int_sel() {
        // 3 confirms the write and raises no interrupt.
        0 | 3 => Ok(()),
        1 | 2 => port.interrupt(packet.int_ctxid),
        value => Err(Error::Selector { what: "RELEASE_MEM interrupt", value }),
    }
}

fn set_uconfig_reg(body: &[u32], port: &mut impl Port) -> Result<(), Error> {
    let Some((&start, values)) = body.split_first() else {
        return Err(Error::Length { opcode: Opcode::SET_UCONFIG_REG, dwords: 0 });
    };
    for (index, &value) in (UCONFIG_START + (start & 0xffff)..).zip(values) {
        port.write_register("SET_UCONFIG_REG", index, value)?;
    }
    Ok(())
}

/// Executes COND_EXEC, which reads its condition once.
fn cond_exec(packet: &CondExec, port: &impl Port) -> Result<Effect, Error> {
    let at = quad(packet.addr_lo & !3, packet.addr_hi);
    let condition = port.memory().load_u32(at).map_err(memory("COND_EXEC"))?;
    Ok(if condition == 0 { Effect::Skip(packet.exec_count & 0x3fff) } else { Effect::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_is_that_of_its_function() {
        let outcomes = |value: u32| [1, 2, 3, 4, 5, 6].map(|function| holds(function, value, 5));
        let of = |held: [bool; 6]| held.map(Ok);
        assert_eq!(outcomes(4), of([true, true, false, true, false, false]));
        assert_eq!(outcomes(5), of([false, true, true, false, true, false]));
        assert_eq!(outcomes(6), of([false, false, false, true, true, true]));
        assert_eq!((holds(0, 1, 2), holds(7, 6, 5)), (Ok(true), Err(Error::Function(7))));
    }

    #[test]
    fn header_of_another_type_is_no_packet() {
        assert_eq!(header(0xc002_3f00).map(Pm4Header::body_dwords), Ok(3));
        assert_eq!(header(2 << 30).map(Pm4Header::body_dwords), Ok(0));
        assert_eq!(
            header(3 << 30 | 0x3fff << 16 | 0x10 << 8).map(Pm4Header::body_dwords),
            Ok(0),
            "a lone NOP"
        );
        for bits in [0, 1 << 30] {
            assert_eq!(header(bits), Err(Error::Type(bits)));
        }
        assert_eq!(header(0xc002_3f01), Err(Error::Predicate(Opcode::INDIRECT_BUFFER)));
        assert_eq!(header(2 << 30 | 1).map(|header| header.packet_type()), Ok(2));
    }
}
