//! Entries of the interrupt ring: their sources, and the contents of their words.

use belfry_abi::ih::{Client, Source};

/// Reasons for which a wave interrupts the driver through the SQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqInterrupt {
    /// `s_sendmsg MSG_INTERRUPT` with `M0[23:0]`.
    Message(u32),
    /// `s_sendmsg MSG_INTERRUPT` with `M0[23:0]` from a wave in its trap handler.
    HandlerMessage(u32),
    /// A wave ran into an illegal instruction (`SQ_INTERRUPT_ERROR_TYPE_ILLEGAL_INST`).
    IllegalInstruction,
    /// A wave violated an aperture (`SQ_INTERRUPT_ERROR_TYPE_MEMVIOL`).
    MemoryViolation,
    /// A wave has read memory with an error that cannot be corrected (`SQ_INTERRUPT_ERROR_TYPE_EDC_FED`).
    Poison,
}

/// An access that did not translate, as an entry reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// Number of the page.
    pub page: u64,
    /// The access was a store or an atomic.
    pub write: bool,
    /// The page is there and does not allow the access.
    pub permission: bool,
    /// The access is tried again until it goes through.
    pub retry: bool,
}

/// The part of the chip that an entry is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A graphics core, by its physical number.
    Xcc(u8),
    /// An SDMA engine.
    Engine(u8),
}

/// Form of a chip's entries, beside the 32 bytes that all of them have.
#[derive(Clone, Copy, Debug)]
pub struct InterruptFormat {
    /// A packet completed and its signal has a mailbox.
    pub cp_eop: (Client, Source),
    /// A packet was refused.
    pub bad_opcode: (Client, Source),
    /// A wave interrupts: see [`SqInterrupt`].
    pub sq: (Client, Source),
    /// A packet of an SDMA queue asks for an interrupt.
    pub sdma_trap: fn(engine: u8) -> (Client, Source),
    /// A packet of an SDMA queue was refused.
    pub sdma_stopped: fn(engine: u8) -> (Client, Source),
    /// An SDMA engine has read memory with an error that cannot be corrected.
    pub sdma_poison: fn(engine: u8) -> (Client, Source),
    /// An access did not translate.
    pub page_fault: fn(Origin) -> (Client, Source),
    /// Number of the node that an entry is from; 0 on chips that do not number them.
    pub node: fn(Origin) -> u8,
    /// Ring id of the packet processor's entries: micro engine, pipe, queue.
    pub cp_ring: fn(me: u8, pipe: u8, queue: u8) -> u8,
    /// Ring id of an SDMA queue's entries: engine, queue.
    pub sdma_ring: fn(engine: u8, queue: u8) -> u8,
    /// Context word 0 of a refused packet: KFD's exception code, 0 for the kernel's own queues, and the number of the
    /// doorbell in its slice.
    pub bad_opcode_word: fn(code: u32, doorbell: u32) -> u32,
    /// Context words of an interrupt by a wave.
    pub sq_words: fn(SqInterrupt) -> [u32; 4],
    /// Ring id and context words of an access that did not translate.
    pub page_fault_words: fn(PageFault) -> (u8, [u32; 4]),
}
