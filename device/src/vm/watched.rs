//! State that tools keep of an address space: planned faults of its translations, and checks of them.

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_isa::mem::Access;

use super::checks::Checks;
use super::faulty::{Poisoned, StaleTlb};
use super::{AddressSpace, Fault, FaultKind, Root, RootKind, Translation};
use crate::memory::{Aperture, Physical};
use crate::moments::{Moment, Verdict};
use crate::tools::Tools;
use crate::trace::Engine;

/// Bytes of the smallest page.
const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;

/// State of the tools that change or check translations of a space.
pub(super) struct Watched {
    tools: Tools,
    stale: StaleTlb,
    poisoned: Poisoned,
    checks: Option<Checks>,
    /// True if memory that nothing has written has marks.
    marked: bool,
}

impl Watched {
    /// The state of these tools; `None` if none of them looks at translations.
    pub(super) fn new(tools: &Tools) -> Option<Box<Self>> {
        let checks = Checks::new(tools);
        let marked = tools.sanitizer().is_some_and(|sanitizer| sanitizer.marks_memory());
        let any = tools.may_strike() || checks.is_some() || marked;
        let (stale, poisoned) = Default::default();
        any.then(|| Box::new(Self { tools: tools.clone(), stale, poisoned, checks, marked }))
    }

    /// Returns true if each translation has to come here.
    pub(super) fn sees_walks(&self) -> bool {
        self.tools.may_strike() || self.checks.is_some()
    }

    /// The translation that a walk has to find, or its fault, if a planned fault decides that.
    pub(super) fn before_walk(&self, va: u64, access: Access) -> Option<Result<Translation, Fault>> {
        if self.tools.at(|| Moment::Walk { va }.on(Engine::Device)) == Verdict::Refuse {
            return Some(Err(Fault::new(va, access, FaultKind::NotPresent)));
        }
        if self.tools.may_strike() { self.stale.get(va, access).map(Ok) } else { None }
    }

    /// Takes note of the result of a walk: it may outlive an invalidation.
    pub(super) fn walked(&self, root: &Root, va: u64, translation: &Translation) {
        let of_vram = root.kind == RootKind::Process && translation.location.aperture == Aperture::Local;
        if of_vram && self.tools.may_strike() {
            self.stale.note(translation);
        }
        if let Some(checks) = &self.checks {
            checks.used(va, translation);
        }
    }

    /// Acts on an invalidation of a process's TLBs that is about to happen.
    pub(super) fn invalidates(&self, root: &Root) {
        if root.kind != RootKind::Process || !self.tools.may_strike() {
            return;
        }
        // The pages may have other contents from now on.
        self.poisoned.clear();
        let verdict = self.tools.at(|| Moment::Invalidation.on(Engine::Device));
        self.stale.invalidate(verdict != Verdict::Lose);
    }

    /// Acts on an invalidation that has happened.
    pub(super) fn invalidated(&self) {
        if let Some(checks) = &self.checks {
            checks.forget();
        }
    }

    /// Acts on an access of a wave that misses its TLB, or on a read of an engine.
    ///
    /// # Errors
    ///
    /// Poison.
    pub(super) fn accessed(
        &self,
        root: &Root,
        va: u64,
        access: Access,
        location: Physical,
    ) -> Result<(), Fault> {
        let reads = access != Access::Write && location.aperture == Aperture::Local;
        if !reads || root.kind != RootKind::Process || !self.tools.may_strike() {
            return Ok(());
        }
        let page = va >> PAGE_SHIFT;
        if !self.poisoned.has(page) {
            if self.tools.at(|| Moment::VramRead { va }.on(Engine::Device)) != Verdict::Refuse {
                return Ok(());
            }
            self.poisoned.add(page);
        }
        Err(Fault::new(va, access, FaultKind::Poison))
    }

    /// Bytes before an address and from it on that a wave's TLB keeps with its translation. If a plan names
    /// reads of VRAM, or has struck one, this is at most the rest of its page, so that each page has its own
    /// moment for a fault.
    pub(super) fn moment_of(&self, va: u64, location: Physical, (before, after): (u64, u64)) -> (u64, u64) {
        let by_pages = self.tools.may_strike()
            && location.aperture == Aperture::Local
            && (self.tools.plans_poison() || !self.poisoned.is_empty());
        if !by_pages {
            return (before, after);
        }
        let inside = va % PAGE_SIZE;
        (before.min(inside), after.min(PAGE_SIZE - inside))
    }
}

impl AddressSpace {
    /// Acts on a read of an engine.
    ///
    /// # Errors
    ///
    /// Poison.
    pub(crate) fn strike_read(&self, va: u64) -> Result<(), Fault> {
        let Some(watched) = self.watched.as_ref().filter(|watched| watched.tools.may_strike()) else {
            return Ok(());
        };
        let location = self.peek(va).and_then(|translation| translation.locate(va));
        location.map_or(Ok(()), |location| watched.accessed(&self.root, va, Access::Read, location))
    }

    /// Returns true if memory that nothing has written has [marks](crate::sanitize::Sanitizer::mark), which a
    /// copy must take along.
    pub(crate) fn has_marks(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.marked)
    }

    /// Compares the page at an address with the last use of it: a worker may have it in its TLB. Only with
    /// checks.
    pub(crate) fn check_page(&self, va: u64) {
        if let Some(checks) = self.watched.as_ref().and_then(|watched| watched.checks.as_ref())
            && let Some(translation) = self.peek(va)
        {
            checks.used(va, &translation);
        }
    }

    /// Returns true if [`check_page`](Self::check_page) does anything.
    pub(crate) fn checks_pages(&self) -> bool {
        self.watched.as_ref().is_some_and(|watched| watched.checks.is_some())
    }
}
