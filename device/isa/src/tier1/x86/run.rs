//! Compiled regions, and how they are entered.

#![expect(unsafe_code, reason = "runs code that was made for this")]

use core::sync::atomic::{AtomicU64, Ordering};

use super::asm::{Place, Routine};
use super::avx2;
use super::body::Callee;
use super::code::{NO_ENTRY, Source, bare};
use super::code_memory::CodeMemory;
use super::compile::{compile, follows};
use super::kept::{self, Made};
use super::times::Counters;
use crate::code_cache::Region;
use crate::code_store::KeptCode;
use crate::exec::CodeTimes;
use crate::exec::di::{Di, Flow, Machine, Role};
use crate::exec::form::Form;
use crate::inst::Op;
use crate::lanes::BackendKind;
use crate::tier1::analysis::covered::is_covered;
use crate::tier1::analysis::known::KnownLoads;
use crate::tier1::analysis::touched::{Touched, touched};
use crate::wave::Wave;

/// Entry of compiled code: the wave, the machine, the region's elements, the limit of instructions, and where to begin. It
/// returns the flow in the low and the element in the high half.
type Enter = unsafe extern "sysv64" fn(*mut Wave, &mut Machine<'_>, *const Di, u64, *const u8) -> u64;

/// A region's machine code.
#[derive(Debug)]
pub(crate) struct Compiled {
    memory: CodeMemory,
    /// Offset of each element's code, if it can be entered there.
    entries: Box<[u32]>,
    touched: Option<Touched>,
    /// As `touched`, for a wave that took no cold way and did not store its registers at its end.
    touched_usually: Option<Touched>,
    /// Counters of the code, if it counts.
    counters: Option<Counters>,
    /// Loads that may be known, and offset of the code for waves that begin with such.
    known: Option<(KnownLoads, u32)>,
    /// See [`Compiled::follows`].
    follows: bool,
    /// Number of the region among all that this process has compiled.
    number: u64,
}

/// Regions that were compiled.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Offset of a place in a region's code that it can be entered at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPoint(u32);

/// Calls an element's handler.
///
/// # Safety
///
/// As for [`Handler`](crate::exec::di::Handler).
unsafe extern "sysv64" fn invoke(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> u32 {
    // SAFETY: the caller vouches for the handler.
    unsafe { (d.f)(w, m, d) }.number()
}

/// Compiles a region.
fn make(source: Source<'_>, callee: Callee<'_>) -> Made {
    let touched = touched(source.code, source.forms, source.halves);
    Made { code: compile(source, callee, touched.as_ref()), touched }
}

/// A region's code, from where it is kept if it is there; otherwise it is kept from now on.
fn obtain(source: Source<'_>, kept: &KeptCode) -> Made {
    let key = kept::key(&source);
    if let Some(made) = kept.load(&key, |bytes| kept::open(&key, bytes, source.code.len())) {
        return made;
    }
    let made = make(source, Callee::default());
    match kept::seal(&key, &made) {
        Some(bytes) => kept.store(&key, &bytes),
        None => kept.leave_out(),
    }
    made
}

impl Compiled {
    /// Compiles the elements of a region, perhaps to code that counts, or finds their code where it is kept; `None` where there is
    /// no memory for code.
    pub(crate) fn new(region: &Region) -> Option<Compiled> {
        let Region { kind, start, counts, ref code, ref forms, .. } = *region;
        let (halves, kept) = (region.key.halves, region.kept.as_deref());
        let is_barrier = |role: &Role| matches!(role, Role::Operation(Op::S_BARRIER | Op::S_BARRIER_WAIT));
        let waits = region.roles.iter().any(is_barrier);
        let counters = counts.then(|| Counters::new(code.len()));
        let source = Source { kind, code: &bare(start, code, forms), forms, halves, waits };
        let Made { mut code, touched } = match kept {
            Some(kept) if !counts && kept.keeps(code.len()) => obtain(source, kept),
            _ => {
                kept.inspect(|kept| kept.leave_out());
                make(source, Callee { counters: counters.as_ref() })
            }
        };
        code.links.link(&mut code.bytes, |place| match place {
            Place::Routine(Routine::Invoke) => invoke as *const () as usize as u64,
            Place::Routine(Routine::InvokeCounting) => Counters::function(),
            Place::Guest(distance) => start.wrapping_add(distance),
            Place::Bits(of) => of.bits().as_ptr() as usize as u64,
        });
        let touched_usually = touched.as_ref().map(|touched| match kind {
            // Rows are in memory between runs there.
            BackendKind::Avx512 => Touched { lines: touched.lines, rows: code.stored },
            _ => touched.clone(),
        });
        let memory = CodeMemory::new(&code.bytes)?;
        let known = KnownLoads::of(&source).zip((code.known_entry != NO_ENTRY).then_some(code.known_entry));
        // No number is 0.
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
        let follows = follows(&source, touched.as_ref());
        Some(Compiled {
            memory,
            entries: code.entries,
            touched,
            touched_usually,
            counters,
            known,
            follows,
            number,
        })
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.entries) + self.memory.bytes() + self.counters.as_ref().map_or(0, Counters::bytes)
    }

    /// Adds the counts of the code since the last call.
    pub(crate) fn take_times(&self, times: &mut CodeTimes, of: (&[Di], &[Role], &[Form])) {
        if let Some(counters) = &self.counters {
            counters.take(times, of, |element| self.entry(element).is_some());
        }
    }

    /// Returns the registers in memory that a wave which has ended in the region may have changed, if they are known.
    /// `more` says that it has changed [more](Machine::wrote_more) than code usually does.
    #[inline(always)]
    pub(crate) fn touched(&self, more: bool) -> Option<&Touched> {
        if more { self.touched.as_ref() } else { self.touched_usually.as_ref() }
    }

    /// Returns true if code usually does an element without its handler.
    pub(crate) fn has_template(kind: BackendKind, form: Form, di: &Di, halves: u32) -> bool {
        is_covered(form, di, halves) && (kind == BackendKind::Avx512 || avx2::has(form, di, false))
    }

    /// Returns the point at which the code can be entered at an element.
    #[inline(always)]
    pub(crate) fn entry(&self, element: usize) -> Option<EntryPoint> {
        self.entries.get(element).filter(|&&entry| entry != NO_ENTRY).map(|&entry| EntryPoint(entry))
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
        let (loads, entry) = self.known.as_ref()?;
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
        self.follows
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
        self.memory.at(entry.0 as usize)
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
        let enter = unsafe { core::mem::transmute::<*const u8, Enter>(self.memory.at(0)) };
        // SAFETY: the caller vouches for the elements and the waves; rows and scalar registers that templates name are of a wave's,
        // whose numbers lowering has checked.
        let result = unsafe { enter(wave, machine, code.as_ptr(), limit, entry) };
        (Flow::from_number(result as u32), (result >> 32) as usize)
    }
}
