//! Images of queue descriptors (MQDs).

use alloc::vec::Vec;

use belfry_abi::mqd::{ComputeMqd, SdmaMqd};
use zerocopy::{FromBytes, IntoBytes};

use crate::errno::{Errno, Result};

/// Dwords of an MQD.
const DWORDS: usize = size_of::<ComputeMqd>() / 4;

/// An MQD on the heap: its two KiB are too much for a kernel stack.
pub(crate) struct Image(Vec<u32>);

impl Image {
    /// Makes an image of zeros.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn zeroed() -> Result<Self> {
        let mut dwords = Vec::new();
        dwords.try_reserve_exact(DWORDS).map_err(|_| Errno::ENOMEM)?;
        dwords.resize(DWORDS, 0);
        Ok(Self(dwords))
    }

    /// Views it. The registers of the hardware queue are at the same places on every generation, the compute state
    /// before them is not.
    ///
    /// # Errors
    ///
    /// None that can happen: size and alignment are right.
    pub(crate) fn mqd(&mut self) -> Result<&mut ComputeMqd> {
        ComputeMqd::mut_from_bytes(self.0.as_mut_slice().as_mut_bytes()).map_err(|_| Errno::EINVAL)
    }

    /// Views that of an SDMA queue, which is the first quarter of the image.
    ///
    /// # Errors
    ///
    /// None that can happen: size and alignment are right.
    pub(crate) fn sdma(&mut self) -> Result<&mut SdmaMqd> {
        SdmaMqd::mut_from_prefix(self.0.as_mut_slice().as_mut_bytes())
            .map(|(mqd, _)| mqd)
            .map_err(|_| Errno::EINVAL)
    }

    /// The dwords of an SDMA queue's, for generations that have its fields elsewhere.
    ///
    /// # Errors
    ///
    /// None that can happen: the image is longer.
    pub(crate) fn sdma_dwords(&mut self) -> Result<&mut [u32; size_of::<SdmaMqd>() / 4]> {
        self.0.first_chunk_mut().ok_or(Errno::EINVAL)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_slice().as_bytes()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice().as_mut_bytes()
    }
}
