//! The page that is not resident: loads of it are 0, and stores are lost.

use std::cell::UnsafeCell;

use belfry_isa::mem::Access;

use super::{Block, PAGE};

const BYTES: usize = PAGE as usize;

#[repr(C, align(4096))]
struct Page(UnsafeCell<[u8; BYTES]>);

// SAFETY: no code makes a reference to the bytes. They are accessed by raw pointers, as guest memory is, where races may tear a
// value and do nothing else.
unsafe impl Sync for Page {}

/// The page that loads see: nothing is stored there.
static ZEROS: Page = Page(UnsafeCell::new([0; BYTES]));
/// The page that stores go to: nothing is loaded from there.
static SINK: Page = Page(UnsafeCell::new([0; BYTES]));

thread_local! {
    /// The page of this thread's atomic updates, which load and store: it is made zeros anew for each.
    static UPDATED: Box<Page> = Box::new(Page(UnsafeCell::new([0; BYTES])));
}

/// The memory at `offset` in the page, for one access of this kind; `None` beyond the page. A block for an atomic update is this
/// thread's.
pub(super) fn block<'a>(offset: u64, access: Access) -> Option<Block<'a>> {
    let left = PAGE.checked_sub(offset).filter(|&left| left > 0)?;
    let page = match access {
        Access::Read | Access::Execute => ZEROS.0.get(),
        Access::Write => SINK.0.get(),
        Access::Atomic => UPDATED
            .try_with(|page| {
                // SAFETY: the page is this thread's, and no reference to its bytes exists.
                unsafe { page.0.get().write_bytes(0, 1) };
                page.0.get()
            })
            .ok()?,
    };
    // SAFETY: the pages are mapped for `PAGE` bytes as long as the process, the one of a thread as long as that. No code makes
    // references to their bytes. Blocks that are read only are not written to, which is their users' promise as it is for pages
    // that a guest may not write.
    Some(unsafe { Block::new(page.cast::<u8>().wrapping_add(offset as usize), left) })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn stores_and_updates_are_lost() {
        let write = block(8, Access::Write).expect("in the page");
        write.write(&[1; 16]);
        let mut read = [9; 24];
        block(0, Access::Read).expect("in the page").read(&mut read);
        assert_eq!(read, [0; 24]);
        for _ in 0..2 {
            let update = block(16, Access::Atomic).expect("in the page");
            let old = update.atomic_u64().expect("aligned").fetch_add(5, Ordering::SeqCst);
            assert_eq!(old, 0);
        }
        let last = block(4095, Access::Read).map(|block| block.len());
        assert_eq!((last, block(4096, Access::Read).is_none()), (Some(1), true));
    }
}
