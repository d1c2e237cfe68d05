//! The memory hubs: VM contexts and the engines that invalidate their translations.
//!
//! Both hubs have the same registers; engines run in the GC hub's contexts. A context's address space is made from its
//! registers when it is first used, and made anew after they change.

use std::sync::{Arc, PoisonError, RwLock};

use belfry_abi::regs::Register;
use belfry_abi::regs::gc::{
    GCMC_VM_FB_LOCATION_BASE, GCMC_VM_FB_LOCATION_TOP, GCMC_VM_FB_OFFSET, GCVM_CONTEXT0_CNTL,
    GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32, GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32,
    GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32, GCVM_INVALIDATE_ENG0_ACK, GCVM_INVALIDATE_ENG0_REQ,
    GCVM_INVALIDATE_ENG0_SEM,
};
use belfry_abi::regs::mmhub::{MMVM_INVALIDATE_ENG0_ACK, MMVM_INVALIDATE_ENG0_REQ, MMVM_INVALIDATE_ENG0_SEM};

use super::State;
use crate::memory::Memory;
use crate::vm::{AddressSpace, Root, RootKind, WalkCounter};

/// VM contexts of a hub.
pub(crate) const VMIDS: usize = 16;
/// Invalidation engines of a hub.
const ENGINES: u32 = 18;

/// What a register of the hubs is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum HubRegister {
    /// Reading it takes the semaphore, which is always free.
    Semaphore,
    /// A request to forget translations.
    Request,
    /// The answer: every VMID asked for, at once.
    Acknowledge {
        /// Where the request is.
        request: u32,
    },
    /// Shape, root or range of a GC hub context.
    Context(usize),
    /// The frame buffer's place, which concerns VMID 0.
    FrameBuffer,
}

/// Classifies a register, or `None` if it is not one the hubs act on.
pub(super) fn classify(index: u32) -> Option<HubRegister> {
    let within = |first: u32, count: u32| index.checked_sub(first).filter(|&at| at < count);
    for (semaphore, request, acknowledge) in [
        (GCVM_INVALIDATE_ENG0_SEM::INDEX, GCVM_INVALIDATE_ENG0_REQ::INDEX, GCVM_INVALIDATE_ENG0_ACK::INDEX),
        (MMVM_INVALIDATE_ENG0_SEM::INDEX, MMVM_INVALIDATE_ENG0_REQ::INDEX, MMVM_INVALIDATE_ENG0_ACK::INDEX),
    ] {
        if within(semaphore, ENGINES).is_some() {
            return Some(HubRegister::Semaphore);
        }
        if within(request, ENGINES).is_some() {
            return Some(HubRegister::Request);
        }
        if let Some(engine) = within(acknowledge, ENGINES) {
            return Some(HubRegister::Acknowledge { request: request + engine });
        }
    }
    let vmids = VMIDS as u32;
    if let Some(vmid) = within(GCVM_CONTEXT0_CNTL::INDEX, vmids) {
        return Some(HubRegister::Context(vmid as usize));
    }
    for first in [
        GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32::INDEX,
        GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32::INDEX,
        GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32::INDEX,
    ] {
        if let Some(at) = within(first, 2 * vmids) {
            return Some(HubRegister::Context(at as usize / 2));
        }
    }
    matches!(
        index,
        GCMC_VM_FB_LOCATION_BASE::INDEX | GCMC_VM_FB_LOCATION_TOP::INDEX | GCMC_VM_FB_OFFSET::INDEX
    )
    .then_some(HubRegister::FrameBuffer)
}

/// The address spaces of the contexts.
#[derive(Debug)]
pub(crate) struct Contexts {
    spaces: RwLock<[Option<Arc<AddressSpace>>; VMIDS]>,
    memory: Arc<Memory>,
    walks: Arc<WalkCounter>,
}

impl Contexts {
    pub(super) fn new(memory: Arc<Memory>, walks: Arc<WalkCounter>) -> Self {
        Self { spaces: RwLock::default(), memory, walks }
    }

    /// The context's space, if it has been used since its registers last changed.
    pub(super) fn existing(&self, vmid: usize) -> Option<Arc<AddressSpace>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(vmid)?.clone()
    }

    /// The context's space, made from its registers if need be; `None` if they describe none.
    pub(super) fn make(&self, state: &State, vmid: usize) -> Option<Arc<AddressSpace>> {
        if let Some(space) = self.existing(vmid) {
            return Some(space);
        }
        let space =
            AddressSpace::new(Arc::clone(&self.memory), root(state, vmid)?, Arc::clone(&self.walks)).ok()?;
        let space = Arc::new(space);
        if let Some(slot) = self.spaces.write().unwrap_or_else(PoisonError::into_inner).get_mut(vmid) {
            *slot = Some(Arc::clone(&space));
        }
        Some(space)
    }

    /// Puts a space made before into a context, if its registers describe that one.
    pub(super) fn install(&self, state: &State, vmid: usize, space: &Arc<AddressSpace>) -> bool {
        let same = root(state, vmid).is_some_and(|root| root == *space.root());
        if same && let Some(slot) = self.spaces.write().unwrap_or_else(PoisonError::into_inner).get_mut(vmid)
        {
            *slot = Some(Arc::clone(space));
        }
        same
    }

    /// Forgets a context's space: the next use reads the registers again.
    pub(super) fn forget(&self, vmid: usize) {
        if let Some(slot) = self.spaces.write().unwrap_or_else(PoisonError::into_inner).get_mut(vmid) {
            *slot = None;
        }
    }

    /// Forgets every context.
    pub(super) fn reset(&self) {
        *self.spaces.write().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }

    /// Drops cached translations of the VMIDs in the mask; returns when no engine uses an old one.
    pub(super) fn invalidate(&self, vmids: u32) {
        for vmid in (0..VMIDS).filter(|vmid| vmids >> vmid & 1 == 1) {
            if let Some(space) = self.existing(vmid) {
                space.invalidate();
            }
        }
    }
}

fn pair(state: &State, first: u32, vmid: usize) -> u64 {
    let at = first as usize + 2 * vmid;
    u64::from(state.storage[at + 1]) << 32 | u64::from(state.storage[at])
}

/// What the registers say; a disabled context translates nothing, but VMID 0 still reaches the frame buffer.
fn root(state: &State, vmid: usize) -> Option<Root> {
    let cntl = GCVM_CONTEXT0_CNTL::from_bits(*state.storage.get(GCVM_CONTEXT0_CNTL::INDEX as usize + vmid)?);
    let mib16 = |index: u32| u64::from(state.storage[index as usize] & 0xff_ffff) << 24;
    let kind = if vmid == 0 {
        RootKind::Vmid0 {
            fb_start: mib16(GCMC_VM_FB_LOCATION_BASE::INDEX),
            fb_end: mib16(GCMC_VM_FB_LOCATION_TOP::INDEX) | 0xff_ffff,
            fb_offset: mib16(GCMC_VM_FB_OFFSET::INDEX),
        }
    } else if cntl.enable_context() {
        RootKind::Process
    } else {
        return None;
    };
    let (mut start, mut end) = (1, 0);
    if cntl.enable_context() {
        start = pair(state, GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32::INDEX, vmid) << 12;
        end = pair(state, GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32::INDEX, vmid) << 12 | 0xfff;
    }
    Some(Root {
        base: pair(state, GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32::INDEX, vmid),
        depth: cntl.page_table_depth(),
        block_size: cntl.page_table_block_size() + 9,
        start,
        end,
        kind,
    })
}
