//! The moments at which a part can fail.

macro_rules! hooks {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of moment at which a part can fail.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Hook { $($(#[$doc])* $name,)* }

        impl Hook {
            /// All hooks, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Name of the hook.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

hooks! {
    /// The firmware takes note of a doorbell whose queue or ring has nothing else to do.
    Doorbell = "doorbell",
    /// A vector is about to be raised at the host.
    Interrupt = "interrupt",
    /// An entry is about to be written to the interrupt ring.
    IhEntry = "IH entry",
    /// A frame of the MES, or a packet of a KIQ or a HIQ, is about to be executed.
    Frame = "frame",
    /// A driver gives the scheduler VMIDs and hardware queues.
    Resources = "resources",
    /// A packet of an AQL queue is about to be executed.
    Packet = "packet",
    /// A dispatch is about to be handed to the compute units.
    Dispatch = "dispatch",
    /// The completion signal of a dispatch is about to be written.
    Signal = "signal",
    /// A packet of an SDMA queue is about to move bytes.
    Transfer = "transfer",
    /// Page tables are walked.
    Walk = "walk",
    /// A wave fills its TLB for a load, a fetch or an atomic of VRAM; an SDMA engine reads a part of a copy from there.
    VramRead = "read of VRAM",
    /// The TLBs of a process's address space are invalidated.
    Invalidation = "invalidation of TLBs",
    /// The host reads a register.
    Register = "register read",
    /// The driver takes VRAM for a process; in hosted mode and `exec`.
    Vram = "allocation of VRAM",
    /// The driver takes system memory for a process; likewise.
    System = "allocation of system memory",
    /// The driver takes a doorbell for a queue; likewise.
    QueueDoorbell = "doorbell of a queue",
    /// A program calls the driver (ioctl); likewise.
    Call = "call of the driver",
}

impl Hook {
    /// Returns true if the driver meets this hook.
    pub(crate) const fn is_of_driver(self) -> bool {
        matches!(self, Self::Vram | Self::System | Self::QueueDoorbell | Self::Call)
    }

    /// Index in tables of all hooks.
    pub(super) const fn number(self) -> usize {
        self as usize
    }
}
