//! Packets of SDMA 6.0: the contents of the copy engines' rings and indirect buffers.
//!
//! The structures are whole packets, header included. Bytes and dwords are counted from 0: a count of 3 means four of them.
//! Source: linux `drivers/gpu/drm/amd/amdgpu/sdma_v6_0_0_pkt_open.h` (`SDMA_PKT_*`, `SDMA_OP_*`, `SDMA_SUBOP_*`).
//! Ring pointers and doorbells count bytes for ever (`sdma_v6_0.c`, `sdma_v6_0_ring_set_wptr`).

mod copy;
mod sync;

pub use copy::{
    ConstantFill, ConstantFillHeader, CopyBroadcastLinear, CopyHeader, CopyLinear, CopyLinearSubwin,
    CopyLinearV7, CopyParameter, Subwin, SubwinDepth, SubwinDepthV7, SubwinHeader, SubwinOrigin,
    SubwinOriginV7, SubwinRectDepth, WriteHeader, WriteUntiled, WriteUntiledCount,
};
pub use sync::{
    Atomic, AtomicHeader, CondExe, Fence, GcrReq, Indirect, IndirectHeader, POLL_RETRY_FOREVER, PollRegmem,
    PollRegmemHeader, PollRegmemRetry, PtePde, SrbmWrite, SrbmWriteHeader, Timestamp, Trap, VM_INVALIDATION,
    VmInvalidation, VmInvalidationHeader,
};

word! {
    /// First dword of every packet; packets have more fields in the upper half.
    Header {
        /// Operation, [`Op`].
        pub u8, op, set_op: 7, 0;
        /// Kind within the operation.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Dwords that follow a NOP and are skipped.
        pub u16, nop_count, set_nop_count: 29, 16;
    }
}

impl Header {
    /// The header of an operation, with all other fields 0.
    #[must_use]
    pub const fn new(op: Op, sub_op: u8) -> Self {
        Self(op.0 as u32 | (sub_op as u32) << 8)
    }
}

/// Operation of a packet; any value may come from a guest.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Op(pub u8);

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl Op {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// Name in the header without `SDMA_OP_`, if it has one.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

operations! {
    /// Does nothing; dwords that follow are skipped.
    NOP = 0;
    /// Copies memory.
    COPY = 1;
    /// Writes the data that follow.
    WRITE = 2;
    /// Goes on in another buffer, and comes back.
    INDIRECT = 4;
    /// Writes a dword after all earlier work.
    FENCE = 5;
    /// Raises an interrupt.
    TRAP = 6;
    /// Semaphore in memory.
    SEM = 7;
    /// Waits for memory or a register.
    POLL_REGMEM = 8;
    /// Skips packets unless memory has a value.
    COND_EXE = 9;
    /// Atomic operation on memory.
    ATOMIC = 10;
    /// Fills memory.
    CONST_FILL = 11;
    /// Makes page-table entries.
    PTEPDE = 12;
    /// Sets or stores a time.
    TIMESTAMP = 13;
    /// Writes a register.
    SRBM_WRITE = 14;
    /// Executes packets on some engines alone.
    PRE_EXE = 15;
    /// Invalidates TLBs.
    GPUVM_INV = 16;
    /// Writes back or invalidates caches.
    GCR_REQ = 17;
    /// Like a trap, without one.
    DUMMY_TRAP = 32;
}

/// Kinds of [`Op::COPY`].
pub mod copy_sub_op {
    macro_rules! kinds {
        ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
            $($(#[$doc])* pub const $name: u8 = $value;)*

            /// Name in the header without `SDMA_SUBOP_COPY_`, if it has one.
            #[must_use]
            pub const fn name(kind: u8) -> Option<&'static str> {
                match kind {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        };
    }

    kinds! {
        /// Bytes, in order.
        LINEAR = 0;
        /// Between a linear and a tiled image.
        TILED = 1;
        /// Structures of arrays.
        SOA = 3;
        /// A box of a linear image.
        LINEAR_SUB_WIND = 4;
        /// A box of a tiled image.
        TILED_SUB_WIND = 5;
        /// A box of a tiled image into another.
        T2T_SUB_WIND = 6;
        /// Pages that have been written.
        DIRTY_PAGE = 7;
        /// Physical addresses.
        LINEAR_PHY = 8;
        /// A box of a large linear image.
        LINEAR_SUB_WIND_LARGE = 36;
    }
}

/// Kind of [`Op::WRITE`] and [`Op::CONST_FILL`]: bytes, in order.
pub const SUB_OP_LINEAR: u8 = 0;

/// Kinds of [`Op::TIMESTAMP`].
pub mod timestamp_sub_op {
    /// Sets the engine's own counter.
    pub const SET: u8 = 0;
    /// Stores the engine's own counter.
    pub const GET: u8 = 1;
    /// Stores the counter that the whole GPU has.
    pub const GET_GLOBAL: u8 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_that_runtimes_write() {
        // What ROCr submits for an asynchronous copy: an atomic addition of 64 bits, a fence, a clock.
        let atomic = AtomicHeader::from_bits(0x5e00_000a);
        assert_eq!((atomic.op(), atomic.atomic_op(), atomic.is_loop()), (Op::ATOMIC.0, 47, false));
        assert_eq!(Header::from_bits(0x0003_0005).op(), Op::FENCE.0);
        let clock = Header::new(Op::TIMESTAMP, timestamp_sub_op::GET_GLOBAL);
        assert_eq!(clock.bits(), 0x020d);
        let flush = PollRegmemHeader::from_bits(8);
        assert_eq!((flush.func(), flush.mem_poll(), flush.hdp_flush()), (0, false, false));
        assert_eq!(Header::from_bits(0x3fff_0000).nop_count(), 0x3fff);
        assert_eq!((Op(8).name(), Op(18).name()), (Some("POLL_REGMEM"), None));
    }

    #[test]
    fn fields_are_where_the_header_has_them() {
        let fill = ConstantFillHeader::from_bits(0x8000_000b);
        assert_eq!((fill.op(), fill.fillsize(), fill.sw()), (Op::CONST_FILL.0, 2, 0));
        let copy = CopyHeader::from_bits(1 << 27 | 1 << 25 | 1 << 18 | 1 << 16 | 1);
        assert!(copy.broadcast() && copy.backwards() && copy.tmz() && copy.encrypt());
        let poll = PollRegmemHeader::from_bits(0xb000_0008);
        assert_eq!((poll.func(), poll.mem_poll()), (3, true));
        let retry = PollRegmemRetry::from_bits(0x0fff_0004);
        assert_eq!((retry.interval(), retry.retry_count()), (4, POLL_RETRY_FOREVER));
        let depth = SubwinDepth::from_bits(0x7ffff << 13 | 5);
        assert_eq!((depth.z(), depth.pitch()), (5, 0x7_ffff));
        let origin = SubwinOrigin::from_bits(7 << 16 | 9);
        assert_eq!((origin.x(), origin.y()), (9, 7));
        assert_eq!(SubwinHeader::from_bits(4 << 29 | 0x0401).elementsize(), 4);
    }
}
