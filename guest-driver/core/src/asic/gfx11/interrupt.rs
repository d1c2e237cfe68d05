//! Meaning of the entries of the interrupt ring on gfx11 (`kfd_int_process_v11.c`).

use belfry_abi::ih::{Client, FAULT_RING_VALID, FAULT_RING_WRITE, IhEntry, Source, sq_encoding, sq_error};

use crate::asic::Interrupt;

/// `SQ_INTERRUPT_WORD_WAVE_CTXID0.PRIV`.
const PRIVILEGED: u32 = 1 << 26;

pub(super) fn decode(entry: &IhEntry) -> Interrupt {
    let [first, second, ..] = entry.data;
    match (entry.client(), entry.source()) {
        (Client::GRBM_CP, Source::CP_EOP_INTERRUPT) => Interrupt::Signal(first),
        (Client::GRBM_CP | Client::GFX, Source::SQ_INTERRUPT) => match second >> 6 & 3 {
            sq_encoding::INST if first & PRIVILEGED != 0 => Interrupt::HandlerMessage(first & 0xff_ffff),
            sq_encoding::INST => Interrupt::Signal(first & 0xff_ffff),
            sq_encoding::ERROR if sq_error::is_poison(first >> sq_error::TYPE_SHIFT) => Interrupt::Poison,
            sq_encoding::ERROR => Interrupt::ShaderError(first),
            _ => Interrupt::Quiet,
        },
        (Client::GFX, Source::SDMA_TRAP) => Interrupt::Signal(first & 0xfff_ffff),
        // Linux handles this entry too, but its filter for gfx11 drops it first.
        (Client::GFX, Source::SDMA_ECC) => Interrupt::Poison,
        (Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR) => Interrupt::BadPacket(first),
        (Client::GFX | Client::VMC | Client::UTCL2, Source::UTCL2_FAULT) => Interrupt::PageFault {
            page: entry.fault_page(),
            not_present: entry.ring() & FAULT_RING_VALID != 0,
            write: entry.ring() & FAULT_RING_WRITE != 0,
        },
        _ => Interrupt::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_told_apart_by_client_source_and_encoding() {
        let entry = |client, source, ring, data: [u32; 2]| {
            let mut entry = IhEntry::new(client, source, ring, 8, 1);
            entry.data[..2].copy_from_slice(&data);
            decode(&entry)
        };
        let sq = |data: [u32; 2]| entry(Client::GFX, Source::SQ_INTERRUPT, 0, data);
        assert_eq!(entry(Client::GRBM_CP, Source::CP_EOP_INTERRUPT, 0, [7, 0]), Interrupt::Signal(7));
        assert_eq!(sq([0xfb00_0009, sq_encoding::INST << 6]), Interrupt::Signal(9));
        assert_eq!(sq([0xff00_0009, sq_encoding::INST << 6]), Interrupt::HandlerMessage(9));
        for (kind, poison) in [(0, true), (1, false), (2, false), (3, true)] {
            let word = kind << sq_error::TYPE_SHIFT | 9;
            let expected = if poison { Interrupt::Poison } else { Interrupt::ShaderError(word) };
            assert_eq!(sq([word, sq_encoding::ERROR << 6]), expected);
        }
        assert_eq!(entry(Client::GFX, Source::SDMA_ECC, 0, [0; 2]), Interrupt::Poison);
        assert_eq!(sq([9, sq_encoding::AUTO << 6]), Interrupt::Quiet);
        let trap = entry(Client::GFX, Source::SDMA_TRAP, 0x12, [0xf000_0007, 0]);
        assert_eq!(trap, Interrupt::Signal(7));
        let bad = entry(Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR, 0, [5, 0]);
        assert_eq!(bad, Interrupt::BadPacket(5));
        let fault = |client, ring| entry(client, Source::UTCL2_FAULT, ring, [0x1234, 0x21]);
        let page = 0x1_0000_1234;
        assert_eq!(
            fault(Client::UTCL2, FAULT_RING_WRITE),
            Interrupt::PageFault { page, not_present: false, write: true }
        );
        assert_eq!(
            fault(Client::GFX, FAULT_RING_VALID),
            Interrupt::PageFault { page, not_present: true, write: false }
        );
        assert_eq!(entry(Client::GFX, Source::CP_EOP_INTERRUPT, 0, [0; 2]), Interrupt::Unknown);
    }
}
