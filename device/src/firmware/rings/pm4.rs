//! Compute and graphics rings of the kernel: packets about memory, registers and fences. Nothing is drawn, and no kernel is
//! started from such a ring.
//!
//! Packets that a driver sends: linux `amdgpu/gfx_v11_0.c` (`gfx_v11_0_ring_emit_*`).

use belfry_abi::pm4::{Opcode, SH_REG_START};

use super::At;
use super::running::Running;
use crate::chip::Pm4Packets;
use crate::cp::{CpInterrupts as _, Packet};
use crate::firmware::Ports;
use crate::guest_error::GuestError;
use crate::pm4::{self, Effect, Error, Port};
use crate::queue::QueueIdentity;
use crate::vm::AddressSpace;

/// Parts that the packets of a ring reach: all registers, and the memory of a VMID.
struct Kernel<'a> {
    ports: &'a Ports,
    space: &'a AddressSpace,
    identity: QueueIdentity,
}

impl Port for Kernel<'_> {
    fn memory(&self) -> &AddressSpace {
        self.space
    }

    fn read_register(&mut self, _packet: &'static str, index: u32) -> Result<u32, Error> {
        Ok(self.ports.registers.read((self.ports.chip.local_register)(index, self.identity.xcc)))
    }

    fn write_register(&mut self, _packet: &'static str, index: u32, value: u32) -> Result<(), Error> {
        self.ports.registers.write((self.ports.chip.local_register)(index, self.identity.xcc), value);
        Ok(())
    }

    fn now(&self) -> u64 {
        self.ports.env.clock.ticks()
    }

    fn packets(&self) -> Pm4Packets {
        self.ports.chip.pm4
    }

    fn xcc(&self) -> u8 {
        self.identity.xcc
    }

    fn interrupt(&mut self, context: u32) -> Result<(), Error> {
        self.ports.interrupts.cp_eop(&self.identity, context);
        Ok(())
    }
}

impl Kernel<'_> {
    fn execute(&mut self, packet: &Packet) -> Result<Effect, Error> {
        if packet.header.packet_type() == 2 {
            return Ok(Effect::Done);
        }
        match packet.header.opcode() {
            Opcode::SET_SH_REG => pm4::set_registers("SET_SH_REG", SH_REG_START, &packet.body, self)?,
            opcode => return pm4::execute_of_kernel(opcode, &packet.body, self),
        }
        Ok(Effect::Done)
    }
}

/// Executes one packet of a ring, or of the buffer that it is in. Returns false if there was none, or if it waits.
///
/// # Errors
///
/// The ring cannot go past the packet.
pub(in crate::firmware) fn step(
    ports: &Ports,
    kernel: &AddressSpace,
    at: At,
    running: &mut Running,
) -> Result<bool, GuestError> {
    let (xcc, id) = at;
    if running.dead {
        return Ok(false);
    }
    let vmid = if running.buffers.is_over() { 0 } else { running.vmid };
    let identity = QueueIdentity {
        xcc,
        me: id.me,
        pipe: id.pipe,
        queue: id.queue,
        vmid,
        pasid: ports.contexts.pasid(vmid).into(),
        doorbell: running.ring.doorbell(),
    };
    let space = match vmid {
        0 => None,
        _ => Some(ports.contexts.space(vmid).ok_or(GuestError::RingBufferVmid)?),
    };
    let mut port = Kernel { ports, space: space.as_deref().unwrap_or(kernel), identity };
    if running.buffers.is_over() { from_ring(&mut port, running) } else { from_buffer(&mut port, running) }
}

fn report(ports: &Ports, running: &Running, error: &Error) -> GuestError {
    let doorbell = running.ring.doorbell();
    log::debug!(target: "gpu::cp", "kernel ring stopped doorbell={doorbell:#x} {error}");
    ports.interrupts.kernel_packet_refused(0, doorbell);
    error.kind()
}

fn from_ring(port: &mut Kernel<'_>, running: &mut Running) -> Result<bool, GuestError> {
    let Some((header, body)) = running.next_packet(port.space)? else { return Ok(false) };
    let packet = Packet { header, body };
    match port.execute(&packet).map_err(|error| report(port.ports, running, &error))? {
        Effect::Done => {}
        Effect::Wait => {
            running.put_back(header);
            return Ok(false);
        }
        Effect::Skip(dwords) if u64::from(dwords) <= running.ring.available() => {
            running.ring.consume(dwords.into());
        }
        // The packets to skip are not there yet.
        Effect::Skip(_) => {
            running.put_back(header);
            return Ok(false);
        }
        Effect::Enter(buffer) => {
            running.vmid = buffer.control.vmid();
            let entered = running.buffers.go_to(0, &buffer);
            entered.map_err(|error| report(port.ports, running, &error))?;
        }
    }
    Ok(true)
}

fn from_buffer(port: &mut Kernel<'_>, running: &mut Running) -> Result<bool, GuestError> {
    let refuse = |running: &Running, error: Error| report(port.ports, running, &error);
    let fetched = running.buffers.fetch(port.space).map_err(|error| refuse(running, error))?;
    let Some(packet) = fetched else { return Ok(true) };
    let dwords = packet.dwords();
    let effect = port.execute(&packet).map_err(|error| report(port.ports, running, &error))?;
    let moved = match effect {
        Effect::Done => {
            running.buffers.advance(dwords);
            Ok(())
        }
        Effect::Wait => {
            running.wait();
            return Ok(false);
        }
        Effect::Skip(skipped) => running.buffers.skip(dwords, skipped),
        Effect::Enter(buffer) => running.buffers.go_to(dwords, &buffer),
    };
    moved.map_err(|error| report(port.ports, running, &error))?;
    running.go_on();
    Ok(true)
}
