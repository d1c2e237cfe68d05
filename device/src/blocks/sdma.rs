//! The registers of an SDMA engine that is a block of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use belfry_abi::regs::gfx9::sdma::{self, SDMA_STATUS_REG};
use belfry_abi::regs::{Ip, Offset, Register as _};

use crate::regs::{Block, Run};
use crate::sdma::{Movers, status};

/// One engine.
#[derive(Debug)]
pub(crate) struct Sdma {
    engine: u8,
    movers: Arc<Movers>,
}

impl Sdma {
    /// The engine with a number.
    pub(crate) fn new(engine: u8, movers: Arc<Movers>) -> Self {
        Self { engine, movers }
    }
}

impl Block for Sdma {
    fn ip(&self) -> (Ip, u8) {
        (sdma::IP, self.engine)
    }

    fn claims(&self) -> Vec<Run> {
        vec![Run { first: SDMA_STATUS_REG::AT, count: 1 }]
    }

    fn read(&self, _: Offset) -> u32 {
        status(self.movers.moves(self.engine.into()))
    }

    fn write(&self, _: Offset, _: u32) {}

    fn kept(&self) -> Vec<&AtomicU32> {
        Vec::new()
    }

    fn reset(&self) {}
}
