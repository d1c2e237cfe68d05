//! VM contexts and address spaces as plain values. Cached translations are not among them.

use std::sync::Arc;

use belfry_abi::regs::Register as _;
use belfry_abi::regs::gc::GCVM_L2_PROTECTION_FAULT_STATUS;
use serde::{Deserialize, Serialize};

use super::contexts::{Context, FaultRecord, State};
use super::{AddressSpace, Contexts, FrameBuffer, Root, RootKind, VMIDS};
use crate::save::{Broken, check, count};

/// One address space: the root of its page tables.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct SavedRoot {
    base: u64,
    depth: u32,
    block_size: u32,
    start: u64,
    end: u64,
    /// For VMID 0: first and last byte of the frame buffer, and its offset in VRAM.
    frame_buffer: Option<(u64, u64, u64)>,
}

/// The contexts of all VMIDs.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedContexts {
    contexts: [Context; VMIDS],
    frame_buffer: FrameBuffer,
    /// Status register and page of the fault that is kept.
    fault: (u32, u64),
    /// Numbers of the address spaces that are in use.
    spaces: [Option<u32>; VMIDS],
}

/// Address spaces while a device is saved: each gets one number, even if several contexts, processes and
/// queues hold it.
#[derive(Debug, Default)]
pub(crate) struct SpaceList(Vec<Arc<AddressSpace>>);

impl SpaceList {
    /// The number of a space.
    pub(crate) fn number(&mut self, space: &Arc<AddressSpace>) -> u32 {
        let known = self.0.iter().position(|known| Arc::ptr_eq(known, space));
        known.unwrap_or_else(|| {
            self.0.push(Arc::clone(space));
            self.0.len() - 1
        }) as u32
    }

    /// The roots, by number.
    pub(crate) fn roots(&self) -> Vec<SavedRoot> {
        self.0.iter().map(|space| SavedRoot::of(space.root())).collect()
    }
}

impl SavedRoot {
    fn of(root: &Root) -> Self {
        let frame_buffer = match root.kind {
            RootKind::Vmid0 { fb_start, fb_end, fb_offset } => Some((fb_start, fb_end, fb_offset)),
            RootKind::Process => None,
        };
        let Root { base, depth, block_size, start, end, .. } = *root;
        Self { base, depth, block_size, start, end, frame_buffer }
    }

    /// Returns the root, or an error if registers cannot describe it.
    fn root(&self, contexts: &Contexts) -> Result<Root, Broken> {
        let nothing = (self.start, self.end) == (1, 0);
        check("first address of page tables", self.start, nothing || self.start & 0xfff == 0)?;
        check("last address of page tables", self.end, nothing || self.end & 0xfff == 0xfff)?;
        let kind = match self.frame_buffer {
            None => RootKind::Process,
            Some((fb_start, fb_end, fb_offset)) => {
                let mib16 = |value: u64| value >> 48 == 0 && value & 0xff_ffff == 0;
                check("first byte of the frame buffer", fb_start, mib16(fb_start))?;
                check("last byte of the frame buffer", fb_end, mib16(fb_end ^ 0xff_ffff))?;
                check("frame buffer's place in VRAM", fb_offset, mib16(fb_offset))?;
                RootKind::Vmid0 { fb_start, fb_end, fb_offset }
            }
        };
        let Self { base, depth, block_size, start, end, .. } = *self;
        Ok(Root { base, depth, block_size, start, end, kind, format: contexts.format })
    }
}

/// Restored address spaces, by number.
#[derive(Debug)]
pub(crate) struct Spaces(Vec<Arc<AddressSpace>>);

impl Spaces {
    /// Makes the spaces of these roots.
    pub(crate) fn restored(contexts: &Contexts, roots: &[SavedRoot]) -> Result<Self, Broken> {
        let space = |saved: &SavedRoot| {
            let root = saved.root(contexts)?;
            let space = AddressSpace::new(Arc::clone(&contexts.memory), root, Arc::clone(&contexts.walks));
            space.map(|space| Arc::new(space.watched_by(&contexts.tools))).map_err(|_| Broken {
                field: "depth or block size of page tables",
                value: u64::from(root.depth) << 32 | u64::from(root.block_size),
            })
        };
        roots.iter().map(space).collect::<Result<_, _>>().map(Self)
    }

    /// The space with a number.
    pub(crate) fn get(&self, number: u32) -> Result<Arc<AddressSpace>, Broken> {
        let space = self.0.get(number as usize).cloned();
        space.ok_or(Broken { field: "number of an address space", value: number.into() })
    }
}

impl Contexts {
    /// The contexts, with their spaces put on the list.
    pub(crate) fn save(&self, list: &mut SpaceList) -> SavedContexts {
        let State { contexts, frame_buffer, fault } = *self.lock();
        let spaces = std::array::from_fn(|vmid| self.existing(vmid).map(|space| list.number(&space)));
        SavedContexts { contexts, frame_buffer, fault: (fault.status.bits(), fault.page), spaces }
    }

    /// Takes over the contexts of another device.
    pub(crate) fn restore(&self, saved: &SavedContexts, spaces: &Spaces) -> Result<(), Broken> {
        let found = saved.spaces.iter().map(|number| number.map(|number| spaces.get(number)).transpose());
        let found = found.collect::<Result<Vec<_>, _>>()?;
        count("VM contexts", found.len(), found.len() == VMIDS)?;
        let (status, page) = saved.fault;
        let fault = FaultRecord { status: GCVM_L2_PROTECTION_FAULT_STATUS::from_bits(status), page };
        *self.lock() = State { contexts: saved.contexts, frame_buffer: saved.frame_buffer, fault };
        for (vmid, space) in found.into_iter().enumerate() {
            self.put(vmid, space);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

    use super::*;
    use crate::chip::PteFormat;
    use crate::memory::Memory;
    use crate::vm::Tables;

    fn contexts() -> Contexts {
        let vram = MmapRegion::new(1 << 20).expect("anonymous memory");
        let memory = Arc::new(Memory::new(vram, GuestMemoryAtomic::new(GuestMemoryMmap::new())));
        let frame_buffer = FrameBuffer::new(0x80_0000_0000, 1 << 20);
        Contexts::new(memory, Default::default(), frame_buffer, PteFormat::Gfx11)
    }

    #[test]
    fn contexts_and_spaces_go_through_bytes_and_back() {
        let original = contexts();
        let tables = Tables { cntl: 1 | 3 << 1, base: 0x1001, start: 0, end: 0xf_ffff };
        original.map_process(8, 0x8001, tables);
        let (kernel, process) = (original.space(0).expect("always"), original.space(8).expect("enabled"));
        let mut list = SpaceList::default();
        // A space that a queue still holds although its VMID has another one.
        original.change(8, |tables| tables.base = 0x2001);
        assert_eq!(list.number(&process), 0);
        let saved = (original.save(&mut list), list.roots());
        assert_eq!(list.number(&kernel), 1);
        let bytes = postcard::to_allocvec(&saved).expect("plain values");
        let (read, roots): (SavedContexts, Vec<SavedRoot>) =
            postcard::from_bytes(&bytes).expect("the same values");
        let restored = contexts();
        let spaces = Spaces::restored(&restored, &roots).expect("roots");
        restored.restore(&read, &spaces).expect("contexts");
        assert_eq!(spaces.get(0).expect("numbered").root(), process.root());
        assert!(Arc::ptr_eq(&spaces.get(1).expect("numbered"), &restored.space(0).expect("always")));
        assert_eq!((restored.pasid(8), restored.tables(8).base), (0x8001, 0x2001));
        let mut list = SpaceList::default();
        list.number(&spaces.get(0).expect("numbered"));
        let again = (restored.save(&mut list), list.roots());
        assert_eq!(postcard::to_allocvec(&again).expect("plain values"), bytes);
    }

    #[test]
    fn roots_that_no_registers_describe_are_refused() {
        let contexts = contexts();
        let good =
            SavedRoot { start: 0, end: 0xfff, ..SavedRoot::of(contexts.space(0).expect("always").root()) };
        let refused = |change: fn(&mut SavedRoot)| {
            let mut root = good.clone();
            change(&mut root);
            Spaces::restored(&contexts, &[root]).expect_err("no registers say that").field
        };
        assert_eq!(refused(|root| root.start = 0x10), "first address of page tables");
        assert_eq!(refused(|root| root.end = 0x10), "last address of page tables");
        assert_eq!(refused(|root| root.depth = 4), "depth or block size of page tables");
        assert_eq!(refused(|root| root.block_size = 8), "depth or block size of page tables");
        let end = "last byte of the frame buffer";
        assert_eq!(refused(|root| root.frame_buffer = Some((0, 1, 0))), end);
        let spaces = Spaces::restored(&contexts, &[good]).expect("a root");
        assert!(spaces.get(1).is_err());
    }
}
