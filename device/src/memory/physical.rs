//! Places in physical memory.

/// A part of the physical address space, by the memory that answers there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aperture {
    /// The device's own VRAM.
    Local,
    /// VRAM of another device, by its number in the fabric.
    Peer(u8),
    /// System memory.
    System,
    /// No memory: a page that is not resident. Loads are 0, and stores are lost.
    Nowhere,
}

/// A place in physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Physical {
    /// Memory that the place is in.
    pub aperture: Aperture,
    /// Byte offset in VRAM. In system memory, the guest-physical address; in hosted mode, the process's own virtual
    /// address.
    pub offset: u64,
}

impl Physical {
    /// A place in the device's own VRAM.
    #[must_use]
    pub const fn local(offset: u64) -> Self {
        Self { aperture: Aperture::Local, offset }
    }

    /// A place in another device's VRAM.
    #[must_use]
    pub const fn peer(number: u8, offset: u64) -> Self {
        Self { aperture: Aperture::Peer(number), offset }
    }

    /// A place in system memory.
    #[must_use]
    pub const fn system(address: u64) -> Self {
        Self { aperture: Aperture::System, offset: address }
    }

    /// The first byte of a page that is not resident. The byte after its last one is no memory either.
    #[must_use]
    pub const fn nowhere() -> Self {
        Self { aperture: Aperture::Nowhere, offset: 0 }
    }

    /// The place `bytes` further on, or `None` past the end of the address range.
    #[must_use]
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(bytes)?, ..self })
    }

    /// The place without the lowest bits of its offset that `mask` does not have.
    #[must_use]
    pub(crate) const fn masked(self, mask: u64) -> Self {
        Self { offset: self.offset & mask, ..self }
    }
}
