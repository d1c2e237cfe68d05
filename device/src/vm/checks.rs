//! Checks for the sanitizer that no page changes without an invalidation before its next use.

use std::collections::HashMap;
use std::sync::PoisonError;

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_lock::{Mutex, rank};

use super::Translation;
use crate::memory::{Aperture, Physical};
use crate::sanitize::{Misuse, Rule};
use crate::tools::Tools;

/// Pages that are remembered for each address space; with more, all of them are forgotten.
const MAX_PAGES: usize = 1 << 20;

/// Location of a page when it was used, and the accesses that it allowed.
type Seen = (Physical, [bool; 3]);

/// The pages of an address space that were used since the last invalidation.
pub(super) struct Checks {
    tools: Tools,
    pages: Mutex<HashMap<u64, Seen>, rank::KnownPages>,
}

impl Checks {
    /// Checks for the sanitizer, if it has the rule.
    pub(super) fn new(tools: &Tools) -> Option<Self> {
        let checks = || Self { tools: tools.clone(), pages: Mutex::default() };
        tools.checks(Rule::StaleTranslation).then(checks)
    }

    /// Notes that an address with this translation is used.
    pub(super) fn used(&self, va: u64, translation: &Translation) {
        let page = va >> PAGE_SHIFT;
        let Some(location) = translation.locate(page << PAGE_SHIFT) else { return };
        let now = (location, [translation.readable, translation.writable, translation.executable]);
        let before = {
            let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            if pages.len() == MAX_PAGES {
                pages.clear();
            }
            pages.insert(page, now)
        };
        if let Some(before) = before.filter(|before| *before != now) {
            let found = format!("the page was {}, and is {}", text(&before), text(&now));
            self.tools.misused(Misuse::new(Rule::StaleTranslation, found).at(va));
        }
    }

    /// Forgets all pages, as the TLBs are invalidated.
    pub(super) fn forget(&self) {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn text((location, [readable, writable, executable]): &Seen) -> String {
    let at = location.offset;
    let place = match location.aperture {
        Aperture::Local => format!("VRAM {at:#x}"),
        Aperture::Peer(number) => format!("VRAM {at:#x} of device {number}"),
        Aperture::System => format!("system memory {at:#x}"),
        Aperture::Nowhere => "no memory (not resident)".to_owned(),
    };
    let rights = [(*readable, 'r'), (*writable, 'w'), (*executable, 'x')];
    let rights: String = rights.iter().map(|&(has, letter)| if has { letter } else { '-' }).collect();
    format!("at {place} ({rights})")
}
