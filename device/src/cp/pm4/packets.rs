//! Execution of the packets of a PM4 queue: those about dispatches here, all others as in every stream.

use std::sync::Arc;

use belfry_abi::pm4::{
    CS_PARTIAL_FLUSH, ComputeRegister, DispatchDirect, DispatchIndirect, DispatchInitiator, EventWrite,
    EventWriteMemory, IndirectBuffer, LoadShRegIndex, Opcode, ReleaseMem, SAMPLE_PIPELINESTAT,
    SH_REG_INDEX_CU_MASK, SH_REG_START, SetShReg,
};

use super::dispatch::Pm4Dispatch;
use super::registers::ComputeRegisters;
use super::{MAX_STARTED, Pm4Queue, Started, launch, ring};
use crate::chip::{Pm4Packets, TmpRing, UserRegisters};
use crate::cp::MAX_SCRATCH_SLOTS;
use crate::cp::complete::Completed;
use crate::cp::dispatch::Prepared;
use crate::cp::env::KernelReach;
use crate::cp::error::Cause;
use crate::cp::indirect::Packet;
use crate::pm4::{self, Effect, Error, Port};
use crate::queue::BlockedOn;
use crate::shader::{Launch, ScratchPool};
use crate::vm::AddressSpace;

/// Registers that a driver sets and that have no effect here, as absolute dword indices: `COMPUTE_DISPATCH_TUNNEL`,
/// which is about speed, and `TA_CS_BC_BASE_ADDR` with its upper half, border colours of images, which nothing reads
/// (mesa `ac_cmdbuf.c`, `gfx10_init_compute_preamble_state`, `gfx12_init_compute_preamble_state`);
/// `CP_COHER_START_DELAY`, clocks before a cache is flushed (`ac_init_compute_preamble_state` of chips without
/// graphics).
const WITHOUT_EFFECT: [u32; 4] = [SH_REG_START + 0x27d, 0xc380, 0xc381, 0xc07b];

/// Work that is left to do after a packet.
pub(super) enum Outcome {
    Done,
    /// Look at it again later.
    Blocked(BlockedOn),
    /// Go on in this buffer.
    Enter(IndirectBuffer),
    /// Go on after this many dwords that follow the packet.
    Skip(u32),
}

/// Parts that packets reach: the process's memory, the registers that user queues may use, and the interrupt.
struct Reach<'a> {
    space: &'a AddressSpace,
    now: u64,
    packets: Pm4Packets,
    /// The graphics core that executes the queue.
    xcc: u8,
    allowed: &'static UserRegisters,
    /// All other registers, for queues of the kernel.
    all: Option<&'a KernelReach>,
    registers: &'a mut ComputeRegisters,
    hdp_flush: &'a mut u32,
    /// Context identifiers of the interrupts that packets ask for.
    interrupts: Vec<u32>,
}

impl Port for Reach<'_> {
    fn memory(&self) -> &AddressSpace {
        self.space
    }

    fn read_register(&mut self, packet: &'static str, index: u32) -> Result<u32, Error> {
        let register = ComputeRegister(index.wrapping_sub(SH_REG_START));
        if register.name().is_some() {
            return Ok(self.registers.get(register));
        }
        // A flush is done as soon as it is asked for.
        if index == self.allowed.hdp_flush_req || index == self.allowed.hdp_flush_done {
            return Ok(*self.hdp_flush);
        }
        self.all.map(|all| all.read(self.xcc, index)).ok_or(Error::Register { packet, index })
    }

    fn write_register(&mut self, packet: &'static str, index: u32, value: u32) -> Result<(), Error> {
        if self.registers.set(ComputeRegister(index.wrapping_sub(SH_REG_START)), value) {
            return Ok(());
        }
        if index == self.allowed.hdp_flush_req {
            *self.hdp_flush = value;
            self.space.memory().host_flushed();
            return Ok(());
        }
        // Markers of a thread trace, which there is not.
        if self.allowed.thread_trace_userdata.contains(&index) || WITHOUT_EFFECT.contains(&index) {
            return Ok(());
        }
        let all = self.all.ok_or(Error::Register { packet, index })?;
        all.write(self.xcc, index, value);
        Ok(())
    }

    fn now(&self) -> u64 {
        self.now
    }

    fn packets(&self) -> Pm4Packets {
        self.packets
    }

    fn xcc(&self) -> u8 {
        self.xcc
    }

    fn interrupt(&mut self, context: u32) -> Result<(), Error> {
        self.interrupts.push(context);
        Ok(())
    }
}

impl Pm4Queue {
    /// Executes one packet.
    pub(super) fn execute(&mut self, packet: &Packet) -> Result<Outcome, Cause> {
        if packet.header.packet_type() == 2 {
            return Ok(Outcome::Done);
        }
        let (opcode, body) = (packet.header.opcode(), &packet.body[..]);
        match opcode {
            Opcode::SET_SH_REG | Opcode::SET_SH_REG_INDEX => self.set_sh_reg(opcode, body)?,
            Opcode::SET_SH_REG_PAIRS if self.takes_pairs() => self.set_pairs(opcode, SH_REG_START, body)?,
            Opcode::SET_UCONFIG_REG_PAIRS if self.takes_pairs() => {
                self.set_pairs(opcode, pm4::UCONFIG_START, body)?;
            }
            Opcode::LOAD_SH_REG_INDEX if self.shader.chip().pm4 != Pm4Packets::V9 => {
                self.load_sh_reg(&pm4::exact(opcode, body).map_err(ring)?)?;
            }
            Opcode::DISPATCH_DIRECT => {
                let DispatchDirect { dim, initiator } = pm4::exact(opcode, body).map_err(ring)?;
                return self.dispatch(dim, initiator);
            }
            Opcode::DISPATCH_INDIRECT => {
                let packet: DispatchIndirect = pm4::exact(opcode, body).map_err(ring)?;
                let at = pm4::quad(packet.addr_lo & !3, packet.addr_hi);
                let dim = self.state.space().read(at);
                let dim = dim.map_err(|fault| Cause::Memory { what: "DISPATCH_INDIRECT", fault })?;
                return self.dispatch(dim, packet.initiator);
            }
            Opcode::EVENT_WRITE => {
                // An event with an address writes counters.
                if body.len() == 3 {
                    return self.write_counter(&pm4::exact(opcode, body).map_err(ring)?);
                }
                let event: EventWrite = pm4::exact(opcode, body).map_err(ring)?;
                if event.event_type() == CS_PARTIAL_FLUSH && self.has_running_dispatches() {
                    return Ok(Outcome::Blocked(BlockedOn::Dispatches));
                }
            }
            Opcode::RELEASE_MEM => {
                let packet = pm4::release(self.shader.chip().pm4, body).map_err(ring)?;
                if self.started.len() >= MAX_STARTED {
                    return Ok(Outcome::Blocked(BlockedOn::Dispatches));
                }
                self.started.push_back(Started::Release(packet));
                match self.retire() {
                    // The packet is over: its fence is written when there is a page for it.
                    Err(cause) if self.state.waits_for(&cause) => {}
                    retired => drop(retired?),
                }
            }
            _ => {
                let kernel = self.config.kernel;
                let effect = self.with_reach(|reach| match kernel {
                    true => pm4::execute_of_kernel(opcode, body, reach),
                    false => pm4::execute(opcode, body, reach),
                })?;
                return Ok(match effect {
                    Effect::Done => Outcome::Done,
                    Effect::Wait => Outcome::Blocked(BlockedOn::Memory),
                    Effect::Enter(buffer) => Outcome::Enter(buffer),
                    Effect::Skip(dwords) => Outcome::Skip(dwords),
                });
            }
        }
        Ok(Outcome::Done)
    }

    /// Writes a fence that is due.
    pub(super) fn release(&mut self, packet: &ReleaseMem) -> Result<(), Cause> {
        self.with_reach(|reach| pm4::release_mem(packet, reach))
    }

    fn with_reach<R>(&mut self, run: impl FnOnce(&mut Reach<'_>) -> Result<R, Error>) -> Result<R, Cause> {
        let mut reach = Reach {
            space: self.state.space(),
            now: self.state.now(),
            packets: self.shader.chip().pm4,
            xcc: self.config.shares.map_or(0, |shares| shares.first()),
            allowed: &self.shader.chip().user_registers,
            all: self.kernel.as_ref(),
            registers: &mut self.registers,
            hdp_flush: &mut self.hdp_flush,
            interrupts: Vec::new(),
        };
        let result = run(&mut reach);
        for event in reach.interrupts {
            self.state.announce(Completed { event: Some(event) });
        }
        result.map_err(ring)
    }

    /// Executes SET_SH_REG, and SET_SH_REG_INDEX, whose masks of compute units are limited to the one that the queue
    /// was mapped with.
    fn set_sh_reg(&mut self, opcode: Opcode, body: &[u32]) -> Result<(), Cause> {
        let name = opcode.name().unwrap_or_default();
        let Some((&start, values)) = body.split_first() else {
            return Err(ring(Error::Length { opcode, dwords: 0 }));
        };
        let start = SetShReg::from_bits(start);
        let within_mask = match start.index() {
            0 => false,
            SH_REG_INDEX_CU_MASK if opcode == Opcode::SET_SH_REG_INDEX => true,
            value => return Err(ring(Error::Field { what: "index of SET_SH_REG", value: value.into() })),
        };
        for (register, &value) in (u32::from(start.register())..).map(ComputeRegister).zip(values) {
            let allowed = if within_mask { self.allowed_cus(register)? } else { u32::MAX };
            self.with_reach(|reach| reach.write_register(name, SH_REG_START + register.0, value & allowed))?;
        }
        Ok(())
    }

    fn takes_pairs(&self) -> bool {
        self.shader.chip().pm4 == Pm4Packets::V12
    }

    /// Writes registers of which each comes with its number, counted from `start`.
    fn set_pairs(&mut self, opcode: Opcode, start: u32, body: &[u32]) -> Result<(), Cause> {
        let (pairs, rest) = body.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(ring(Error::Length { opcode, dwords: body.len() }));
        }
        let name = opcode.name().unwrap_or_default();
        for &[number, value] in pairs {
            let index = start + (number & 0xffff);
            self.with_reach(|reach| reach.write_register(name, index, value))?;
        }
        Ok(())
    }

    /// Writes registers that follow each other with what is in memory.
    fn load_sh_reg(&mut self, packet: &LoadShRegIndex) -> Result<(), Cause> {
        const NAME: &str = "LOAD_SH_REG_INDEX";
        if packet.addr_lo & 1 != 0 || packet.target.has_numbers() {
            let value = if packet.addr_lo & 1 != 0 { packet.addr_lo } else { packet.target.bits() };
            return Err(ring(Error::Field { what: "LOAD_SH_REG_INDEX of another form, word", value }));
        }
        let at = pm4::quad(packet.addr_lo & !3, packet.addr_hi);
        let first = SH_REG_START + u32::from(packet.target.register());
        for dword in 0..packet.dwords & 0x3fff {
            let value = self.state.space().load_u32(at.wrapping_add(u64::from(dword) * 4));
            let value = value.map_err(|fault| Cause::Memory { what: NAME, fault })?;
            self.with_reach(|reach| reach.write_register(NAME, first + dword, value))?;
        }
        Ok(())
    }

    /// Writes the counter of an event that has an address. SAMPLE_PIPELINESTAT of a compute queue writes the count of
    /// compute invocations alone, 64 bits (mesa `radv_query.c`, `radv_begin_pipeline_stat_query`). It counts
    /// dispatches as they start: all before the packet are in it.
    fn write_counter(&self, packet: &EventWriteMemory) -> Result<Outcome, Cause> {
        let event = packet.event.event_type();
        if event != SAMPLE_PIPELINESTAT {
            return Err(ring(Error::CounterEvent { event }));
        }
        let at = pm4::quad(packet.addr_lo & !7, packet.addr_hi);
        let written = self.state.space().store_u64(at, self.invocations);
        written.map_err(|fault| Cause::Memory { what: "EVENT_WRITE", fault })?;
        Ok(Outcome::Done)
    }

    /// Returns the compute units that the kernel driver allows, for the register with their mask.
    fn allowed_cus(&self, register: ComputeRegister) -> Result<u32, Cause> {
        let at = launch::STATIC_THREAD_MGMT.iter().position(|&mask| mask == register);
        let refused = Error::Field { what: "mask of compute units in register", value: register.0 };
        at.map(|at| self.allowed_cus[at]).ok_or(ring(refused))
    }

    /// Starts a dispatch, once there is room for it.
    fn dispatch(&mut self, dim: [u32; 3], initiator: DispatchInitiator) -> Result<Outcome, Cause> {
        if self.started.len() >= MAX_STARTED {
            return Ok(Outcome::Blocked(BlockedOn::Dispatches));
        }
        let names = [ComputeRegister::DIM_X, ComputeRegister::DIM_Y, ComputeRegister::DIM_Z];
        for (register, size) in names.into_iter().zip(dim) {
            self.registers.set(register, size);
        }
        self.registers.set(ComputeRegister::DISPATCH_INITIATOR, initiator.bits());
        let registers = self.registers.of_dispatch();
        let prepared = launch::prepare(self.state.space(), &registers, self.shader.chip())?;
        let Some(mut prepared) = prepared else { return Ok(Outcome::Done) };
        self.complete_launch(&mut prepared.launch);
        if !self.shader.holds(&prepared.launch) {
            return Err(Cause::ComputeUnits);
        }
        if prepared.scratch_per_wave != 0 && !self.assign_scratch(&registers, &mut prepared)? {
            return Ok(Outcome::Blocked(BlockedOn::Dispatches));
        }
        let dispatch = Arc::new(Pm4Dispatch::new(&self.state, self.dispatches, registers, false));
        let grid = prepared.launch.grid;
        let invocations = prepared.launch.invocations();
        self.shader
            .submit(&self.state.shader, prepared.launch, Arc::clone(&dispatch) as _)
            .map_err(|_| Cause::Dimensions { dimensions: 3, grid })?;
        self.dispatches += 1;
        if self.registers.get(ComputeRegister::PIPELINESTAT_ENABLE) & 1 != 0 {
            self.invocations = self.invocations.wrapping_add(invocations);
        }
        self.started.push_back(Started::Dispatch(dispatch));
        Ok(Outcome::Done)
    }

    /// Fills in the fields of a launch that depend on the queue and not on its registers.
    pub(super) fn complete_launch(&self, launch: &mut Launch) {
        crate::cp::name_for_probes(&self.state.tools, self.shader.chip(), self.state.space(), launch.entry);
        launch.trap = self.config.trap;
        launch.doorbell = self.config.identity.doorbell_id();
        launch.shares = self.config.shares;
        launch.queue_ids = (self.shader.chip().shader.queue_ids)(self.config.identity.place());
    }

    /// Gives a launch scratch memory. Returns false if the launch has to wait for earlier dispatches.
    fn assign_scratch(
        &mut self,
        registers: &ComputeRegisters,
        prepared: &mut Prepared,
    ) -> Result<bool, Cause> {
        let TmpRing { waves, wave_bytes } = launch::scratch(registers, self.shader.chip());
        if waves < prepared.launch.waves_per_workgroup() {
            return Err(Cause::Scratch(u32::try_from(wave_bytes).unwrap_or(u32::MAX)));
        }
        let lo = ComputeRegister::DISPATCH_SCRATCH_BASE_LO;
        let base = registers.pair(lo, ComputeRegister::DISPATCH_SCRATCH_BASE_HI) << 8;
        let slots = u64::from(waves) * u64::from(self.shader.scratch_parts());
        let slots = slots.min(MAX_SCRATCH_SLOTS) as u32;
        let pool = match &self.scratch {
            Some(pool) if pool.is(base, wave_bytes, slots) => Arc::clone(pool),
            // Waves of earlier dispatches may still use the old memory, which the new one may overlap.
            _ if self.has_running_dispatches() => return Ok(false),
            _ => Arc::new(ScratchPool::new(base, wave_bytes, slots)),
        };
        self.scratch = Some(Arc::clone(&pool));
        prepared.launch.set_scratch(pool);
        Ok(true)
    }
}
