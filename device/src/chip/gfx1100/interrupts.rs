//! Interrupt entries of gfx11: SOC21 clients, sources of `irqsrcs_gfx_11_0_0.h`.
//!
//! Context words as Linux `amdkfd/kfd_int_process_v11.c` decodes them (`SQ_INTERRUPT_WORD_*`, `KFD_CTXID0_*`).

use belfry_abi::ih::{
    Client, FAULT_RING_READ, FAULT_RING_VALID, FAULT_RING_WRITE, Source, sq_encoding, sq_error,
};

use crate::chip::{InterruptFormat, PageFault, SqInterrupt};

/// `SQ_INTERRUPT_WORD_WAVE_CTXID0.PRIV`.
const PRIVILEGED: u32 = 1 << 26;
/// `SQ_INTERRUPT_WORD_WAVE_CTXID1.ENCODING`.
const ENCODING_SHIFT: u32 = 6;

pub(in crate::chip) const FORMAT: InterruptFormat = InterruptFormat {
    cp_eop: (Client::GRBM_CP, Source::CP_EOP_INTERRUPT),
    bad_opcode: (Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR),
    sq: (Client::GFX, Source::SQ_INTERRUPT),
    sdma_trap: |_| (Client::GFX, Source::SDMA_TRAP),
    // No public source says which interrupt hardware raises for a bad packet of a user queue. The driver is
    // told of a queue that does not get on, with the source that `irqsrcs_gfx_11_0_0.h` has for that.
    sdma_stopped: |_| (Client::GFX, Source::SDMA_QUEUE_HANG),
    sdma_poison: |_| (Client::GFX, Source::SDMA_ECC),
    page_fault: |_| (Client::GFX, Source::UTCL2_FAULT),
    node: |_| 0,
    cp_ring,
    sdma_ring,
    bad_opcode_word,
    sq_words,
    page_fault_words,
};

/// Queue 6:4, micro engine 3:2, pipe 1:0.
fn cp_ring(me: u8, pipe: u8, queue: u8) -> u8 {
    (queue & 7) << 4 | (me & 3) << 2 | pipe & 3
}

/// Engine 7:4, queue 3:0 (linux `sdma_v6_0.c`, `sdma_v6_0_process_trap_irq`).
fn sdma_ring(engine: u8, queue: u8) -> u8 {
    (engine & 0xf) << 4 | queue & 0xf
}

/// `KFD_CTXID0_CP_BAD_OP_ECODE` 25:10, `KFD_CTXID0_DOORBELL_ID` 9:0.
fn bad_opcode_word(code: u32, doorbell: u32) -> u32 {
    (code & 0xffff) << 10 | doorbell & 0x3ff
}

fn sq_words(interrupt: SqInterrupt) -> [u32; 4] {
    let (encoding, data) = match interrupt {
        SqInterrupt::Message(m0) => (sq_encoding::INST, m0 & 0x00ff_ffff),
        SqInterrupt::HandlerMessage(m0) => (sq_encoding::INST, PRIVILEGED | m0 & 0x00ff_ffff),
        SqInterrupt::IllegalInstruction => {
            (sq_encoding::ERROR, sq_error::ILLEGAL_INST << sq_error::TYPE_SHIFT)
        }
        SqInterrupt::MemoryViolation => (sq_encoding::ERROR, sq_error::MEMVIOL << sq_error::TYPE_SHIFT),
        SqInterrupt::Poison => (sq_encoding::ERROR, sq_error::EDC_FED << sq_error::TYPE_SHIFT),
    };
    [data, encoding << ENCODING_SHIFT, 0, 0]
}

fn page_fault_words(fault: PageFault) -> (u8, [u32; 4]) {
    let ring = match (fault.permission, fault.write) {
        (false, _) => FAULT_RING_VALID,
        (true, true) => FAULT_RING_WRITE,
        (true, false) => FAULT_RING_READ,
    };
    let high = (fault.page >> 32) as u32 & 0xf;
    (ring, [fault.page as u32, high | u32::from(fault.write) << 5 | u32::from(fault.retry) << 7, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_the_driver_takes_apart() {
        assert_eq!((cp_ring(1, 2, 5), sdma_ring(1, 5)), (0x56, 0x15));
        assert_eq!(bad_opcode_word(0x1_0003, 0x7ff), 3 << 10 | 0x3ff);
        assert_eq!(sq_words(SqInterrupt::Message(0xff12_3456)), [0x12_3456, 1 << 6, 0, 0]);
        assert_eq!(sq_words(SqInterrupt::HandlerMessage(7)), [1 << 26 | 7, 1 << 6, 0, 0]);
        assert_eq!(sq_words(SqInterrupt::MemoryViolation), [2 << 21, 2 << 6, 0, 0]);
        assert_eq!(sq_words(SqInterrupt::Poison), [3 << 21, 2 << 6, 0, 0]);
        let fault = PageFault { page: 0xf_1234_5678, write: true, permission: true, retry: false };
        assert_eq!(page_fault_words(fault), (1 << 5, [0x1234_5678, 0x2f, 0, 0]));
        assert_eq!(page_fault_words(PageFault { permission: false, ..fault }).0, 1 << 3);
        assert_eq!(page_fault_words(PageFault { write: false, ..fault }).0, 1 << 4);
    }
}
