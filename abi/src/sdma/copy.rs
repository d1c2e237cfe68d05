//! Packets that move data.

use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

word! {
    /// First dword of linear copies, `SDMA_PKT_COPY_LINEAR_HEADER`.
    CopyHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind of copy.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Encrypts.
        pub encrypt, set_encrypt: 16;
        /// Works on protected memory.
        pub tmz, set_tmz: 18;
        /// The cache policies of the parameter word count.
        pub cpv, set_cpv: 19;
        /// From the end to the start.
        pub backwards, set_backwards: 25;
        /// To two destinations: the packet is a [`CopyBroadcastLinear`].
        pub broadcast, set_broadcast: 27;
    }
}

word! {
    /// Third dword of linear copies: byte orders and cache policies.
    CopyParameter {
        /// Byte order of the second destination, of a broadcast alone.
        pub u8, dst2_sw, set_dst2_sw: 9, 8;
        /// Byte order of the destination.
        pub u8, dst_sw, set_dst_sw: 17, 16;
        /// Cache policy of the destination.
        pub u8, dst_cache_policy, set_dst_cache_policy: 20, 18;
        /// Byte order of the source.
        pub u8, src_sw, set_src_sw: 25, 24;
        /// Cache policy of the source.
        pub u8, src_cache_policy, set_src_cache_policy: 28, 26;
    }
}

/// Linear copy, `SDMA_PKT_COPY_LINEAR`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct CopyLinear {
    /// Operation and flags.
    pub header: CopyHeader,
    /// Bytes less one, in bits 29:0.
    pub count: u32,
    /// Byte orders and cache policies.
    pub parameter: CopyParameter,
    /// Source address, low half.
    pub src_lo: u32,
    /// Source address, high half.
    pub src_hi: u32,
    /// Destination address, low half.
    pub dst_lo: u32,
    /// Destination address, high half.
    pub dst_hi: u32,
}

/// Linear copy of SDMA 7 whose header has [`CopyHeader::cpv`] (linux `sdma_v7_0.c`, `sdma_v7_0_emit_copy_buffer`).
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct CopyLinearV7 {
    /// The copy.
    pub copy: CopyLinear,
    /// Compression of the bytes (DCC); 0 if there is none.
    pub dcc: u32,
}

/// Linear copy to two destinations, `SDMA_PKT_COPY_BROADCAST_LINEAR`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct CopyBroadcastLinear {
    /// The copy to the first destination.
    pub first: CopyLinear,
    /// Second destination's address, low half.
    pub dst2_lo: u32,
    /// Second destination's address, high half.
    pub dst2_hi: u32,
}

word! {
    /// First dword of a copy of a box, `SDMA_PKT_COPY_LINEAR_SUBWIN_HEADER`.
    SubwinHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind of copy.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Works on protected memory.
        pub tmz, set_tmz: 18;
        /// The cache policies of the last word count.
        pub cpv, set_cpv: 19;
        /// Bytes of an element, as a power of two: 0 to 4.
        pub u8, elementsize, set_elementsize: 31, 29;
    }
}

word! {
    /// Position within a slice, or its width and height less one; in elements.
    SubwinOrigin {
        /// Column.
        pub x, set_x: 13, 0;
        /// Row.
        pub y, set_y: 29, 16;
    }
}

word! {
    /// Slice, and elements of a row.
    SubwinDepth {
        /// Slice.
        pub z, set_z: 12, 0;
        /// Elements from one row to the next, less one.
        pub pitch, set_pitch: 31, 13;
    }
}

word! {
    /// Slices of a box, byte orders and cache policies.
    SubwinRectDepth {
        /// Slices less one.
        pub z, set_z: 12, 0;
        /// Slices less one, on SDMA 7.
        pub z_v7, set_z_v7: 13, 0;
        /// Byte order of the destination.
        pub u8, dst_sw, set_dst_sw: 17, 16;
        /// Byte order of the source.
        pub u8, src_sw, set_src_sw: 25, 24;
    }
}

word! {
    /// [`SubwinOrigin`] on SDMA 7.
    SubwinOriginV7 {
        /// Column.
        pub x, set_x: 15, 0;
        /// Row.
        pub y, set_y: 31, 16;
    }
}

word! {
    /// [`SubwinDepth`] on SDMA 7.
    SubwinDepthV7 {
        /// Slice.
        pub z, set_z: 13, 0;
        /// Elements from one row to the next, less one.
        pub pitch, set_pitch: 31, 16;
    }
}

/// A linear image, and where a box begins in it.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Subwin {
    /// Address, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// Column and row: a [`SubwinOrigin`], or a [`SubwinOriginV7`].
    pub origin: u32,
    /// Slice and pitch: a [`SubwinDepth`], or a [`SubwinDepthV7`].
    pub depth: u32,
    /// Elements from one slice to the next less one; in bits 27:0 before SDMA 7.
    pub slice_pitch: u32,
}

/// Copy of a box of one linear image into another, `SDMA_PKT_COPY_LINEAR_SUBWIN`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct CopyLinearSubwin {
    /// Operation and size of an element.
    pub header: SubwinHeader,
    /// Source.
    pub src: Subwin,
    /// Destination.
    pub dst: Subwin,
    /// Width and height less one: a [`SubwinOrigin`], or a [`SubwinOriginV7`].
    pub rect: u32,
    /// Slices less one (13 bits, 14 on SDMA 7), and byte orders.
    pub rect_depth: SubwinRectDepth,
}

word! {
    /// First dword of a write, `SDMA_PKT_WRITE_UNTILED_HEADER`.
    WriteHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind of write.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Encrypts.
        pub encrypt, set_encrypt: 16;
        /// Works on protected memory.
        pub tmz, set_tmz: 18;
    }
}

word! {
    /// Size of a write.
    WriteUntiledCount {
        /// Dwords less one.
        pub count, set_count: 19, 0;
        /// Byte order.
        pub u8, sw, set_sw: 25, 24;
    }
}

/// Linear write without its data, `SDMA_PKT_WRITE_UNTILED`: the dwords follow.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct WriteUntiled {
    /// Operation and flags.
    pub header: WriteHeader,
    /// Destination address, low half.
    pub dst_lo: u32,
    /// Destination address, high half.
    pub dst_hi: u32,
    /// Number of dwords that follow.
    pub count: WriteUntiledCount,
}

word! {
    /// First dword of a fill, `SDMA_PKT_CONSTANT_FILL_HEADER`.
    ConstantFillHeader {
        /// Operation.
        pub u8, op, set_op: 7, 0;
        /// Kind of fill.
        pub u8, sub_op, set_sub_op: 15, 8;
        /// Byte order.
        pub u8, sw, set_sw: 17, 16;
        /// Bytes of an element, as a power of two: 0 bytes, 2 dwords (linux `cikd.h`, `SDMA_CONSTANT_FILL_EXTRA_SIZE`).
        pub u8, fillsize, set_fillsize: 31, 30;
    }
}

/// Fill of memory with a value, `SDMA_PKT_CONSTANT_FILL`.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct ConstantFill {
    /// Operation and size of an element.
    pub header: ConstantFillHeader,
    /// Destination address, low half.
    pub dst_lo: u32,
    /// Destination address, high half.
    pub dst_hi: u32,
    /// The element, in its low bits.
    pub data: u32,
    /// Bytes less one in bits 29:0; a part of an element is rounded up to a whole one.
    pub count: u32,
}

const _: () = {
    assert!(size_of::<CopyLinear>() == 7 * 4);
    assert!(size_of::<CopyLinearV7>() == 8 * 4);
    assert!(size_of::<CopyBroadcastLinear>() == 9 * 4);
    assert!(size_of::<CopyLinearSubwin>() == 13 * 4);
    assert!(size_of::<WriteUntiled>() == 4 * 4);
    assert!(size_of::<ConstantFill>() == 5 * 4);
};
