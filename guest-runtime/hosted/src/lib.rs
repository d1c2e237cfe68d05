//! The runtime's [`Transport`] over the hosted driver: runtime, driver core and device in one process, without a VM.
#![expect(unsafe_code, reason = "carries the runtime's maps and pointers to the hosted driver")]

use std::ffi::c_void;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use belfry_kfd_hosted::{HostedGpu, HostedProcess};
use belfry_runtime::transport::{Errno, Node, Protection, Transport};

/// A process's connection to a hosted GPU, as the runtime wants it.
#[derive(Debug)]
pub struct HostedTransport {
    process: HostedProcess,
    doorbells: Doorbells,
}

/// When a process last rang a doorbell.
#[derive(Debug, Clone)]
pub struct Doorbells {
    start: Instant,
    /// Nanoseconds since `start`; 0: never.
    last: Arc<AtomicU64>,
}

impl Doorbells {
    /// The time just before the device was told of the last doorbell.
    #[must_use]
    pub fn last(&self) -> Option<Instant> {
        let last = self.last.load(Ordering::Relaxed);
        (last != 0).then(|| self.start + Duration::from_nanos(last))
    }

    fn rung(&self) {
        let nanoseconds = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.store(nanoseconds.max(1), Ordering::Relaxed);
    }
}

impl HostedTransport {
    /// Opens the GPU for one more process.
    ///
    /// # Errors
    ///
    /// When the driver has no room for it.
    pub fn open(gpu: &Arc<HostedGpu>) -> Result<Self, belfry_kfd_hosted::Error> {
        let doorbells = Doorbells { start: Instant::now(), last: Arc::default() };
        Ok(Self { process: HostedProcess::open(gpu)?, doorbells })
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &HostedProcess {
        &self.process
    }

    /// The number by which another process of the GPU debugs this one.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// When this process last rang a doorbell.
    #[must_use]
    pub fn doorbells(&self) -> Doorbells {
        self.doorbells.clone()
    }
}

// SAFETY: the hosted process maps with MAP_FIXED at the given address and nowhere else, keeps maps until they are
// unmapped, and its driver core touches user memory only as an ioctl's argument says.
unsafe impl Transport for HostedTransport {
    unsafe fn ioctl(&self, node: Node, request: u32, arg: *mut c_void) -> Result<i32, Errno> {
        self.process.ioctl(self.node(node)?, request, arg).map_err(errno)
    }

    unsafe fn mmap(
        &self,
        node: Node,
        addr: Option<usize>,
        len: usize,
        prot: Protection,
        offset: u64,
    ) -> Result<*mut u8, Errno> {
        // SAFETY: the caller vouches for the range as the trait asks.
        unsafe { self.process.mmap(self.node(node)?, addr, len, prot.bits(), offset) }.map_err(errno)
    }

    unsafe fn munmap(&self, addr: *mut u8, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller vouches that nothing uses the range any more.
        unsafe { self.process.munmap(addr, len) }.map_err(errno)
    }

    fn render_fd(&self, gpu_id: u32) -> i32 {
        self.process.partition_of(gpu_id).map_or(-1, |number| self.process.render_fd_of(number))
    }

    fn sysfs_read(&self, path: &str) -> io::Result<String> {
        self.process.sysfs_read(path)
    }

    fn sysfs_list(&self, path: &str) -> io::Result<Vec<String>> {
        self.process.sysfs_list(path)
    }

    fn doorbell_written(&self, addr: *mut u64) {
        self.doorbells.rung();
        self.process.doorbell_written(addr);
    }

    fn pause(&self, pause: Duration) {
        self.process.gpu().pause(pause);
    }
}

impl HostedTransport {
    fn node(&self, node: Node) -> Result<belfry_kfd_hosted::Node, Errno> {
        match node {
            Node::Kfd => Ok(belfry_kfd_hosted::Node::Kfd),
            Node::Render(gpu_id) => {
                let number =
                    self.process.partition_of(gpu_id).ok_or(errno(belfry_kfd_hosted::Errno::ENOENT))?;
                Ok(belfry_kfd_hosted::Node::Partition(number))
            }
        }
    }
}

fn errno(errno: belfry_kfd_hosted::Errno) -> Errno {
    Errno(errno.raw())
}
