//! Loads whose values a launch gives all of its waves alike, and how a wave learns the values.

#![expect(unsafe_code, reason = "has handlers load what is to be known")]

use crate::exec::di::{Di, Flow, Machine};
use crate::mem::Known;
use crate::wave::Wave;

/// A load whose value may be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownLoad {
    pub(crate) element: usize,
    pub(crate) dwords: u32,
    /// The scalar register that the address is made of, with the next one.
    pub(crate) base: u32,
    pub(crate) dst: u32,
    /// Place of its first value among the known values.
    pub(crate) place: usize,
}

/// Loads of a region whose values may be known when a wave begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownLoads {
    /// In the order of their elements.
    pub(crate) loads: Vec<KnownLoad>,
    /// Scalar registers that addresses are made of.
    pub(crate) bases: Vec<u32>,
}

impl KnownLoads {
    /// One past the last of the loads.
    pub(crate) fn end(&self) -> usize {
        self.loads.last().map_or(0, |load| load.element + 1)
    }

    /// Loads the values for waves that begin as this one, which has not begun. Returns true if they could be loaded.
    /// The wave is as before.
    ///
    /// # Safety
    ///
    /// `code` are the elements that the loads were found in, lowered for a backend that the host has.
    pub(crate) unsafe fn learn(&self, wave: &mut Wave, machine: &mut Machine<'_>, code: &[Di]) -> bool {
        for load in &self.loads {
            let registers = load.dst as usize..(load.dst + load.dwords) as usize;
            let (Some(d), Some(before)) = (code.get(load.element), wave.s.get(registers.clone())) else {
                return false;
            };
            let mut kept = [0; Known::VALUES];
            let kept = &mut kept[..before.len()];
            kept.copy_from_slice(before);
            // SAFETY: the caller vouches for the handler.
            let flow = unsafe { (d.f)(wave, machine, d) };
            let known = &mut machine.global.tlb.known.values[load.place..][..kept.len()];
            known.copy_from_slice(&wave.s[registers.clone()]);
            wave.s[registers].copy_from_slice(kept);
            if flow != Flow::NEXT {
                // The wave that does this load reports the fault.
                machine.stop = None;
                return false;
            }
        }
        for (known, base) in machine.global.tlb.known.bases.iter_mut().zip(&self.bases) {
            *known = wave.pair(*base as usize);
        }
        true
    }
}
