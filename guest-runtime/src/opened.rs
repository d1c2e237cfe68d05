//! State of a GPU that this process has opened: queues and loaded code share it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use belfry_abi::kfd::aperture::ProcessDeviceApertures;

use crate::doorbell::DoorbellPage;
use crate::kernarg::KernargPool;
use crate::kfd::KfdError;
use crate::memory::Allocation;
use crate::process::{Process, lock};
use crate::topology::Agent;

pub(crate) struct GpuInner {
    pub(crate) process: Arc<Process>,
    pub(crate) agent: Agent,
    pub(crate) apertures: ProcessDeviceApertures,
    pub(crate) kernargs: Arc<KernargPool>,
    /// Counts code uploads: a queue that has not seen the latest invalidates the instruction caches first.
    code_generation: AtomicU64,
    /// PM4 that invalidates the instruction caches.
    pub(crate) icache_invalidate: Allocation,
    doorbells: Mutex<Weak<DoorbellPage>>,
}

impl fmt::Debug for GpuInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GpuInner").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl GpuInner {
    pub(crate) fn new(
        process: &Arc<Process>,
        agent: Agent,
        apertures: ProcessDeviceApertures,
        icache_invalidate: Allocation,
    ) -> Self {
        Self {
            process: Arc::clone(process),
            kernargs: Arc::new(KernargPool::new(Arc::clone(&process.kfd), agent.gpu_id)),
            agent,
            apertures,
            code_generation: AtomicU64::new(0),
            icache_invalidate,
            doorbells: Mutex::new(Weak::new()),
        }
    }

    pub(crate) fn code_generation(&self) -> u64 {
        self.code_generation.load(Ordering::Acquire)
    }

    /// New code is in memory.
    pub(crate) fn code_uploaded(&self) {
        self.code_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The process's doorbell page, mapped once while any queue uses it.
    pub(crate) fn doorbells(&self, offset: u64) -> Result<Arc<DoorbellPage>, KfdError> {
        let mut current = lock(&self.doorbells);
        if let Some(page) = current.upgrade() {
            return Ok(page);
        }
        let page = Arc::new(DoorbellPage::map(&self.process.kfd, offset)?);
        *current = Arc::downgrade(&page);
        Ok(page)
    }
}
