//! Hardware queue descriptors: the registers of every queue, banked by micro engine, pipe and queue.
//!
//! The registers from `CP_MQD_BASE_ADDR` on lie in the order of the MQD's dwords from 128 on. In that order a queue is
//! loaded from memory and saved back.

use std::sync::PoisonError;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::gc::{
    self, CP_HQD_ACTIVE, CP_HQD_AQL_CONTROL, CP_HQD_DEQUEUE_REQUEST, CP_HQD_PQ_BASE, CP_HQD_PQ_BASE_HI,
    CP_HQD_PQ_CONTROL, CP_HQD_PQ_DOORBELL_CONTROL, CP_HQD_PQ_RPTR, CP_HQD_PQ_RPTR_REPORT_ADDR,
    CP_HQD_PQ_RPTR_REPORT_ADDR_HI, CP_HQD_PQ_WPTR_HI, CP_HQD_PQ_WPTR_LO, CP_HQD_PQ_WPTR_POLL_ADDR,
    CP_HQD_PQ_WPTR_POLL_ADDR_HI, CP_HQD_VMID, CP_MQD_BASE_ADDR,
};
use belfry_abi::regs::{Offset, Register};
use belfry_lock::{Mutex, MutexGuard, rank};

use super::Mqd;

use crate::regs::named;

/// The first banked register.
pub(crate) const HQD_FIRST: Offset = CP_MQD_BASE_ADDR::AT;
/// Banked registers, up to `CP_HQD_DEQUEUE_STATUS`.
pub(crate) const HQD_REGISTERS: u32 = REGISTERS as u32;

const REGISTERS: usize = 64;
/// Number of a hardware queue.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, serde::Deserialize, serde::Serialize)]
pub(crate) struct HqdId {
    /// Micro engine, 0 to 3: 1 and 2 are compute, 3 is the MES.
    pub(crate) me: u8,
    /// Pipe, 0 to 3.
    pub(crate) pipe: u8,
    /// Queue, 0 to 7.
    pub(crate) queue: u8,
}

impl HqdId {
    /// The MES's ring.
    pub(crate) const MES: Self = Self { me: 3, pipe: 0, queue: 0 };
    /// The kernel interface queue, if the MES is in use.
    pub(crate) const KIQ: Self = Self { me: 3, pipe: 1, queue: 0 };

    fn index(self) -> usize {
        usize::from(self.me & 3) << 5 | usize::from(self.pipe & 3) << 3 | usize::from(self.queue & 7)
    }
}

/// Values of the registers of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingRegisters {
    /// Address, in units of 256 bytes.
    pub(crate) base: u64,
    /// Size as `CP_HQD_PQ_CONTROL.QUEUE_SIZE` has it: 2 << size dwords.
    pub(crate) size: u32,
    pub(crate) rptr: u32,
    /// Address to which the read pointer is written.
    pub(crate) rptr_report: u64,
    /// Address of the write pointer in memory.
    pub(crate) wptr_poll: u64,
    pub(crate) wptr: u64,
}

/// The registers of one queue.
#[derive(Clone, Copy)]
pub(crate) struct Hqd {
    pub(super) registers: [u32; REGISTERS],
    /// Number of activations, so that a queue that was stopped and started in between is recognised as another one.
    pub(crate) activation: u32,
}

/// The registers that are not 0, by name.
impl std::fmt::Debug for Hqd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(named(gc::ALL, |at| self.read(at), |_| 0)).finish()
    }
}

impl Hqd {
    const EMPTY: Self = Self { registers: [0; REGISTERS], activation: 0 };

    /// Makes the registers of no queue.
    pub(crate) const fn new() -> Self {
        Self::EMPTY
    }

    fn position(at: Offset) -> Option<usize> {
        at.element(HQD_FIRST, HQD_REGISTERS).map(|position| position as usize)
    }

    /// Reads a register; one that is not banked reads 0.
    pub(crate) fn read(&self, at: Offset) -> u32 {
        Self::position(at).map_or(0, |position| self.registers[position])
    }

    /// Writes a register; one that is not banked absorbs it.
    pub(crate) fn write(&mut self, at: Offset, value: u32) {
        if let Some(position) = Self::position(at) {
            self.registers[position] = value;
        }
    }

    pub(crate) fn get<R: Register>(&self) -> R {
        R::from_bits(self.read(R::AT))
    }

    pub(crate) fn set<R: Register>(&mut self, register: R) {
        self.write(R::AT, register.bits());
    }

    /// Takes over an MQD's registers; the queue is not active yet.
    pub(crate) fn load(&mut self, mqd: &Mqd) {
        for (register, value) in self.registers.iter_mut().zip(mqd.hqd()) {
            *register = *value;
        }
        self.write(CP_HQD_ACTIVE::AT, 0);
        self.write(CP_HQD_DEQUEUE_REQUEST::AT, 0);
    }

    /// Takes over the registers of an image; its activations stay its own.
    pub(crate) fn replace(&mut self, image: &Self) {
        self.registers = image.registers;
    }

    /// Sets the registers of a ring.
    pub(crate) fn set_ring(&mut self, ring: &RingRegisters) {
        let mut control = CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size(ring.size);
        self.set(control);
        for (low, high, value) in [
            (CP_HQD_PQ_BASE::AT, CP_HQD_PQ_BASE_HI::AT, ring.base),
            (CP_HQD_PQ_RPTR_REPORT_ADDR::AT, CP_HQD_PQ_RPTR_REPORT_ADDR_HI::AT, ring.rptr_report),
            (CP_HQD_PQ_WPTR_POLL_ADDR::AT, CP_HQD_PQ_WPTR_POLL_ADDR_HI::AT, ring.wptr_poll),
        ] {
            self.write(low, value as u32);
            self.write(high, (value >> 32) as u32);
        }
        self.set_pointers(ring.rptr.into(), ring.wptr);
    }

    /// Puts the registers into an MQD.
    pub(crate) fn save(&self, mqd: &mut Mqd) {
        for (value, register) in mqd.hqd_mut().iter_mut().zip(&self.registers) {
            *value = *register;
        }
    }

    fn join(&self, lo: Offset, hi: Offset) -> u64 {
        u64::from(self.read(hi)) << 32 | u64::from(self.read(lo))
    }

    pub(crate) fn is_active(&self) -> bool {
        self.get::<CP_HQD_ACTIVE>().active()
    }

    pub(crate) fn activate(&mut self) {
        self.write(CP_HQD_ACTIVE::AT, 1);
        self.activation = self.activation.wrapping_add(1);
    }

    pub(crate) fn deactivate(&mut self) {
        self.write(CP_HQD_ACTIVE::AT, 0);
        self.write(CP_HQD_DEQUEUE_REQUEST::AT, 0);
    }

    pub(crate) fn wants_dequeue(&self) -> bool {
        self.read(CP_HQD_DEQUEUE_REQUEST::AT) & 0xf != 0
    }

    pub(crate) fn set_vmid(&mut self, vmid: u8) {
        let mut register = self.get::<CP_HQD_VMID>();
        register.set_vmid(vmid.into());
        self.set(register);
    }

    pub(crate) fn set_doorbell(&mut self, doorbell: DoorbellIndex) {
        let mut register = self.get::<CP_HQD_PQ_DOORBELL_CONTROL>();
        register.set_doorbell_offset(doorbell.dwords());
        register.set_doorbell_en(true);
        self.set(register);
    }

    /// Returns the ring's address in bytes.
    pub(crate) fn pq_base(&self) -> u64 {
        self.join(CP_HQD_PQ_BASE::AT, CP_HQD_PQ_BASE_HI::AT) << 8
    }

    /// Returns the ring's size in dwords, 2 to 2^32; `None` if the field, which has six bits, names more.
    pub(crate) fn pq_dwords(&self) -> Option<u64> {
        let size = self.get::<CP_HQD_PQ_CONTROL>().queue_size();
        (size < 31).then(|| 2 << size)
    }

    pub(crate) fn pq_rptr(&self) -> u32 {
        self.read(CP_HQD_PQ_RPTR::AT)
    }

    pub(crate) fn pq_wptr(&self) -> u64 {
        self.join(CP_HQD_PQ_WPTR_LO::AT, CP_HQD_PQ_WPTR_HI::AT)
    }

    pub(crate) fn set_pointers(&mut self, rptr: u64, wptr: u64) {
        self.write(CP_HQD_PQ_RPTR::AT, rptr as u32);
        self.write(CP_HQD_PQ_WPTR_LO::AT, wptr as u32);
        self.write(CP_HQD_PQ_WPTR_HI::AT, (wptr >> 32) as u32);
    }

    pub(crate) fn rptr_report_addr(&self) -> u64 {
        self.join(CP_HQD_PQ_RPTR_REPORT_ADDR::AT, CP_HQD_PQ_RPTR_REPORT_ADDR_HI::AT)
    }

    pub(crate) fn wptr_poll_addr(&self) -> u64 {
        self.join(CP_HQD_PQ_WPTR_POLL_ADDR::AT, CP_HQD_PQ_WPTR_POLL_ADDR_HI::AT)
    }

    pub(crate) fn doorbell(&self) -> DoorbellIndex {
        DoorbellIndex::from_dwords(self.get::<CP_HQD_PQ_DOORBELL_CONTROL>().doorbell_offset())
    }

    /// Returns true if its packets may do what the kernel's may.
    pub(crate) fn is_of_kernel(&self) -> bool {
        self.get::<CP_HQD_PQ_CONTROL>().priv_state()
    }

    /// Returns true if the ring holds AQL packets.
    pub(crate) fn is_aql(&self) -> bool {
        self.get::<CP_HQD_AQL_CONTROL>().control0() != 0
            || self.get::<CP_HQD_PQ_CONTROL>().slot_based_wptr() != 0
    }
}

/// Number of queues of one graphics core.
const QUEUES: usize = 4 * 4 * 8;

/// Every queue's registers, of each graphics core. Drivers write them through the banked registers, and firmware loads
/// them from MQDs.
pub(crate) struct HqdBanks(Mutex<Box<[Hqd]>, rank::HqdBanks>);

/// The queues that are active.
impl std::fmt::Debug for HqdBanks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let active = (0..self.xccs()).flat_map(|xcc| (0..4).map(move |me| (xcc, me)));
        let active = active
            .flat_map(|(xcc, me)| self.active_of(xcc, me).into_iter().map(move |(id, hqd)| ((xcc, id), hqd)));
        f.debug_map().entries(active).finish()
    }
}

impl Default for HqdBanks {
    fn default() -> Self {
        Self::new(1)
    }
}

impl HqdBanks {
    /// Makes banks of this many graphics cores.
    pub(crate) fn new(xccs: u8) -> Self {
        Self(Mutex::new(Self::empty(xccs)))
    }

    pub(super) fn empty(xccs: u8) -> Box<[Hqd]> {
        vec![Hqd::EMPTY; usize::from(xccs.max(1)) * QUEUES].into_boxed_slice()
    }

    /// Returns the number of graphics cores.
    pub(crate) fn xccs(&self) -> u8 {
        (self.lock().len() / QUEUES) as u8
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Box<[Hqd]>, rank::HqdBanks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `operation` on a queue's registers on the first graphics core.
    pub(crate) fn hqd<R>(&self, id: HqdId, operation: impl FnOnce(&mut Hqd) -> R) -> R {
        self.hqd_of(0, id, operation)
    }

    /// Runs `operation` on a queue's registers on a graphics core; on the first core if the number does not exist.
    pub(crate) fn hqd_of<R>(&self, xcc: u8, id: HqdId, operation: impl FnOnce(&mut Hqd) -> R) -> R {
        let mut banks = self.lock();
        let at = (usize::from(xcc) * QUEUES + id.index()) % banks.len();
        operation(&mut banks[at])
    }

    /// Copies the registers of a micro engine's queues that are active or asked to stop, on the first graphics core.
    pub(crate) fn active(&self, me: u8) -> Vec<(HqdId, Hqd)> {
        self.active_of(0, me)
    }

    /// Copies the registers of such queues on graphics core `xcc`.
    pub(crate) fn active_of(&self, xcc: u8, me: u8) -> Vec<(HqdId, Hqd)> {
        let banks = self.lock();
        let first = usize::from(xcc) * QUEUES;
        (0..32u8)
            .map(|at| HqdId { me, pipe: at >> 3, queue: at & 7 })
            .filter_map(|id| Some((id, *banks.get(first + id.index())?)))
            .filter(|(_, hqd)| hqd.is_active())
            .collect()
    }

    /// Resets to power on: no queue is active.
    pub(crate) fn reset(&self) {
        self.lock().fill(Hqd::EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bank_has_room_for_the_registers_of_an_mqd_in_their_order() {
        use crate::chip::gfx1100::GENERATION;
        let last = CP_HQD_PQ_WPTR_HI::AT.dword - HQD_FIRST.dword;
        assert_eq!(GENERATION.mqd.hqd_dwords, last as usize + 1);
        assert!(GENERATION.mqd.hqd_dwords <= REGISTERS);
    }

    #[test]
    fn banks_do_not_share_registers() {
        let banks = HqdBanks::default();
        let ids: Vec<_> = (0..4u8)
            .flat_map(|me| (0..32u8).map(move |at| HqdId { me, pipe: at >> 3, queue: at & 7 }))
            .collect();
        for (value, &id) in ids.iter().enumerate() {
            banks.hqd(id, |hqd| {
                hqd.write(CP_HQD_PQ_BASE::AT, value as u32);
                hqd.activate();
            });
        }
        for (value, &id) in ids.iter().enumerate() {
            assert_eq!(banks.hqd(id, |hqd| hqd.read(CP_HQD_PQ_BASE::AT)), value as u32);
        }
        assert_eq!(ids.len(), 128);
        let active: Vec<_> = (0..4).flat_map(|me| banks.active(me)).map(|(id, _)| id).collect();
        assert_eq!(active, ids);
        banks.reset();
        assert!(banks.active(1).is_empty());
    }

    #[test]
    fn registers_outside_of_the_bank_are_absorbed() {
        let mut hqd = Hqd::EMPTY;
        let outside = [
            Offset { segment: 0, dword: 0 },
            HQD_FIRST.plus(HQD_REGISTERS),
            Offset { segment: 1, ..HQD_FIRST },
        ];
        for at in outside {
            hqd.write(at, 1);
            assert_eq!(hqd.read(at), 0, "{at:?}");
        }
        assert_eq!(hqd.registers, [0; REGISTERS]);
    }
}
