//! Tests of the functions' pins, as far as KVM's I/O APIC.

use std::sync::Arc;

use belfry_abi::regs::Register;
use belfry_abi::regs::osssys::{IH_RB_CNTL, IH_RB_RPTR, IH_RB_WPTR};
use belfry_bus::{Interrupts, Routes, Vectors, line_of};
use belfry_device::chip::gfx1100::dword;
use kvm_bindings::{KVM_IRQCHIP_IOAPIC, kvm_irqchip};
use kvm_ioctls::{Kvm, VmFd};

use super::{Bus, REGISTERS_AT};

/// Returns the pins of the I/O APIC that are asserted, as a bit mask.
fn asserted(vm: &VmFd) -> u32 {
    let mut chip = kvm_irqchip { chip_id: KVM_IRQCHIP_IOAPIC, ..Default::default() };
    vm.get_irqchip(&mut chip).unwrap();
    // `irr` of `struct kvm_ioapic_state`, after the base address, `ioregsel` and `id`.
    let bytes = chip_bytes(&chip);
    u32::from_le_bytes([bytes[16], bytes[17], bytes[18], bytes[19]])
}

#[expect(unsafe_code, reason = "KVM's structure is a union")]
fn chip_bytes(chip: &kvm_irqchip) -> [u8; 20] {
    let mut bytes = [0; 20];
    // SAFETY: any bytes are valid for this member, and KVM has filled them in.
    let filled = unsafe { chip.chip.dummy };
    for (to, from) in bytes.iter_mut().zip(filled) {
        *to = from as u8;
    }
    bytes
}

#[test]
fn shared_lines_are_asserted_until_the_last_function_releases_them() {
    let kvm = Kvm::new().expect("/dev/kvm has to be usable for this test");
    let vm = Arc::new(kvm.create_vm().unwrap());
    vm.create_irq_chip().unwrap();
    let routes = Routes::new(Arc::clone(&vm)).unwrap();
    let of = |device| routes.vectors(device, 1).unwrap();
    // Devices 1 and 9 share a line; device 2 has another.
    let (first, second, other) = (of(1), of(9), of(2));
    assert_eq!((line_of(1, 0), line_of(9, 0), line_of(2, 0)), (17, 17, 18));
    let set = |function: &Vectors, pin| Interrupts::set_pin(function, pin);
    set(&first, true);
    assert_eq!(asserted(&vm), 1 << 17);
    set(&second, true);
    set(&other, true);
    set(&first, false);
    assert_eq!(asserted(&vm), 1 << 17 | 1 << 18);
    set(&second, false);
    assert_eq!(asserted(&vm), 1 << 18);
    set(&other, false);
    assert_eq!(asserted(&vm), 0);
}

impl Bus {
    fn register<R: Register>(&self, value: u32) {
        assert!(self.bus.write(REGISTERS_AT + u64::from(dword::<R>()) * 4, &value.to_le_bytes()));
    }
}

/// Checks that a driver that enables no messages gets its interrupts on the GPU's line, until it acknowledges them.
#[test]
fn the_gpus_entries_assert_its_line_where_nothing_else_tells_of_them() {
    const ENTRY: u32 = 32;
    let bus = Bus::placed();
    let line = 1 << line_of(1, 0);
    let mut interrupt = [0; 2];
    bus.config_read(0x3c, &mut interrupt);
    assert_eq!(
        (u32::from(interrupt[0]), interrupt[1]),
        (line_of(1, 0), 1),
        "INTA, and where firmware has it"
    );
    assert_eq!(asserted(&bus.vm), 0);

    let mut cntl = IH_RB_CNTL::from_bits(0);
    cntl.set_rb_enable(true);
    cntl.set_rb_size(8);
    cntl.set_enable_intr(true);
    cntl.set_rptr_rearm(true);
    bus.register::<IH_RB_CNTL>(cntl.bits());
    bus.register::<IH_RB_WPTR>(2 * ENTRY);
    bus.register::<IH_RB_RPTR>(ENTRY);
    assert_eq!(asserted(&bus.vm), line, "an entry waits");
    // Interrupt disable, MSI and MSI-X each release the line for as long as they are set.
    for (register, set, clear) in [(4, 0x0406, 0x0006), (0xa2, 1, 0), (0xc2, 0x8000, 0)] {
        bus.config_write(register, &u16::to_le_bytes(set));
        assert_eq!(asserted(&bus.vm), 0, "{set:#x} at {register:#x}");
        bus.config_write(register, &u16::to_le_bytes(clear));
        assert_eq!(asserted(&bus.vm), line, "{clear:#x} at {register:#x}");
    }
    bus.register::<IH_RB_RPTR>(2 * ENTRY);
    assert_eq!(asserted(&bus.vm), 0, "all entries are acknowledged");
}
