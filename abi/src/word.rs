//! Words of bit fields, as packets have them.

/// A 32-bit word with named fields, in the syntax of `bitfield!`.
macro_rules! word {
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        ::bitfield::bitfield! {
            $(#[$doc])*
            #[derive(
                Clone,
                Copy,
                PartialEq,
                Eq,
                ::zerocopy::FromBytes,
                ::zerocopy::IntoBytes,
                ::zerocopy::KnownLayout,
                ::zerocopy::Immutable,
            )]
            #[repr(transparent)]
            pub struct $name(u32);
            impl Debug;
            $($fields)*
        }

        impl $name {
            /// The word with these raw bits.
            #[must_use]
            pub const fn from_bits(bits: u32) -> Self {
                Self(bits)
            }

            /// The raw bits.
            #[must_use]
            pub const fn bits(self) -> u32 {
                self.0
            }
        }
    };
}
