//! The compiler for x86-64: from a region to code that can be entered.

#![expect(unsafe_code, reason = "code calls handlers by it")]

use super::asm::{Place, Routine};
use super::avx2;
use super::body::Callee;
use super::compile::{compile, follows};
use super::kept::{self, Made};
use super::times;
use crate::code_store::KeptCode;
use crate::exec::code_cache::Region;
use crate::exec::compiled::code_memory::CodeMemory;
use crate::exec::compiled::times::Counters;
use crate::exec::compiled::{Compiled, Compiler, NO_ENTRY, Parts};
use crate::exec::di::{Di, Machine, Role};
use crate::exec::form::Form;
use crate::inst::Op;
use crate::lanes::BackendKind;
use crate::tier1::analysis::covered::is_covered;
use crate::tier1::analysis::known;
use crate::tier1::analysis::source::{Source, bare};
use crate::tier1::analysis::touched::{Touched, touched};
use crate::wave::Wave;

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

/// The compiler.
#[derive(Debug)]
pub(crate) struct X86;

impl Compiler for X86 {
    fn compile(&self, region: &Region) -> Option<Compiled> {
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
            Place::Routine(Routine::InvokeCounting) => times::function(),
            Place::Guest(distance) => start.wrapping_add(distance),
            Place::Bits(of) => of.bits().as_ptr() as usize as u64,
        });
        let touched_usually = touched.as_ref().map(|touched| match kind {
            // Rows are in memory between runs there.
            BackendKind::Avx512 => Touched { lines: touched.lines, rows: code.stored },
            _ => touched.clone(),
        });
        let memory = CodeMemory::new(&code.bytes)?;
        let known = known::loads(&source).zip((code.known_entry != NO_ENTRY).then_some(code.known_entry));
        let follows = follows(&source, touched.as_ref());
        Some(Compiled::new(Parts {
            memory,
            entries: code.entries,
            touched,
            touched_usually,
            counters,
            known,
            follows,
        }))
    }

    fn has_template(&self, kind: BackendKind, form: Form, di: &Di, halves: u32) -> bool {
        is_covered(form, di, halves) && (kind == BackendKind::Avx512 || avx2::has(form, di, false))
    }
}
