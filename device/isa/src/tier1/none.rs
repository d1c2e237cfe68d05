//! Hosts that regions are not compiled for.

#![expect(unsafe_code, reason = "as where there is code to run")]

use crate::code_cache::Region;
use crate::exec::CodeTimes;
use crate::exec::di::{Di, Flow, Machine, Role};
use crate::exec::form::Form;
use crate::lanes::BackendKind;
use crate::wave::Wave;

/// There is none.
#[derive(Debug)]
pub(crate) enum Compiled {}

/// A place in code: of no code, here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EntryPoint {}

/// Scalar registers of a line.
pub(crate) const LINE: usize = 16;

/// Nothing is counted.
pub(crate) fn ticks() -> u64 {
    0
}

/// Registers that code may leave changed: of no code, here.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    /// None.
    pub(crate) lines: u16,
    /// None.
    pub(crate) rows: Box<[(u32, u32)]>,
}

impl Compiled {
    /// None.
    pub(crate) fn new(region: &Region) -> Option<Compiled> {
        // What only code is made by.
        let _ = (region.kind, region.counts, &region.kept);
        None
    }

    /// Never called.
    pub(crate) fn bytes(&self) -> usize {
        match *self {}
    }

    /// Never called.
    pub(crate) fn take_times(&self, _: &mut CodeTimes, _: (&[Di], &[Role], &[Form])) {
        match *self {}
    }

    /// No element has one.
    pub(crate) fn has_template(_: BackendKind, _: Form, _: &Di, _: u32) -> bool {
        false
    }

    /// Never called.
    pub(crate) fn touched(&self, _: bool) -> Option<&Touched> {
        match *self {}
    }

    /// Never called.
    pub(crate) fn follows(&self) -> bool {
        match *self {}
    }

    /// Never called.
    pub(crate) fn address(&self, _: EntryPoint) -> *const u8 {
        match *self {}
    }

    /// Never called.
    pub(crate) fn entry(&self, _: usize) -> Option<EntryPoint> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(crate) unsafe fn known_entry(
        &self,
        _: &mut Wave,
        _: &mut Machine<'_>,
        _: (&[Di], u64),
    ) -> Option<EntryPoint> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(crate) unsafe fn run(
        &self,
        _: &mut Wave,
        _: &mut Machine<'_>,
        _: &[Di],
        _: (u64, EntryPoint),
    ) -> (Flow, usize) {
        match *self {}
    }
}
