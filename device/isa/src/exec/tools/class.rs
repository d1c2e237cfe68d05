//! Classes of instructions: which part of a compute unit they occupy, as profiles count them.

use super::touches::bytes_of;
use crate::exec::properties::{Effect, Family, Space, properties};
use crate::inst::Inst;

/// Part of the compute unit that an instruction occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// The vector ALU at its full rate.
    Vector,
    /// The vector ALU's transcendental functions: `v_rcp_*`, `v_rsq_*`, `v_sqrt_*`, `v_exp_*`, `v_log_*`, `v_sin_*`, `v_cos_*`.
    Transcendental,
    /// The vector ALU in double precision, transcendental functions aside.
    Double,
    /// The matrix units: `v_wmma_*`, `v_swmmac_*`, `v_mfma_*`, `v_smfmac_*`.
    Matrix,
    /// The scalar ALU.
    Scalar,
    /// Branches, ends of programs, barriers, messages, hardware registers.
    Control,
    /// Scalar loads, stores and atomics.
    ScalarMemory,
    /// Vector loads of global memory, flat and buffer loads included.
    Load,
    /// Vector stores of global memory.
    Store,
    /// Vector atomics of global memory.
    Atomic,
    /// LDS, and global wave sync.
    Lds,
    /// Private (scratch) memory by its own instructions.
    Private,
    /// Waits, hints and cache control, which the counters of a device do not count.
    Wait,
    /// Instructions that this engine has no semantics for.
    Other,
}

impl Class {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Vector,
        Self::Transcendental,
        Self::Double,
        Self::Matrix,
        Self::Scalar,
        Self::Control,
        Self::ScalarMemory,
        Self::Load,
        Self::Store,
        Self::Atomic,
        Self::Lds,
        Self::Private,
        Self::Wait,
        Self::Other,
    ];

    /// As texts and JSON have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Transcendental => "transcendental",
            Self::Double => "double",
            Self::Matrix => "matrix",
            Self::Scalar => "scalar",
            Self::Control => "control",
            Self::ScalarMemory => "scalar_memory",
            Self::Load => "load",
            Self::Store => "store",
            Self::Atomic => "atomic",
            Self::Lds => "lds",
            Self::Private => "private",
            Self::Wait => "wait",
            Self::Other => "other",
        }
    }

    /// The class of an instruction; of a VOPD that of its X half.
    #[must_use]
    pub fn of(inst: &Inst) -> Self {
        let row = properties(inst.op);
        match row.family {
            Family::Absent => Self::Other,
            Family::Nothing => Self::Wait,
            Family::Scalar
            | Family::ScalarFloat(..)
            | Family::ScalarComparison(..)
            | Family::ExecMask(..)
            | Family::ScalarRelative => Self::Scalar,
            Family::HalfLoop | Family::Control => Self::Control,
            Family::ScalarMemory(_)
            | Family::ScalarStore(_)
            | Family::ScalarAtomic(..)
            | Family::NarrowScalarMemory(_) => Self::ScalarMemory,
            Family::Matrix => Self::Matrix,
            family if family.is_vector() => Self::of_vector(inst.op.mnemonic()),
            Family::Lds(_) | Family::LdsTransposed(_) | Family::LdsExchange(_) | Family::GlobalWaveSync => {
                Self::Lds
            }
            _ => match row.memory {
                Some((Space::Scratch, _)) => Self::Private,
                Some((_, Effect::Load)) => Self::Load,
                Some((_, Effect::Store)) => Self::Store,
                Some((_, Effect::Atomic)) => Self::Atomic,
                None => Self::Other,
            },
        }
    }

    fn of_vector(mnemonic: &str) -> Self {
        let mnemonic = mnemonic.to_ascii_lowercase();
        let functions = ["v_rcp_", "v_rsq_", "v_sqrt_", "v_exp_", "v_log_", "v_sin_", "v_cos_"];
        if functions.iter().any(|function| mnemonic.starts_with(function)) {
            Self::Transcendental
        } else if mnemonic.contains("_f64") {
            Self::Double
        } else {
            Self::Vector
        }
    }

    /// Returns true if instructions of the class are executed lane by lane.
    #[must_use]
    pub const fn has_lanes(self) -> bool {
        !matches!(self, Self::Scalar | Self::Control | Self::ScalarMemory | Self::Wait | Self::Other)
    }
}

/// Bytes that one execution of a scalar load, store or atomic moves; 0 of other instructions.
#[must_use]
pub fn scalar_bytes(inst: &Inst) -> u32 {
    match properties(inst.op).family {
        Family::ScalarMemory(dwords) | Family::ScalarStore(dwords) => dwords * 4,
        Family::ScalarAtomic(_, bits) => bits / 8,
        Family::NarrowScalarMemory(part) => part.bytes,
        _ => 0,
    }
}

/// Bytes that one lane of an instruction for private memory moves; 0 of other instructions.
#[must_use]
pub fn private_bytes(inst: &Inst) -> u32 {
    let row = properties(inst.op);
    match (row.family, row.memory) {
        (Family::Flat(moves) | Family::FlatToLds(moves), Some((Space::Scratch, _))) => bytes_of(moves),
        _ => 0,
    }
}

/// Returns true if the instruction ends its basic block.
#[must_use]
pub fn ends_block(inst: &Inst, pc: u64) -> bool {
    inst.branch_target(pc).is_some() || properties(inst.op).ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decode_for;
    use crate::inst::{Arch, WaveSize};

    #[test]
    fn classes_have_their_numbers_and_names() {
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, number);
            let camel = class.name().split('_').map(|word| word[..1].to_uppercase() + &word[1..]);
            assert_eq!(format!("{class:?}"), camel.collect::<String>());
        }
    }

    #[test]
    fn instructions_have_classes() {
        let of = |words: &[u32]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let inst = decode_for(Arch::Gfx1100, WaveSize::Wave32, &bytes).unwrap();
            (Class::of(&inst), ends_block(&inst, 0))
        };
        // s_endpgm, s_branch, s_waitcnt lgkmcnt(0), v_mov_b32 v1, 0, v_rcp_f32 v1, v1
        assert_eq!(of(&[0xbfb0_0000]), (Class::Control, true));
        assert_eq!(of(&[0xbfa0_0000]), (Class::Control, true));
        assert_eq!(of(&[0xbf89_fc07]), (Class::Wait, false));
        assert_eq!(of(&[0x7e02_0280]), (Class::Vector, false));
        assert_eq!(of(&[0x7e02_5501]), (Class::Transcendental, false));
        // global_load_b32 v2, v1, s[4:5]; global_store_b32 v1, v0, s[4:5]; ds_store_b32 v1, v0
        assert_eq!(of(&[0xdc52_0000, 0x0204_0001]), (Class::Load, false));
        assert_eq!(of(&[0xdc6a_0000, 0x0004_0001]), (Class::Store, false));
        assert_eq!(of(&[0xd834_0000, 0x0000_0001]), (Class::Lds, false));
    }

    #[test]
    fn bytes_beside_global_memory_and_lds_are_known() {
        let of = |words: [u32; 2]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let inst = decode_for(Arch::Gfx1100, WaveSize::Wave32, &bytes).unwrap();
            (scalar_bytes(&inst), private_bytes(&inst))
        };
        // s_load_b32 s0, s[0:1], null; s_load_b512 s[0:15], s[0:1], null
        assert_eq!(of([0xf400_0000, 0xf800_0000]), (4, 0));
        assert_eq!(of([0xf410_0000, 0xf800_0000]), (64, 0));
        // scratch_load_b64 v[0:1], off, s0; scratch_store_b8 off, v0, s0; global_load_b32 v2, v1, s[4:5]
        assert_eq!(of([0xdc55_0000, 0x0000_0000]), (0, 8));
        assert_eq!(of([0xdc61_0000, 0x0000_0000]), (0, 1));
        assert_eq!(of([0xdc52_0000, 0x0204_0001]), (0, 0));
    }
}
