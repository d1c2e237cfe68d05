//! The packets, and the execution of short ones.

use belfry_abi::sdma::{
    Atomic, CondExe, ConstantFill, CopyBroadcastLinear, CopyHeader, CopyLinear, CopyLinearSubwin,
    CopyLinearV7, Fence, GcrReq, Header, Indirect, Op, PollRegmem, SUB_OP_LINEAR, Timestamp, Trap,
    WriteUntiled, WriteUntiledCount, copy_sub_op, timestamp_sub_op,
};
use zerocopy::{FromBytes, IntoBytes};

use super::error::{SdmaError, memory};
use super::kernel::KernelPacket;
use super::transfer::{Transfer, quad, refuse};
use crate::chip::SdmaPackets;
use crate::pm4;
use crate::vm::AddressSpace;

/// Dwords after which the length of every packet is known.
pub(super) const HEAD: usize = size_of::<WriteUntiled>() / 4;
/// Kinds of [`Op::GCR_REQ`]: of the kernel's rings, and of user queues.
const GCR_SUB_OPS: [u8; 2] = [0, 1];

/// A packet that was read from its ring or buffer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Packet {
    Nop,
    Transfer(Transfer),
    Write {
        to: u64,
        data: Vec<u32>,
    },
    Fence {
        at: u64,
        value: u32,
    },
    Trap {
        context: u32,
    },
    Poll(PollRegmem),
    Atomic(Atomic),
    CondExe(CondExe),
    Indirect(Indirect),
    SetClock(u64),
    GetClock {
        at: u64,
        global: bool,
    },
    /// Nothing to do: the model has no caches.
    Caches,
    /// One of the kernel's.
    Kernel(KernelPacket),
}

/// Returns true if a linear copy ends with a word about compression.
fn has_dcc(form: SdmaPackets, first: u32) -> bool {
    form == SdmaPackets::V7 && CopyHeader::from_bits(first).cpv()
}

/// Returns the dwords of the packet that begins with these, in a ring of the kernel's or not; `None` if there are too few to
/// tell. No dword at all is no packet.
pub(super) fn length((form, kernel): (SdmaPackets, bool), head: &[u32]) -> Result<Option<u32>, SdmaError> {
    let Some(&first) = head.first() else { return Ok(None) };
    let header = Header::from_bits(first);
    let bytes = match (Op(header.op()), header.sub_op()) {
        (Op::NOP, 0) => return Ok(Some(1 + u32::from(header.nop_count()))),
        (Op::COPY, copy_sub_op::LINEAR) if CopyHeader::from_bits(first).broadcast() => {
            size_of::<CopyBroadcastLinear>()
        }
        (Op::COPY, copy_sub_op::LINEAR) if has_dcc(form, first) => size_of::<CopyLinearV7>(),
        (Op::COPY, copy_sub_op::LINEAR) => size_of::<CopyLinear>(),
        (Op::COPY, copy_sub_op::LINEAR_SUB_WIND) => size_of::<CopyLinearSubwin>(),
        (Op::WRITE, SUB_OP_LINEAR) => {
            let count = head.get(HEAD - 1).map(|&count| WriteUntiledCount::from_bits(count).count());
            return Ok(count.map(|count| HEAD as u32 + count + 1));
        }
        (Op::INDIRECT, 0) => size_of::<Indirect>(),
        (Op::FENCE, 0) => size_of::<Fence>(),
        (Op::TRAP, 0) => size_of::<Trap>(),
        (Op::POLL_REGMEM, 0) => size_of::<PollRegmem>(),
        (Op::COND_EXE, 0) => size_of::<CondExe>(),
        (Op::ATOMIC, 0) => size_of::<Atomic>(),
        (Op::CONST_FILL, SUB_OP_LINEAR) => size_of::<ConstantFill>(),
        (Op::TIMESTAMP, timestamp_sub_op::SET | timestamp_sub_op::GET | timestamp_sub_op::GET_GLOBAL) => {
            size_of::<Timestamp>()
        }
        (Op::GCR_REQ, kind) if form != SdmaPackets::V4 && GCR_SUB_OPS.contains(&kind) => size_of::<GcrReq>(),
        _ if kernel => KernelPacket::bytes(header)?,
        _ => return Err(SdmaError::Operation(header)),
    };
    Ok(Some(bytes as u32 / 4))
}

/// Reads a packet as its structure; `length` has checked that it is as long.
pub(super) fn exact<T: FromBytes>(dwords: &[u32]) -> Result<T, SdmaError> {
    let header = Header::from_bits(dwords.first().copied().unwrap_or(0));
    T::read_from_bytes(dwords.as_bytes()).map_err(|_| SdmaError::Operation(header))
}

/// Reads the fields of a whole packet.
pub(super) fn parse(form: SdmaPackets, dwords: &[u32]) -> Result<Packet, SdmaError> {
    let first = dwords.first().copied().unwrap_or(0);
    let header = Header::from_bits(first);
    Ok(match Op(header.op()) {
        Op::NOP => Packet::Nop,
        Op::COPY if header.sub_op() == copy_sub_op::LINEAR_SUB_WIND => {
            Packet::Transfer(Transfer::rows(form, &exact::<CopyLinearSubwin>(dwords)?)?)
        }
        Op::COPY if CopyHeader::from_bits(first).broadcast() => {
            Packet::Transfer(Transfer::broadcast(&exact::<CopyBroadcastLinear>(dwords)?)?)
        }
        Op::COPY if has_dcc(form, first) => {
            let packet: CopyLinearV7 = exact(dwords)?;
            refuse("COPY dcc", packet.dcc)?;
            Packet::Transfer(Transfer::copy(&packet.copy)?)
        }
        Op::COPY => Packet::Transfer(Transfer::copy(&exact::<CopyLinear>(dwords)?)?),
        Op::WRITE => {
            let (head, data) = dwords.split_at(dwords.len().min(HEAD));
            let write: WriteUntiled = exact(head)?;
            refuse("WRITE encrypt", write.header.encrypt())?;
            refuse("WRITE tmz", write.header.tmz())?;
            refuse("WRITE sw", write.count.sw())?;
            Packet::Write { to: quad(write.dst_lo, write.dst_hi), data: data.to_vec() }
        }
        Op::INDIRECT => Packet::Indirect(exact(dwords)?),
        Op::FENCE => {
            let fence: Fence = exact(dwords)?;
            Packet::Fence { at: quad(fence.addr_lo, fence.addr_hi), value: fence.data }
        }
        Op::TRAP => Packet::Trap { context: exact::<Trap>(dwords)?.int_context & 0x0fff_ffff },
        Op::POLL_REGMEM if header.sub_op() == 0 => Packet::Poll(exact(dwords)?),
        Op::COND_EXE => Packet::CondExe(exact(dwords)?),
        Op::ATOMIC => Packet::Atomic(exact(dwords)?),
        Op::CONST_FILL => Packet::Transfer(Transfer::fill(&exact::<ConstantFill>(dwords)?)?),
        Op::TIMESTAMP => {
            let packet: Timestamp = exact(dwords)?;
            let value = quad(packet.lo, packet.hi);
            match header.sub_op() {
                timestamp_sub_op::SET => Packet::SetClock(value),
                kind => Packet::GetClock { at: value & !7, global: kind == timestamp_sub_op::GET_GLOBAL },
            }
        }
        Op::GCR_REQ => Packet::Caches,
        _ => Packet::Kernel(KernelPacket::parse(header, dwords)?),
    })
}

/// Returns true if a wait is one for the value of a register.
pub(super) fn is_of_register(packet: &PollRegmem) -> bool {
    let header = packet.header;
    !header.mem_poll() && !header.hdp_flush() && header.func() != 0
}

/// Returns true if a wait is over.
///
/// A wait with a limit of looks waits as one without: no public source describes an engine that reaches the limit, and
/// runtimes set none (`retry_count` 0xfff).
pub(super) fn poll(packet: &PollRegmem, space: &AddressSpace) -> Result<bool, SdmaError> {
    let (header, function) = (packet.header, packet.header.func());
    // ROCr flushes the HDP by a look at a register that every value satisfies.
    if header.hdp_flush() || function == 0 {
        space.memory().host_flushed();
        return Ok(true);
    }
    if !header.mem_poll() {
        return Err(SdmaError::Register("POLL_REGMEM"));
    }
    let value = space.load_u32(quad(packet.addr_lo, packet.addr_hi)).map_err(memory("POLL_REGMEM"))?;
    pm4::holds(function, value & packet.mask, packet.value).map_err(|_| SdmaError::Function(function))
}

/// Executes an atomic operation. Returns true if it is over: one that loops waits until its comparison holds.
pub(super) fn atomic(packet: &Atomic, space: &AddressSpace) -> Result<bool, SdmaError> {
    refuse("ATOMIC tmz", packet.header.tmz())?;
    let (op, loops) = (packet.header.atomic_op(), packet.header.is_loop());
    let field = SdmaError::Field { what: "ATOMIC atomic_op", value: op.into() };
    if loops && op & 0x1f != pm4::COMPARE_SWAP {
        return Err(SdmaError::Field { what: "ATOMIC loop of atomic_op", value: op.into() });
    }
    let at = quad(packet.addr_lo, packet.addr_hi);
    let values = [quad(packet.src_lo, packet.src_hi), quad(packet.cmp_lo, packet.cmp_hi)];
    let held = pm4::atomic(space, at, op, values).ok_or(field)?.map_err(memory("ATOMIC"))?;
    Ok(held || !loops)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A copy of a box of 3 x 2 elements of 4 bytes, from column 5 of row 1.
    fn subwin(form: SdmaPackets) -> Vec<u32> {
        let pitch = match form {
            SdmaPackets::V4 | SdmaPackets::V6 => 99 << 13,
            SdmaPackets::V7 => 99 << 16,
        };
        let header = u32::from(Op::COPY.0) | u32::from(copy_sub_op::LINEAR_SUB_WIND) << 8 | 2 << 29;
        vec![header, 0x1000, 0, 1 << 16 | 5, pitch, 999, 0x9000, 0, 0, pitch, 999, 1 << 16 | 2, 0]
    }

    #[test]
    fn boxes_are_the_same_in_the_fields_of_either_version() {
        let [old, new] = [SdmaPackets::V6, SdmaPackets::V7].map(|form| {
            let packet = subwin(form);
            assert_eq!(length((form, false), &packet[..HEAD]), Ok(Some(13)));
            parse(form, &packet).unwrap()
        });
        assert_eq!(old, new);
        let Packet::Transfer(transfer) = new else { panic!("a transfer") };
        assert_eq!(transfer.bytes(), 3 * 2 * 4);
    }

    #[test]
    fn linear_copies_of_sdma_7_have_a_word_about_compression_if_their_policies_count() {
        let header = u32::from(Op::COPY.0);
        let plain = [header, 15, 0, 0x1000, 0, 0x2000, 0];
        let with = [header | 1 << 19, 15, 0, 0x1000, 0, 0x2000, 0, 0];
        assert_eq!(length((SdmaPackets::V7, false), &plain[..HEAD]), Ok(Some(7)));
        assert_eq!(length((SdmaPackets::V7, false), &with[..HEAD]), Ok(Some(8)));
        assert_eq!(length((SdmaPackets::V6, false), &with[..HEAD]), Ok(Some(7)));
        assert_eq!(parse(SdmaPackets::V7, &with), parse(SdmaPackets::V7, &plain));
        let compressed = [&with[..7], &[1]].concat();
        let field = SdmaError::Field { what: "COPY dcc", value: 1 };
        assert_eq!(parse(SdmaPackets::V7, &compressed), Err(field));
    }
}
