//! Frames of the scheduler's version 12: those of version 11, with their fields elsewhere.

use belfry_abi::mes::v12;

use crate::asic::MesFrames;
use crate::asic::gfx11;

pub(super) const FRAMES: MesFrames = MesFrames { encode: v12::from_v11, ..gfx11::MES_FRAMES };
