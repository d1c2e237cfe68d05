//! Things that processes hold of a device, for those who look for leaks.

use core::fmt;
use core::sync::atomic::Ordering;

use crate::device::Device;
use crate::os::Os;
use crate::processes::Processes;

/// Things that processes hold of a device at a moment; its text has a line with a name and a number for each.
///
/// When the last process has ended, all of it is as it was before the first one began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Processes that have the KFD node open, with this device in it.
    pub processes: usize,
    /// Open files of the render node.
    pub render_files: usize,
    /// Address spaces of the render node's files that have had work.
    pub render_spaces: usize,
    /// Queues of all processes on this device.
    pub queues: usize,
    /// SDMA queues of the hardware that are taken.
    pub sdma_queues: u32,
    /// Address watches that debuggers have.
    pub watches: u32,
    /// Bytes of VRAM that are taken, the driver's own among them.
    pub vram: u64,
    /// Bytes of system memory behind buffer objects.
    pub gtt: u64,
    /// Pages of the GART that are mapped, the driver's own among them.
    pub gart_pages: usize,
}

pub(crate) fn of<O: Os>(table: &Processes<O>, device: &Device<O>) -> Usage {
    let mut processes = table.all();
    processes.retain(|process| process.nodes.of(device).next().is_some());
    let queues = processes.iter().map(|process| {
        let state = process.state.lock();
        state.queues.values().filter(|queue| process.nodes.get(queue.node).is_of(device)).count()
    });
    let queues = queues.sum();
    let (render_files, render_spaces) = table.render_nodes(device);
    Usage {
        processes: processes.len(),
        render_files,
        render_spaces,
        queues,
        sdma_queues: device.nodes().iter().map(|node| node.sdma.taken()).sum(),
        watches: device.watches.load(Ordering::Relaxed).count_ones(),
        vram: device.vram.size() - device.vram.free_bytes(),
        gtt: device.gtt_used.load(Ordering::Relaxed),
        gart_pages: device.gart.mapped_pages(),
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            processes,
            render_files,
            render_spaces,
            queues,
            sdma_queues,
            watches,
            vram,
            gtt,
            gart_pages,
        } = self;
        writeln!(f, "processes {processes}\nrender_files {render_files}\nrender_spaces {render_spaces}")?;
        writeln!(f, "queues {queues}\nsdma_queues {sdma_queues}\nwatches {watches}")?;
        writeln!(f, "vram_bytes {vram}\ngtt_bytes {gtt}\ngart_pages {gart_pages}")
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use crate::testing::Bench;

    #[test]
    fn what_a_process_holds_is_counted_until_it_ends() {
        let bench = Bench::new();
        let before = bench.gpu.usage();
        let process = bench.process(7);
        let during = bench.gpu.usage();
        assert_eq!((during.processes, during.queues), (before.processes + 1, 0));
        drop(process);
        bench.end(7);
        assert_eq!(bench.gpu.usage(), before);
        let text = before.to_string();
        assert!(text.lines().all(|line| line.split(' ').nth(1).unwrap().parse::<u64>().is_ok()), "{text}");
        assert_eq!(text.lines().count(), 9);
    }
}
