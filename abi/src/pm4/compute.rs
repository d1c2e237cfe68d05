//! Packets that start dispatches on compute queues, and the registers that these are launched from.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

word! {
    /// `COMPUTE_DISPATCH_INITIATOR`, the last word of the dispatch packets; linux `gc_11_0_0_sh_mask.h`.
    DispatchInitiator {
        /// The dispatch starts.
        pub compute_shader_en, set_compute_shader_en: 0;
        /// The last workgroup of a dimension has `NUM_THREAD_PARTIAL` work-items.
        pub partial_tg_en, set_partial_tg_en: 1;
        /// `COMPUTE_START_*` count as 0.
        pub force_start_at_000, set_force_start_at_000: 2;
        /// Ordered append.
        pub ordered_append_enbl, set_ordered_append_enbl: 3;
        /// The sizes are in work-items instead of workgroups.
        pub use_thread_dimensions, set_use_thread_dimensions: 5;
        /// Continues a dispatch that was saved.
        pub restore, set_restore: 14;
        /// Waves have 32 lanes instead of 64.
        pub cs_w32_en, set_cs_w32_en: 15;
    }
}

/// Body of DISPATCH_DIRECT, `PACKET3_DISPATCH_DIRECT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DispatchDirect {
    /// Sizes, in workgroups unless the initiator says otherwise; becomes `COMPUTE_DIM_*`.
    pub dim: [u32; 3],
    /// Start options.
    pub initiator: DispatchInitiator,
}

/// Body of DISPATCH_INDIRECT as compute queues take it, `PACKET3_DISPATCH_INDIRECT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct DispatchIndirect {
    /// Address of the three sizes, low half.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// Start options.
    pub initiator: DispatchInitiator,
}

word! {
    /// First word of SET_SH_REG and SET_SH_REG_INDEX.
    SetShReg {
        /// First register, by its distance from [`SH_REG_START`] in dwords.
        pub u16, register, set_register: 15, 0;
        /// Of SET_SH_REG_INDEX: 0 as SET_SH_REG, or [`SH_REG_INDEX_CU_MASK`] (PAL
        /// `gfx9_plus_merged_f32_mec_pm4_packets.h`, `MEC_SET_SH_REG_INDEX_index_enum`).
        pub u8, index, set_index: 31, 28;
    }
}

word! {
    /// Third word of LOAD_SH_REG_INDEX (PAL `gfx9_plus_merged_f32_mec_pm4_packets.h`, `PM4_MEC_LOAD_SH_REG_INDEX`).
    LoadShRegTarget {
        /// First register, by its distance from [`SH_REG_START`] in dwords.
        pub u16, register, set_register: 15, 0;
        /// Set if memory has the registers' numbers as well.
        pub has_numbers, set_has_numbers: 31;
    }
}

/// Body of LOAD_SH_REG_INDEX, `PACKET3_LOAD_SH_REG_INDEX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LoadShRegIndex {
    /// Address of the values in bits 31:2, low half; bit 0 is set for an offset from a base instead.
    pub addr_lo: u32,
    /// Address, high half.
    pub addr_hi: u32,
    /// The registers.
    pub target: LoadShRegTarget,
    /// Number of registers, in bits 13:0.
    pub dwords: u32,
}

/// Index of SET_SH_REG_INDEX: of a mask of compute units, only those that the kernel allows the queue are taken.
pub const SH_REG_INDEX_CU_MASK: u8 = 3;

/// First register SET_SH_REG counts from, `PACKET3_SET_SH_REG_START`, as an absolute dword index.
pub const SH_REG_START: u32 = 0x2c00;

/// A compute register, by its distance from [`SH_REG_START`] in dwords.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComputeRegister(pub u32);

/// First of the compute registers, which MQDs hold in the order of their numbers.
pub const COMPUTE_REGISTERS_FIRST: u32 = ComputeRegister::DISPATCH_INITIATOR.0;
/// Compute registers from there to the last of the user data.
pub const COMPUTE_REGISTERS: usize = 80;

macro_rules! compute_registers {
    ($($name:ident = $value:literal;)*) => {
        impl ComputeRegister {
            $(
                #[doc = concat!("`COMPUTE_", stringify!($name), "`.")]
                pub const $name: Self = Self($value);
            )*

            /// Name in linux `gc_11_0_0_offset.h`; `None` for an unknown register.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(concat!("COMPUTE_", stringify!($name))),)*
                    _ => None,
                }
            }
        }
    };
}

compute_registers! {
    DISPATCH_INITIATOR = 0x200;
    DIM_X = 0x201;
    DIM_Y = 0x202;
    DIM_Z = 0x203;
    START_X = 0x204;
    START_Y = 0x205;
    START_Z = 0x206;
    NUM_THREAD_X = 0x207;
    NUM_THREAD_Y = 0x208;
    NUM_THREAD_Z = 0x209;
    PIPELINESTAT_ENABLE = 0x20a;
    PERFCOUNT_ENABLE = 0x20b;
    PGM_LO = 0x20c;
    PGM_HI = 0x20d;
    DISPATCH_PKT_ADDR_LO = 0x20e;
    DISPATCH_PKT_ADDR_HI = 0x20f;
    DISPATCH_SCRATCH_BASE_LO = 0x210;
    DISPATCH_SCRATCH_BASE_HI = 0x211;
    PGM_RSRC1 = 0x212;
    PGM_RSRC2 = 0x213;
    VMID = 0x214;
    RESOURCE_LIMITS = 0x215;
    STATIC_THREAD_MGMT_SE0 = 0x216;
    STATIC_THREAD_MGMT_SE1 = 0x217;
    TMPRING_SIZE = 0x218;
    STATIC_THREAD_MGMT_SE2 = 0x219;
    STATIC_THREAD_MGMT_SE3 = 0x21a;
    RESTART_X = 0x21b;
    RESTART_Y = 0x21c;
    RESTART_Z = 0x21d;
    THREAD_TRACE_ENABLE = 0x21e;
    MISC_RESERVED = 0x21f;
    DISPATCH_ID = 0x220;
    THREADGROUP_ID = 0x221;
    REQ_CTRL = 0x222;
    USER_ACCUM_0 = 0x224;
    USER_ACCUM_1 = 0x225;
    USER_ACCUM_2 = 0x226;
    USER_ACCUM_3 = 0x227;
    PGM_RSRC3 = 0x228;
    DDID_INDEX = 0x229;
    SHADER_CHKSUM = 0x22a;
    STATIC_THREAD_MGMT_SE4 = 0x22b;
    STATIC_THREAD_MGMT_SE5 = 0x22c;
    STATIC_THREAD_MGMT_SE6 = 0x22d;
    STATIC_THREAD_MGMT_SE7 = 0x22e;
    DISPATCH_INTERLEAVE = 0x22f;
    USER_DATA_0 = 0x240;
    USER_DATA_1 = 0x241;
    USER_DATA_2 = 0x242;
    USER_DATA_3 = 0x243;
    USER_DATA_4 = 0x244;
    USER_DATA_5 = 0x245;
    USER_DATA_6 = 0x246;
    USER_DATA_7 = 0x247;
    USER_DATA_8 = 0x248;
    USER_DATA_9 = 0x249;
    USER_DATA_10 = 0x24a;
    USER_DATA_11 = 0x24b;
    USER_DATA_12 = 0x24c;
    USER_DATA_13 = 0x24d;
    USER_DATA_14 = 0x24e;
    USER_DATA_15 = 0x24f;
}

const _: () = {
    assert!(size_of::<DispatchDirect>() == 4 * 4);
    assert!(size_of::<DispatchIndirect>() == 3 * 4);
    assert!(size_of::<LoadShRegIndex>() == 4 * 4);
    let last = COMPUTE_REGISTERS_FIRST as usize + COMPUTE_REGISTERS - 1;
    assert!(ComputeRegister::USER_DATA_15.0 as usize == last);
};
