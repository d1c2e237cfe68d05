//! Work whose result is known: a kernel that adds vectors, barriers, and the signals they complete.

use std::sync::LazyLock;

use belfry_abi::aql::{BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType};
use belfry_isa::inst::Arch;
use belfry_runtime::code_object::CodeObject;
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::{CODE, DATA, Driver, KERNARG, SIGNALS, user};
use crate::rig::Rig;

/// Turns at waves of a well-behaved kernel.
const TURNS: usize = 4096;

/// The kernel that adds vectors, for each instruction set: the image, and where its descriptor is.
static VECADD: [LazyLock<(Vec<u8>, u64)>; 5] = [
    LazyLock::new(|| vecadd(include_bytes!("../../../guest-runtime/kernels/vecadd.gfx1100.hsaco"))),
    LazyLock::new(|| vecadd(include_bytes!("../../../guest-runtime/kernels/vecadd.gfx1201.hsaco"))),
    LazyLock::new(|| vecadd(include_bytes!("../../../guest-runtime/kernels/vecadd.gfx942.hsaco"))),
    LazyLock::new(|| vecadd(include_bytes!("../../../guest-runtime/kernels/vecadd.gfx1151.hsaco"))),
    LazyLock::new(|| vecadd(include_bytes!("../../../guest-runtime/kernels/vecadd.gfx950.hsaco"))),
];

fn vecadd(file: &[u8]) -> (Vec<u8>, u64) {
    let object = CodeObject::parse(file).expect("a bundled kernel");
    let image = object.relocated(user(CODE)).expect("a bundled kernel");
    (image, object.kernel("vecadd").expect("it has it").descriptor)
}

impl<'a> Driver<'a> {
    /// Sets up a signal on which no thread sleeps; its address for the process.
    pub fn signal(&self, nth: usize, value: i64) -> u64 {
        let at = SIGNALS + nth as u64 % 64 * 64;
        self.rig.put(at, &[1i64, value, 0, 0, 0, 0, 0, 0]);
        user(at)
    }

    /// A signal's value.
    #[must_use]
    pub fn signal_value(&self, nth: usize) -> i64 {
        self.rig.take(SIGNALS + nth as u64 % 64 * 64 + 8)
    }

    /// Puts the kernel that adds vectors into code memory: its descriptor's address.
    pub fn load_vecadd(&self) -> u64 {
        let nth = match self.rig.choice.model.generation.arch {
            Arch::Gfx1201 => 1,
            Arch::Gfx942 => 2,
            Arch::Gfx1151 => 3,
            Arch::Gfx950 => 4,
            _ => 0,
        };
        let (image, descriptor) = &*VECADD[nth];
        self.rig.put(CODE, &image[..]);
        user(CODE) + descriptor
    }

    /// A dispatch of that kernel for `count` elements, with its arguments and data in place.
    #[must_use]
    pub fn vecadd(&self, count: u32, signal: u64) -> KernelDispatchPacket {
        let kernel_object = self.load_vecadd();
        for nth in 0..count {
            let at = DATA + u64::from(nth) * 4;
            self.rig.put(at, &[nth as f32 * 0.5]);
            self.rig.put(at + 0x1000, &[nth as f32 * 2.0]);
            self.rig.put(at + 0x2000, &0u32);
        }
        let arguments = [user(DATA), user(DATA) + 0x1000, user(DATA) + 0x2000, count.into()];
        self.rig.put(KERNARG, &arguments);
        let groups = count.div_ceil(32);
        let mut hidden = [0u8; 96];
        hidden[..12].copy_from_slice([groups, 1, 1].as_bytes());
        hidden[12..24].copy_from_slice([32u16, 1, 1, 0, 0, 0].as_bytes());
        hidden[64] = 1;
        self.rig.put(KERNARG + 32, &hidden);
        let mut packet = KernelDispatchPacket::new_zeroed();
        packet.header = PacketHeader::new(PacketType::KERNEL_DISPATCH, true, 2, 2).bits();
        packet.setup = 1;
        (packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z) = (32, 1, 1);
        (packet.grid_size_x, packet.grid_size_y, packet.grid_size_z) = (groups * 32, 1, 1);
        packet.kernel_object = kernel_object;
        packet.kernarg_address = user(KERNARG);
        packet.completion_signal = signal;
        packet
    }

    /// Runs that kernel on a queue and checks the sums.
    pub fn verify(&mut self, nth: usize) {
        const COUNT: u32 = 50;
        let signal = self.signal(63, 1);
        let packet = self.vecadd(COUNT, signal);
        self.packet(nth, packet.as_bytes().first_chunk().expect("64 bytes"));
        assert!(self.rig.settle(TURNS), "a kernel that adds vectors ends");
        let errors = || self.rig.gpu.stats().errors;
        assert_eq!(self.signal_value(63), 0, "the signal of a good dispatch; errors so far: {:?}", errors());
        for nth in 0..COUNT {
            let sum: [f32; 1] = self.rig.take(DATA + 0x2000 + u64::from(nth) * 4);
            assert!((sum[0] - nth as f32 * 2.5).abs() < f32::EPSILON, "element {nth} is {}", sum[0]);
        }
    }

    /// Resets the device and uses it as a driver that knows nothing of its state before.
    pub fn verify_anew(rig: &'a Rig) {
        rig.reset();
        let mut driver = Self::new(rig);
        assert!(driver.add_queue(0), "ADD_QUEUE after a reset");
        driver.verify(0);
        assert!(driver.remove_queue(0), "REMOVE_QUEUE after a reset");
    }

    /// A barrier that waits for nothing.
    #[must_use]
    pub fn barrier(signal: u64) -> [u8; 64] {
        let mut packet = BarrierPacket::new_zeroed();
        packet.header = PacketHeader::new(PacketType::BARRIER_AND, false, 0, 0).bits();
        packet.completion_signal = signal;
        *packet.as_bytes().first_chunk().expect("64 bytes")
    }
}
