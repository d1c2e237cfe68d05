//! Meaning of the entries of the interrupt ring on gfx9 (`kfd_int_process_v9.c`).

use belfry_abi::ih::{
    Client, FAULT_RING_VALID, FAULT_RING_WRITE, IhEntry, Source, sq_encoding, sq_error, sq_gfx9,
};

use crate::asic::Interrupt;

/// Shader engines that are clients of their own.
const SHADER_ENGINES: u8 = 4;

/// `gmc_v9_0_process_interrupt` of linux `gmc_v9_0.c`: bit 7 of context word 1.
const FAULT_RETRY: u32 = 1 << 7;
/// The same function: the number of the retry filter's entry in context word 2.
const RETRY_ENTRY: u32 = 0x3ff;

fn is_shader(client: Client) -> bool {
    client == Client::GRBM_CP || (Client::SE0SH.0..Client::SE0SH.0 + SHADER_ENGINES).contains(&client.0)
}

pub(super) fn decode(entry: &IhEntry) -> Interrupt {
    let [first, second, ..] = entry.data;
    match (entry.client(), entry.source()) {
        (Client::GRBM_CP, Source::CP_EOP_INTERRUPT) => Interrupt::Signal(first),
        (Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR) => Interrupt::BadPacket(first),
        (client, Source::SQ_INTERRUPT) if is_shader(client) => {
            let (encoding, payload) = sq_gfx9::parts([first, second]);
            match encoding {
                sq_encoding::INST if first & sq_gfx9::PRIVILEGED != 0 => Interrupt::HandlerMessage(payload),
                sq_encoding::INST => Interrupt::Signal(payload),
                sq_encoding::ERROR if sq_error::is_poison(payload >> sq_gfx9::ERROR_TYPE_SHIFT) => {
                    Interrupt::Poison
                }
                sq_encoding::ERROR => Interrupt::ShaderError(payload),
                _ => Interrupt::Quiet,
            }
        }
        (client, Source::SDMA4_TRAP) if Client::SDMA.contains(&client) => {
            Interrupt::Signal(first & 0xfff_ffff)
        }
        (client, Source::SDMA4_ECC) if Client::SDMA.contains(&client) => Interrupt::Poison,
        (Client::VMC | Client::VMC1 | Client::UTCL2, Source::UTCL2_FAULT) if second & FAULT_RETRY != 0 => {
            Interrupt::PageRetry { page: entry.fault_page(), told: entry.data[2] & RETRY_ENTRY }
        }
        (Client::VMC | Client::VMC1 | Client::UTCL2, Source::UTCL2_FAULT) => Interrupt::PageFault {
            page: entry.fault_page(),
            not_present: entry.ring() & FAULT_RING_VALID != 0,
            write: entry.ring() & FAULT_RING_WRITE != 0,
        },
        (Client::IH, Source(0)) if entry.ring() == 1 => Interrupt::RingOne,
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
        assert_eq!(entry(Client::GRBM_CP, Source::CP_EOP_INTERRUPT, 0, [7, 0]), Interrupt::Signal(7));
        let bad = entry(Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR, 0, [5, 0]);
        assert_eq!(bad, Interrupt::BadPacket(5));
        // The third shader engine: doorbell 0x155 and trap code 0x2a in 24 bits, around the wave's place.
        let payload = 0x155 | 0x2a << 10;
        let words = sq_gfx9::words(sq_encoding::INST, payload);
        let sq = |first, second| entry(Client(0xc), Source::SQ_INTERRUPT, 0, [first, second]);
        assert_eq!(sq(words[0], words[1]), Interrupt::Signal(payload));
        assert_eq!(sq(words[0] | sq_gfx9::PRIVILEGED, words[1]), Interrupt::HandlerMessage(payload));
        for (kind, poison) in [(0, true), (1, false), (2, false), (3, true)] {
            let payload = kind << sq_gfx9::ERROR_TYPE_SHIFT | 9;
            let words = sq_gfx9::words(sq_encoding::ERROR, payload);
            let expected = if poison { Interrupt::Poison } else { Interrupt::ShaderError(payload) };
            assert_eq!(sq(words[0], words[1]), expected);
        }
        assert_eq!(sq(0, 0), Interrupt::Quiet);
        assert_eq!(entry(Client(0xe), Source::SQ_INTERRUPT, 0, [0; 2]), Interrupt::Unknown);
        for client in Client::SDMA {
            assert_eq!(entry(client, Source::SDMA4_TRAP, 0, [0xf000_0007, 0]), Interrupt::Signal(7));
            assert_eq!(entry(client, Source::SDMA_TRAP, 0, [7, 0]), Interrupt::Unknown);
            assert_eq!(entry(client, Source::SDMA4_ECC, 0, [0; 2]), Interrupt::Poison);
        }
        let fault = |client, ring| entry(client, Source::UTCL2_FAULT, ring, [0x1234, 0x21]);
        let page = 0x1_0000_1234;
        for client in [Client::VMC, Client::VMC1, Client::UTCL2] {
            let present = Interrupt::PageFault { page, not_present: false, write: true };
            assert_eq!(fault(client, FAULT_RING_WRITE), present);
            let absent = Interrupt::PageFault { page, not_present: true, write: false };
            assert_eq!(fault(client, FAULT_RING_VALID), absent);
            let waits = entry(client, Source::UTCL2_FAULT, FAULT_RING_VALID, [0x1234, 0xa1]);
            assert_eq!(waits, Interrupt::PageRetry { page, told: 0 });
        }
        let mut waits = IhEntry::new(Client::UTCL2, Source::UTCL2_FAULT, FAULT_RING_VALID, 8, 1);
        waits.data = [0x1234, 0xa1, 0xffff_fc05, 0];
        assert_eq!(decode(&waits), Interrupt::PageRetry { page, told: 5 });
        assert_eq!(entry(Client::IH, Source(0), 1, [0; 2]), Interrupt::RingOne);
        assert_eq!(entry(Client::IH, Source(0), 2, [0; 2]), Interrupt::Unknown);
    }
}
