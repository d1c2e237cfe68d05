//! Interrupt entries of gfx9: SOC15 clients, sources of `irqsrcs_gfx_9_0.h` and `irqsrcs_sdma0_4_0.h`, and
//! the node of each entry.
//!
//! Context words as Linux `amdkfd/kfd_int_process_v9.c` decodes them.

use belfry_abi::ih::{Client, Source, node, sq_encoding, sq_error, sq_gfx9};

use crate::chip::{InterruptFormat, Origin, SqInterrupt, gfx1100};

/// SDMA engines of a die.
const ENGINES_PER_DIE: u8 = 4;

/// The format of gfx11, of which the parts that are named below are the same.
const GFX11: InterruptFormat = gfx1100::INTERRUPTS;

pub(in crate::chip) const FORMAT: InterruptFormat = InterruptFormat {
    cp_eop: GFX11.cp_eop,
    bad_opcode: GFX11.bad_opcode,
    sq: (Client::SE0SH, Source::SQ_INTERRUPT),
    sdma_trap: |engine| (client(engine), Source::SDMA4_TRAP),
    // No public source says which interrupt hardware raises for a bad packet of a user queue. The driver is
    // told that the engine stands still.
    sdma_stopped: |engine| (client(engine), Source::SDMA4_FROZEN),
    sdma_poison: |engine| (client(engine), Source::SDMA4_ECC),
    page_fault,
    node,
    // The rings' numbers, the codes of refused packets and the words of faults.
    cp_ring: GFX11.cp_ring,
    sdma_ring: GFX11.sdma_ring,
    bad_opcode_word: GFX11.bad_opcode_word,
    sq_words,
    page_fault_words: GFX11.page_fault_words,
};

fn client(engine: u8) -> Client {
    Client::SDMA[usize::from(engine % ENGINES_PER_DIE)]
}

/// The graphics core's hub, or that of the engine's die.
fn page_fault(origin: Origin) -> (Client, Source) {
    match origin {
        Origin::Xcc(_) => (Client::UTCL2, Source::UTCL2_FAULT),
        Origin::Engine(_) => (Client::VMC, Source::UTCL2_FAULT),
    }
}

fn node(origin: Origin) -> u8 {
    match origin {
        Origin::Xcc(xcc) => node::of_xcc(xcc),
        Origin::Engine(engine) => node::of_die(engine / ENGINES_PER_DIE),
    }
}

fn sq_words(interrupt: SqInterrupt) -> [u32; 4] {
    let (encoding, payload, flags) = match interrupt {
        SqInterrupt::Message(m0) => (sq_encoding::INST, m0, 0),
        SqInterrupt::HandlerMessage(m0) => (sq_encoding::INST, m0, sq_gfx9::PRIVILEGED),
        SqInterrupt::IllegalInstruction => (sq_encoding::ERROR, error(sq_error::ILLEGAL_INST), 0),
        SqInterrupt::MemoryViolation => (sq_encoding::ERROR, error(sq_error::MEMVIOL), 0),
        SqInterrupt::Poison => (sq_encoding::ERROR, error(sq_error::EDC_FED), 0),
    };
    let [first, second] = sq_gfx9::words(encoding, payload & 0x00ff_ffff);
    [first | flags, second, 0, 0]
}

const fn error(kind: u32) -> u32 {
    kind << sq_gfx9::ERROR_TYPE_SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_clients_of_their_die() {
        assert_eq!((FORMAT.sdma_trap)(1), (Client(9), Source(224)));
        assert_eq!((FORMAT.sdma_trap)(15), (Client(4), Source(224)));
        assert_eq!([0, 3, 4, 15].map(|engine| (FORMAT.node)(Origin::Engine(engine))), [0, 0, 4, 12]);
        assert_eq!([0, 1, 7].map(|xcc| (FORMAT.node)(Origin::Xcc(xcc))), [1, 2, 14]);
        assert_eq!((FORMAT.page_fault)(Origin::Xcc(3)).0, Client(0x1b));
        assert_eq!((FORMAT.page_fault)(Origin::Engine(3)).0, Client(0x12));
    }

    #[test]
    fn words_are_those_the_driver_takes_apart() {
        let parts = |interrupt| {
            let [first, second, ..] = (FORMAT.sq_words)(interrupt);
            (sq_gfx9::parts([first, second]), first & sq_gfx9::PRIVILEGED != 0)
        };
        assert_eq!(parts(SqInterrupt::Message(0xff12_3456)), ((1, 0x12_3456), false));
        assert_eq!(parts(SqInterrupt::HandlerMessage(7)), ((1, 7), true));
        assert_eq!(parts(SqInterrupt::MemoryViolation), ((2, 2 << 20), false));
        assert_eq!(parts(SqInterrupt::Poison), ((2, 3 << 20), false));
    }
}
