//! Registers by block, as dword indices in the register BAR.
//!
//! One `registers!` declaration gives each register its type (named verbatim as upstream names it), its absolute dword
//! index, its access class, its value after reset, and an `ALL` table. Only registers that somebody acts on are here;
//! everything else in the BAR is storage to whoever needs it. Bases are self-declared by the device's IP discovery table;
//! these are Navi 31's.

/// A register of 32 bits.
pub trait Register: Copy {
    /// Upstream's name without its `reg` prefix.
    const NAME: &'static str;
    /// Absolute dword index: the byte offset in BAR5 is four times this.
    const INDEX: u32;
    /// Byte offset in BAR5.
    const OFFSET: u64 = Self::INDEX as u64 * 4;
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

/// What a driver may do with a register.
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
    /// [`Register::INDEX`].
    pub index: u32,
    /// [`Register::ACCESS`].
    pub access: Access,
    /// [`Register::RESET`].
    pub reset: u32,
}

/// Whether the indices rise strictly, that is: the table is sorted and no register is in it twice.
#[must_use]
pub const fn is_sorted_and_unique(table: &[Description]) -> bool {
    let mut i = 1;
    while i < table.len() {
        if table[i - 1].index >= table[i].index {
            return false;
        }
        i += 1;
    }
    true
}

/// Declares the registers of one block: `NAME @ segment:offset Access = reset { field, set_field: msb, lsb; ... }`.
macro_rules! registers {
    (
        $(#[$bases_doc:meta])* bases [$($base:expr),+];
        $($(#[$doc:meta])* $name:ident @ $segment:literal : $offset:literal $access:ident = $reset:literal { $($fields:tt)* })*
    ) => {
        $(#[$bases_doc])*
        pub const BASES: &[u32] = &[$($base),+];

        /// Every register of this block, by index.
        pub const ALL: &[$crate::regs::Description] = &[$($crate::regs::Description {
            name: stringify!($name),
            index: <$name as $crate::regs::Register>::INDEX,
            access: $crate::regs::Access::$access,
            reset: $reset,
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
                const INDEX: u32 = BASES[$segment] + $offset;
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
pub mod mmhub;
pub mod mp;
#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod nbio;
#[expect(missing_docs, reason = "fields carry their upstream names, which are their documentation")]
pub mod osssys;
pub mod smuio;
