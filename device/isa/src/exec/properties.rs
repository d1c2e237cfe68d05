//! Properties of an operation besides its definition: one row per operation, one column per question.
//!
//! Lowering, the exception rules and all other parts that need to know something about an operation ask this table,
//! and not the operation's mnemonic. The rows are in files by kind of instruction; the table is put together, and an
//! operation that is in it twice refused, when the crate is compiled.

mod compare;
mod images;
mod matrix;
mod memory;
mod scalar;
mod synonyms;
#[cfg(test)]
mod tests;
mod vector;

use crate::exec::memory::atomic::Function;
use crate::exec::memory::ds::narrow::Narrow;
use crate::exec::vector::exceptions::Rule;
use crate::exec::vector::op::Entry;
use crate::exec::{
    image,
    memory::{ds, ds_exchange, mubuf},
    scalar::exec_mask,
    vector::cmp,
};
use crate::inst::{MemFields, Op};
use crate::lanes::BackendKind;

/// Definitions of one file of vector operations.
pub(crate) type Definitions = fn(Op, BackendKind) -> Option<Entry>;

/// Part of lowering that handles an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Family {
    /// No semantics: exports, interpolation.
    Absent,
    /// Loads, stores, atomics and samples of images; those without semantics are refused by name.
    Image(image::Operation),
    /// Nothing to do in an engine that finishes each instruction before the next: waits, hints, cache control.
    Nothing,
    /// A scalar operation with a definition.
    Scalar,
    /// A scalar operation on floats, which is this vector operation on scalar registers.
    ScalarFloat(Op, Definitions),
    /// A comparison of floats in scalar registers: type of the operands, and outcomes for which it is true.
    ScalarComparison(cmp::Operands, u8),
    /// `s_*_saveexec_*` and `s_*_wrexec_*`, of masks of this many bits.
    ExecMask(exec_mask::Function, exec_mask::Result, u32),
    /// A scalar move relative to `M0`.
    ScalarRelative,
    /// The loop over a wave's halves.
    HalfLoop,
    /// Branches, messages, hardware registers.
    Control,
    /// Scalar loads of this many dwords.
    ScalarMemory(u32),
    /// Scalar stores of this many dwords.
    ScalarStore(u32),
    /// Scalar atomics: a function of this many bits.
    ScalarAtomic(Function, u32),
    /// Scalar loads of less than a dword.
    NarrowScalarMemory(Narrow),
    /// A vector operation with a definition in one of the tables.
    Vector(Definitions),
    /// A vector operation with a lane mask beside its registers.
    Carry,
    /// A comparison: type of the operands, and outcomes for which it is true.
    Comparison(cmp::Operands, u8),
    /// Two halves of a register at once.
    Packed,
    /// Two singles, or registers, at once.
    Pair,
    /// A vector move relative to `M0`.
    Relative,
    /// Another operation that reads or writes vector registers in a way of its own.
    Special,
    /// A matrix multiplication.
    Matrix,
    /// LDS.
    Lds(ds::Operation),
    /// LDS addressed by lane, or exchanges beyond the ordinary atomics.
    LdsExchange(ds_exchange::Operation),
    /// Global wave sync.
    GlobalWaveSync,
    /// FLAT, GLOBAL, SCRATCH.
    Flat(Moves),
    /// GLOBAL and SCRATCH, from memory to LDS.
    FlatToLds(Moves),
    /// GLOBAL, of this many dwords for each lane, which then change places.
    Transposed(u32),
    /// LDS, of elements of this many bits, which then change places.
    LdsTransposed(u32),
    /// GLOBAL and SCRATCH, of the registers that `M0` names of 32.
    RegisterBlock,
    /// Global memory addressed by lane.
    ByLane,
    /// MUBUF, MTBUF.
    Buffer(mubuf::Operation),
}

impl Family {
    /// Returns true if instructions of the family are those of the vector ALU, with DPP and modifiers.
    pub(crate) fn is_vector(self) -> bool {
        matches!(
            self,
            Family::Vector(_)
                | Family::Carry
                | Family::Comparison(..)
                | Family::Packed
                | Family::Pair
                | Family::Relative
                | Family::Special
                | Family::Matrix
        )
    }
}

/// Memory that an operation accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    /// By scalar address, through the scalar cache.
    Scalar,
    /// As [`Space::Scalar`], through a buffer descriptor.
    ScalarBuffer,
    /// As [`Space::Scalar`], with SOFFSET in units of 64 bytes.
    ScalarScratch,
    /// Whichever the address says.
    Flat,
    Global,
    /// Private memory of a lane.
    Scratch,
    /// Through a buffer descriptor.
    Buffer,
    /// Through an image descriptor.
    Image,
    Lds,
}

/// Effect of an operation on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Load,
    Store,
    /// Read-modify-write.
    Atomic,
}

/// Data that an operation moves between memory and vector registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Moves {
    /// This many dwords.
    Dwords(u32),
    /// 8 or 16 bits.
    Part(Narrow),
    /// A function of this many bits of memory and of registers.
    Atomic(Function, u32),
}

/// Condition under which an operation looks for writes of waves of other workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Never,
    /// If it is to bypass caches (`GLC`, `DLC`), or loads what caches are not to keep (`SLC`, `NT`).
    Coherently,
    /// Always: the operation invalidates caches.
    Always,
}

/// An operation's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Properties {
    pub(crate) family: Family,
    /// Rule by which it raises float exceptions, if it does.
    pub(crate) raises: Option<Rule>,
    /// Memory that it accesses, and its effect on it.
    pub(crate) memory: Option<(Space, Effect)>,
    pub(crate) looks: Looks,
    /// Execution never continues after it.
    pub(crate) ends: bool,
    /// Its operands of 64 bits are signed, and so are literals among them.
    pub(crate) signed: bool,
    /// Its 16-bit constant is zero-extended.
    pub(crate) zero_extends: bool,
    /// Its sources after the first are integers, although the first is a float.
    pub(crate) integers: bool,
}

/// Operations of newer architectures that are older ones by another name. They have the older ones' rows.
const SYNONYMS: &[(Op, Op)] = &[
    (Op::S_ADD_CO_CI_U32, Op::S_ADDC_U32),
    (Op::S_ADD_CO_I32, Op::S_ADD_I32),
    (Op::S_ADD_CO_U32, Op::S_ADD_U32),
    (Op::S_ADDK_CO_I32, Op::S_ADDK_I32),
    (Op::S_SUB_CO_CI_U32, Op::S_SUBB_U32),
    (Op::S_SUB_CO_I32, Op::S_SUB_I32),
    (Op::S_SUB_CO_U32, Op::S_SUB_U32),
    (Op::V_MAD_CO_I64_I32, Op::V_MAD_I64_I32),
    (Op::V_MAD_CO_U64_U32, Op::V_MAD_U64_U32),
];

type Row = (Op, Properties);

const fn of(family: Family) -> Properties {
    Properties {
        family,
        raises: None,
        memory: None,
        looks: Looks::Never,
        ends: false,
        signed: false,
        zero_extends: false,
        integers: false,
    }
}

impl Properties {
    /// Returns true if an instruction with these fields looks for writes of other waves.
    pub(crate) fn looks(&self, fields: &MemFields) -> bool {
        match self.looks {
            Looks::Never => false,
            // RCCL's kernels poll by loads that are non-temporal and no more.
            Looks::Coherently => {
                let loads = matches!(self.memory, Some((_, Effect::Load)));
                fields.is_coherent() || loads && fields.is_non_temporal()
            }
            Looks::Always => true,
        }
    }

    const fn raises(self, rule: Rule) -> Self {
        Properties { raises: Some(rule), ..self }
    }

    const fn memory(self, space: Space, effect: Effect) -> Self {
        Properties { memory: Some((space, effect)), ..self }
    }

    const fn coherent(self) -> Self {
        Properties { looks: Looks::Coherently, ..self }
    }

    const fn invalidates(self) -> Self {
        Properties { looks: Looks::Always, ..self }
    }

    const fn ends(self) -> Self {
        Properties { ends: true, ..self }
    }

    const fn signed(self) -> Self {
        Properties { signed: true, ..self }
    }

    const fn zero_extends(self) -> Self {
        Properties { zero_extends: true, ..self }
    }

    const fn integers(self) -> Self {
        Properties { integers: true, ..self }
    }
}

const fn with_synonyms(mut table: [Properties; Op::COUNT], synonyms: &[(Op, Op)]) -> [Properties; Op::COUNT] {
    let mut synonym = 0;
    while synonym < synonyms.len() {
        let (op, other) = synonyms[synonym];
        assert!(matches!(table[op as usize].family, Family::Absent), "a synonym has a row of its own");
        table[op as usize] = table[other as usize];
        synonym += 1;
    }
    table
}

static TABLE: [Properties; Op::COUNT] =
    table(&[scalar::ROWS, vector::ROWS, matrix::ROWS, compare::ROWS, memory::ROWS, images::ROWS]);

const fn table(files: &[&[Row]]) -> [Properties; Op::COUNT] {
    let mut table = [of(Family::Absent); Op::COUNT];
    // Operations are in the order of their mnemonics.
    let mut at = Op::IMAGE_ATOMIC_ADD as usize;
    while at <= Op::IMAGE_STORE_PCK as usize {
        table[at] = of(Family::Image(image::Operation::Absent));
        at += 1;
    }
    let mut listed = [false; Op::COUNT];
    let mut file = 0;
    while file < files.len() {
        let rows = files[file];
        let mut row = 0;
        while row < rows.len() {
            let (op, properties) = rows[row];
            assert!(!listed[op as usize], "an operation has two rows");
            listed[op as usize] = true;
            table[op as usize] = properties;
            row += 1;
        }
        file += 1;
    }
    with_synonyms(with_synonyms(table, SYNONYMS), synonyms::GFX9)
}

static MEANINGS: [Op; Op::COUNT] = {
    let mut meanings = *Op::ALL;
    let mut synonym = 0;
    while synonym < SYNONYMS.len() + synonyms::GFX9.len() {
        let (op, other) = if synonym < SYNONYMS.len() {
            SYNONYMS[synonym]
        } else {
            synonyms::GFX9[synonym - SYNONYMS.len()]
        };
        meanings[op as usize] = other;
        synonym += 1;
    }
    meanings
};

/// The operation that definitions have this one under.
pub(crate) fn meaning(op: Op) -> Op {
    MEANINGS[op as usize]
}

/// Returns the properties of an operation.
pub(crate) fn properties(op: Op) -> &'static Properties {
    &TABLE[op as usize]
}
