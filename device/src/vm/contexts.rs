//! VM contexts: the page tables, the process and the apertures of each VMID.
//!
//! A context's address space is made from its tables when it is first used, and made anew after they change. Registers
//! (`GCVM_CONTEXTn_*`, `IH_VMID_n_LUT`, `SH_MEM_*`) and firmware that maps processes both end here: this is the only copy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_abi::regs::Register as _;
use belfry_abi::regs::gc::{GCVM_CONTEXT0_CNTL, GCVM_L2_PROTECTION_FAULT_STATUS, SH_MEM_CONFIG};
use belfry_lock::{Mutex, MutexGuard, RwLock, rank};

use super::{AddressSpace, Fault, Root, RootKind, WalkCounter};
use crate::chip::PteFormat;
use crate::memory::{Hive, Memory};
use crate::tools::Tools;

/// VM contexts of a hub.
pub(crate) const VMIDS: usize = 16;

/// Page tables of a context, as its registers hold them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(crate) struct Tables {
    /// `GCVM_CONTEXTn_CNTL`.
    pub(crate) cntl: u32,
    /// `GCVM_CONTEXTn_PAGE_TABLE_BASE_ADDR`.
    pub(crate) base: u64,
    /// `GCVM_CONTEXTn_PAGE_TABLE_START_ADDR`: number of the first page.
    pub(crate) start: u64,
    /// `GCVM_CONTEXTn_PAGE_TABLE_END_ADDR`: number of the last page.
    pub(crate) end: u64,
}

impl Tables {
    /// Values after reset; every context but the first has its `CNTL` at 0.
    pub(crate) const fn reset(vmid: usize) -> Self {
        Self { cntl: if vmid == 0 { GCVM_CONTEXT0_CNTL::RESET } else { 0 }, base: 0, start: 0, end: 0 }
    }
}

/// Registers of a context for a shader's memory accesses: `SH_MEM_BASES` and `SH_MEM_CONFIG`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(crate) struct ShaderMemory {
    pub(crate) bases: u32,
    pub(crate) config: u32,
}

/// Place of VRAM in VMID 0: the `FB_LOCATION_BASE`, `FB_LOCATION_TOP` and `FB_OFFSET` registers, in 16 MiB.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub(crate) struct FrameBuffer {
    pub(crate) base: u32,
    pub(crate) top: u32,
    pub(crate) offset: u32,
}

impl FrameBuffer {
    /// The place of `size` bytes of VRAM that begin at `base`.
    pub(crate) fn new(base: u64, size: u64) -> Self {
        Self { base: (base >> 24) as u32, top: ((base + size - 1) >> 24) as u32, offset: 0 }
    }
}

/// The first page fault since the driver last cleared it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FaultRecord {
    pub(crate) status: GCVM_L2_PROTECTION_FAULT_STATUS,
    /// Page number of the address.
    pub(crate) page: u64,
}

/// Number of the page that an access failed at, as registers and interrupts name it.
pub(crate) fn fault_page(fault: &Fault) -> u64 {
    fault.va >> 12 & 0xf_ffff_ffff
}

#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(super) struct Context {
    tables: Tables,
    /// Process of the VMID, as the interrupt handler's table has it; 0 for none.
    pasid: u16,
    shader: ShaderMemory,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    pub(super) contexts: [Context; VMIDS],
    pub(super) frame_buffer: FrameBuffer,
    pub(super) fault: FaultRecord,
}

impl State {
    fn new(frame_buffer: FrameBuffer) -> Self {
        let shader = ShaderMemory { bases: 0, config: SH_MEM_CONFIG::RESET };
        Self {
            contexts: std::array::from_fn(|vmid| Context { tables: Tables::reset(vmid), pasid: 0, shader }),
            frame_buffer,
            fault: FaultRecord::default(),
        }
    }

    /// The root that the tables of a VMID describe.
    fn root(&self, vmid: usize, format: PteFormat) -> Option<Root> {
        self.root_of(vmid == 0, self.contexts.get(vmid)?.tables, format)
    }

    /// The root that tables describe; a disabled context translates nothing, but VMID 0 still reaches the frame buffer.
    fn root_of(&self, kernel: bool, tables: Tables, format: PteFormat) -> Option<Root> {
        let cntl = GCVM_CONTEXT0_CNTL::from_bits(tables.cntl);
        let mib16 = |field: u32| u64::from(field & 0xff_ffff) << 24;
        let kind = if kernel {
            RootKind::Vmid0 {
                fb_start: mib16(self.frame_buffer.base),
                fb_end: mib16(self.frame_buffer.top) | 0xff_ffff,
                fb_offset: mib16(self.frame_buffer.offset),
            }
        } else if cntl.enable_context() {
            RootKind::Process
        } else {
            return None;
        };
        let (start, end) =
            if cntl.enable_context() { (tables.start << 12, tables.end << 12 | 0xfff) } else { (1, 0) };
        let (depth, block_size) = format.shape(cntl.page_table_depth(), cntl.page_table_block_size())?;
        Some(Root { base: tables.base, depth, block_size, start, end, kind, format })
    }
}

/// Every context of the hub the engines run in.
pub(crate) struct Contexts {
    state: Mutex<State, rank::Contexts>,
    /// Spaces made since their tables last changed. A thread that takes both locks takes `state` first.
    spaces: RwLock<[Option<Arc<AddressSpace>>; VMIDS], rank::ContextSpaces>,
    /// Changes of `spaces`, counted under its lock.
    changes: AtomicU64,
    pub(super) memory: Arc<Memory>,
    pub(super) walks: Arc<WalkCounter>,
    pub(super) tools: Tools,
    /// As the card's own firmware leaves it.
    frame_buffer: FrameBuffer,
    /// Format of the page tables' entries.
    pub(super) format: PteFormat,
}

/// The contexts that translate or belong to a process, by VMID.
impl std::fmt::Debug for Contexts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let State { contexts, frame_buffer, fault } = *self.lock();
        let enabled = |context: &Context| GCVM_CONTEXT0_CNTL::from_bits(context.tables.cntl).enable_context();
        let used =
            contexts.into_iter().enumerate().filter(|(_, context)| enabled(context) || context.pasid != 0);
        f.debug_struct("Contexts")
            .field("contexts", &used.collect::<std::collections::BTreeMap<_, _>>())
            .field("frame_buffer", &frame_buffer)
            .field("fault", &fault)
            .finish_non_exhaustive()
    }
}

impl Contexts {
    pub(crate) fn new(
        memory: Arc<Memory>,
        (walks, tools): (Arc<WalkCounter>, Tools),
        frame_buffer: FrameBuffer,
        format: PteFormat,
    ) -> Self {
        let state = Mutex::new(State::new(frame_buffer));
        let (spaces, changes) = (RwLock::default(), AtomicU64::new(0));
        Self { state, spaces, changes, memory, walks, tools, frame_buffer, format }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State, rank::Contexts> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context's space, if it has been used since its tables last changed.
    pub(super) fn existing(&self, vmid: usize) -> Option<Arc<AddressSpace>> {
        self.spaces.read().unwrap_or_else(PoisonError::into_inner).get(vmid)?.clone()
    }

    /// Notes that the driver has handled a page that a wave waits for.
    pub(crate) fn retried(&self, vmid: u8, page: u64) {
        if let Some(space) = self.existing(vmid.into()) {
            space.waits.forget_page(page);
        }
    }

    pub(super) fn put(&self, vmid: usize, space: Option<Arc<AddressSpace>>) {
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = spaces.get_mut(vmid) {
            *slot = space;
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Counts the changes of VMIDs' address spaces. A caller that reads this first and then asks for a
    /// [space](Self::space) may use the space until this reads as another value.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Address space of a VMID, made from its tables if need be; `None` if they describe none.
    pub(crate) fn space(&self, vmid: u8) -> Option<Arc<AddressSpace>> {
        let vmid = usize::from(vmid);
        if let Some(space) = self.existing(vmid) {
            return Some(space);
        }
        let state = self.lock();
        if let Some(space) = self.existing(vmid) {
            return Some(space);
        }
        let root = state.root(vmid, self.format)?;
        let space = Arc::new(self.make(root)?);
        self.put(vmid, Some(Arc::clone(&space)));
        Some(space)
    }

    fn make(&self, root: Root) -> Option<AddressSpace> {
        let space = AddressSpace::new(Arc::clone(&self.memory), root, Arc::clone(&self.walks)).ok()?;
        Some(space.watched_by(&self.tools))
    }

    /// Drops cached translations of the VMIDs in the mask; returns when no engine uses an old one.
    pub(crate) fn invalidate(&self, vmids: u32) {
        for vmid in (0..VMIDS).filter(|vmid| vmids >> vmid & 1 == 1) {
            if let Some(space) = self.existing(vmid) {
                space.invalidate();
            }
        }
    }

    /// VMIDs of a process, as a mask.
    pub(crate) fn vmids_of(&self, pasid: u16) -> u32 {
        let state = self.lock();
        (0..VMIDS).filter(|&vmid| state.contexts[vmid].pasid == pasid).fold(0, |mask, vmid| mask | 1 << vmid)
    }

    /// Programs a VMID for a process, as the scheduler's firmware does when it maps one.
    pub(crate) fn map_process(&self, vmid: u8, pasid: u16, tables: Tables) {
        self.set_pasid(vmid, pasid);
        self.change(vmid, |mapped| *mapped = tables);
    }

    /// An address space of a process that has no VMID yet; `None` if its tables describe none.
    pub(crate) fn process_space(&self, tables: Tables) -> Option<Arc<AddressSpace>> {
        let root = self.lock().root_of(false, tables, self.format)?;
        self.make(root).map(Arc::new)
    }

    /// Gives a VMID an address space that exists already, if its tables still describe that space.
    pub(crate) fn install_space(&self, vmid: u8, space: &Arc<AddressSpace>) -> bool {
        let vmid = usize::from(vmid) % VMIDS;
        let state = self.lock();
        let same = state.root(vmid, self.format).is_some_and(|root| root == *space.root());
        if same {
            self.put(vmid, Some(Arc::clone(space)));
        }
        same
    }

    /// Takes a VMID away from its process.
    pub(crate) fn unmap_process(&self, vmid: u8) {
        self.set_pasid(vmid, 0);
        self.change(vmid, |tables| tables.base = 0);
    }

    /// Page tables of a VMID.
    pub(crate) fn tables(&self, vmid: u8) -> Tables {
        self.lock().contexts[usize::from(vmid) % VMIDS].tables
    }

    /// Changes the page tables of a VMID: its next use makes a new address space. Values that are there already change nothing:
    /// Linux writes the tables of VMID 0 again with every invalidation by an engine.
    pub(crate) fn change(&self, vmid: u8, change: impl FnOnce(&mut Tables)) {
        let vmid = usize::from(vmid) % VMIDS;
        let changed = {
            let tables = &mut self.lock().contexts[vmid].tables;
            let before = *tables;
            change(tables);
            *tables != before
        };
        if changed {
            self.put(vmid, None);
        }
    }

    /// Process of a VMID, 0 for none.
    pub(crate) fn pasid(&self, vmid: u8) -> u16 {
        self.lock().contexts[usize::from(vmid) % VMIDS].pasid
    }

    pub(crate) fn set_pasid(&self, vmid: u8, pasid: u16) {
        self.lock().contexts[usize::from(vmid) % VMIDS].pasid = pasid;
    }

    /// Apertures and memory configuration of a VMID.
    pub(crate) fn shader_memory(&self, vmid: u8) -> ShaderMemory {
        self.lock().contexts[usize::from(vmid) % VMIDS].shader
    }

    pub(crate) fn change_shader_memory(&self, vmid: u8, change: impl FnOnce(&mut ShaderMemory)) {
        change(&mut self.lock().contexts[usize::from(vmid) % VMIDS].shader);
    }

    /// Place of the device in its hive, if it has one.
    pub(crate) fn hive(&self) -> Option<Hive> {
        self.memory.hive()
    }

    /// Place of VRAM in VMID 0.
    pub(crate) fn frame_buffer(&self) -> FrameBuffer {
        self.lock().frame_buffer
    }

    pub(crate) fn change_frame_buffer(&self, change: impl FnOnce(&mut FrameBuffer)) {
        change(&mut self.lock().frame_buffer);
        self.put(0, None);
    }

    /// Keeps the first page fault until the driver clears it, as the hardware does.
    pub(crate) fn record_fault(&self, vmid: u8, fault: &Fault) {
        let mut state = self.lock();
        let FaultRecord { status, page: kept } = &mut state.fault;
        if status.bits() != 0 {
            status.set_more_faults(true);
            return;
        }
        let (write, permission) = (fault.access.is_write(), fault.kind.is_permission());
        status.set_vmid(vmid.into());
        status.set_rw(write);
        status.set_permission_faults(if permission { if write { 2 } else { 1 } } else { 0 });
        status.set_walker_error(u32::from(!permission));
        status.set_mapping_error(!permission);
        *kept = fault_page(fault);
    }

    /// The fault that is kept.
    pub(crate) fn fault(&self) -> FaultRecord {
        self.lock().fault
    }

    /// Forgets the fault: the next one is kept.
    pub(crate) fn clear_fault(&self) {
        self.lock().fault = FaultRecord::default();
    }

    /// Returns to the values of power on.
    pub(crate) fn reset(&self) {
        *self.lock() = State::new(self.frame_buffer);
        let mut spaces = self.spaces.write().unwrap_or_else(PoisonError::into_inner);
        *spaces = Default::default();
        self.changes.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use belfry_isa::mem::Access;
    use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

    use super::*;
    use crate::vm::FaultKind;

    const ENABLED: u32 = 1 | 3 << 1;

    fn contexts() -> Contexts {
        let vram = MmapRegion::new(1 << 20).expect("anonymous memory");
        let memory = Arc::new(Memory::new(vram, GuestMemoryAtomic::new(GuestMemoryMmap::new())));
        Contexts::new(memory, Default::default(), FrameBuffer::new(0x80_0000_0000, 1 << 20), PteFormat::Gfx11)
    }

    fn tables(base: u64) -> Tables {
        Tables { cntl: ENABLED, base, start: 0, end: 0xf_ffff }
    }

    #[test]
    fn process_is_found_by_its_pasid_until_it_is_unmapped() {
        let contexts = contexts();
        contexts.map_process(8, 0x8001, tables(0x1001));
        contexts.map_process(10, 0x8001, tables(0x1001));
        contexts.map_process(9, 0x8002, tables(0x2001));
        assert_eq!(contexts.vmids_of(0x8001), 1 << 8 | 1 << 10);
        let root = *contexts.space(9).expect("enabled").root();
        assert_eq!((root.base, root.depth, root.end), (0x2001, 3, 0xffff_ffff));
        contexts.unmap_process(8);
        assert_eq!((contexts.vmids_of(0x8001), contexts.pasid(8)), (1 << 10, 0));
        assert!(contexts.space(7).is_none(), "never enabled");
    }

    #[test]
    fn space_is_kept_while_its_tables_stay_and_made_anew_after_a_change() {
        let contexts = contexts();
        contexts.map_process(8, 1, tables(0x1001));
        let first = contexts.space(8).expect("enabled");
        contexts.change_shader_memory(8, |memory| memory.bases = 7);
        contexts.set_pasid(8, 2);
        assert!(Arc::ptr_eq(&first, &contexts.space(8).expect("enabled")), "the tables are the same");
        contexts.change(8, |tables| tables.base = 0x3001);
        let second = contexts.space(8).expect("enabled");
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!contexts.install_space(8, &first), "it has other tables");
        contexts.change(8, |tables| tables.base = 0x1001);
        assert!(contexts.install_space(8, &first));
        assert!(Arc::ptr_eq(&first, &contexts.space(8).expect("enabled")));
    }

    #[test]
    fn first_fault_is_kept_until_cleared() {
        let contexts = contexts();
        let read_only = Fault::new(0x123_4567, Access::Write, FaultKind::ReadOnly);
        let missing = Fault { level: Some(2), ..Fault::new(0x567_8000, Access::Read, FaultKind::NotPresent) };
        contexts.record_fault(8, &read_only);
        contexts.record_fault(9, &missing);
        let fault = contexts.fault();
        assert_eq!((fault.status.vmid(), fault.page, fault.status.more_faults()), (8, 0x1234, true));
        contexts.clear_fault();
        contexts.record_fault(9, &missing);
        assert_eq!((contexts.fault().status.vmid(), contexts.fault().page), (9, 0x5678));
    }
}
