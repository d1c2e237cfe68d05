//! Lowering: decoded instructions to handlers with their operands resolved.

mod barrier;
mod buffer;
mod image;
mod matrix;
mod memory;
mod numbers;
mod operand;
mod permutation;
mod prepare;
mod rare;
mod scalar;
mod shared;
mod special;
#[cfg(test)]
mod tests;
mod vector;

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::OnceLock;

use super::FaultCause;
use super::di::{Di, Handler, Role, Source};
use super::properties::{Family, properties};
use crate::decode::{decode_for, unreadable};
use crate::disasm::Disassembly;
use crate::exec::code_cache::{Key, MAX_REGION_BYTES, Region};
use crate::exec::form::{Form, When};
use crate::exec::scalar::control;
use crate::exec::vector::exceptions;
use crate::inst::{Arch, Format, Inst, Operand, WaveSize};
use crate::lanes::{Backend, BackendKind};
use crate::mem::{Apertures, Global};
use crate::registers::RegisterFile;
use crate::wave::trap::EXCP_EN;

/// An operation or operand the engine has no semantics for.
struct Unsupported;

type Lowered = Result<(), Unsupported>;

/// Bytes fetched at a time while a region grows.
const FETCH: usize = 4096;

/// Lowers the code at `key.pc`, as far as it hangs together.
pub(crate) fn region(
    arch: Arch,
    backend: Backend,
    key: Key,
    apertures: Apertures,
    global: &mut Global<'_>,
) -> Region {
    let mut lowering = Lowering::new(arch, backend.kind(), key, apertures);
    lowering.exact_matrices = backend.has_exact_matrices();
    let mut bytes = Vec::new();
    let end = lowering.all(&mut bytes, global);
    lowering.at = end;
    // A wave that gets here leaves the region: for the code after it, or for the fault that ended it.
    let leave = lowering.address(end);
    lowering.counted = false;
    lowering.role = Role::Step;
    lowering.jump(control::branch, Form::Branch(When::Always), leave);
    bytes.truncate(end as usize * 4);
    lowering.resolve();
    Region {
        start: key.pc,
        bytes: bytes.into_boxed_slice(),
        code: lowering.code.into_boxed_slice(),
        roles: lowering.roles.into_boxed_slice(),
        forms: lowering.forms.into_boxed_slice(),
        tier: backend.tier(),
        kind: backend.kind(),
        counts: backend.counts(),
        compiler: None,
        kept: None,
        heat: AtomicU32::new(0),
        compiles: AtomicBool::new(false),
        looked_for: AtomicU64::new(0),
        charge: None,
        compiled: OnceLock::new(),
        offsets: lowering.offsets.into_boxed_slice(),
        faults: lowering.faults.into_boxed_slice(),
        index: lowering.index.into_boxed_slice(),
        vgprs: lowering.vgprs,
        highest_at: lowering.highest_at,
        names_trapsts: lowering.names_trapsts,
        is_cut: lowering.is_cut,
        arch,
        key,
    }
}

/// Returns true if an instruction has semantics, operands, modifiers and all, under `mode` in a wave of `wave` lanes.
pub(crate) fn has_semantics(inst: &Inst, arch: Arch, wave: WaveSize, mode: u32) -> bool {
    alone(inst, arch, wave, mode).is_ok()
}

/// An instruction lowered by itself.
fn alone(inst: &Inst, arch: Arch, wave: WaveSize, mode: u32) -> Result<Lowering, Unsupported> {
    let mut lowering = Lowering::of_nothing(arch, wave, mode);
    lowering.begin(u32::from(inst.size) / 4);
    lowering.lower(inst)?;
    Ok(lowering)
}

/// Elements of code that lies by itself, and their forms.
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) fn for_test(arch: Arch, wave: WaveSize, bytes: &[u8]) -> (Vec<Di>, Vec<Form>) {
    let mut lowering = Lowering::of_nothing(arch, wave, crate::wave::Wave::DEFAULT_MODE);
    while let Ok(inst) = decode_for(arch, wave, bytes.get(lowering.at as usize * 4..).unwrap_or_default()) {
        lowering.begin(u32::from(inst.size) / 4);
        lowering.one(&inst, bytes);
        lowering.at = lowering.next;
    }
    let end = lowering.address(lowering.at);
    lowering.jump(control::branch, Form::Branch(When::Always), end);
    lowering.resolve();
    (lowering.code, lowering.forms)
}

/// A region being lowered.
struct Lowering {
    arch: Arch,
    file: &'static RegisterFile,
    wave: WaveSize,
    backend: BackendKind,
    /// Sums of matrix instructions are those of cards.
    exact_matrices: bool,
    apertures: Apertures,
    halves: u32,
    mode: u32,
    start: u64,
    /// Dword offset of the instruction being lowered.
    at: u32,
    /// Dword offset of the one after it.
    next: u32,
    /// True if the next element emitted counts as an instruction.
    counted: bool,
    /// Operation that the next element emitted executes.
    role: Role,
    /// Form of the next element emitted, for compiled code.
    form: Form,
    code: Vec<Di>,
    roles: Vec<Role>,
    forms: Vec<Form>,
    offsets: Vec<u32>,
    faults: Vec<FaultCause>,
    index: Vec<u32>,
    /// Elements that jump, and the address they jump to.
    branches: Vec<(usize, u64)>,
    /// Furthest dword offset a branch goes to.
    furthest: u32,
    vgprs: u16,
    highest_at: u32,
    names_trapsts: bool,
    is_cut: bool,
    /// First vector register the halves share; 0 when they share none.
    shared_from: u16,
    /// First accumulation register; 0 when there are none.
    accumulators_from: u16,
    /// Vector registers that the wave has now, if it allocates them; else 0.
    allocated: u16,
    /// A register beyond those of its kind that the instruction being lowered names, and how many there are.
    beyond: Option<(u16, u16)>,
    /// Vector registers the instruction being lowered writes.
    destinations: [Operand; 2],
    /// Registers among them that the halves share, from the first to before the last.
    shared_writes: Option<(u16, u16)>,
    /// True if the instruction being lowered writes `FLAT_SCRATCH`.
    moves_scratch: bool,
    /// True if the instruction being lowered records exceptions.
    watches: bool,
    /// True if sources of the instruction being lowered that name EXEC are read from a copy.
    copies_exec: bool,
}

impl Lowering {
    /// Of code that lies by itself; all registers of a wave that may have two kinds are of the first.
    fn of_nothing(arch: Arch, wave: WaveSize, mode: u32) -> Self {
        let halves = if wave == WaveSize::Wave32 { 1 } else { 2 };
        let second_from =
            if RegisterFile::of(arch).unified.is_some() { RegisterFile::of(arch).vgprs } else { 0 };
        let key = Key { pc: 0, halves, mode, second_from, allocated: 0 };
        Self::new(arch, BackendKind::Portable, key, Apertures::default())
    }

    fn new(arch: Arch, backend: BackendKind, key: Key, apertures: Apertures) -> Self {
        Lowering {
            arch,
            file: RegisterFile::of(arch),
            wave: if key.halves == 1 { WaveSize::Wave32 } else { WaveSize::Wave64 },
            backend,
            exact_matrices: false,
            apertures,
            halves: key.halves,
            mode: key.mode,
            start: key.pc,
            at: 0,
            next: 0,
            counted: true,
            role: Role::Step,
            form: Form::Call,
            code: Vec::new(),
            roles: Vec::new(),
            forms: Vec::new(),
            offsets: Vec::new(),
            faults: Vec::new(),
            index: Vec::new(),
            branches: Vec::new(),
            furthest: 0,
            vgprs: 0,
            highest_at: 0,
            names_trapsts: false,
            is_cut: false,
            shared_from: if RegisterFile::of(arch).unified.is_some() { 0 } else { key.second_from },
            accumulators_from: if RegisterFile::of(arch).unified.is_some() { key.second_from } else { 0 },
            allocated: key.allocated,
            beyond: None,
            destinations: [Operand::None; 2],
            shared_writes: None,
            moves_scratch: false,
            watches: false,
            copies_exec: false,
        }
    }

    /// Lowers instructions until the code ends; the dword offset where it does.
    fn all(&mut self, bytes: &mut Vec<u8>, global: &mut Global<'_>) -> u32 {
        let mut blocked = None;
        loop {
            let position = self.at as usize * 4;
            // Room for the longest instruction, or all there is.
            while blocked.is_none() && bytes.len() < position + 20 && bytes.len() < MAX_REGION_BYTES {
                let old = bytes.len();
                bytes.resize(old + FETCH, 0);
                let (read, fault) = global.fetch(self.address_at(old), &mut bytes[old..]);
                bytes.truncate(old + read);
                blocked = fault;
            }
            let rest = bytes.get(position..).unwrap_or_default();
            if rest.len() < 4 {
                if let Some(fault) = blocked {
                    self.is_cut = true;
                    self.begin(1);
                    self.raise(FaultCause::Memory { fault, lanes: 0 });
                    return self.at;
                }
                return self.at;
            }
            let going_on = match decode_for(self.arch, self.wave, rest) {
                Ok(inst) => {
                    self.begin(u32::from(inst.size) / 4);
                    self.one(&inst, rest);
                    !properties(inst.op).ends
                }
                Err(error) => {
                    self.begin(unreadable(self.arch, rest));
                    let bytes = rest[..rest.len().min(8)].to_vec();
                    self.raise(FaultCause::IllegalInstruction { bytes, text: error.to_string() });
                    false
                }
            };
            self.at = self.next;
            if !going_on && self.furthest < self.at || self.at as usize * 4 >= MAX_REGION_BYTES {
                return self.at;
            }
        }
    }

    /// Address of a byte offset.
    fn address_at(&self, offset: usize) -> u64 {
        self.start.wrapping_add(offset as u64)
    }

    /// Address of a dword offset.
    fn address(&self, offset: u32) -> u64 {
        self.start.wrapping_add(u64::from(offset) * 4)
    }

    /// Starts an instruction of `dwords`.
    fn begin(&mut self, dwords: u32) {
        let dwords = dwords.max(1);
        self.next = self.at + dwords;
        self.counted = true;
        self.index.push(self.code.len() as u32);
        for _ in 1..dwords {
            self.index.push(u32::MAX);
        }
    }

    /// Lowers one instruction, or makes it raise a fault.
    fn one(&mut self, inst: &Inst, bytes: &[u8]) {
        self.form = Form::Call;
        let (elements, branches) = (self.code.len(), self.branches.len());
        let (vgprs, highest_at) = (self.vgprs, self.highest_at);
        (self.watches, self.copies_exec, self.beyond) = (false, false, None);
        self.moves_scratch = false;
        let lowered = self.lower(inst).and_then(|()| self.take_scratch(elements));
        if lowered.is_ok() && self.watches && self.mode & EXCP_EN != 0 {
            self.emit_extra(Di::new(exceptions::check));
        }
        if lowered.is_err() {
            self.code.truncate(elements);
            self.roles.truncate(elements);
            self.forms.truncate(elements);
            self.offsets.truncate(elements);
            self.branches.truncate(branches);
            (self.vgprs, self.highest_at) = (vgprs, highest_at);
            self.counted = true;
            let size = usize::from(inst.size).min(bytes.len());
            let text = Disassembly::new(*inst, self.arch, self.wave).to_string();
            self.raise(match self.beyond {
                Some((register, allocated)) => FaultCause::RegisterOutOfRange { register, allocated, text },
                None => FaultCause::Unimplemented { op: inst.op, bytes: bytes[..size].to_vec(), text },
            });
        }
    }

    fn lower(&mut self, inst: &Inst) -> Lowered {
        self.role = Role::Operation(inst.op);
        let properties = properties(inst.op);
        if properties.looks(&inst.mem) {
            self.emit_extra_as(Form::Look, Di::new(control::look));
        }
        match properties.family {
            family if family.is_vector() && inst.format != Format::Vopd => self.vector(inst),
            family => self.with_shared_writes(inst, |lowering| lowering.other(inst, family)),
        }
    }

    /// Everything but vector ALU instructions of one operation.
    fn other(&mut self, inst: &Inst, family: Family) -> Lowered {
        if inst.format == Format::Vopd {
            return self.dual(inst);
        }
        match family {
            Family::Nothing => Ok(()),
            Family::Scalar => self.scalar_alu(inst),
            Family::ScalarFloat(op, definitions) => self.scalar_float(inst, op, definitions),
            Family::ScalarComparison(operands, outcomes) => self.scalar_comparison(inst, operands, outcomes),
            Family::ExecMask(function, result, bits) => self.exec_mask(inst, function, result, bits),
            Family::ScalarRelative => self.scalar_relative(inst),
            Family::HalfLoop => self.half_loop(inst),
            Family::Control => self.control(inst),
            Family::ScalarMemory(dwords) => self.scalar_memory(inst, dwords),
            Family::ScalarStore(dwords) => self.scalar_store(inst, dwords),
            Family::ScalarAtomic(function, bits) => self.scalar_atomic(inst, function, bits),
            Family::NarrowScalarMemory(part) => self.narrow_scalar_memory(inst, part),
            Family::Lds(operation) => self.lds(inst, operation),
            Family::LdsExchange(operation) => self.exchange(inst, operation),
            Family::GlobalWaveSync => self.global_wave_sync(inst),
            Family::Flat(moves) => self.flat(inst, moves),
            Family::FlatToLds(moves) => self.flat_to_lds(inst, moves),
            Family::Transposed(dwords) => self.transposed(inst, dwords),
            Family::LdsTransposed(bits) => self.lds_transposed(inst, bits),
            Family::RegisterBlock => self.register_block(inst),
            Family::ByLane => self.by_lane(inst),
            Family::Buffer(operation) => self.buffer(inst, operation),
            Family::Image(operation) => self.image(inst, operation),
            Family::Absent => Err(Unsupported),
            // Those of the vector ALU are lowered elsewhere.
            Family::Vector(_)
            | Family::Carry
            | Family::Comparison(..)
            | Family::Packed
            | Family::Pair
            | Family::Relative
            | Family::Special
            | Family::Matrix => Err(Unsupported),
        }
    }

    /// Emits the step after an instruction that has written `FLAT_SCRATCH`; a jump that does is not supported.
    fn take_scratch(&mut self, first: usize) -> Lowered {
        if self.moves_scratch {
            if self.branches.last().is_some_and(|(element, _)| *element >= first) {
                return Err(Unsupported);
            }
            self.emit_extra(Di::new(control::take_scratch));
        }
        Ok(())
    }

    fn raise(&mut self, fault: FaultCause) {
        let number = self.faults.len() as u32;
        self.faults.push(fault);
        self.role = Role::Step;
        self.emit(Di { imm: number, ..Di::new(control::raise) });
    }

    /// Appends the element that executes the operation; the first such of an instruction counts it.
    fn emit(&mut self, di: Di) {
        let count = u8::from(core::mem::take(&mut self.counted));
        let form = core::mem::take(&mut self.form);
        self.push(Di { count, ..di }, self.role, form);
    }

    /// As [`Lowering::emit`], of an element that does what its form says.
    fn emit_as(&mut self, form: Form, di: Di) {
        self.form = form;
        self.emit(di);
    }

    /// Appends the element of an operation that does not count.
    fn emit_uncounted(&mut self, di: Di) {
        self.push(Di { count: 0, ..di }, self.role, Form::Call);
    }

    /// Appends an element before or after the one that executes the operation.
    fn emit_extra(&mut self, di: Di) {
        self.push(Di { count: 0, ..di }, Role::Step, Form::Call);
    }

    /// As [`Lowering::emit_extra`], of an element that does what its form says.
    fn emit_extra_as(&mut self, form: Form, di: Di) {
        self.push(Di { count: 0, ..di }, Role::Step, form);
    }

    fn push(&mut self, di: Di, role: Role, form: Form) {
        self.code.push(di);
        self.roles.push(role);
        self.forms.push(form);
        self.offsets.push(self.at);
    }

    /// Appends a jump to `target`.
    fn jump(&mut self, handler: Handler, form: Form, target: u64) {
        self.branches.push((self.code.len(), target));
        let distance = target.wrapping_sub(self.start) / 4;
        if let Ok(offset) = u32::try_from(distance)
            && (offset as usize) < MAX_REGION_BYTES / 4
        {
            self.furthest = self.furthest.max(offset);
        }
        self.emit_as(
            form,
            Di { dst: target as u32, dst2: (target >> 32) as u32, aux: 1, ..Di::new(handler) },
        );
    }

    /// Turns branches whose target is in the region into jumps to an index.
    fn resolve(&mut self) {
        for &(element, target) in &self.branches {
            let distance = target.wrapping_sub(self.start);
            let index = usize::try_from(distance / 4).ok().filter(|_| distance % 4 == 0);
            let Some(&index) = index.and_then(|offset| self.index.get(offset)) else { continue };
            if index != u32::MAX
                && let Some(di) = self.code.get_mut(element)
            {
                di.imm = index;
                di.aux = 0;
            }
        }
    }
}

impl Di {
    /// As [`Di::new`], for tests.
    #[cfg(test)]
    pub(crate) fn for_test(f: Handler) -> Di {
        Di::new(f)
    }

    /// An element with nothing but a handler.
    pub(super) fn new(f: Handler) -> Di {
        Di { f, dst: 0, dst2: 0, src: [Source::ZERO; 3], imm: 0, flags: 0, omod: 0, count: 0, aux: 0 }
    }
}
