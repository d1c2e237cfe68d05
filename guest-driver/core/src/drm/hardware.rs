//! Hardware that a file needs before its first work: an id that the device knows it by, doorbells, a page of the scheduler.

use alloc::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::kfd::drm::AMDGPU_HW_IP_DMA;

use super::context::RingId;
use crate::device::Device;
use crate::doorbell::Doorbells;
use crate::errno::{Errno, Result};
use crate::gart::KernelBuffer;
use crate::node::{Node, Nodes};
use crate::os::Os;
use crate::request::SdmaPlace;
use crate::sdma::SdmaChoice;

/// Hardware that a file has while it has rings.
pub(crate) struct Hardware<O: Os> {
    pasid: u16,
    /// The device's nodes, which stay as they are meanwhile, and which of them the rings are on: that of the file's render node.
    nodes: Arc<Nodes>,
    partition: u32,
    /// The device's epoch when it was made.
    epoch: u64,
    doorbells: Doorbells,
    /// The scheduler's page about the file.
    context: KernelBuffer<O>,
}

impl<O: Os> Hardware<O> {
    /// # Errors
    ///
    /// `ENOENT` for a partition that there is not any more, `ENOMEM`.
    pub(crate) fn new(
        device: &Device<O>,
        pasid: u16,
        slice: u32,
        (partition, epoch): (u32, u64),
    ) -> Result<Self> {
        let nodes = device.nodes();
        if partition >= nodes.count() {
            return Err(Errno::ENOENT);
        }
        let context = device.gart.allocate(1)?;
        device.flush_gart()?;
        let doorbells = Doorbells::new(slice, &device.hw.asic().doorbells);
        Ok(Self { pasid, nodes, partition, epoch, doorbells, context })
    }

    pub(crate) fn pasid(&self) -> u16 {
        self.pasid
    }

    /// The node that the rings are on.
    pub(crate) fn node(&self) -> &Node {
        self.nodes.get(self.partition)
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn context(&self) -> u64 {
        self.context.gpu_address()
    }

    /// A doorbell, as MQDs and frames count it.
    pub(crate) fn doorbell(&self, number: u32) -> DoorbellIndex {
        self.doorbells.index(number)
    }

    /// Takes a doorbell, and for a copy ring the hardware queue it belongs to: of the engine of the ring's number.
    pub(crate) fn take_doorbell(
        &mut self,
        device: &Device<O>,
        id: RingId,
    ) -> Result<(u32, Option<SdmaPlace>)> {
        if id.kind != AMDGPU_HW_IP_DMA {
            return Ok((self.doorbells.take()?, None));
        }
        let place = self.node().sdma.take(SdmaChoice::Engine(id.ring))?;
        match device.hw.asic().sdma.doorbell(place) {
            Ok(number) => Ok((number, Some(place))),
            Err(error) => {
                self.node().sdma.put(place);
                Err(error)
            }
        }
    }

    /// Gives both back.
    pub(crate) fn put_doorbell(&mut self, number: u32, place: Option<SdmaPlace>) {
        match place {
            None => self.doorbells.put(number),
            Some(place) => self.node().sdma.put(place),
        }
    }
}
