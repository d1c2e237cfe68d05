//! Vendor packets of AQL queues: PM4 buffers, and AMD's barrier-value.

use belfry_abi::aql::{AmdFormat, BarrierValuePacket, Pm4IbPacket};

use super::{AqlQueue, Packet, Waiting, parse};
use crate::cp::error::Cause;
use crate::cp::{barrier, complete, indirect};
use crate::queue::BlockedOn;

impl AqlQueue {
    /// Executes a vendor packet, or a part of its buffer.
    pub(super) fn vendor(&mut self, packet: &[u32; 16]) -> Result<Packet, Cause> {
        let format = AmdFormat((packet[0] >> 16) as u8);
        match format {
            AmdFormat::PM4_IB => {
                let packet: Pm4IbPacket = parse(packet)?;
                let [header, body @ ..] = packet.ib_jump;
                let mut execution = match std::mem::take(&mut self.waiting) {
                    Waiting::Pm4(execution) => execution,
                    _ => indirect::Execution::new(header, &body)?,
                };
                let mut context = indirect::Context {
                    space: self.state.space(),
                    now: self.state.now(),
                    packets: self.shader.chip().pm4,
                    xcc: execution.xcc(),
                    interrupts: Vec::new(),
                };
                let step = execution.step(&mut context);
                for event in context.interrupts {
                    self.state.announce(complete::Completed { event: Some(event) });
                }
                let mut step = match step {
                    Ok(step) => step,
                    Err(error) => {
                        // If a missing page comes, the buffer goes on at this packet.
                        self.waiting = Waiting::Pm4(execution);
                        return Err(error.into());
                    }
                };
                // Each core of the queue executes the buffer.
                let cores = self.config.shares.map_or(1, |shares| shares.count());
                if step == indirect::Step::Done && execution.xcc() + 1 < cores {
                    execution.on_next_core(header, &body)?;
                    step = indirect::Step::More;
                }
                match step {
                    indirect::Step::Done => {
                        let completed = self.wait_or_complete(true, packet.completion_signal);
                        if completed.is_err() {
                            self.waiting = Waiting::Pm4(execution);
                        }
                        completed
                    }
                    indirect::Step::Waits | indirect::Step::More => {
                        self.waiting = Waiting::Pm4(execution);
                        Ok(Packet::Blocked(BlockedOn::Memory))
                    }
                }
            }
            AmdFormat::BARRIER_VALUE => {
                let packet: BarrierValuePacket = parse(packet)?;
                let satisfied = barrier::value_satisfied(self.state.space(), &packet)?;
                self.wait_or_complete(satisfied, packet.completion_signal)
            }
            other => Err(Cause::VendorFormat(other.0)),
        }
    }
}
