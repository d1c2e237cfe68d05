//! Run lists, to which RUN_LIST packets point.
//!
//! A list has a MAP_PROCESS for each process, and after it a MAP_QUEUES for each of its queues. If there are more of
//! them than the hardware can hold, the list ends with a RUN_LIST of itself, which asks for time slices. Linux
//! `kfd_packet_manager.c`, `pm_create_runlist_ib`.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::pci::doorbell_layout1::{FIRST_NON_CP, LAST_NON_CP, SDMA_ENGINE0, SDMA_RANGE};
use belfry_abi::pm4::{HwsMapQueuesControl, MapProcess, MapQueues, Opcode, Pm4Header, RunList};

use crate::firmware::slots::Kind;
use crate::guest_error::GuestError;
use crate::pm4;

/// Doorbells of a slice of the doorbell BAR.
const SLICE: u32 = 1024;
/// Distance of an engine's second half of doorbells from its first, in doorbells.
const MIRROR: u32 = 0x200;

/// A queue of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Listed {
    pub(super) doorbell: DoorbellIndex,
    pub(super) kind: Kind,
    /// MQD of the first graphics core, in VMID 0.
    pub(super) mqd: u64,
    /// Address of the write pointer, in the memory of the process.
    pub(super) wptr: u64,
    /// True if it has the global wave sync.
    pub(super) gws: bool,
    /// True if it stays when others are taken off.
    pub(super) is_static: bool,
}

/// A queue that is refused, by its doorbell, and the reason.
pub(super) type Refused = (DoorbellIndex, GuestError);

/// A process of a list, and its queues.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) process: MapProcess,
    pub(super) queues: Vec<Result<Listed, Refused>>,
}

/// Reads a list. An error in a part refuses the whole list, except an error in a single queue.
pub(super) fn parse(mut list: &[u32]) -> Result<Vec<Process>, GuestError> {
    let mut processes: Vec<Process> = Vec::new();
    while let Some((&header, rest)) = list.split_first() {
        let header = pm4::header(header).map_err(|error| error.kind())?;
        let length = header.body_dwords() as usize;
        if rest.len() < length {
            return Err(GuestError::Pm4Length);
        }
        let (body, rest) = rest.split_at(length);
        list = rest;
        match header.opcode() {
            _ if is_filler(header) => {}
            Opcode::MAP_PROCESS => {
                let process = exact(Opcode::MAP_PROCESS, body)?;
                processes.push(Process { process, queues: Vec::new() });
            }
            Opcode::MAP_QUEUES => {
                let queue = listed(&exact(Opcode::MAP_QUEUES, body)?);
                let process = processes.last_mut().ok_or(GuestError::RunListWithoutProcess)?;
                process.queues.push(queue);
            }
            // A list may only name itself, at its end; queues take turns with or without it.
            Opcode::RUN_LIST if rest.is_empty() => {
                let again: RunList = exact(Opcode::RUN_LIST, body)?;
                if !again.control.chain() {
                    return Err(GuestError::RunListPacket);
                }
            }
            _ => return Err(GuestError::RunListPacket),
        }
    }
    Ok(processes)
}

/// Returns true if a packet does nothing.
fn is_filler(header: Pm4Header) -> bool {
    header.packet_type() == 2 || header.opcode() == Opcode::NOP
}

fn exact<T: zerocopy::FromBytes>(opcode: Opcode, body: &[u32]) -> Result<T, GuestError> {
    pm4::exact(opcode, body).map_err(|error| error.kind())
}

fn listed(packet: &MapQueues) -> Result<Listed, Refused> {
    let doorbell = DoorbellIndex::from_dwords(packet.doorbell >> 2 & 0x03ff_ffff);
    let control = HwsMapQueuesControl::from_bits(packet.control.bits());
    let refused = |why| (doorbell, why);
    if control.queue_sel() != 1 || control.num_queues() != 1 {
        return Err(refused(GuestError::HwsQueueSelect));
    }
    let is_static = match control.queue_type() {
        0 | 3 => false,
        2 => true,
        _ => return Err(refused(GuestError::HwsQueueType)),
    };
    let kind = match (control.extended_engine_sel(), control.engine_sel()) {
        (0, 0) => Kind::Compute,
        (0, engine @ 2..=3) => Kind::Sdma(Some(engine - 2)),
        (1, engine) => Kind::Sdma(Some(engine)),
        (2, engine) => Kind::Sdma(Some(8 + engine)),
        _ => return Err(refused(GuestError::HwsQueueEngine)),
    };
    if !is_for(doorbell, kind) {
        return Err(refused(GuestError::HwsDoorbell));
    }
    Ok(Listed {
        doorbell,
        kind,
        mqd: pm4::quad(packet.mqd_addr_lo, packet.mqd_addr_hi),
        wptr: pm4::quad(packet.wptr_addr_lo, packet.wptr_addr_hi),
        gws: control.gws_control_queue(),
        is_static,
    })
}

/// Returns true if a doorbell's place in its slice is one for such queues: SDMA engines and video blocks have places of
/// their own, compute queues have the others. The kernel's own slice is for no process.
fn is_for(doorbell: DoorbellIndex, kind: Kind) -> bool {
    let Some(number) = doorbell.number().filter(|&number| number >= SLICE) else {
        // A doorbell outside of the BAR is refused when the queue is added.
        return doorbell.number().is_none();
    };
    let at = number % SLICE % MIRROR;
    match kind {
        Kind::Compute => !(FIRST_NON_CP..=LAST_NON_CP).contains(&at),
        Kind::Sdma(engine) => {
            let first = SDMA_ENGINE0.number().unwrap_or(0) + SDMA_RANGE * u32::from(engine.unwrap_or(0));
            (first..first + SDMA_RANGE).contains(&at)
        }
        // A run list has none.
        Kind::Graphics => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOP: u32 = 0xffff_1000;

    fn process(pasid: u32) -> Vec<u32> {
        let mut packet = vec![Pm4Header::type3(Opcode::MAP_PROCESS, 20).bits(), pasid];
        packet.resize(21, 0);
        packet
    }

    fn queue(control: u32, doorbell: u32) -> Vec<u32> {
        vec![Pm4Header::type3(Opcode::MAP_QUEUES, 6).bits(), control, doorbell << 2, 0x1000, 0x80, 0x2000, 0]
    }

    const COMPUTE: u32 = 1 << 4 | 1 << 29;

    fn chain(chained: bool) -> Vec<u32> {
        vec![
            Pm4Header::type3(Opcode::RUN_LIST, 3).bits(),
            0x1000,
            0x80,
            4 | u32::from(chained) << 20 | 1 << 23,
        ]
    }

    #[test]
    fn processes_have_the_queues_that_follow_them() {
        let list =
            [process(7), queue(COMPUTE, 0x800), queue(COMPUTE | 1 << 12, 0x802), vec![NOP], process(8)]
                .concat();
        let found = parse(&[list, chain(true)].concat()).expect("well formed");
        assert_eq!(found.iter().map(|one| one.process.control.pasid()).collect::<Vec<_>>(), [7, 8]);
        let queue = found[0].queues[1].expect("well formed");
        assert_eq!(
            (queue.doorbell.dwords(), queue.mqd, queue.wptr, queue.gws),
            (0x802, 0x80_0000_1000, 0x2000, true)
        );
        assert!(found[1].queues.is_empty());
    }

    #[test]
    fn malformed_lists_are_refused_as_a_whole() {
        let refused = |list: &[Vec<u32>]| parse(&list.concat()).expect_err("malformed");
        assert_eq!(refused(&[queue(COMPUTE, 0x800)]), GuestError::RunListWithoutProcess);
        assert_eq!(refused(&[process(1)[..20].to_vec()]), GuestError::Pm4Length);
        assert_eq!(refused(&[chain(false)]), GuestError::RunListPacket);
        assert_eq!(refused(&[chain(true), process(1)]), GuestError::RunListPacket);
        assert_eq!(refused(&[vec![0x4000_0000]]), GuestError::Pm4Type);
        let write = vec![Pm4Header::type3(Opcode::WRITE_DATA, 4).bits(), 0, 0, 0, 0];
        assert_eq!(refused(&[write]), GuestError::RunListPacket);
        let mut short = process(1);
        short[0] = Pm4Header::type3(Opcode::MAP_PROCESS, 15).bits();
        assert_eq!(refused(&[short[..16].to_vec()]), GuestError::Pm4Length);
    }

    #[test]
    fn engines_are_counted_by_two_fields_and_have_their_own_doorbells() {
        let kind = |control: u32, doorbell| {
            let list = [process(1), queue(control | 1 << 4 | 1 << 29, doorbell)].concat();
            parse(&list).expect("well formed")[0].queues[0].map(|queue| queue.kind).map_err(|(_, why)| why)
        };
        // Doorbells count dwords: slice 1, engine n at 0x100 + 10 n.
        let of_engine = |engine: u32| (1024 + 0x100 + 10 * engine) * 2;
        assert_eq!(kind(3 << 26, of_engine(1)), Ok(Kind::Sdma(Some(1))));
        assert_eq!(kind(1 << 2 | 5 << 26, of_engine(5)), Ok(Kind::Sdma(Some(5))));
        assert_eq!(kind(2 << 2 | 5 << 26, of_engine(13) + 0x400), Ok(Kind::Sdma(Some(13))));
        assert_eq!(kind(2 << 2 | 5 << 26, of_engine(5)), Err(GuestError::HwsDoorbell));
        assert_eq!(kind(0, of_engine(0)), Err(GuestError::HwsDoorbell));
        assert_eq!(kind(0, 0x20), Err(GuestError::HwsDoorbell), "the kernel's own");
        assert_eq!(kind(4 << 26, 0x800), Err(GuestError::HwsQueueEngine));
        assert_eq!(kind(1 << 21, 0x800), Err(GuestError::HwsQueueType), "debug interface");
        let unslotted = [process(1), queue(1 << 29, 0x800)].concat();
        let (_, why) = parse(&unslotted).expect("well formed")[0].queues[0].expect_err("a slot of its own");
        assert_eq!(why, GuestError::HwsQueueSelect);
    }
}
