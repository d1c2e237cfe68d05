//! Files of the topology, and of the card of the first GPU.

use std::io;

use belfry_kfd_core::card::{Card, Figures, Source};

use super::HostedProcess;

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

    /// Returns the constant properties that the files of the card are made of.
    pub fn card(&self) -> Card {
        self.files[0].device.card()
    }

    /// Bytes of VRAM and of system memory that this GPU has given away, without those of a card's other devices.
    pub fn own_memory(&self) -> (u64, u64) {
        self.files[0].device.own_memory()
    }

    /// Measures the figures that a file of the card with this source needs.
    pub fn figures(&self, source: Source) -> Figures {
        self.files[0].device.figures(source)
    }

    /// Reads a file of the card, for example `mem_info_vram_used`.
    ///
    /// # Errors
    ///
    /// `NotFound`.
    pub fn card_read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.files[0].device.card_read(path).map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
    }
}
