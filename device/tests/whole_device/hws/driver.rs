//! A driver in miniature for chips whose queues the hardware scheduler maps: KIQs, the HIQ, run lists.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::gpuvm::{PTE_TF, gfx9 as pte};
use belfry_abi::mqd::v9;
use belfry_abi::partition::ComputePartition;
use belfry_abi::pci::doorbell_layout1 as doorbells;
use belfry_abi::pm4::{Opcode, Pm4Header};
use belfry_abi::regs::{Register, gc, gfx9, nbio};
use belfry_device::GpuConfig;
use belfry_device::chip::{Chip as _, Instinct, Shape, gfx942};
use zerocopy::IntoBytes as _;

use crate::driver::{Driver, GART, KernelRing, Process, UserQueue};

/// Places of the KIQ and the HIQ on each XCC: micro engine, pipe, queue.
const KIQ: [u32; 3] = [2, 1, 0];
const HIQ: [u32; 3] = [2, 0, 0];
/// VMIDs that processes get.
pub const VMIDS: std::ops::Range<u32> = 3..16;

pub struct Hws {
    pub driver: Driver,
    pub chip: Instinct,
    pub xccs: u8,
    pub kiqs: Vec<KernelRing>,
    /// The HIQ of each partition.
    pub hiqs: Vec<KernelRing>,
    /// The partition that the next queues, lists and packets are for.
    pub partition: u8,
    /// XCCs of a partition.
    pub in_each: u8,
    fences: u64,
}

/// Bits that directories of gfx9 have beside addresses.
fn directory(level: u32) -> u64 {
    match level {
        2 => pte::pde_bfs(9),
        1 => PTE_TF,
        _ => 0,
    }
}

/// A packet of a run list or of the HIQ.
pub fn packet(opcode: Opcode, body: &[u32]) -> Vec<u32> {
    let mut packet = vec![Pm4Header::type3(opcode, body.len() as u32).bits()];
    packet.extend(body);
    packet
}

pub const ALL_NOT_STATIC: u32 = 3 << 4;

impl Hws {
    /// A fresh device.
    pub fn with(shape: Shape, config: GpuConfig) -> Self {
        let in_each = (shape.xccs / config.partition.partitions(shape.xccs).unwrap_or(1)) as u8;
        let config = GpuConfig { chip: &gfx942::MODEL, xccs: shape.xccs, cus: shape.cus, ..config };
        Self {
            driver: Driver::with(config),
            chip: gfx942::chip(shape),
            xccs: shape.xccs as u8,
            kiqs: Vec::new(),
            hiqs: Vec::new(),
            partition: 0,
            in_each,
            fences: 100,
        }
    }

    /// Everything up to SET_RESOURCES.
    pub fn up(shape: Shape) -> Self {
        Self::up_as(shape, ComputePartition::Spx)
    }

    /// A device up to SET_RESOURCES, whose XCCs have this partition mode after a reset already.
    pub fn up_as(shape: Shape, partition: ComputePartition) -> Self {
        let mut hws = Self::with(shape, GpuConfig { partition, ..GpuConfig::default() });
        hws.bring_up();
        hws
    }

    pub fn bring_up(&mut self) {
        self.driver.enable();
        self.start_gart();
        self.start_contexts();
        // The registers of ring 0 are at the same places as on Navi.
        self.driver.start_interrupts();
        for xcc in 0..self.xccs {
            self.start_kiq(xcc);
        }
        self.start_partitions();
    }

    /// Maps the HIQ of each partition, and gives it its resources: all VMIDs, as KFD does.
    pub fn start_partitions(&mut self) {
        self.hiqs.clear();
        for partition in 0..self.xccs / self.in_each {
            self.partition = partition;
            self.start_hiq();
            let vmids = VMIDS.fold(0, |mask, vmid| mask | 1 << vmid);
            self.resources(vmids, 0xffff_ffff);
        }
        self.partition = 0;
    }

    /// The partition's first XCC.
    pub fn first(&self) -> u8 {
        self.partition * self.in_each
    }

    pub fn dword<R: Register>(&self, xcc: u8) -> u32 {
        self.chip.dword(R::IP, xcc, R::AT).expect("the chip has it")
    }

    pub fn get<R: Register>(&self, xcc: u8) -> R {
        R::from_bits(self.driver.read(self.dword::<R>(xcc)))
    }

    /// Reads a register of the bus interface that only the windows reach.
    pub fn far<R: Register>(&self) -> R {
        let address = u64::from(self.dword::<R>(0)) * 4;
        self.driver.write(self.dword::<nbio::PCIE_INDEX2>(0), address as u32);
        self.driver.write(self.dword::<gfx9::nbio::PCIE_INDEX2_HI>(0), (address >> 32) as u32);
        R::from_bits(self.driver.read(self.dword::<nbio::PCIE_DATA2>(0)))
    }

    pub fn set<R: Register>(&self, xcc: u8, register: R) {
        self.driver.write(self.dword::<R>(xcc), register.bits());
    }

    fn pair(&self, dword: u32, value: u64) {
        self.driver.write(dword, value as u32);
        self.driver.write(dword + 1, (value >> 32) as u32);
    }

    pub fn select(&self, xcc: u8, [me, pipe, queue]: [u32; 3]) {
        let mut select = gc::GRBM_GFX_CNTL::default();
        select.set_meid(me);
        select.set_pipeid(pipe);
        select.set_queueid(queue);
        self.set(xcc, select);
    }

    fn start_gart(&self) {
        for xcc in 0..self.xccs {
            self.pair(self.dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32>(xcc), 1);
            self.pair(self.dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32>(xcc), GART >> 12);
            self.pair(self.dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32>(xcc), (GART >> 12) + 0x1_ffff);
            let mut cntl = gc::GCVM_CONTEXT0_CNTL::default();
            cntl.set_enable_context(true);
            self.set(xcc, cntl);
        }
    }

    /// Writes the values of gfxhub_v1_2_xcc_setup_vmid_config: the contexts of all VMIDs but 0 have their
    /// shape before they have tables.
    fn start_contexts(&self) {
        let mut cntl = gc::GCVM_CONTEXT0_CNTL::default();
        cntl.set_enable_context(true);
        cntl.set_page_table_depth(2);
        cntl.set_page_table_block_size(9);
        for xcc in 0..self.xccs {
            for vmid in 1..16 {
                self.driver.write(self.dword::<gc::GCVM_CONTEXT0_CNTL>(xcc) + vmid, cntl.bits());
                self.pair(self.dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32>(xcc) + 2 * vmid, 0);
                let end = self.dword::<gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32>(xcc) + 2 * vmid;
                self.pair(end, (1 << 36) - 1);
            }
        }
    }

    /// Programs the KIQ's registers, as gfx_v9_4_3_xcc_kiq_init_register does.
    pub fn start_kiq(&mut self, xcc: u8) {
        let (ring, mqd) = self.driver.kernel_ring(4096, doorbells::kiq(xcc.into()));
        let [me, pipe, queue] = KIQ;
        self.set(xcc, gc::RLC_CP_SCHEDULERS::from_bits(0x80 | me << 5 | pipe << 3 | queue));
        self.select(xcc, KIQ);
        let at = |offset: u32| self.dword::<gc::CP_MQD_BASE_ADDR>(xcc) + offset;
        self.pair(at(0), mqd.mqd_base());
        self.pair(
            self.dword::<gc::CP_HQD_PQ_BASE>(xcc),
            u64::from(mqd.cp_hqd_pq_base_hi) << 32 | u64::from(mqd.cp_hqd_pq_base_lo),
        );
        self.pair(self.dword::<gc::CP_HQD_PQ_RPTR_REPORT_ADDR>(xcc), mqd.pq_rptr_report_addr());
        self.pair(self.dword::<gc::CP_HQD_PQ_WPTR_POLL_ADDR>(xcc), mqd.pq_wptr_poll_addr());
        self.driver.write(self.dword::<gc::CP_HQD_PQ_CONTROL>(xcc), mqd.cp_hqd_pq_control);
        self.driver.write(self.dword::<gc::CP_HQD_PQ_DOORBELL_CONTROL>(xcc), mqd.cp_hqd_pq_doorbell_control);
        self.driver.write(self.dword::<gc::CP_HQD_ACTIVE>(xcc), 1);
        self.select(xcc, [0; 3]);
        self.kiqs.push(ring);
    }

    pub fn kiq(&mut self, xcc: u8, dwords: &[u32]) {
        let mut ring = self.kiqs[usize::from(xcc)];
        self.driver.submit(&mut ring, dwords);
        self.kiqs[usize::from(xcc)] = ring;
    }

    /// MAP_QUEUES of the HIQ, as kgd_gfx_v9_hiq_mqd_load writes it.
    pub fn map_hiq(&self, mqd: u64) -> Vec<u32> {
        let [me, pipe, queue] = HIQ;
        let control = (me - 1) << 18 | pipe << 16 | queue << 13 | 1 << 26 | 1 << 29;
        let bell = doorbells::hiq(self.first().into()).dwords() << 2;
        packet(Opcode::MAP_QUEUES, &[control, bell, mqd as u32, (mqd >> 32) as u32, 0, 0])
    }

    /// The HIQ's MQDs lie one after the other, and each XCC's KIQ maps its own.
    fn start_hiq(&mut self) {
        let (ring, mut mqd) = self.driver.kernel_ring(4096, doorbells::hiq(self.first().into()));
        mqd.set_v9(v9::CP_MQD_STRIDE_SIZE, 4096);
        let (memory, address) = self.driver.gart_alloc(4096 * u64::from(self.in_each));
        for xcc in 0..u64::from(self.in_each) {
            self.driver.put_ram(memory + xcc * 4096, &mqd);
        }
        self.hiqs.push(ring);
        for xcc in 0..self.in_each {
            let map = self.map_hiq(address + u64::from(xcc) * 4096);
            self.kiq(self.first() + xcc, &map);
            self.kiq_test(self.first() + xcc);
        }
    }

    /// Takes the only HIQ off all cores, by their KIQs.
    pub fn unmap_hiq(&mut self) {
        let bell = doorbells::HIQ.dwords() << 2;
        // The first one is read, and ends last.
        for xcc in (0..self.xccs).rev() {
            self.kiq(xcc, &packet(Opcode::UNMAP_QUEUES, &[1 | 1 << 29, bell, 0, 0, 0]));
            self.kiq_test(xcc);
        }
    }

    /// amdgpu's ring test: a register of the KIQ's own XCC gets a value.
    pub fn kiq_test(&mut self, xcc: u8) {
        let index = self.dword::<gc::SCRATCH_REG0>(0);
        self.set(xcc, gc::SCRATCH_REG0::from_bits(0xcafe_dead));
        self.kiq(xcc, &packet(Opcode::WRITE_DATA, &[1 << 16, index, 0, 0xdead_beef]));
        let at = self.dword::<gc::SCRATCH_REG0>(xcc);
        self.driver.wait("the KIQ's ring test", || self.driver.read(at) == 0xdead_beef);
    }

    pub fn hiq(&mut self, dwords: &[u32]) {
        let mut ring = self.hiqs[usize::from(self.partition)];
        self.driver.submit(&mut ring, dwords);
        self.hiqs[usize::from(self.partition)] = ring;
    }

    /// Waits until the HIQ has taken all packets.
    pub fn fence(&mut self) {
        let (memory, address) = self.driver.gart_alloc(8);
        self.fences += 1;
        let value = self.fences;
        let query = [2 << 30, 0, address as u32, (address >> 32) as u32, value as u32, 0];
        self.hiq(&packet(Opcode::QUERY_STATUS, &query));
        self.driver.wait("the fence of QUERY_STATUS", || self.driver.ram_u64(memory) == value);
    }

    pub fn resources(&mut self, vmids: u32, queues: u32) {
        self.hiq(&packet(Opcode::SET_RESOURCES, &[1 << 29 | vmids, queues, 0, 0, 0, 0, 0]));
        self.fence();
    }

    pub fn process(&mut self, pasid: u16) -> Process {
        Process::with(&mut self.driver, pasid, directory)
    }

    /// A queue with an MQD for each XCC of the partition.
    pub fn queue(&mut self, process: &mut Process, doorbell: u32) -> UserQueue {
        let queue = UserQueue::new(&mut self.driver, process, doorbell);
        let mut mqd = self.mqd(&queue);
        mqd.set_v9(v9::CP_MQD_STRIDE_SIZE, 4096);
        mqd.set_v9(v9::COMPUTE_TG_CHUNK_SIZE, 1);
        let (memory, address) = self.driver.gart_alloc(4096 * u64::from(self.in_each));
        for xcc in 0..u32::from(self.in_each) {
            mqd.set_v9(v9::COMPUTE_CURRENT_LOGIC_XCC_ID, xcc);
            self.driver.put_ram(memory + u64::from(xcc) * 4096, &mqd);
        }
        UserQueue { mqd: address, mqd_memory: memory, ..queue }
    }

    pub fn mqd(&self, queue: &UserQueue) -> belfry_abi::mqd::ComputeMqd {
        self.mqd_at(queue.mqd_memory)
    }

    pub fn mqd_at(&self, memory: u64) -> belfry_abi::mqd::ComputeMqd {
        use vm_memory::{Bytes as _, GuestAddress};
        let mut mqd = belfry_abi::mqd::ComputeMqd::new();
        self.driver.ram.read_slice(mqd.as_mut_bytes(), GuestAddress(memory)).unwrap();
        mqd
    }

    /// Sends a list, after taking everything off, and waits until it has been taken.
    pub fn run(&mut self, list: &[u32]) {
        self.unmap(ALL_NOT_STATIC, &[]);
        self.run_list(list);
        self.fence();
    }

    /// RUN_LIST alone.
    pub fn run_list(&mut self, list: &[u32]) {
        let (memory, address) = self.driver.gart_alloc(list.len() as u64 * 4);
        for (at, dword) in (0..).zip(list) {
            self.driver.put_ram(memory + at * 4, dword);
        }
        let control = list.len() as u32 | 1 << 23;
        self.hiq(&packet(Opcode::RUN_LIST, &[address as u32, (address >> 32) as u32, control]));
    }

    pub fn unmap(&mut self, control: u32, doorbells: &[u32]) {
        let mut body = [control, 0, 0, 0, 0];
        for (word, doorbell) in body[1..].iter_mut().zip(doorbells) {
            *word = doorbell << 2;
        }
        self.hiq(&packet(Opcode::UNMAP_QUEUES, &body));
        self.fence();
    }

    pub fn errors(&self, name: &str) -> u64 {
        self.driver.errors(name)
    }
}

/// MAP_PROCESS.
pub fn map_process(process: &Process) -> Vec<u32> {
    let mut body = [0; 20];
    body[0] = u32::from(process.pasid) | 10 << 25;
    (body[1], body[2]) = (process.root() as u32, (process.root() >> 32) as u32);
    // Apertures, unaligned accesses, RETRY_DISABLE.
    (body[3], body[4]) = (0x0001_0002, 3 << 3 | 1 << 12);
    packet(Opcode::MAP_PROCESS, &body)
}

/// MAP_QUEUES of a compute queue.
pub fn map_queue(queue: &UserQueue, process_wptr: u64) -> Vec<u32> {
    map(1 << 4 | 1 << 29, queue.doorbell, queue.mqd, process_wptr)
}

pub fn map(control: u32, doorbell: u32, mqd: u64, wptr: u64) -> Vec<u32> {
    let body = [control, doorbell << 2 | 2, mqd as u32, (mqd >> 32) as u32, wptr as u32, (wptr >> 32) as u32];
    packet(Opcode::MAP_QUEUES, &body)
}

/// The list of one process.
pub fn list_of(hws: &Hws, process: &Process, queues: &[&UserQueue]) -> Vec<u32> {
    let mut list = map_process(process);
    for queue in queues {
        list.extend(map_queue(queue, hws.mqd(queue).pq_wptr_poll_addr()));
    }
    list
}

/// Doorbells, in dwords, of queues of a slice.
pub fn doorbell(slice: u32, queue: u32) -> u32 {
    DoorbellIndex::of_number(slice * 1024 + queue).dwords()
}
