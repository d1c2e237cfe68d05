//! Owners of events.

/// The part of the GPU, or of its driver, that an event happened in.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Engine {
    /// None in particular: the function as a whole.
    #[default]
    Device,
    /// The doorbell page.
    Doorbells,
    /// The firmware that maps queues, and the kernel's rings to it.
    Firmware,
    /// The command processor.
    Cp,
    /// An SDMA engine, by number.
    Sdma(u16),
    /// The compute units.
    Shader,
    /// The interrupt handler.
    Ih,
    /// The driver.
    Driver,
}

impl Engine {
    /// Two numbers for the engine: its kind, and its number in the kind.
    pub(crate) const fn numbers(self) -> (u8, u16) {
        match self {
            Self::Device => (0, 0),
            Self::Doorbells => (1, 0),
            Self::Firmware => (2, 0),
            Self::Cp => (3, 0),
            Self::Sdma(engine) => (4, engine),
            Self::Shader => (5, 0),
            Self::Ih => (6, 0),
            Self::Driver => (7, 0),
        }
    }

    /// The engine with these numbers.
    pub(crate) const fn from_numbers(kind: u8, instance: u16) -> Option<Self> {
        Some(match kind {
            0 => Self::Device,
            1 => Self::Doorbells,
            2 => Self::Firmware,
            3 => Self::Cp,
            4 => Self::Sdma(instance),
            5 => Self::Shader,
            6 => Self::Ih,
            7 => Self::Driver,
            _ => return None,
        })
    }
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::Doorbells => "doorbells",
            Self::Firmware => "firmware",
            Self::Cp => "cp",
            Self::Sdma(engine) => return write!(f, "sdma{engine}"),
            Self::Shader => "shader",
            Self::Ih => "ih",
            Self::Driver => "driver",
        })
    }
}

/// The GPU, the process, the queue and the engine of an event.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Owner {
    /// Number of the GPU among those of a trace. A device leaves it 0; a tool that records several, or merges
    /// traces, numbers them. A ring keeps numbers below 256.
    pub gpu: u16,
    /// PASID of the process, 0 for none.
    pub pasid: u32,
    /// VMID that the process has at that time, 0 for the kernel's or none.
    pub vmid: u8,
    /// Doorbell of the queue, in dwords of BAR2.
    pub doorbell: Option<u32>,
    /// The engine.
    pub engine: Engine,
}

impl Owner {
    /// An engine alone.
    #[must_use]
    pub const fn of(engine: Engine) -> Self {
        Self { gpu: 0, pasid: 0, vmid: 0, doorbell: None, engine }
    }

    /// This owner on another engine.
    #[must_use]
    pub const fn on(self, engine: Engine) -> Self {
        Self { engine, ..self }
    }

    /// The queue of a doorbell.
    #[must_use]
    pub const fn queue(engine: Engine, doorbell: u32) -> Self {
        Self { doorbell: Some(doorbell), ..Self::of(engine) }
    }
}
