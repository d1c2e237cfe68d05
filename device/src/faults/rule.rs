//! The faults that can strike.

use super::Hook;

macro_rules! rules {
    ($($name:ident = $text:literal, $hook:ident, $late:literal, $effect:literal;)*) => {
        /// A fault that can strike at a hook.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Rule { $(#[doc = $effect] $name,)* }

        impl Rule {
            /// All rules.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name of the rule in plans.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Hook at which it strikes.
            #[must_use]
            pub const fn hook(self) -> Hook {
                match self { $(Self::$name => Hook::$hook,)* }
            }

            /// Returns true if it has a time, `for:DURATION`: the delay of a late thing, or the jump of a
            /// clock.
            #[must_use]
            pub const fn is_late(self) -> bool {
                match self { $(Self::$name => $late,)* }
            }

            /// Effect of the rule, in one sentence.
            #[must_use]
            pub const fn effect(self) -> &'static str {
                match self { $(Self::$name => $effect,)* }
            }
        }
    };
}

rules! {
    DoorbellLost = "doorbell-lost", Doorbell, false, "The ring is not heard: the queue sleeps on until its next doorbell.";
    DoorbellLate = "doorbell-late", Doorbell, true, "The ring is heard after a time.";
    InterruptLost = "interrupt-lost", Interrupt, false, "The message does not reach the host.";
    InterruptDoubled = "interrupt-doubled", Interrupt, false, "The message reaches the host twice.";
    InterruptLate = "interrupt-late", Interrupt, true, "The message reaches the host after a time.";
    InterruptSpurious = "interrupt-spurious", IhEntry, false, "The vector is raised before there is an entry to read.";
    IhOverflow = "ih-overflow", IhEntry, false, "Entries that nobody handles fill the interrupt ring, which overflows.";
    FrameUnanswered = "frame-unanswered", Frame, false, "The scheduler takes the frame and answers neither it nor, on a HIQ, any other.";
    FrameRefused = "frame-refused", Frame, false, "The scheduler refuses the frame.";
    FrameLate = "frame-late", Frame, true, "The scheduler takes the frame, and all that follow, after a time.";
    FewVmids = "few-vmids", Resources, false, "The scheduler has one VMID of those that it is given.";
    FewSlots = "few-slots", Resources, false, "The scheduler has one compute queue of those that it is given.";
    QueueHang = "queue-hang", Packet, false, "The packet processor stays at the packet, and the queue cannot be taken off.";
    WaveHang = "wave-hang", Dispatch, false, "The first wave of the dispatch stays at its first instruction until its queue is taken off.";
    SignalLate = "signal-late", Signal, true, "The completion signal is written after a time.";
    SdmaStuck = "sdma-stuck", Transfer, false, "The engine stays at the packet, and the queue cannot be taken off.";
    SdmaCorrupt = "sdma-corrupt", Transfer, false, "One bit of the first byte that is written is wrong.";
    WalkFails = "walk-fails", Walk, false, "The page has no valid entry, this once.";
    VramEcc = "vram-ecc", VramRead, false, "Error correction cannot mend what is read: the wave or the engine stops at poison, which stays until the next invalidation.";
    VramEccCorrectable = "vram-ecc-correctable", VramRead, false, "Error correction mends what is read, and the memory controller counts it.";
    TlbStale = "tlb-stale", Invalidation, false, "Translations of loads to VRAM outlive the invalidation, until the next one.";
    ClockJump = "clock-jump", Packet, true, "The golden counter jumps forward by a time.";
    RegisterStuck = "register-stuck", Register, false, "The register reads as it does now, for good.";
    FunctionReset = "function-reset", Register, false, "The function is reset (FLR) behind the driver's back: queues, registers and configuration space are as after power on.";
    VramExhausted = "vram-exhausted", Vram, false, "The driver finds no VRAM.";
    GttExhausted = "gtt-exhausted", System, false, "The driver finds no system memory.";
    DoorbellsExhausted = "doorbells-exhausted", QueueDoorbell, false, "The driver finds no doorbell.";
    DriverUnbound = "driver-unbound", Call, false, "The driver is unbound from the device before it looks at the call.";
    Suspend = "suspend", Call, false, "The device is suspended, loses its registers, and is resumed before the driver looks at the call.";
    Removal = "removal", Register, false, "The function is pulled out: registers read as all ones, and nothing is heard or told.";
}

impl Rule {
    /// The rule with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }

    /// Power of two by which [`Chaos`](super::Chaos) lets the rule strike less often than asked for: some
    /// hooks are met once for every packet, others a thousand times. `None` for a rule after which no device
    /// works again.
    #[must_use]
    pub const fn rarity(self) -> Option<u32> {
        match self {
            Self::Removal => None,
            Self::WalkFails
            | Self::VramEcc
            | Self::VramEccCorrectable
            | Self::RegisterStuck
            | Self::FunctionReset
            | Self::DriverUnbound
            | Self::Suspend => Some(8),
            _ => Some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_rule_each() {
        for &rule in Rule::ALL {
            assert_eq!(Rule::named(rule.name()), Some(rule));
            assert!(rule.effect().ends_with('.'), "{}", rule.name());
        }
        assert_eq!(Rule::named("Removal"), None);
    }
}
