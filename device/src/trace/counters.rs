//! Counters of the timeline, each declared once.

/// The parts that have a counter each.
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
            /// All counters.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The counter with this number.
            #[must_use]
            pub const fn from_number(number: u64) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// Name of the counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Unit of the counter.
            #[must_use]
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$name => $unit,)* }
            }

            /// The parts that have this counter each.
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
    /// Bytes of LDS that workgroups have on the compute units.
    LdsInUse = 9, "LDS in use", "bytes", Engine;
    /// Bytes of vector registers that waves have on the compute units, as they are allocated.
    VgprsInUse = 10, "VGPRs in use", "bytes", Engine;
    /// Translations that the TLBs of the compute units did not have, since the device was made.
    TlbMisses = 11, "TLB misses", "misses", Engine;
}
