//! Counters of the timeline, each declared once.

/// Of what there is one of a counter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PerWhat {
    /// Each queue.
    Queue,
    /// Each engine.
    Engine,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $text:literal, $unit:literal, $per:ident;)*) => {
        /// A counter.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(u16)]
        pub enum Counter { $($(#[$doc])* $name = $number,)* }

        impl Counter {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The counter with this number.
            #[must_use]
            pub const fn from_number(number: u64) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// What it is called.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it counts in.
            #[must_use]
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$name => $unit,)* }
            }

            /// Of what there is one.
            #[must_use]
            pub const fn per(self) -> PerWhat {
                match self { $(Self::$name => PerWhat::$per,)* }
            }
        }
    };
}

counters! {
    /// Waves on the compute units.
    WavesResident = 1, "waves resident", "waves", Queue;
    /// Walks of page tables since the device was made: misses of the TLBs of all engines.
    PageWalks = 3, "page walks", "walks", Engine;
    /// Wave instructions since the device was made.
    Instructions = 4, "instructions", "instructions", Engine;
    /// Bytes that an SDMA engine's queue has moved since the queue was mapped.
    SdmaBytes = 5, "SDMA bytes", "bytes", Queue;
    /// Doorbells that trapped, since the device was made.
    DoorbellsTrapped = 6, "doorbells trapped", "doorbells", Engine;
    /// Doorbells that the host announced, since the device was made.
    DoorbellsWoken = 7, "doorbells woken", "doorbells", Engine;
    /// Doorbells that were found in the page, since the device was made.
    DoorbellsPolled = 8, "doorbells polled", "doorbells", Engine;
    /// LDS that workgroups have on the compute units.
    LdsInUse = 9, "LDS in use", "bytes", Engine;
    /// Vector registers that waves have on the compute units, as they are allocated.
    VgprsInUse = 10, "VGPRs in use", "bytes", Engine;
    /// Translations that the TLBs of the compute units did not have, since the device was made.
    TlbMisses = 11, "TLB misses", "misses", Engine;
}
