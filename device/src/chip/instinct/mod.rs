//! The common parts of the Instinct chips: several graphics cores (XCCs) on accelerator dies, of shader engines with one array of
//! compute units each, and blocks of which each die has an instance.

use std::ops::Range;

use belfry_abi::regs::Ip;
use belfry_abi::regs::layout::Layout;

use super::navi::Names;
use super::{Chip, Identity, IpBlock, Model, Shape, Topology};

/// A whole chip.
#[derive(Debug)]
pub(super) struct Spec {
    /// PCI identity.
    pub(super) identity: Identity,
    /// The model, which says what shapes there are.
    pub(super) model: &'static Model,
    /// Every IP block of a shape, in the order of the discovery table.
    pub(super) ips: fn(Shape) -> Vec<IpBlock>,
    /// Places of its registers in the blocks.
    pub(super) registers: Layout,
    /// Names of the registers of the first instance of each block.
    pub(super) names: Names,
    /// Shader engines of an XCC, each with one array.
    pub(super) shader_engines: u32,
    /// Number of SDMA engines of a shape.
    pub(super) sdma_engines: fn(Shape) -> u32,
    /// Blocks of which there are several, and the distance of an instance from the one before.
    pub(super) strides: &'static [(Ip, u32)],
    /// Registers of the first SDMA engine; the others may lie anywhere.
    pub(super) sdma: Range<u32>,
    /// Makes the IP discovery table.
    pub(super) discovery: fn(&[IpBlock], &Topology) -> Vec<u8>,
}

/// Versions of the blocks. `mp` is that of both processors of the die's management and of the thermal sensors.
#[derive(Debug)]
pub(super) struct Versions {
    pub(super) gc: [u8; 3],
    pub(super) sdma: [u8; 3],
    pub(super) mmhub: [u8; 3],
    pub(super) athub: [u8; 3],
    pub(super) hdp: [u8; 3],
    pub(super) umc: [u8; 3],
    pub(super) osssys: [u8; 3],
    pub(super) nbif: [u8; 3],
    pub(super) mp: [u8; 3],
    pub(super) smuio: [u8; 3],
    pub(super) vcn: [u8; 3],
}

/// A chip, or a part of one.
#[derive(Clone, Debug)]
pub struct Instinct {
    spec: &'static Spec,
    shape: Shape,
    topology: Topology,
    ips: Vec<IpBlock>,
}

impl Instinct {
    /// A chip of this shape; the default one if the model cannot be so.
    pub(super) fn new(spec: &'static Spec, shape: Shape) -> Self {
        let shape = if spec.model.can_be(shape) { shape } else { spec.model.default };
        let cus = shape.cus / shape.xccs;
        let shader_engines = cus.min(spec.shader_engines);
        let topology = Topology {
            xccs: shape.xccs,
            shader_engines,
            arrays_per_engine: 1,
            wgps_per_array: cus.div_ceil(shader_engines),
            wgps: cus,
        };
        Self { spec, shape, topology, ips: (spec.ips)(shape) }
    }

    /// The indices that a register would have in the first instance of each block that has several.
    fn firsts(&self, dword: u32) -> impl Iterator<Item = u32> {
        let sdma = &self.spec.sdma;
        let engines = self.ips.iter().filter(|block| block.ip == Ip::SDMA0);
        let engines = engines.filter_map(move |engine| {
            let first = sdma.start + dword.checked_sub(*engine.bases.first()?)?;
            sdma.contains(&first).then_some(first)
        });
        let others = self.spec.strides.iter().flat_map(move |&(ip, stride)| {
            let blocks = self.ips.iter().filter(move |block| block.ip == ip && block.instance != 0);
            blocks.filter_map(move |block| dword.checked_sub(u32::from(block.instance) * stride))
        });
        engines.chain(others)
    }
}

impl Chip for Instinct {
    fn identity(&self) -> Identity {
        self.spec.identity
    }

    fn topology(&self) -> Topology {
        self.topology
    }

    fn ips(&self) -> &[IpBlock] {
        &self.ips
    }

    fn sdma_engines(&self) -> u8 {
        (self.spec.sdma_engines)(self.shape) as u8
    }

    fn registers(&self) -> Layout {
        self.spec.registers
    }

    fn register_name(&self, dword: u32) -> Option<&'static str> {
        let names = &self.spec.names;
        names.name(dword).or_else(|| self.firsts(dword).find_map(|first| names.name(first)))
    }

    fn discovery(&self) -> Vec<u8> {
        (self.spec.discovery)(&self.ips, &self.topology)
    }

    fn discovery_offset(&self) -> u64 {
        64 << 10
    }

    fn fb_base(&self) -> u64 {
        0x80_0000_0000
    }
}
