//! The MQDs of a queue, one for each graphics core that it is on.

use super::{ContextArea, ContextOffsets, Hqd, Mqd, Partition};
use crate::chip::{CuMask, MqdLayout, XccFields, XccShares};
use crate::guest_error::GuestError;
use crate::vm::AddressSpace;

/// MQDs that lie one after the other; only one on chips whose queues are on one core.
#[derive(Clone, Debug)]
pub(crate) struct MqdSet {
    layout: &'static MqdLayout,
    first: Mqd,
    /// MQDs of the other cores.
    others: Vec<Mqd>,
    address: u64,
    stride: u64,
    partition: Partition,
}

impl MqdSet {
    /// Reads the MQDs of the cores of a partition, the first of which is at `address`, and checks that they are MQDs.
    pub(crate) fn read(
        layout: &'static MqdLayout,
        space: &AddressSpace,
        address: u64,
        partition: Partition,
    ) -> Result<Self, GuestError> {
        Self::read_by(Mqd::read, layout, space, (address, partition))
    }

    /// Reads MQDs that have been checked before. The guest may have changed them since.
    pub(crate) fn read_unchecked(
        layout: &'static MqdLayout,
        space: &AddressSpace,
        address: u64,
        partition: Partition,
    ) -> Result<Self, GuestError> {
        Self::read_by(Mqd::read_unchecked, layout, space, (address, partition))
    }

    fn read_by(
        read: fn(&'static MqdLayout, &AddressSpace, u64) -> Result<Mqd, GuestError>,
        layout: &'static MqdLayout,
        space: &AddressSpace,
        (address, partition): (u64, Partition),
    ) -> Result<Self, GuestError> {
        let first = read(layout, space, address)?;
        let stride = layout.xccs.map_or(0, |fields| u64::from(first.dword(fields.stride)));
        if partition.count > 1 && stride == 0 {
            return Err(GuestError::MqdStride);
        }
        let at = |xcc: u8| address.wrapping_add(u64::from(xcc) * stride);
        let others =
            (1..partition.count).map(|xcc| read(layout, space, at(xcc))).collect::<Result<_, _>>()?;
        Ok(Self { layout, first, others, address, stride, partition })
    }

    /// Returns the first core's MQD, which describes the queue.
    pub(crate) fn first(&self) -> &Mqd {
        &self.first
    }

    pub(crate) fn first_mut(&mut self) -> &mut Mqd {
        &mut self.first
    }

    /// Returns each core's MQD, with the core's number in the partition.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u8, &Mqd)> {
        (0..).zip(std::iter::once(&self.first).chain(&self.others))
    }

    /// Writes them back. Returns false if they are not mapped.
    pub(crate) fn write(&self, space: &AddressSpace) -> bool {
        self.each()
            .all(|(xcc, mqd)| mqd.write(space, self.address.wrapping_add(u64::from(xcc) * self.stride)))
    }

    /// Puts the registers of each core's hardware queue into its MQD; cores are counted from the partition's first.
    pub(crate) fn save(&mut self, registers: impl Fn(u8) -> Hqd) {
        let all = std::iter::once(&mut self.first).chain(&mut self.others);
        for (xcc, mqd) in (0..).zip(all) {
            registers(xcc).save(mqd);
        }
    }

    /// Sets the parts of the context save area that are in use. The state of all cores is in the area of the first one.
    pub(crate) fn set_context(&mut self, offsets: Option<ContextOffsets>) {
        self.first.set_context(offsets);
        self.others.iter_mut().for_each(|mqd| mqd.set_context(None));
    }

    /// Returns the context save area. The areas of the cores are one if they lie one after the other, as drivers place
    /// them.
    pub(crate) fn context_area(&self) -> Option<ContextArea> {
        let area = self.first.context_area()?;
        let follows = |(xcc, mqd): (u8, &Mqd)| {
            let place = area.base.checked_add(u64::from(area.size) * u64::from(xcc));
            mqd.context_area().is_some_and(|other| Some(other.base) == place && other.size == area.size)
        };
        let count = self.each().take_while(|&core| follows(core)).count() as u32;
        Some(ContextArea { size: area.size.saturating_mul(count.max(1)), ..area })
    }

    /// Returns the compute units that waves may use on each of the chip's `xccs` cores: none on cores of other
    /// partitions.
    pub(crate) fn cus(&self, xccs: u8) -> CuMask {
        if xccs <= 1 {
            return self.first.cus();
        }
        let mut mask = CuMask::NONE;
        let engines = self.layout.thread_mgmt.len();
        let cores = mask.0.chunks_mut(engines).skip(self.partition.first.into());
        for (core, (_, mqd)) in cores.zip(self.each()) {
            core.copy_from_slice(&mqd.cus().0[..engines]);
        }
        mask
    }

    /// Returns the rule by which workgroups are dealt to the cores of the partition; `None` on a chip that has one
    /// core.
    pub(crate) fn shares(&self, xccs: u8) -> Result<Option<XccShares>, GuestError> {
        let Some(XccFields { logic_id, chunk, target, .. }) = self.layout.xccs else { return Ok(None) };
        if xccs <= 1 {
            return Ok(None);
        }
        let size = self.first.dword(chunk);
        let shares = if size == 0 {
            XccShares::only(self.first.dword(target), self.others.len() as u32 + 1)
        } else {
            let ids: Vec<u32> = self.each().map(|(_, mqd)| mqd.dword(logic_id)).collect();
            XccShares::dealt(size, &ids)
        };
        shares.map(Some).ok_or(GuestError::MqdXccs)
    }
}
