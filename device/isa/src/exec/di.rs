//! The lowered instruction: a handler with its operands resolved.

#![expect(unsafe_code, reason = "one handler calls another")]

use super::{FaultCause, Lds, Stop};
use crate::exec::waves::round::Round;
use crate::exec::waves::succession::Succession;
use crate::inst::Op;
use crate::mem::{Access, Apertures, Fault, FaultKind, Global};
use crate::wave::Wave;

/// Executes one lowered instruction.
///
/// Unsafe to call: it may use the instructions of the [`Backend`](crate::lanes::Backend) it was lowered for.
pub(crate) type Handler = unsafe fn(&mut Wave, &mut Machine<'_>, &Di) -> Flow;

/// Leaves an instruction to another handler, from one that has only the common case.
///
/// A function of its own keeps the other handler's registers and stack out of the common case. It has to be one without target
/// features: `inline(never)` does not reach LLVM from functions that have some.
///
/// # Safety
///
/// As for [`Handler`].
#[cold]
#[inline(never)]
pub(crate) unsafe fn leave_to(handler: Handler, w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    // SAFETY: the caller vouches for the handler.
    unsafe { handler(w, m, d) }
}

/// Next step after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow(u32);

impl Flow {
    /// The next instruction in sequence.
    pub(crate) const NEXT: Flow = Flow(0);
    /// Leave the region: `wave.pc` is set.
    pub(crate) const LEAVE: Flow = Flow(u32::MAX);
    /// Stop with `Machine::stop`; the next run continues after this instruction.
    pub(crate) const STOP: Flow = Flow(u32::MAX - 1);
    /// Stop with `Machine::stop`; `wave.pc` becomes this instruction's.
    pub(crate) const FAULT: Flow = Flow(u32::MAX - 2);
    /// Raise the region's fault number `Di::imm`.
    pub(crate) const RAISE: Flow = Flow(u32::MAX - 3);
    /// Stop with `Machine::stop`; `wave.pc` is set.
    pub(crate) const STOP_HERE: Flow = Flow(u32::MAX - 4);
    /// Stop with [`Stop::EndProgram`]; the program counter is after this instruction.
    pub(crate) const END_PROGRAM: Flow = Flow(u32::MAX - 5);
    /// Stop with [`Stop::Barrier`]; the next run continues after this instruction.
    pub(crate) const BARRIER: Flow = Flow(u32::MAX - 6);

    /// The instruction at `index` of this region.
    pub(crate) fn to(index: u32) -> Flow {
        Flow(index + 1)
    }

    /// Its number, by which compiled code knows it.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// The flow with this [number](Flow::number).
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn from_number(number: u32) -> Flow {
        Flow(number)
    }

    /// Returns true if it came from [`Flow::to`].
    #[inline(always)]
    pub(crate) fn is_jump(self) -> bool {
        self.0.wrapping_sub(1) < Flow::BARRIER.0 - 1
    }

    /// The index [`Flow::to`] was given.
    pub(crate) fn index(self) -> usize {
        (self.0 as usize).wrapping_sub(1)
    }
}

/// Way in which a source operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Row of the vector register file.
    Vector,
    /// Scalar register by hardware number.
    Scalar,
    /// Constant, zero-extended to 64 bits.
    Constant,
    /// Constant, sign-extended to 64 bits.
    Signed,
    /// High half of a 64-bit constant.
    High,
}

/// One source operand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) value: u32,
    pub(crate) kind: Kind,
    /// Take the high half of a 16-bit operand.
    pub(crate) high: bool,
    /// Negate.
    pub(crate) neg: bool,
    /// Absolute value, before `neg`.
    pub(crate) abs: bool,
}

impl Source {
    pub(crate) const ZERO: Source =
        Source { value: 0, kind: Kind::Constant, high: false, neg: false, abs: false };

    /// Returns true if the source is a whole vector register without modifiers.
    pub(crate) fn is_plain_vector(self) -> bool {
        self.kind == Kind::Vector && !self.high && !self.neg && !self.abs
    }

    /// Returns true if the source is a scalar or a constant without modifiers.
    pub(crate) fn is_plain_uniform(self) -> bool {
        self.kind != Kind::Vector && !self.high && !self.neg && !self.abs
    }

    /// Value of a scalar or constant source.
    #[inline(always)]
    pub(crate) fn scalar(&self, w: &Wave) -> u32 {
        match self.kind {
            Kind::Scalar => w.s[self.value as usize & 255],
            _ => self.value,
        }
    }

    /// Value of a 64-bit scalar or constant source.
    #[inline(always)]
    pub(crate) fn scalar64(&self, w: &Wave) -> u64 {
        match self.kind {
            Kind::Scalar => w.pair(self.value as usize),
            Kind::Signed => i64::from(self.value.cast_signed()).cast_unsigned(),
            Kind::High => u64::from(self.value) << 32,
            _ => u64::from(self.value),
        }
    }

    /// Values of a source in sixteen lanes, from `first` on.
    #[inline(always)]
    pub(crate) fn sixteen(&self, w: &Wave, first: u32) -> [u32; 16] {
        match self.kind {
            Kind::Vector => w.v.row(self.value + first / 32)[((first / 16) & 1) as usize].0,
            _ => [self.scalar(w); 16],
        }
    }

    /// Value of a source in one lane.
    #[inline(always)]
    pub(crate) fn lane(&self, w: &Wave, lane: u32) -> u32 {
        match self.kind {
            Kind::Vector => w.v.lane(self.value + (lane >> 5), lane & 31),
            _ => self.scalar(w),
        }
    }
}

/// Flags of a lowered instruction.
pub(crate) mod flag {
    /// Clamp the result.
    pub(crate) const CLAMP: u8 = 1;
    /// Write the high half of a 16-bit destination.
    pub(crate) const DST_HIGH: u8 = 2;
    /// `MODE` asks for flushed denormals or another rounding: take the scalar path that looks at it.
    pub(crate) const SLOW: u8 = 4;
    /// Sources after the first are integers, which are never flushed.
    pub(crate) const INTEGERS: u8 = 16;
    /// Return the old value (atomics).
    pub(crate) const RETURN: u8 = 8;
    /// Signalling NaNs stay what they are (vector ALU).
    pub(crate) const SIGNALS: u8 = 64;
    /// One more result register takes the residency status.
    pub(crate) const STATUS: u8 = 64;
    /// The buffer descriptor is one of gfx9.
    pub(crate) const OLD_DESCRIPTOR: u8 = 128;
    /// Of sources that are NaNs, the last one is the result (vector ALU).
    pub(crate) const LAST_FIRST: u8 = 128;
    /// An infinite result is never an overflow.
    pub(crate) const NO_OVERFLOW: u8 = 32;
}

/// Operation that an element of a region executes. Kept beside the elements, because the interpreter has no use for
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The operation; each instruction has one such element, or none if it does nothing.
    Operation(Op),
    /// Both operations of a VOPD; where they are apart, each has an element of its own.
    Pair(Op, Op),
    /// Something before or after an operation, a fault, or the way out of the region.
    Step,
}

/// A lowered instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Di {
    pub(crate) f: Handler,
    /// First destination: row or scalar register.
    pub(crate) dst: u32,
    /// Second destination, or another operand of the handler's choice.
    pub(crate) dst2: u32,
    pub(crate) src: [Source; 3],
    /// Immediate, offset, branch target or index of a side table.
    pub(crate) imm: u32,
    /// See [`flag`].
    pub(crate) flags: u8,
    pub(crate) omod: u8,
    /// 1 when it counts as an instruction, 0 for preparation steps.
    pub(crate) count: u8,
    /// Small immediate of some handlers.
    pub(crate) aux: u8,
}

/// State that handlers reach besides the wave.
pub(crate) struct Machine<'a> {
    pub(crate) global: Global<'a>,
    pub(crate) lds: &'a mut Lds,
    pub(crate) apertures: Apertures,
    pub(crate) clock: &'a dyn Fn() -> u64,
    /// Why the wave stops, set together with [`Flow::STOP`], [`Flow::STOP_HERE`] or [`Flow::FAULT`].
    pub(crate) stop: Option<Stop>,
    /// Set if cached code has to be compared with memory before it is used again.
    pub(crate) refetch: bool,
    /// The vector registers of a wave are not read once it has ended, so compiled code need not store them at its end.
    pub(crate) forgets_ended: bool,
    /// Vector registers may have been written otherwise than compiled code usually does.
    pub(crate) wrote_more: bool,
    /// The waves that go on after this one, each when the one before has come to a barrier.
    pub(crate) round: Round,
    /// The waves that compiled code may start after this one; null if there are none.
    pub(crate) succession: *mut Succession,
}

impl Machine<'_> {
    /// The number of instructions at which the wave that compiled code has started last is to stop, if it has started waves.
    #[inline(always)]
    pub(crate) fn limit_of_last(&self) -> Option<u64> {
        // SAFETY: where it is not null it is on the stack of the caller that has set it, who does not use it meanwhile.
        unsafe { self.succession.as_ref() }.map(|succession| succession.limit)
    }

    /// Stops the wave after this instruction.
    #[inline(always)]
    pub(crate) fn stop(&mut self, stop: Stop) -> Flow {
        match stop {
            // Every wave ends so, and most wait so: a stop that goes through memory is read back before it is there.
            Stop::EndProgram => Flow::END_PROGRAM,
            Stop::Barrier => Flow::BARRIER,
            stop => {
                self.stop = Some(stop);
                Flow::STOP
            }
        }
    }

    /// Stops the wave where `wave.pc` says.
    #[cold]
    pub(crate) fn stop_here(&mut self, stop: Stop) -> Flow {
        self.stop = Some(stop);
        Flow::STOP_HERE
    }

    /// Stops the wave before this instruction, of which nothing has been done.
    #[cold]
    pub(crate) fn stop_before(&mut self, stop: Stop) -> Flow {
        self.stop = Some(stop);
        Flow::FAULT
    }

    /// Stops the wave at this instruction.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self, kind: FaultCause) -> Flow {
        self.stop = Some(Stop::fault(0, kind));
        Flow::FAULT
    }

    /// Stops the wave for a failed access by `lane`.
    #[cold]
    #[inline(never)]
    pub(crate) fn memory_fault(&mut self, fault: Fault, lanes: u64) -> Flow {
        self.fault(FaultCause::Memory { fault, lanes })
    }

    /// Why an access of `bytes` at `va` would fail, if it would.
    #[cold]
    pub(crate) fn failure(&mut self, va: u64, bytes: u32, access: Access) -> Option<Fault> {
        if access == Access::Atomic && !va.is_multiple_of(u64::from(bytes)) {
            return Some(Fault::new(va, access, FaultKind::Bus));
        }
        let last = va.wrapping_add(u64::from(bytes.max(1) - 1));
        [va, last].into_iter().find_map(|va| self.global.tlb.lookup(self.global.mmu, va, access).err())
    }

    /// Stops the wave for an LDS atomic at an address that is no multiple of its size.
    #[cold]
    #[inline(never)]
    pub(crate) fn lds_misaligned(&mut self, address: u32, bytes: u32, lanes: u64) -> Flow {
        self.fault(FaultCause::LdsMisaligned { address, bytes, lanes })
    }

    /// Stops the wave for an LDS access out of range, by way of a flat address.
    #[cold]
    #[inline(never)]
    pub(crate) fn lds_fault(&mut self, address: u32, lanes: u64) -> Flow {
        let size = self.lds.size();
        self.fault(FaultCause::LdsOutOfRange { address, size, lanes })
    }
}
