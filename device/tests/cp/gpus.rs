//! The chips that a bench can have.

use belfry_device::chip::{
    Chip as _, Generation, Shape, Topology, gfx942, gfx950, gfx1100, gfx1151, gfx1201,
};

/// A chip, and the code that is compiled for it.
pub(crate) struct Gpu {
    pub(crate) name: &'static str,
    pub(crate) generation: &'static Generation,
    pub(crate) topology: fn() -> Topology,
    pub(crate) code_object: &'static [u8],
    pub(crate) trap_handler: &'static [u8],
    /// Bytes in a unit of `COMPUTE_TMPRING_SIZE.WAVESIZE`.
    pub(crate) wave_unit: u32,
    /// Lanes of a wave of the fixture's kernels.
    pub(crate) lanes: u32,
}

pub(crate) const GFX1100: Gpu = Gpu {
    name: "gfx1100",
    generation: &gfx1100::GENERATION,
    topology: || gfx1100::chip(8).topology(),
    code_object: include_bytes!("../fixtures/cp.gfx1100.hsaco"),
    trap_handler: include_bytes!("../../../guest-driver/core/src/asic/gfx11/trap_handler.bin"),
    wave_unit: 256,
    lanes: 32,
};

pub(crate) const GFX1151: Gpu = Gpu {
    name: "gfx1151",
    generation: &gfx1151::GENERATION,
    topology: || gfx1151::chip(8).topology(),
    code_object: include_bytes!("../fixtures/cp.gfx1151.hsaco"),
    trap_handler: include_bytes!("../../../guest-driver/core/src/asic/gfx11/trap_handler.bin"),
    wave_unit: 256,
    lanes: 32,
};

pub(crate) const GFX1201: Gpu = Gpu {
    name: "gfx1201",
    generation: &gfx1201::GENERATION,
    topology: || gfx1201::chip(8).topology(),
    code_object: include_bytes!("../fixtures/cp.gfx1201.hsaco"),
    trap_handler: include_bytes!("../../../guest-driver/core/src/asic/gfx12/trap_handler.bin"),
    wave_unit: 256,
    lanes: 32,
};

pub(crate) const GFX942: Gpu = Gpu {
    name: "gfx942",
    generation: &gfx942::GENERATION,
    topology: || gfx942::chip(Shape { cus: 8, xccs: 2 }).topology(),
    code_object: include_bytes!("../fixtures/cp.gfx942.hsaco"),
    trap_handler: include_bytes!("../../../guest-driver/core/src/asic/gfx9/trap_handler.bin"),
    wave_unit: 1024,
    lanes: 64,
};

pub(crate) const GFX950: Gpu = Gpu {
    name: "gfx950",
    generation: &gfx950::GENERATION,
    topology: || gfx950::chip(Shape { cus: 8, xccs: 2 }).topology(),
    code_object: include_bytes!("../fixtures/cp.gfx950.hsaco"),
    trap_handler: include_bytes!("../../../guest-driver/core/src/asic/gfx9_5/trap_handler.bin"),
    wave_unit: 1024,
    lanes: 64,
};

/// All chips.
pub(crate) const GPUS: [&Gpu; 5] = [&GFX1100, &GFX1151, &GFX1201, &GFX942, &GFX950];
