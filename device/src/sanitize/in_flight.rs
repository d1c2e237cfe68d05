//! Running dispatches and the addresses in their arguments: unmapping memory that one of them may use is
//! reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Sanitizer;
use super::finding::Rule;
use super::misuse::Misuse;

/// Most running dispatches that are checked.
const MAX_RUNNING: usize = 4096;
/// Most quadwords of arguments that are checked.
const MAX_WORDS: usize = 512;

/// The dispatches, by the order in which they began.
#[derive(Default)]
pub(super) struct InFlight {
    running: BTreeMap<u64, Running>,
    next: u64,
}

struct Running {
    /// Report that names the dispatch.
    misuse: Misuse,
    /// Each nonzero quadword of its arguments, with its offset in them.
    words: Vec<(usize, u64)>,
}

/// A dispatch that runs until it [ends](Self::end), or until this is dropped.
pub(crate) struct Reach {
    sanitizer: Arc<Sanitizer>,
    number: u64,
}

impl Reach {
    /// Notes that the dispatch has ended.
    pub(crate) fn end(&self) {
        self.sanitizer.lock().in_flight.running.remove(&self.number);
    }
}

impl Drop for Reach {
    fn drop(&mut self) {
        self.end();
    }
}

impl Sanitizer {
    /// Notes that a dispatch with these arguments begins; `misuse` is the report that names it.
    pub(crate) fn begun(self: &Arc<Self>, misuse: Misuse, arguments: &[u8]) -> Option<Reach> {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let words = (0..).step_by(8).zip(arguments.chunks_exact(8).map(word));
        let words: Vec<_> = words.filter(|&(_, word)| word != 0).take(MAX_WORDS).collect();
        if words.is_empty() {
            return None;
        }
        let mut state = self.lock();
        if state.in_flight.running.len() == MAX_RUNNING {
            state.incomplete = true;
            return None;
        }
        let number = state.in_flight.next;
        state.in_flight.next += 1;
        state.in_flight.running.insert(number, Running { misuse, words });
        Some(Reach { sanitizer: Arc::clone(self), number })
    }

    /// Notes that a driver is about to unmap memory at a GPU virtual address. Only for drivers whose
    /// processes have no address in common, as in hosted mode.
    pub fn unmapped(&self, va: u64, bytes: u64) {
        if !self.checks(Rule::UnmappedInFlight) {
            return;
        }
        let told: Vec<Misuse> = {
            let state = self.lock();
            let reaches = |running: &Running| {
                let &(at, word) = running.words.iter().find(|(_, word)| word.wrapping_sub(va) < bytes)?;
                let found = format!("{bytes} bytes at {va:#x}, and argument byte {at:#x} is {word:#x}");
                Some(Misuse { found, ..running.misuse.clone() }.at(va))
            };
            state.in_flight.running.values().filter_map(reaches).collect()
        };
        told.into_iter().for_each(|misuse| self.misused(misuse));
    }
}

#[cfg(test)]
mod tests {
    use super::super::SanitizeOptions;
    use super::*;

    #[test]
    fn arguments_reach_what_they_point_into_while_the_dispatch_runs() {
        let rules = [Rule::UnmappedInFlight].into();
        let sanitizer = Arc::new(Sanitizer::new(SanitizeOptions { rules, ..SanitizeOptions::default() }));
        let misuse = || Misuse::new(Rule::UnmappedInFlight, String::new()).of(1, 2).at_packet(3);
        let arguments = [0u64.to_le_bytes(), 0x5010u64.to_le_bytes()].concat();
        let reach = sanitizer.begun(misuse(), &arguments).unwrap();
        assert!(sanitizer.begun(misuse(), &[0; 32]).is_none(), "nothing that points anywhere");
        for (va, bytes) in [(0x4000, 0x1000), (0x6000, 0x1000), (0x5000, 0x10), (0, 0x1000)] {
            sanitizer.unmapped(va, bytes);
            assert!(sanitizer.report().is_clean(), "{va:#x}");
        }
        sanitizer.unmapped(0x5000, 0x1000);
        let told = sanitizer.report().misuses;
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].packet, told[0].address, told[0].count), (Some(3), Some(0x5000), 1));
        assert_eq!(told[0].found, "4096 bytes at 0x5000, and argument byte 0x8 is 0x5010");
        drop(reach);
        sanitizer.unmapped(0x5000, 0x1000);
        assert_eq!(sanitizer.report().misuses[0].count, 1);
    }
}
