//! The image in the expansion ROM.

use std::fmt;
use std::sync::Arc;

use crate::bar::{BarLayout, ROM_SIZES};

/// Value of a byte of a ROM that was never programmed.
const ERASED: u8 = 0xff;

/// An image for the expansion ROM, which holds a VBIOS.
///
/// The ROM is as large as the next power of two, at least 2 KiB; the bytes after the image read as erased ones.
#[derive(Clone, Eq, PartialEq)]
pub struct Rom(Arc<[u8]>);

/// An image that no ROM can hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RomSize(pub usize);

impl fmt::Display for RomSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, most) = (self.0, ROM_SIZES.end() >> 20);
        write!(f, "an image of {bytes} bytes for the expansion ROM: must be 1 byte to {most} MiB")
    }
}

impl std::error::Error for RomSize {}

impl Rom {
    /// Takes an image, of any contents.
    ///
    /// # Errors
    ///
    /// An image without bytes, or one that is larger than the largest ROM.
    pub fn new(image: impl Into<Arc<[u8]>>) -> Result<Self, RomSize> {
        let image = image.into();
        let fits = !image.is_empty() && image.len() as u64 <= *ROM_SIZES.end();
        if fits { Ok(Self(image)) } else { Err(RomSize(image.len())) }
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of the ROM.
    #[must_use]
    pub fn size(&self) -> u64 {
        (self.0.len() as u64).next_power_of_two().max(*ROM_SIZES.start())
    }

    /// Layout of its register.
    #[must_use]
    pub fn layout(&self) -> BarLayout {
        BarLayout::rom(self.size())
    }

    /// Reads bytes from an offset on.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(ERASED);
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let len = rest.len().min(data.len());
        data[..len].copy_from_slice(&rest[..len]);
    }
}

/// Its size, not its contents.
impl fmt::Debug for Rom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rom").field(&format_args!("{} bytes", self.0.len())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_is_followed_by_erased_bytes_up_to_the_size_of_the_rom() {
        let rom = Rom::new(vec![0x55, 0xaa, 8]).expect("small enough");
        assert_eq!(rom.size(), 2048);
        let read = |offset| {
            let mut data = [0; 4];
            rom.read(offset, &mut data);
            data
        };
        assert_eq!(read(0), [0x55, 0xaa, 8, 0xff]);
        assert_eq!((read(2), read(2044), read(u64::MAX)), ([8, 0xff, 0xff, 0xff], [0xff; 4], [0xff; 4]));
        assert_eq!(Rom::new(vec![0; 2049]).expect("small enough").size(), 4096);
    }

    #[test]
    fn images_that_no_rom_holds_are_refused() {
        assert_eq!(Rom::new(Vec::new()), Err(RomSize(0)));
        let most = *ROM_SIZES.end() as usize;
        assert_eq!(Rom::new(vec![0; most]).expect("as large as the largest ROM").size(), most as u64);
        assert_eq!(Rom::new(vec![0; most + 1]), Err(RomSize(most + 1)));
    }
}
