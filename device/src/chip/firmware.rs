//! The firmware that maps a chip's queues.

/// The firmware that maps queues, as the driver finds it on a card of the chip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Firmware {
    /// The micro engine scheduler, which the kernel interface queue brings up.
    Mes(MesFirmware),
    /// The hardware scheduler of the compute micro engines, which takes packets of the HIQ.
    Hws(HwsFirmware),
}

/// A hardware scheduler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HwsFirmware;

impl Firmware {
    /// Value of `CP_MES_GP3_LO` on the scheduler's pipes.
    #[must_use]
    pub const fn mes_version(self) -> u32 {
        match self {
            Self::Mes(mes) => mes.version,
            Self::Hws(_) => 0,
        }
    }

    /// Returns true if one image runs on both pipes of the scheduler's micro engine.
    #[must_use]
    pub const fn is_on_both_pipes(self) -> bool {
        match self {
            Self::Mes(mes) => mes.on_both_pipes,
            Self::Hws(_) => false,
        }
    }
}

/// A micro engine scheduler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MesFirmware {
    /// Layout of its frames.
    pub frames: MesFrames,
    /// Value of `CP_MES_GP3_LO`: version 11:0, API 23:12.
    pub version: u32,
    /// True if it runs on both pipes of its micro engine. The ring of the second pipe then takes frames, too,
    /// and maps the ring of the first. Otherwise the ring of the second pipe is the kernel interface queue,
    /// which takes packets.
    pub on_both_pipes: bool,
}

/// Layout of a scheduler's frames.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MesFrames {
    /// `mes_v11_api_def.h`, packed to four bytes.
    V11,
    /// `mes_v12_api_def.h`, packed to eight bytes.
    V12,
}
