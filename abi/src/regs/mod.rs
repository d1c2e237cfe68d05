//! Registers by IP block.
//!
//! A register lies in a block of the chip, at an offset within one of the block's segments: that is how the published
//! headers name it (`regNAME` and `regNAME_BASE_IDX`), and it is the same on every chip with that version of the block;
//! [`layout`] has the registers that other versions have elsewhere.
//! The place of the segments of a block's instance in the register BAR differs from chip to chip: the IP
//! discovery table says where they are.
//!
//! One `registers!` declaration gives each register its type (named verbatim as upstream names it), its block and offset,
//! its access class, its value after reset, and an `ALL` table. Only registers that device or driver act on are here;
//! the rest of the BAR is storage.

/// A kind of IP block, by the hardware id that the discovery table knows it by.
///
/// Source: Linux `drivers/gpu/drm/amd/include/soc15_hw_ip.h`, `*_HWID`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ip(pub u16);

impl Ip {
    /// System management unit.
    pub const MP1: Self = Self(1);
    /// Thermal control.
    pub const THM: Self = Self(3);
    /// System management I/O: clocks and straps.
    pub const SMUIO: Self = Self(4);
    /// Graphics core.
    pub const GC: Self = Self(11);
    /// Video codecs.
    pub const VCN: Self = Self(12);
    /// Memory hub of everything outside the graphics core.
    pub const MMHUB: Self = Self(34);
    /// Address translation hub.
    pub const ATHUB: Self = Self(35);
    /// Operating system services: the interrupt handler.
    pub const OSSSYS: Self = Self(40);
    /// Host data path.
    pub const HDP: Self = Self(41);
    /// First SDMA engine.
    pub const SDMA0: Self = Self(42);
    /// Second SDMA engine.
    pub const SDMA1: Self = Self(43);
    /// Memory controller.
    pub const UMC: Self = Self(150);
    /// Bus interface.
    pub const NBIF: Self = Self(108);
    /// Platform security processor.
    pub const MP0: Self = Self(255);
}

/// Place of a register within its block: a segment, and dwords from the segment's base.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Offset {
    /// Index into the bases that the discovery table lists for the block (`regNAME_BASE_IDX`).
    pub segment: u8,
    /// Dwords from that base (`regNAME`).
    pub dword: u32,
}

impl Offset {
    /// The place `dwords` further: element `dwords` of an array of registers that begins here.
    #[must_use]
    pub const fn plus(self, dwords: u32) -> Self {
        Self { segment: self.segment, dword: self.dword + dwords }
    }

    /// Index of this register in the array of `count` registers that begins at `first`, if it is in it.
    #[must_use]
    pub const fn element(self, first: Self, count: u32) -> Option<u32> {
        if self.segment == first.segment && self.dword >= first.dword && self.dword - first.dword < count {
            Some(self.dword - first.dword)
        } else {
            None
        }
    }

    const fn is_before(self, other: Self) -> bool {
        self.segment < other.segment || (self.segment == other.segment && self.dword < other.dword)
    }
}

/// A register of 32 bits.
pub trait Register: Copy {
    /// Upstream's name without its `reg` prefix.
    const NAME: &'static str;
    /// Block it belongs to.
    const IP: Ip;
    /// Place in its block on Navi 31, by which it is known on all chips; see [`layout`].
    const AT: Offset;
    /// Access class.
    const ACCESS: Access;
    /// Value after reset.
    const RESET: u32;

    /// The register holding these bits.
    #[must_use]
    fn from_bits(bits: u32) -> Self;

    /// The bits.
    #[must_use]
    fn bits(self) -> u32;
}

/// Accesses of a driver that a register takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Reads and writes.
    Rw,
    /// Writes are ignored.
    Ro,
}

/// A row of an `ALL` table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Description {
    /// [`Register::NAME`].
    pub name: &'static str,
    /// [`Register::AT`].
    pub at: Offset,
    /// [`Register::ACCESS`].
    pub access: Access,
    /// [`Register::RESET`].
    pub reset: u32,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A field of a register.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Field {
    /// Upstream's name, in small letters.
    pub name: &'static str,
    /// Its first bit.
    pub first: u8,
    /// Its last bit.
    pub last: u8,
}

impl Field {
    /// Its value in a register with these bits.
    #[must_use]
    pub const fn of(&self, bits: u32) -> u32 {
        bits >> self.first & u32::MAX >> (31 - (self.last - self.first))
    }
}

/// Returns true if the offsets rise strictly, that is: the table is sorted and no register is in it twice.
#[must_use]
pub const fn is_sorted_and_unique(table: &[Description]) -> bool {
    let mut i = 1;
    while i < table.len() {
        if !table[i - 1].at.is_before(table[i].at) {
            return false;
        }
        i += 1;
    }
    true
}

/// The table of the fields that a declaration has.
macro_rules! fields {
    ([$($done:tt)*]) => { &[$($done)*] };
    ([$($done:tt)*] pub $name:ident, $setter:ident: $bit:literal; $($rest:tt)*) => {
        fields!([$($done)* $crate::regs::Field { name: stringify!($name), first: $bit, last: $bit },] $($rest)*)
    };
    ([$($done:tt)*] pub $name:ident, $setter:ident: $last:literal, $first:literal; $($rest:tt)*) => {
        fields!([$($done)* $crate::regs::Field { name: stringify!($name), first: $first, last: $last },] $($rest)*)
    };
}

/// Declares the registers of one block: `NAME @ segment:offset Access = reset { field, set_field: msb, lsb; ... }`.
macro_rules! registers {
    (
        ip $ip:ident;
        $($(#[$doc:meta])* $name:ident @ $segment:literal : $offset:literal $access:ident = $reset:literal { $($fields:tt)* })*
    ) => {
        /// The block these registers belong to.
        pub const IP: $crate::regs::Ip = $crate::regs::Ip::$ip;

        /// Every register of this block, by offset.
        pub const ALL: &[$crate::regs::Description] = &[$($crate::regs::Description {
            name: stringify!($name),
            at: <$name as $crate::regs::Register>::AT,
            access: $crate::regs::Access::$access,
            reset: $reset,
            fields: fields!([] $($fields)*),
        }),*];

        const _: () = assert!($crate::regs::is_sorted_and_unique(ALL));

        $(
            ::bitfield::bitfield! {
                $(#[$doc])*
                #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
                #[expect(non_camel_case_types, reason = "registers keep their upstream names")]
                pub struct $name(pub u32);
                u32;
                $($fields)*
            }

            impl $crate::regs::Register for $name {
                const NAME: &'static str = stringify!($name);
                const IP: $crate::regs::Ip = IP;
                const AT: $crate::regs::Offset = $crate::regs::Offset { segment: $segment, dword: $offset };
                const ACCESS: $crate::regs::Access = $crate::regs::Access::$access;
                const RESET: u32 = $reset;

                fn from_bits(bits: u32) -> Self {
                    Self(bits)
                }

                fn bits(self) -> u32 {
                    self.0
                }
            }
        )*
    };
}

#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod gc;
#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod gfx9;
pub mod layout;
#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod mmhub;
pub mod mp;
pub mod mp1;
#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod nbio;
#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod osssys;
#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod sdma;
pub mod smuio;
