//! Execution of each kind of frame.

use belfry_abi::mes::{
    self, AddQueue, AddQueueFlags, ApiStatus, FRAME_SIZE, Header, Misc, MiscOpcode, Opcode, QueueType,
    RemoveQueue, RemoveQueueFlags, Resume, SetHwResources, SetHwResources1, SetSchedulingConfig,
    SetShaderDebugger, Suspend,
};
use zerocopy::FromBytes;

use crate::chip::MesFirmware;
use crate::firmware::Ports;
use crate::firmware::rings::{KernelRings, MappedBy, NewRing, RingKind};
use crate::firmware::slots::{Asked, Kind, NewProcess, NewQueue, Place, Shape, Slots, Whose, WritePointer};
use crate::firmware::watch::WatchRegisters;
use crate::guest_error::GuestError;
use crate::moments::Moment;
use crate::queue::{HqdId, Partition};
use crate::stats::{Counters, count};
use crate::vm::{AddressSpace, DebugSettings, LaunchControl, LaunchMode};

/// Bits of `TCP_WATCHn_CNTL.MASK`.
const WATCH_MASK_BITS: u32 = 23;

/// Result whose error is the reason that a frame is not answered.
type Result<T = ()> = std::result::Result<T, GuestError>;

/// Reads a frame as one of the layouts, all of which are as long as a frame.
fn parse<T: FromBytes>(frame: &[u8; FRAME_SIZE]) -> Result<T> {
    T::read_from_bytes(frame).map_err(|_| GuestError::MesFrameLength)
}

/// A frame as it lies in a ring, in the layout of version 11.
type RingFrame = [u8; FRAME_SIZE];

/// Parts of the device that frames reach.
pub(super) struct Frames<'a> {
    pub(super) slots: &'a mut Slots,
    pub(super) rings: &'a mut KernelRings,
    pub(super) ports: &'a Ports,
    /// VMID 0.
    pub(super) space: &'a AddressSpace,
    pub(super) firmware: &'a MesFirmware,
}

impl Frames<'_> {
    /// Executes one frame of a ring, and writes its fence if there was no error.
    pub(super) fn execute(&mut self, ring: HqdId, frame: &RingFrame) {
        let header = Header(u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]));
        let outcome = self.run(ring, frame);
        let ports = self.ports;
        ports.tell(Moment::FrameDone { opcode: header.opcode().0, done: outcome.is_ok() });
        match outcome {
            Ok(()) => count(&ports.counters.mes_frames),
            Err(why) => {
                count(&ports.counters.mes_refused);
                let name = header.opcode().name().unwrap_or("unknown");
                ports.counters.error(why, format_args!("frame={name} header={:#010x}", header.0));
            }
        }
    }

    fn run(&mut self, ring: HqdId, frame: &RingFrame) -> Result {
        let header = Header(u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]));
        if header.kind() != Header::TYPE_SCHEDULER {
            return Err(GuestError::MesFrameType);
        }
        if header.dwsize() as usize != mes::API_FRAME_SIZE_IN_DWORDS {
            return Err(GuestError::MesFrameSize);
        }
        let Self { ports, space, .. } = *self;
        match header.opcode() {
            Opcode::QUERY_SCHEDULER_STATUS => {}
            // The second pipe has no queues to give: its frame only holds the addresses that it may write to.
            Opcode::SET_HW_RSRC if ring == HqdId::KIQ => {}
            Opcode::SET_HW_RSRC => set_hw_resources(self.slots, ports, &parse(frame)?)?,
            Opcode::SET_HW_RSRC_1 => set_hw_resources_1(&ports.counters, &parse(frame)?),
            Opcode::SET_SCHEDULING_CONFIG => {
                set_scheduling_config(self.slots, &ports.counters, &parse(frame)?);
            }
            Opcode::ADD_QUEUE => self.add_queue(&parse(frame)?)?,
            Opcode::REMOVE_QUEUE => self.remove_queue(&parse(frame)?)?,
            Opcode::SUSPEND => suspend(self.slots, ports, space, &parse(frame)?)?,
            Opcode::RESUME => {
                let resume: Resume = parse(frame)?;
                let gang = (resume.resume_all_gangs & 1 == 0).then(|| resume.gang_context_addr.get());
                self.slots.resume(gang)?;
            }
            Opcode::MISC => misc(self.slots, ports, space, &parse(frame)?)?,
            opcode if opcode.name().is_some() => return Err(GuestError::MesOpcode),
            _ => return Err(GuestError::MesOpcodeUnknown),
        }
        let at = mes::api_status_offset(header.opcode()).ok_or(GuestError::MesOpcode)?;
        let (status, _) =
            ApiStatus::read_from_prefix(&frame[at..]).map_err(|_| GuestError::MesFrameLength)?;
        fence(space, status.api_completion_fence_addr.get(), status.api_completion_fence_value.get())
    }

    fn add_queue(&mut self, frame: &AddQueue) -> Result {
        if frame.flags.contains(AddQueueFlags::MAP_LEGACY_KQ) {
            return self.map_kernel_ring(frame);
        }
        if frame.flags.contains(AddQueueFlags::MAP_KIQ_UTILITY_QUEUE) {
            return Err(GuestError::AddQueueKernel);
        }
        let kind = match QueueType(frame.queue_type) {
            QueueType::COMPUTE => Kind::Compute,
            QueueType::SDMA => Kind::Sdma(None),
            QueueType::GFX => Kind::Graphics,
            _ => return Err(GuestError::AddQueueType),
        };
        if frame.flags.contains(AddQueueFlags::IS_TMZ_QUEUE) {
            return Err(GuestError::AddQueueProtected);
        }
        self.slots.add(self.ports, self.space, &new_queue(frame, kind))?;
        let flags = frame.flags;
        let has_gws = flags.contains(AddQueueFlags::EXCLUSIVELY_SCHEDULED);
        let is_sdma = QueueType(frame.queue_type) == QueueType::SDMA;
        unmodelled(
            &self.ports.counters,
            [
                ("ADD_QUEUE gds_base", frame.gds_base != 0 || flags.contains(AddQueueFlags::PROGRAM_GDS)),
                // A queue with exclusive scheduling has all of the global wave sync.
                ("ADD_QUEUE gws_size without exclusive scheduling", frame.gws_size != 0 && !has_gws),
                ("ADD_QUEUE oa_mask", frame.oa_mask != 0),
                ("ADD_QUEUE of an SDMA queue with exclusive scheduling", is_sdma && has_gws),
            ],
        );
        Ok(())
    }

    /// Maps a ring of the kernel's. If the firmware is on both pipes, its driver asks the second pipe for the scheduler's own
    /// ring. Compute rings are those of the first micro engine.
    fn map_kernel_ring(&mut self, frame: &AddQueue) -> Result {
        let (kind, me) = match QueueType(frame.queue_type) {
            QueueType::SCHQ => (RingKind::Mes, HqdId::MES.me),
            QueueType::COMPUTE => (RingKind::Compute, 1),
            QueueType::GFX => (RingKind::Graphics, 0),
            QueueType::SDMA => (RingKind::Sdma, 0),
            _ => return Err(GuestError::AddQueueType),
        };
        kind.served(MappedBy::Frame)?;
        let id = match (frame.pipe_id, frame.queue_id) {
            (pipe @ 0..4, queue @ 0..8) => HqdId { me, pipe: pipe as u8, queue: queue as u8 },
            _ => return Err(GuestError::AddQueuePlace),
        };
        if kind == RingKind::Mes && (!self.firmware.on_both_pipes || id != HqdId::MES) {
            return Err(GuestError::AddQueueKernel);
        }
        if self.slots.has_place(0, id) {
            return Err(GuestError::AddQueuePlace);
        }
        let doorbell = frame.doorbell_offset;
        if doorbell.number().is_none() || !doorbell.is_whole() {
            return Err(GuestError::AddQueueDoorbell);
        }
        let own = self.rings.of_doorbell(doorbell) == Some((0, id));
        if self.ports.doorbells.is_owned(doorbell.offset()) && !own {
            return Err(GuestError::AddQueueDoorbellTaken);
        }
        let new = NewRing { kind, at: (0, id), mqd: frame.mqd_addr.get(), doorbell: frame.doorbell_offset };
        self.rings.map(self.ports, self.space, &new, MappedBy::Frame)
    }

    fn remove_queue(&mut self, frame: &RemoveQueue) -> Result {
        let own =
            self.ports.hqds.hqd(HqdId::MES, |hqd| hqd.is_active() && hqd.doorbell() == frame.doorbell_offset);
        if frame.flags.contains(RemoveQueueFlags::UNMAP_LEGACY_QUEUE) && self.firmware.on_both_pipes && own {
            self.rings.unmap(self.ports, (0, HqdId::MES));
            return Ok(());
        }
        // The driver names compute rings by the flag of utility queues.
        let legacy = RemoveQueueFlags::UNMAP_LEGACY_GFX_QUEUE
            | RemoveQueueFlags::UNMAP_KIQ_UTILITY_QUEUE
            | RemoveQueueFlags::UNMAP_LEGACY_QUEUE;
        if frame.flags.intersects(legacy) {
            let at = self.rings.of_doorbell(frame.doorbell_offset).filter(|(_, id)| id.me != HqdId::MES.me);
            self.rings.unmap(self.ports, at.ok_or(GuestError::RemoveQueueKernel)?);
            return Ok(());
        }
        if frame.flags.contains(RemoveQueueFlags::PREEMPT_LEGACY_GFX_QUEUE) {
            return Err(GuestError::RemoveQueuePreempt);
        }
        self.slots.remove(self.ports, frame.doorbell_offset)
    }
}

/// Returns the name of a frame that begins with this dword.
pub(in crate::firmware) fn name(first: u32) -> &'static str {
    Header(first).opcode().name().unwrap_or("unknown frame")
}

/// Records a frame that a fault keeps from being executed and answered.
pub(super) fn strike(ports: &Ports, frame: &RingFrame, refused: bool) {
    let header = Header(u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]));
    ports.tell(Moment::FrameDone { opcode: header.opcode().0, done: false });
    if refused {
        count(&ports.counters.mes_refused);
        ports.counters.error(GuestError::FaultInjected, format_args!("frame={}", name(header.0)));
    }
}

/// Writes a completion, one 64-bit store; address 0 asks for none.
fn fence(space: &AddressSpace, address: u64, value: u64) -> Result {
    if address == 0 {
        return Ok(());
    }
    space.store_u64(address, value).map_err(|_| GuestError::FenceUnmapped)
}

/// Counts fields that the firmware would act on and this scheduler does not, if they ask for something.
fn unmodelled<const N: usize>(counters: &Counters, fields: [(&'static str, bool); N]) {
    for (name, _) in fields.into_iter().filter(|(_, asks)| *asks) {
        counters.unmodelled(name, format_args!("answered without it"));
    }
}

fn set_hw_resources(mes: &mut Slots, ports: &Ports, frame: &SetHwResources) -> Result {
    let counters = &ports.counters;
    // VMID 0 is the kernel's own, and never the scheduler's to give away.
    let vmids = frame.vmid_mask_gfxhub & 0xfffe;
    if vmids == 0 {
        return Err(GuestError::ResourcesWithoutVmids);
    }
    // Queues of pipes 0 to 3 of the first micro engine, and of the SDMA engines.
    let pipes = frame.compute_hqd_mask.iter().take(4).zip(0..);
    let compute = pipes.fold(0, |mask, (&pipe, at)| mask | u64::from(pipe as u8) << (8 * at));
    let sdma = (0..).zip(frame.sdma_hqd_mask).flat_map(|(engine, mask)| Place::sdma(engine, mask));
    let graphics = (0..).zip(frame.gfx_hqd_mask).flat_map(|(pipe, mask)| Place::graphics(pipe, mask));
    let places = Place::compute(0, compute).chain(sdma).chain(graphics).collect();
    mes.configure(ports, Partition::ONE, vmids, places)?;
    unmodelled(
        counters,
        [
            ("SET_HW_RSRC compute_hqd_mask of pipes 4 to 7", frame.compute_hqd_mask[4..] != [0; 4]),
            (
                "SET_HW_RSRC sdma_hqd_mask of queues 8 to 31",
                frame.sdma_hqd_mask.iter().any(|mask| mask >> 8 != 0),
            ),
            ("SET_HW_RSRC aggregated_doorbells", frame.aggregated_doorbells != [0; 5]),
        ],
    );
    Ok(())
}

/// Takes SET_HW_RSRC_1. It only gives the firmware addresses to write to for a hypervisor and a cleaner shader: nothing
/// is written there, and the driver does not read it. Queues are taken off at once, within any timeout.
fn set_hw_resources_1(counters: &Counters, frame: &SetHwResources1) {
    unmodelled(
        counters,
        [
            ("SET_HW_RSRC_1 mes_info_ctx", frame.flags & SetHwResources1::ENABLE_MES_INFO_CTX != 0),
            ("SET_HW_RSRC_1 unknown flags", frame.flags & !SetHwResources1::ENABLE_MES_INFO_CTX != 0),
            ("SET_HW_RSRC_1 fields of later firmware", frame.later.iter().any(|&word| word != 0)),
        ],
    );
}

/// Takes SET_SCHEDULING_CONFIG. Of its fields, the firmware uses only the quanta; see [`SetSchedulingConfig`].
fn set_scheduling_config(mes: &mut Slots, counters: &Counters, frame: &SetSchedulingConfig) {
    mes.quanta.set_levels(frame.process_quantum_for_level.map(|quantum| quantum.get()));
    let grace = frame.grace_period_other_levels.iter().chain(&frame.process_grace_period_same_level);
    unmodelled(
        counters,
        [
            ("SET_SCHEDULING_CONFIG grace periods", grace.into_iter().any(|period| period.get() != 0)),
            ("SET_SCHEDULING_CONFIG normal_yield_percent", frame.normal_yield_percent != 0),
        ],
    );
}

/// Bits of the registers `GCVM_CONTEXTn_PAGE_TABLE_START_ADDR` and `_END_ADDR`.
///
/// Linux gives pages for queues of processes, and bytes for its own queues (`amdgpu_mes_add_hw_queue`), of which the registers
/// keep these.
const PAGE_BITS: u64 = (1 << 36) - 1;

/// Returns the fields of a frame that firmware uses.
fn new_queue(frame: &AddQueue, kind: Kind) -> NewQueue {
    NewQueue {
        partition: Partition::ONE,
        doorbell: frame.doorbell_offset,
        process: NewProcess {
            key: frame.process_context_addr.get(),
            pasid: frame.process_id as u16,
            base: frame.page_table_base_addr.get(),
            shape: Some(Shape {
                cntl: frame.vm_context_cntl,
                range: (frame.process_va_start.get() & PAGE_BITS, frame.process_va_end.get() & PAGE_BITS),
            }),
            shader: None,
        },
        gang: frame.gang_context_addr.get(),
        kind,
        mqd: frame.mqd_addr.get(),
        wptr: WritePointer { address: frame.wptr_addr.get(), whose: Whose::Kernel },
        trap: (frame.trap_handler_addr.get(), frame.tma_addr.get()),
        exclusive: frame.flags.contains(AddQueueFlags::EXCLUSIVELY_SCHEDULED),
        suspended: frame.flags.contains(AddQueueFlags::IS_GANG_SUSPENDED),
        is_static: false,
        asked: asked(frame),
    }
}

fn asked(frame: &AddQueue) -> Asked {
    Asked {
        gang: frame.gang_quantum.get(),
        process: frame.process_quantum.get(),
        level: frame.gang_global_priority_level,
    }
}

fn suspend(mes: &mut Slots, ports: &Ports, space: &AddressSpace, frame: &Suspend) -> Result {
    let gang = (frame.suspend_all_gangs & 1 == 0).then(|| frame.gang_context_addr.get());
    mes.suspend(ports, gang)?;
    if frame.suspend_fence_addr.get() != 0 {
        space
            .store_u32(frame.suspend_fence_addr.get(), frame.suspend_fence_value)
            .map_err(|_| GuestError::SuspendFenceUnmapped)?;
    }
    Ok(())
}

fn misc(mes: &mut Slots, ports: &Ports, space: &AddressSpace, frame: &Misc) -> Result {
    let [first, second, third, fourth, fifth, ..] = frame.data;
    match MiscOpcode(frame.opcode) {
        MiscOpcode::QUERY_STATUS => Ok(()),
        MiscOpcode::WRITE_REG => {
            ports.registers.write(first, second);
            Ok(())
        }
        MiscOpcode::READ_REG => {
            let address = u64::from(third) << 32 | u64::from(second);
            space.store_u32(address, ports.registers.read(first)).map_err(|_| GuestError::ReadRegUnmapped)
        }
        MiscOpcode::INV_GART => {
            ports.contexts.invalidate(1);
            Ok(())
        }
        MiscOpcode::WAIT_REG_MEM => wait_reg_mem(ports, [first, second, third, fourth, fifth]),
        MiscOpcode::SET_SHADER_DEBUGGER => set_shader_debugger(mes, ports, &SetShaderDebugger::of(frame)),
        _ => Err(GuestError::MiscOpcode),
    }
}

/// Sets the settings of a debugger for the waves of a process, which may have no queue yet. Each access of memory and
/// each operation is over before the next begins, as `SINGLE_MEMOP` and `SINGLE_ALU_OP` ask for. Waves have their trap
/// handler with any value of `trap_en`.
fn set_shader_debugger(mes: &mut Slots, ports: &Ports, frame: &SetShaderDebugger) -> Result {
    if frame.flags & SetShaderDebugger::PROCESS_CTX_FLUSH != 0 {
        let forgotten = mes.set_debug(frame.process_context_addr, None);
        debug_assert!(forgotten, "there is room for less");
        return Ok(());
    }
    let launch = LaunchControl(frame.spi_gdbg_per_vmid_cntl);
    let watches = WatchRegisters::of(&ports.registers, 0, frame.tcp_watch_cntl)
        .map(|registers| registers.watch(WATCH_MASK_BITS));
    if !mes.set_debug(frame.process_context_addr, Some(DebugSettings { launch, watches })) {
        return Err(GuestError::ShaderDebugger);
    }
    unmodelled(
        &ports.counters,
        [
            (
                "SPI_GDBG_PER_VMID_CNTL stall and traps at the begin and the end of waves",
                launch.unmodelled() != 0,
            ),
            ("SPI_GDBG_PER_VMID_CNTL launch_mode kill", launch.mode() == LaunchMode::Kill),
            ("SET_SHADER_DEBUGGER unknown flags", frame.flags & !SetShaderDebugger::KNOWN_FLAGS != 0),
        ],
    );
    Ok(())
}

/// Executes WAIT_REG_MEM. Registers change at once in this device, so a condition that does not hold now would never
/// hold.
fn wait_reg_mem(ports: &Ports, [operation, reference, mask, first, second]: [u32; 5]) -> Result {
    let register = match operation {
        mes::WRM_OPERATION_WAIT_REG_MEM => first,
        mes::WRM_OPERATION_WR_WAIT_WR_REG => {
            ports.registers.write(first, reference);
            second
        }
        _ => return Err(GuestError::WaitOperation),
    };
    if ports.registers.read(register) & mask == reference & mask {
        Ok(())
    } else {
        Err(GuestError::WaitForever)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zerocopy::FromZeros;

    use super::*;

    #[test]
    fn scheduling_config_sets_the_quanta_of_queues_that_ask_for_none() {
        let (mut mes, mut config) = (Slots::default(), SetSchedulingConfig::new_zeroed());
        config.process_quantum_for_level = [1, 20, 300, 4000, 50_000].map(Into::into);
        set_scheduling_config(&mut mes, &Counters::default(), &config);
        let mut frame = AddQueue::new_zeroed();
        frame.gang_global_priority_level = 3;
        let quantum = |frame: &AddQueue| mes.quanta.of(asked(frame), Duration::ZERO);
        assert_eq!(quantum(&frame), Duration::from_micros(400));
        frame.gang_quantum = 70.into();
        assert_eq!(quantum(&frame), Duration::from_micros(7));
    }
}
