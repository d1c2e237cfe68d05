//! Files of the topology, and of the cards.

use std::io;
use std::sync::Arc;

use belfry_kfd_core::KfdDevice;
use belfry_kfd_core::card::{Card, Figures, Source};

use super::HostedProcess;
use crate::os::HostedOs;

impl HostedProcess {
    /// Reads one topology file, for example `nodes/1/properties`, or one of the first GPU's own trees.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub fn sysfs_read(&self, path: &str) -> io::Result<String> {
        self.files[0].device.sysfs_read(path).map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
    }

    /// Lists the entry names of one topology directory.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub fn sysfs_list(&self, path: &str) -> io::Result<Vec<String>> {
        let names = self.files[0]
            .device
            .sysfs_list(path)
            .map_err(|errno| io::Error::from_raw_os_error(errno.raw()))?;
        Ok(names.into_iter().map(|name| name.trim_end_matches('/').to_owned()).collect())
    }

    /// Returns the constant properties that the files of the first GPU's card are made of.
    pub fn card(&self) -> Card {
        self.files[0].device.card()
    }

    /// The driver's device of the GPU with a number among those that the process has open.
    fn device(&self, gpu: usize) -> Option<&KfdDevice<HostedOs>> {
        let mut each = self.files.chunk_by(|one, other| Arc::ptr_eq(&one.gpu, &other.gpu));
        each.nth(gpu).map(|files| &*files[0].device)
    }

    /// Bytes of VRAM and of system memory that a GPU, by its number, has given away, without those of a card's other devices.
    pub fn own_memory(&self, gpu: usize) -> (u64, u64) {
        self.device(gpu).map_or((0, 0), KfdDevice::own_memory)
    }

    /// Measures the figures that a file of a GPU's card with this source needs.
    pub fn figures(&self, gpu: usize, source: Source) -> Figures {
        self.device(gpu).map_or_else(Figures::default, |device| device.figures(source))
    }

    /// Reads a file of the first GPU's card, for example `mem_info_vram_used`.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub fn card_read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.files[0].device.card_read(path).map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
    }
}
