//! Address watches, which the processes of a device share (`kfd_debug.c`, `kfd_dbg_get_dev_watch_id`).

use core::sync::atomic::Ordering;

use belfry_abi::regs::gc;

use super::Device;
use crate::errno::{Errno, Result};
use crate::node::Node;
use crate::os::Os;
use crate::request::{NodeWatch, WATCHES};

impl<O: Os> Device<O> {
    /// A watch that no process has.
    pub(crate) fn take_watch(&self) -> Result<usize> {
        (0..WATCHES)
            .find(|id| self.watches.fetch_or(1 << id, Ordering::AcqRel) >> id & 1 == 0)
            .ok_or(Errno::ENOMEM)
    }

    /// Gives a process's watches back.
    pub(crate) fn put_watches(&self, watches: &mut [NodeWatch; WATCHES]) {
        for (id, watch) in watches.iter_mut().enumerate() {
            if core::mem::take(watch).control != 0 {
                self.watches.fetch_and(!(1 << id), Ordering::AcqRel);
            }
        }
    }

    /// Writes the address of a watch on each graphics core of a node.
    pub(crate) fn program_watch(&self, node: &Node, id: usize, address: u64) {
        let (high, low) = ((address >> 32) as u32 & 0xffff, address as u32);
        for xcc in self.hw.xccs().skip(node.first_xcc as usize).take(node.config.xccs.max(1) as usize) {
            match id {
                0 => (xcc.write(gc::TCP_WATCH0_ADDR_H(high)), xcc.write(gc::TCP_WATCH0_ADDR_L(low))),
                1 => (xcc.write(gc::TCP_WATCH1_ADDR_H(high)), xcc.write(gc::TCP_WATCH1_ADDR_L(low))),
                2 => (xcc.write(gc::TCP_WATCH2_ADDR_H(high)), xcc.write(gc::TCP_WATCH2_ADDR_L(low))),
                _ => (xcc.write(gc::TCP_WATCH3_ADDR_H(high)), xcc.write(gc::TCP_WATCH3_ADDR_L(low))),
            };
        }
    }
}
