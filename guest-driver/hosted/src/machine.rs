//! Machines: GPUs in this process that have one driver, and reach the same memory.

use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::memory::Links;

use crate::config::{HostedConfig, Place};
use crate::error::Error;
use crate::gpu::{self, HostedGpu};
use crate::process::HostedProcess;

/// A machine with any number of GPUs in this process, and one driver for all of them.
///
/// Each GPU reaches the driver's memory, pinned memory of programs, and the BARs of all others.
#[derive(Debug)]
pub struct HostedMachine {
    gpus: Vec<Arc<HostedGpu>>,
}

impl HostedMachine {
    /// Makes the GPUs and binds the driver to them. How much of the process's memory they reach, and the observer of pins, are those of the
    /// first one, and so are links. Their places are chosen here: each has a bus of its own from 1 on, and render nodes that follow those of the one before.
    ///
    /// # Errors
    ///
    /// As [`HostedGpu::new`]; [`Error::NoGpu`] for none, [`Error::TooManyGpus`], [`Error::OneGpuOnly`] for several of which one explores
    /// schedules.
    pub fn new(configs: Vec<HostedConfig>) -> Result<Self, Error> {
        let mut minor = Place::default().render_minor;
        let mut placed = Vec::new();
        for (bus, config) in (1..).zip(configs) {
            let place = Place { location_id: bus << 8, render_minor: minor, ..config.place };
            minor += config.gpu.xccs.max(1);
            placed.push(HostedConfig { place, ..config });
        }
        Self::placed(placed)
    }

    /// Does the same with GPUs whose places are those of their configurations.
    ///
    /// # Errors
    ///
    /// As [`HostedMachine::new`].
    pub fn placed(configs: Vec<HostedConfig>) -> Result<Self, Error> {
        let links = configs.first().map_or_else(Links::default, |first| first.links);
        let gpus = GpuConfig::of_machine(links, configs.iter().map(|config| config.gpu.clone()));
        let numbered = configs.into_iter().zip(gpus).map(|(config, gpu)| HostedConfig { gpu, ..config });
        Ok(Self { gpus: gpu::assemble(numbered.collect())? })
    }

    /// Returns its GPUs.
    #[must_use]
    pub fn gpus(&self) -> &[Arc<HostedGpu>] {
        &self.gpus
    }

    /// Returns the first of its GPUs, for work that is of one GPU alone.
    ///
    /// # Panics
    ///
    /// Never: a machine has at least one.
    #[must_use]
    pub fn first(&self) -> &Arc<HostedGpu> {
        &self.gpus[0]
    }

    /// Opens the driver as a process whose render nodes are the descriptors for which `partition_of` says which they are, counted over all GPUs.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], or the driver's error.
    pub fn open_with(&self, partition_of: fn(i32) -> Option<u32>) -> Result<HostedProcess, Error> {
        HostedProcess::open_with(self.first(), partition_of)
    }

    /// Opens the driver as a process of its own, which has all GPUs that are bound.
    ///
    /// # Errors
    ///
    /// [`Error::NotLoaded`], or the driver's error.
    pub fn open(&self) -> Result<HostedProcess, Error> {
        HostedProcess::open(self.first())
    }
}
