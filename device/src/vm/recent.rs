//! Translations that a thread has just used, for packet processors and copy engines.
//!
//! They come back to the same few pages with every packet: the ring, the queue's own structure, a kernel's descriptor, a signal. What is
//! here holds for one generation of an address space, as what workers have in their TLBs does. Absent pages are never here.

use std::cell::Cell;

use belfry_isa::mem::Access;

use super::Translation;

/// Translations of a thread.
const ENTRIES: usize = 32;

#[derive(Clone, Copy)]
struct Recent {
    context: u64,
    generation: u64,
    translation: Translation,
}

thread_local! {
    static RECENT: [Cell<Option<Recent>>; ENTRIES] = const { [const { Cell::new(None) }; ENTRIES] };
}

/// The entry for a page.
fn entry(context: u64, va: u64) -> usize {
    ((va >> 12 ^ va >> 21 ^ context) % ENTRIES as u64) as usize
}

/// The block at `va` of an address space, if this thread has used it in this generation and it allows the access.
pub(super) fn get((context, generation): (u64, u64), va: u64, access: Access) -> Option<Translation> {
    let recent = RECENT.with(|all| all[entry(context, va)].get())?;
    let translation = recent.translation;
    let holds = recent.context == context
        && recent.generation == generation
        && va.wrapping_sub(translation.va) < translation.len
        && translation.allows(access);
    holds.then_some(translation)
}

/// Takes note of the block at `va`.
pub(super) fn put((context, generation): (u64, u64), va: u64, translation: Translation) {
    RECENT.with(|all| all[entry(context, va)].set(Some(Recent { context, generation, translation })));
}
