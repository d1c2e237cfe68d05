//! Processes that open the driver.

use std::sync::Arc;

use belfry_kfd_core::os::ProcessKey;
use belfry_kfd_core::{Errno, Kfd, KfdDevice, Process, Result};
use belfry_lock::Mutex;

use super::HostedProcess;
use super::handles::Handles;
use super::render::File;
use super::syncobj::Syncobjs;
use crate::error::Error;
use crate::gpu::{Bound, HostedGpu};
use crate::node::{self, RenderFiles};
use crate::os::{HostedOs, file_id};

impl HostedProcess {
    /// Opens the driver of a GPU, and of the others of its machine, as a process of its own.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], or the driver's error.
    pub fn open(gpu: &HostedGpu) -> std::result::Result<Self, Error> {
        Self::open_as(gpu, None)
    }

    /// Opens the driver for a process whose render nodes are the descriptors for which `partition_of` says whose they are.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], or the driver's error.
    pub fn open_with(
        gpu: &HostedGpu,
        partition_of: fn(i32) -> Option<u32>,
    ) -> std::result::Result<Self, Error> {
        Self::open_as(gpu, Some(partition_of))
    }

    /// Opens the driver for a process that has all GPUs which are bound.
    fn open_as(
        gpu: &HostedGpu,
        render_of: Option<fn(i32) -> Option<u32>>,
    ) -> std::result::Result<Self, Error> {
        let Bound { kfd, gpus, key } = gpu.bound()?;
        let process = kfd.open(ProcessKey(key)).map_err(Error::Open)?;
        Self::new(gpus, kfd, process, key, render_of).map_err(Error::Open)
    }

    fn new(
        gpus: Vec<(Arc<HostedGpu>, Arc<KfdDevice<HostedOs>>)>,
        kfd: Arc<Kfd<HostedOs>>,
        process: Arc<Process<HostedOs>>,
        key: u64,
        render_of: Option<fn(i32) -> Option<u32>>,
    ) -> Result<Self> {
        let Some((hosted, _)) = gpus.first().cloned() else {
            kfd.close(&process);
            return Err(Errno::ENODEV);
        };
        let checks =
            hosted.device().config().sanitizer.as_ref().is_some_and(|sanitizer| sanitizer.checks_memory());
        let quarantine = checks.then(Mutex::default);
        let render = render_of.map_or(RenderFiles::Invented(node::invented(key)), RenderFiles::Real);
        let mut files = Vec::new();
        // As many as there are while the process has the device open.
        for (gpu, device) in gpus {
            for (partition, gpu_id) in (0..).zip(device.gpu_ids()) {
                let opened = device.drm_open(file_id(key, files.len() as u32), partition);
                let client = opened.inspect_err(|_| kfd.close(&process))?;
                files.push(File::new(client, (gpu.clone(), device.clone()), gpu_id));
            }
        }
        Ok(Self {
            hosted,
            kfd,
            process,
            key: ProcessKey(key),
            render,
            maps: Mutex::default(),
            quarantine,
            handles: Handles::default(),
            files,
            syncobjs: Syncobjs::default(),
        })
    }
}
