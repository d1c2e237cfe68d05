//! MQDs in memory; [`crate::asic`] has their layouts.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use crate::asic::{MqdManager, Share};
use crate::errno::Result;
use crate::gart::{Gart, KernelBuffer};
use crate::node::Node;
use crate::os::{Os, PAGE_SIZE};
use crate::request::Image;

/// The MQDs of a queue, one for each graphics core that runs it, and a page for what the scheduler keeps of it.
pub(crate) struct Mqds<O: Os> {
    buffer: KernelBuffer<O>,
    count: u32,
    first: u32,
    stride: u32,
}

impl<O: Os> Mqds<O> {
    /// Makes those of a queue of a node, of zeros; the caller flushes VMID 0. SDMA queues have one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(gart: &Arc<Gart<O>>, manager: &MqdManager, node: &Node, sdma: bool) -> Result<Self> {
        let (count, stride) = if sdma {
            (1, PAGE_SIZE as u32)
        } else {
            (node.config.xccs.max(1), (manager.stride)(&node.config))
        };
        // Queues begin with one graphics core after the other (`current_logical_xcc_start`).
        let first = if sdma { 0 } else { node.queues_made.fetch_add(1, Ordering::Relaxed) % count };
        let bytes = u64::from(count) * u64::from(stride) + PAGE_SIZE;
        Ok(Self { buffer: gart.allocate((bytes / PAGE_SIZE) as usize)?, count, first, stride })
    }

    /// Address of the first one in VMID 0, by which the queue is mapped.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.gpu_address()
    }

    /// Address in VMID 0 of what the scheduler keeps of the queue.
    pub(crate) fn gang_context(&self) -> u64 {
        self.address() + u64::from(self.count) * u64::from(self.stride)
    }

    /// Share of the graphics core with a number.
    fn share(&self, number: u32) -> Share {
        Share { number, count: self.count, first: self.first, stride: self.stride }
    }

    /// The shares of all graphics cores.
    pub(crate) fn shares(&self) -> impl Iterator<Item = Share> {
        (0..self.count).map(|number| self.share(number))
    }

    /// Address of the one of a share.
    pub(crate) fn address_of(&self, share: Share) -> u64 {
        self.address() + u64::from(share.number) * u64::from(self.stride)
    }

    /// Reads the one of a share.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn read(&self, share: Share) -> Result<Image> {
        let mut image = Image::zeroed()?;
        self.buffer.read(share.number as usize * self.stride as usize, image.bytes_mut());
        Ok(image)
    }

    /// Changes the state saved in them, and leaves the rest alone.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `change`; what is changed then is changed for some graphics cores only.
    pub(crate) fn change(&self, mut change: impl FnMut(&mut Image, Share) -> Result<()>) -> Result<()> {
        for share in self.shares() {
            let mut image = self.read(share)?;
            change(&mut image, share)?;
            self.buffer.write(share.number as usize * self.stride as usize, image.bytes());
        }
        Ok(())
    }
}
