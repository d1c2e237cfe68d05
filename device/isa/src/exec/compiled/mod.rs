//! Machine code of regions, and how it is entered.
//!
//! A compiler makes it behind a port, [`Compiler`]: execution names none.

#![expect(unsafe_code, reason = "runs code that was made for this")]

pub(crate) mod code_memory;
pub(crate) mod known;
pub(crate) mod times;

use core::fmt::Debug;
use core::sync::atomic::{AtomicU64, Ordering};

use super::code_cache::Region;
use super::di::{Di, Flow, Machine, Role};
use super::form::Form;
use super::tools::profile::CodeTimes;
use crate::lanes::BackendKind;
use crate::wave::Wave;
use crate::wave::touched::Touched;
use code_memory::CodeMemory;
use known::KnownLoads;
use times::Counters;

/// Maker of machine code.
pub(crate) trait Compiler: Debug + Sync {
    /// Compiles the elements of a region, or finds their code where it is kept; `None` where there is no memory for code.
    fn compile(&self, region: &Region) -> Option<Compiled>;

    /// Returns true if code usually does an element of a wave of `halves` without its handler.
    fn has_template(&self, kind: BackendKind, form: Form, di: &Di, halves: u32) -> bool;
}

/// Entry of compiled code: the wave, the machine, the region's elements, the limit of instructions, and where to begin. It
/// returns the flow in the low and the element in the high half.
type Enter = unsafe extern "C" fn(*mut Wave, &mut Machine<'_>, *const Di, u64, *const u8) -> u64;

/// Entry of an element within a block: there is none.
pub(crate) const NO_ENTRY: u32 = u32::MAX;

/// Parts of a region's machine code.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) memory: CodeMemory,
    /// Offset of each element's code, or [`NO_ENTRY`].
    pub(crate) entries: Box<[u32]>,
    /// Registers in memory that a wave which has ended in the region may have changed, if they are known.
    pub(crate) touched: Option<Touched>,
    /// As `touched`, for a wave that took no cold way and did not store its registers at its end.
    pub(crate) touched_usually: Option<Touched>,
    /// Counters of the code, if it counts.
    pub(crate) counters: Option<Counters>,
    /// Loads that may be known, and offset of the code for waves that begin with such.
    pub(crate) known: Option<(KnownLoads, u32)>,
    /// See [`Compiled::follows`].
    pub(crate) follows: bool,
}

/// A region's machine code.
#[derive(Debug)]
pub(crate) struct Compiled {
    parts: Parts,
    /// Number of the region among all that this process has compiled.
    number: u64,
}

/// Regions that were compiled.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Offset of a place in a region's code that it can be entered at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPoint(u32);

impl Compiled {
    /// The code that has these parts: `memory` begins with an [`Enter`] for the elements of one region.
    pub(crate) fn new(parts: Parts) -> Compiled {
        // No number is 0.
        Compiled { parts, number: NUMBERS.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.parts.entries)
            + self.parts.memory.bytes()
            + self.parts.counters.as_ref().map_or(0, Counters::bytes)
    }

    /// Adds the counts of the code since the last call.
    pub(crate) fn take_times(&self, times: &mut CodeTimes, of: (&[Di], &[Role], &[Form])) {
        if let Some(counters) = &self.parts.counters {
            counters.take(times, of, |element| self.entry(element).is_some());
        }
    }

    /// Returns the registers in memory that a wave which has ended in the region may have changed, if they are known.
    /// `more` says that it has changed [more](Machine::wrote_more) than code usually does.
    #[inline(always)]
    pub(crate) fn touched(&self, more: bool) -> Option<&Touched> {
        if more { self.parts.touched.as_ref() } else { self.parts.touched_usually.as_ref() }
    }

    /// Returns the point at which the code can be entered at an element.
    #[inline(always)]
    pub(crate) fn entry(&self, element: usize) -> Option<EntryPoint> {
        self.parts.entries.get(element).filter(|&&entry| entry != NO_ENTRY).map(|&entry| EntryPoint(entry))
    }

    /// Returns the entry at the first element for waves of a launch whose first loads are known. The first such wave,
    /// which has not begun, loads the values. Waves with other addresses may use the entry as well.
    ///
    /// # Safety
    ///
    /// As for [`Compiled::run`].
    #[inline(always)]
    pub(crate) unsafe fn known_entry(
        &self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        (code, launch): (&[Di], u64),
    ) -> Option<EntryPoint> {
        let (loads, entry) = self.parts.known.as_ref()?;
        let of = (self.number, launch);
        if machine.global.tlb.known.of != of {
            // SAFETY: the caller vouches for the elements.
            machine.global.tlb.known.is_there = unsafe { loads.learn(wave, machine, code) };
            machine.global.tlb.known.of = of;
        }
        machine.global.tlb.known.is_there.then_some(EntryPoint(*entry))
    }

    /// Returns true if the code may start waves after others that have ended, as [`Machine::succession`] says.
    pub(crate) fn follows(&self) -> bool {
        self.parts.follows
    }

    /// Runs from an [entry](Compiled::entry) of the code until the wave stops, leaves the region, or takes a
    /// jump with its instructions used up; the flow, and the element it is of. The wave's instructions are counted.
    ///
    /// # Safety
    ///
    /// `code` are the elements that it was compiled from, lowered for a backend that the host has.
    #[inline(always)]
    pub(crate) unsafe fn run(
        &self,
        wave: &mut Wave,
        machine: &mut Machine<'_>,
        code: &[Di],
        (limit, entry): (u64, EntryPoint),
    ) -> (Flow, usize) {
        // SAFETY: the caller vouches for the elements; without a round there is one wave.
        unsafe { self.run_round(wave, machine, code, (limit, self.address(entry))) }
    }

    /// The address of an entry.
    pub(crate) fn address(&self, entry: EntryPoint) -> *const u8 {
        self.parts.memory.at(entry.0 as usize)
    }

    /// As [`Compiled::run`], from an [address](Compiled::address), and with the waves of the machine's round if it has one.
    ///
    /// # Safety
    ///
    /// As for [`Compiled::run`]. If the machine has a round, this is the wave of its first seat. The seats have different waves, each with an
    /// address of this code, and the caller alone has these waves.
    #[inline(always)]
    pub(crate) unsafe fn run_round(
        &self,
        wave: *mut Wave,
        machine: &mut Machine<'_>,
        code: &[Di],
        (limit, entry): (u64, *const u8),
    ) -> (Flow, usize) {
        // SAFETY: the memory begins with the code's entry, which has this type.
        let enter = unsafe { core::mem::transmute::<*const u8, Enter>(self.parts.memory.at(0)) };
        // SAFETY: the caller vouches for the elements and the waves; rows and scalar registers that templates name are of a wave's,
        // whose numbers lowering has checked.
        let result = unsafe { enter(wave, machine, code.as_ptr(), limit, entry) };
        (Flow::from_number(result as u32), (result >> 32) as usize)
    }
}
