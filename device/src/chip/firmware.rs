//! The firmware of a chip.

use belfry_abi::sensors::Peaks;

/// One firmware, as the driver finds it on a card of the chip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Firmware {
    /// The micro engine scheduler, which the kernel interface queue brings up. It maps queues.
    Mes(MesFirmware),
    /// The hardware scheduler of the compute micro engines, which takes packets of the HIQ. It maps queues.
    Hws(HwsFirmware),
    /// The SDMA engines, as far as they serve rings of the kernel that a driver starts through registers.
    SdmaRings,
}

/// A hardware scheduler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct HwsFirmware;

/// The firmware of a chip, in the order in which it is served. One of them maps queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Firmwares(pub &'static [Firmware]);

impl Firmwares {
    /// Returns all of them.
    pub fn iter(self) -> std::slice::Iter<'static, Firmware> {
        self.0.iter()
    }

    /// Returns true if the SDMA engines serve rings of the kernel.
    #[must_use]
    pub fn has_sdma_rings(self) -> bool {
        self.iter().any(|firmware| matches!(firmware, Firmware::SdmaRings))
    }

    /// Returns the micro engine scheduler, if the chip has one.
    #[must_use]
    pub fn mes(self) -> Option<MesFirmware> {
        self.iter().find_map(|firmware| match firmware {
            Firmware::Mes(mes) => Some(*mes),
            Firmware::Hws(_) | Firmware::SdmaRings => None,
        })
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

/// The firmware of a system management unit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SmuFirmware {
    /// Version.
    pub version: u32,
    /// Version of the interface to the driver (`SMU13_0_0_DRIVER_IF_VERSION`).
    pub interface: u32,
    /// Highest clocks of the card.
    pub peaks: Peaks,
}
