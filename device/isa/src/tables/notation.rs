//! Names in assembler texts and errors that the target description has no tables of: encodings, hardware registers,
//! messages.
//!
//! Encodings: leading bits of the formats, LLVM `SIInstrFormats.td` and the files of each format. Names: LLVM 22's
//! `AMDGPUAsmUtils.cpp` and `SIDefines.h`.

use crate::inst::Arch;

/// An encoding by its leading bits.
#[derive(Debug)]
pub(crate) struct Encoding {
    /// Number of leading bits of the first dword that select it, and their value.
    pub(crate) bits: u32,
    pub(crate) value: u32,
    /// As the manuals write it.
    pub(crate) name: &'static str,
    /// Its shortest length in bytes.
    pub(crate) bytes: usize,
}

/// The names of one architecture.
#[derive(Debug)]
pub(crate) struct Notation {
    /// The first that matches counts.
    encodings: &'static [&'static [Encoding]],
    /// Hardware registers by number.
    hardware_registers: &'static [(u8, &'static str)],
    /// Messages of `s_sendmsg` and `s_sendmsg_rtn` by number.
    messages: &'static [(u8, &'static str)],
    /// Counters of `s_waitcnt`: name, first bit of the low part and of the high part, and the number of bits of each.
    pub(crate) wait_counters: [(&'static str, [u8; 4]); 3],
    /// True if `vmcnt` counts stores as well.
    pub(crate) stores_count: bool,
    /// True if scalar loads have a counter of their own, `kmcnt`.
    pub(crate) scalar_counter: bool,
    /// Style of notations that changed with GFX10.
    pub(crate) style: Style,
}

/// Notation of DPP permutations, messages and buffer formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Permutations across rows, messages with operations, a data and a number format.
    Gfx9,
    /// Permutations within rows, messages alone, one format.
    Gfx10,
}

impl Notation {
    /// The names of an architecture.
    pub(crate) fn of(arch: Arch) -> &'static Notation {
        match arch {
            Arch::Gfx942 | Arch::Gfx950 => &GFX9,
            Arch::Gfx1100 | Arch::Gfx1151 => &GFX11,
            Arch::Gfx1201 => &GFX12,
        }
    }

    /// Name of the encoding the leading bits of `word` select, and its shortest length in bytes.
    pub(crate) fn encoding(&self, word: u32) -> (&'static str, usize) {
        let found = self
            .encodings
            .iter()
            .copied()
            .flatten()
            .find(|encoding| word >> (32 - encoding.bits) == encoding.value);
        found.map_or(("reserved", 4), |encoding| (encoding.name, encoding.bytes))
    }

    /// Name of a hardware register.
    pub(crate) fn hardware_register(&self, number: u32) -> Option<&'static str> {
        named(self.hardware_registers, number)
    }

    /// Name of a message.
    pub(crate) fn message(&self, number: u32) -> Option<&'static str> {
        named(self.messages, number)
    }
}

fn named(names: &[(u8, &'static str)], number: u32) -> Option<&'static str> {
    names.iter().find(|(known, _)| u32::from(*known) == number).map(|(_, name)| *name)
}

const fn encoding(bits: u32, value: u32, name: &'static str, bytes: usize) -> Encoding {
    Encoding { bits, value, name, bytes }
}

/// Counters of GFX11, which GFX12 does not have.
const GFX11_COUNTERS: [(&str, [u8; 4]); 3] =
    [("vmcnt", [10, 6, 0, 0]), ("expcnt", [0, 3, 0, 0]), ("lgkmcnt", [4, 6, 0, 0])];

static GFX9: Notation = Notation {
    encodings: &[&[
        encoding(9, 0b1_0111_1101, "SOP1", 4),
        encoding(9, 0b1_0111_1110, "SOPC", 4),
        encoding(9, 0b1_0111_1111, "SOPP", 4),
        encoding(7, 0x7c >> 1, "VOPC", 4),
        encoding(7, 0x7e >> 1, "VOP1", 4),
        encoding(1, 0, "VOP2", 4),
        encoding(4, 0xb, "SOPK", 4),
        encoding(2, 0x80 >> 6, "SOP2", 4),
        encoding(6, 0xc0 >> 2, "SMEM", 8),
        encoding(6, 0xc4 >> 2, "EXP", 8),
        encoding(9, 0b1_1010_0111, "VOP3P", 8),
        encoding(6, 0xd0 >> 2, "VOP3", 8),
        encoding(6, 0xd4 >> 2, "VINTRP", 4),
        encoding(6, 0xd8 >> 2, "DS", 8),
        encoding(6, 0xdc >> 2, "FLAT", 8),
        encoding(6, 0xe0 >> 2, "MUBUF", 8),
        encoding(6, 0xe8 >> 2, "MTBUF", 8),
        encoding(6, 0xf0 >> 2, "MIMG", 8),
    ]],
    hardware_registers: &[
        (1, "HW_REG_MODE"),
        (2, "HW_REG_STATUS"),
        (3, "HW_REG_TRAPSTS"),
        (4, "HW_REG_HW_ID"),
        (5, "HW_REG_GPR_ALLOC"),
        (6, "HW_REG_LDS_ALLOC"),
        (7, "HW_REG_IB_STS"),
        (15, "HW_REG_SH_MEM_BASES"),
        (16, "HW_REG_TBA_LO"),
        (17, "HW_REG_TBA_HI"),
        (18, "HW_REG_TMA_LO"),
        (19, "HW_REG_TMA_HI"),
        (20, "HW_REG_XCC_ID"),
        (21, "HW_REG_SQ_PERF_SNAPSHOT_DATA"),
        (22, "HW_REG_SQ_PERF_SNAPSHOT_DATA1"),
        (23, "HW_REG_SQ_PERF_SNAPSHOT_PC_LO"),
        (24, "HW_REG_SQ_PERF_SNAPSHOT_PC_HI"),
    ],
    messages: &[
        (1, "MSG_INTERRUPT"),
        (2, "MSG_GS"),
        (3, "MSG_GS_DONE"),
        (4, "MSG_SAVEWAVE"),
        (5, "MSG_STALL_WAVE_GEN"),
        (6, "MSG_HALT_WAVES"),
        (7, "MSG_ORDERED_PS_DONE"),
        (8, "MSG_EARLY_PRIM_DEALLOC"),
        (9, "MSG_GS_ALLOC_REQ"),
        (10, "MSG_GET_DOORBELL"),
        (15, "MSG_SYSMSG"),
    ],
    wait_counters: [("vmcnt", [0, 4, 14, 2]), ("expcnt", [4, 3, 0, 0]), ("lgkmcnt", [8, 4, 0, 0])],
    stores_count: true,
    scalar_counter: false,
    style: Style::Gfx9,
};

/// Encodings of both GFX11 and GFX12.
const COMMON: &[Encoding] = &[
    encoding(9, 0b1_0111_1101, "SOP1", 4),
    encoding(9, 0b1_0111_1110, "SOPC", 4),
    encoding(9, 0b1_0111_1111, "SOPP", 4),
    encoding(7, 0x7c >> 1, "VOPC", 4),
    encoding(7, 0x7e >> 1, "VOP1", 4),
    encoding(1, 0, "VOP2", 4),
    encoding(4, 0xb, "SOPK", 4),
    encoding(2, 0x80 >> 6, "SOP2", 4),
    encoding(6, 0xc8 >> 2, "VOPD", 8),
    encoding(8, 0xcc, "VOP3P", 8),
    encoding(8, 0xcd, "VINTERP", 8),
    encoding(6, 0xd4 >> 2, "VOP3", 8),
    encoding(6, 0xd8 >> 2, "DS", 8),
    encoding(6, 0xf4 >> 2, "SMEM", 8),
];

static GFX11: Notation = Notation {
    encodings: &[
        COMMON,
        &[
            encoding(8, 0xce, "LDSDIR", 4),
            encoding(6, 0xdc >> 2, "FLAT", 8),
            encoding(6, 0xe0 >> 2, "MUBUF", 8),
            encoding(6, 0xe8 >> 2, "MTBUF", 8),
            encoding(6, 0xf0 >> 2, "MIMG", 8),
            encoding(6, 0xf8 >> 2, "EXP", 8),
        ],
    ],
    hardware_registers: &[
        (1, "HW_REG_MODE"),
        (2, "HW_REG_STATUS"),
        (3, "HW_REG_TRAPSTS"),
        (5, "HW_REG_GPR_ALLOC"),
        (6, "HW_REG_LDS_ALLOC"),
        (7, "HW_REG_IB_STS"),
        (15, "HW_REG_SH_MEM_BASES"),
        (18, "HW_REG_PERF_SNAPSHOT_PC_LO"),
        (19, "HW_REG_PERF_SNAPSHOT_PC_HI"),
        (20, "HW_REG_FLAT_SCR_LO"),
        (21, "HW_REG_FLAT_SCR_HI"),
        (23, "HW_REG_HW_ID1"),
        (24, "HW_REG_HW_ID2"),
        (27, "HW_REG_PERF_SNAPSHOT_DATA"),
        (29, "HW_REG_SHADER_CYCLES"),
    ],
    messages: &[
        (1, "MSG_INTERRUPT"),
        (2, "MSG_HS_TESSFACTOR"),
        (3, "MSG_DEALLOC_VGPRS"),
        (5, "MSG_STALL_WAVE_GEN"),
        (6, "MSG_HALT_WAVES"),
        (9, "MSG_GS_ALLOC_REQ"),
        (128, "MSG_RTN_GET_DOORBELL"),
        (129, "MSG_RTN_GET_DDID"),
        (130, "MSG_RTN_GET_TMA"),
        (131, "MSG_RTN_GET_REALTIME"),
        (132, "MSG_RTN_SAVE_WAVE"),
        (133, "MSG_RTN_GET_TBA"),
        (134, "MSG_RTN_GET_TBA_TO_PC"),
    ],
    wait_counters: GFX11_COUNTERS,
    stores_count: false,
    scalar_counter: false,
    style: Style::Gfx10,
};

static GFX12: Notation = Notation {
    encodings: &[
        COMMON,
        &[
            encoding(8, 0xce, "VDSDIR", 4),
            encoding(6, 0xc4 >> 2, "VBUFFER", 12),
            encoding(6, 0xd0 >> 2, "VIMAGE", 12),
            encoding(6, 0xe4 >> 2, "VSAMPLE", 12),
            encoding(8, 0xec, "VFLAT", 12),
            encoding(8, 0xed, "VSCRATCH", 12),
            encoding(8, 0xee, "VGLOBAL", 12),
            encoding(6, 0xf8 >> 2, "VEXPORT", 8),
        ],
    ],
    hardware_registers: &[
        (1, "HW_REG_WAVE_MODE"),
        (2, "HW_REG_WAVE_STATUS"),
        (4, "HW_REG_WAVE_STATE_PRIV"),
        (5, "HW_REG_WAVE_GPR_ALLOC"),
        (6, "HW_REG_WAVE_LDS_ALLOC"),
        (7, "HW_REG_IB_STS"),
        (10, "HW_REG_PERF_SNAPSHOT_DATA"),
        (11, "HW_REG_PERF_SNAPSHOT_PC_LO"),
        (12, "HW_REG_PERF_SNAPSHOT_PC_HI"),
        (15, "HW_REG_PERF_SNAPSHOT_DATA1"),
        (16, "HW_REG_PERF_SNAPSHOT_DATA2"),
        (17, "HW_REG_WAVE_EXCP_FLAG_PRIV"),
        (18, "HW_REG_WAVE_EXCP_FLAG_USER"),
        (19, "HW_REG_WAVE_TRAP_CTRL"),
        (20, "HW_REG_WAVE_SCRATCH_BASE_LO"),
        (21, "HW_REG_WAVE_SCRATCH_BASE_HI"),
        (23, "HW_REG_WAVE_HW_ID1"),
        (24, "HW_REG_WAVE_HW_ID2"),
        (26, "HW_REG_WAVE_SCHED_MODE"),
        (29, "HW_REG_SHADER_CYCLES_LO"),
        (30, "HW_REG_SHADER_CYCLES_HI"),
        (31, "HW_REG_WAVE_DVGPR_ALLOC_LO"),
        (32, "HW_REG_WAVE_DVGPR_ALLOC_HI"),
    ],
    messages: &[
        (1, "MSG_INTERRUPT"),
        (2, "MSG_HS_TESSFACTOR"),
        (3, "MSG_DEALLOC_VGPRS"),
        (9, "MSG_GS_ALLOC_REQ"),
        (128, "MSG_RTN_GET_DOORBELL"),
        (129, "MSG_RTN_GET_DDID"),
        (130, "MSG_RTN_GET_TMA"),
        (131, "MSG_RTN_GET_REALTIME"),
        (132, "MSG_RTN_SAVE_WAVE"),
        (133, "MSG_RTN_GET_TBA"),
        (134, "MSG_RTN_GET_TBA_TO_PC"),
        (135, "MSG_RTN_GET_SE_AID_ID"),
    ],
    wait_counters: GFX11_COUNTERS,
    stores_count: false,
    scalar_counter: true,
    style: Style::Gfx10,
};
