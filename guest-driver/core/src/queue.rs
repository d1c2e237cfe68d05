//! User-mode queues: what one is, and which properties are accepted (`kfd_queue.c`, `kfd_chardev.c`).

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use belfry_abi::kfd::queue::{
    CreateQueueArgs, KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID,
    KFD_IOC_QUEUE_TYPE_SDMA_XGMI, KFD_MAX_QUEUE_PERCENTAGE, KFD_MAX_QUEUE_PRIORITY, KFD_MIN_QUEUE_RING_SIZE,
};

use crate::asic::{MqdManager, Share, UserRing};
use crate::bo::Hold;
use crate::errno::{Errno, Result};
use crate::gart::GartMapping;
use crate::mqd::Mqds;
use crate::os::{Os, check_user_range};
use crate::request::SdmaPlace;

/// Most bits of a CU mask.
const MAX_CU_MASK_BITS: u32 = 1024;

/// Addresses of a queue's parts in its process, and what debuggers are told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserPlaces {
    pub(crate) write_pointer: u64,
    pub(crate) read_pointer: u64,
    /// The context save area; 0 for none.
    pub(crate) save_area: u64,
    pub(crate) save_area_size: u32,
    /// One of `KFD_IOC_QUEUE_TYPE_*`.
    pub(crate) queue_type: u32,
    /// Type that sysfs gives it: one of `enum kfd_queue_type` (`kfd_priv.h`).
    pub(crate) sysfs_type: u32,
}

impl UserPlaces {
    /// As CREATE_QUEUE was given them.
    pub(crate) fn of(args: &CreateQueueArgs, sdma: bool) -> Self {
        let area = if sdma { (0, 0) } else { (args.ctx_save_restore_address, args.ctx_save_restore_size) };
        let xgmi = args.queue_type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
        Self {
            write_pointer: args.write_pointer_address,
            read_pointer: args.read_pointer_address,
            save_area: area.0,
            save_area_size: area.1,
            queue_type: if sdma && !xgmi { KFD_IOC_QUEUE_TYPE_SDMA } else { args.queue_type },
            // There AQL is no type but a format, and the last number is that of queues of a named engine.
            sysfs_type: match args.queue_type {
                KFD_IOC_QUEUE_TYPE_SDMA => 1,
                KFD_IOC_QUEUE_TYPE_SDMA_XGMI => 4,
                KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => 5,
                _ => 0,
            },
        }
    }
}

/// A user-mode queue.
pub(crate) struct Queue<O: Os> {
    /// Number of the node that runs it.
    pub(crate) node: u32,
    pub(crate) ring_base: u64,
    pub(crate) ring_size: u32,
    pub(crate) percentage: u32,
    pub(crate) priority: u32,
    /// Its packets are AQL, otherwise PM4 or SDMA's.
    pub(crate) aql: bool,
    /// The hardware queue that an SDMA queue has; [`crate::sdma::SdmaQueues`] knows it is taken.
    pub(crate) sdma: Option<SdmaPlace>,
    /// Index in the process's slice for the node.
    pub(crate) doorbell: u32,
    /// Its MQDs, and what the scheduler keeps of it.
    pub(crate) mqds: Mqds<O>,
    /// Write pointer in VMID 0.
    pub(crate) wptr: u64,
    pub(crate) _wptr_mapping: Option<GartMapping<O>>,
    pub(crate) _wptr_memory: Option<Hold<O>>,
    /// The ring's buffer object, and the others it uses; ids in the process's table.
    pub(crate) ring_bo: Option<u32>,
    pub(crate) bos: Vec<u32>,
    /// The context save area, where that is shared virtual memory and no buffer object.
    pub(crate) save_area: Option<Range<u64>>,
    /// Addresses of its parts in user space.
    pub(crate) user: UserPlaces,
    /// A debugger keeps it off the scheduler.
    pub(crate) suspended: bool,
    /// A thread is about to destroy it.
    pub(crate) being_destroyed: bool,
    /// Set for a queue with the global wave sync.
    pub(crate) gws: bool,
    pub(crate) life: Life,
}

/// Stages of a queue between CREATE_QUEUE and DESTROY_QUEUE, after which there is no [`Queue`].
///
/// | from | to | when |
/// | --- | --- | --- |
/// | off | mapped | it should run, and the scheduler took it (ADD_QUEUE) |
/// | mapped | off | it is being changed, or should no longer run (REMOVE_QUEUE) |
/// | off, mapped | evicted | its process had a memory fault on its node |
/// | off, mapped | lost | the device was reset, or is wedged |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The scheduler does not know it.
    Off,
    /// The scheduler runs it.
    Mapped,
    /// Off the scheduler, and not mapped again.
    Evicted,
    /// Lost with a device that is not there any more, and not mapped again.
    Lost,
}

impl<O: Os> fmt::Debug for Queue<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("life", &self.life)
            .field("ring", &format_args!("{:#x}, {} bytes", self.ring_base, self.ring_size))
            .field("percentage", &format_args!("{}", self.percentage))
            .field("priority", &format_args!("{}", self.priority))
            .field("packets", &format_args!("{}", self.packets()))
            .field("sdma", &self.sdma)
            .field("node", &format_args!("{}", self.node))
            .field("doorbell", &format_args!("{}", self.doorbell))
            .field("mqd", &format_args!("{:#x}", self.mqds.address()))
            .field("write_pointer", &format_args!("{:#x}", self.wptr))
            .field("suspended", &self.suspended)
            .field("gws", &self.gws)
            .field("buffer_objects", &format_args!("{:?}", self.bos))
            .finish_non_exhaustive()
    }
}

impl<O: Os> Queue<O> {
    fn packets(&self) -> &'static str {
        match (self.aql, self.sdma) {
            (true, _) => "AQL",
            (false, None) => "PM4",
            (false, Some(_)) => "SDMA",
        }
    }

    /// Returns whether it should run.
    pub(crate) fn wanted(&self) -> bool {
        self.ring_base != 0 && self.ring_size > 0 && self.percentage > 0
    }

    /// Writes what UPDATE_QUEUE may change.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn update_mqd(&self, mqd: &MqdManager) -> Result<()> {
        let update = if self.sdma.is_some() { mqd.update_sdma } else { mqd.update };
        self.mqds.change(|image, share| update(image, &self.ring(share)))
    }

    /// Its ring, as the graphics core of a share is told of it.
    pub(crate) fn ring(&self, share: Share) -> UserRing {
        UserRing {
            base: self.ring_base,
            size: self.ring_size,
            priority: self.priority,
            aql: self.aql,
            leads: share.number == 0,
        }
    }
}

/// The parts of CREATE_QUEUE that do not depend on the process.
pub(crate) fn check_properties<O: Os>(os: &O, args: &mut CreateQueueArgs) -> Result<()> {
    check_share(args.queue_percentage, args.queue_priority)?;
    args.ring_size = check_ring(os, args.ring_base_address, args.ring_size)?;
    check_user_range(os, args.read_pointer_address, 4)?;
    check_user_range(os, args.write_pointer_address, 4)?;
    check_user_range(os, args.eop_buffer_address, 4)?;
    check_user_range(os, args.ctx_save_restore_address, 4)
}

pub(crate) fn check_share(percentage: u32, priority: u32) -> Result<()> {
    if percentage & 0xff > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Returns the ring's size, which counts as the smallest when it is smaller.
pub(crate) fn check_ring<O: Os>(os: &O, base: u64, size: u32) -> Result<u32> {
    if base != 0 {
        check_user_range(os, base, 8)?;
    }
    if size != 0 && !size.is_power_of_two() {
        return Err(Errno::EINVAL);
    }
    Ok(size.max(KFD_MIN_QUEUE_RING_SIZE))
}

/// Number of bits of a CU mask that are looked at.
///
/// # Errors
///
/// `EINVAL` unless it is a positive multiple of 32.
pub(crate) fn cu_mask_bits(num_cu_mask: u32) -> Result<u32> {
    if num_cu_mask == 0 || !num_cu_mask.is_multiple_of(32) {
        return Err(Errno::EINVAL);
    }
    Ok(num_cu_mask.min(MAX_CU_MASK_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cu_mask_sizes_are_whole_words() {
        assert_eq!(cu_mask_bits(0), Err(Errno::EINVAL));
        assert_eq!(cu_mask_bits(33), Err(Errno::EINVAL));
        assert_eq!(cu_mask_bits(64), Ok(64));
        assert_eq!(cu_mask_bits(!31), Ok(MAX_CU_MASK_BITS));
    }
}
