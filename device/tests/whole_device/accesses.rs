//! Accesses of any kind: absorbed or refused, never a panic.

use belfry_abi::pci;
use belfry_device::chip::gfx1100::dword;
use belfry_device::{GpuConfig, IoError, MsixTable};
use proptest::prelude::*;

use crate::driver::{Driver, VRAM};

#[test]
fn accesses_out_of_range_are_errors_and_read_zero() {
    let driver = Driver::new();
    let ends =
        [(pci::BAR_VRAM, VRAM), (pci::BAR_DOORBELLS, pci::DOORBELL_BAR_SIZE), (pci::BAR_REGISTERS, 1 << 20)];
    for (bar, size) in ends {
        for offset in [size, size - 2, u64::MAX, u64::MAX - 3] {
            let mut data = [0xee; 4];
            let error = IoError::OutOfRange { bar, offset, len: 4 };
            assert_eq!(driver.gpu.bar_read(bar, offset, &mut data), Err(error));
            assert_eq!(data, [0; 4]);
            assert_eq!(driver.gpu.bar_write(bar, offset, &data), Err(error));
        }
    }
    for bar in [1, 3, 4, 6, 255] {
        assert_eq!(driver.gpu.bar_read(bar, 0, &mut [0; 4]), Err(IoError::NoSuchBar(bar)));
    }
}

#[test]
fn registers_read_in_parts_and_in_pairs() {
    let driver = Driver::new();
    let at = u64::from(dword::<belfry_abi::regs::gc::GRBM_STATUS>()) * 4;
    let scratch = 0xc040 * 4;
    driver.gpu.bar_write(pci::BAR_REGISTERS, scratch, &0x8877_6655_4433_2211u64.to_le_bytes()).unwrap();
    let mut pair = [0; 8];
    driver.gpu.bar_read(pci::BAR_REGISTERS, scratch, &mut pair).unwrap();
    assert_eq!(u64::from_le_bytes(pair), 0x8877_6655_4433_2211);
    let mut part = [0; 2];
    driver.gpu.bar_read(pci::BAR_REGISTERS, scratch + 1, &mut part).unwrap();
    assert_eq!(part, [0x22, 0x33]);
    assert!(driver.gpu.bar_read(pci::BAR_REGISTERS, scratch + 3, &mut part).is_err());
    assert!(driver.gpu.bar_write(pci::BAR_REGISTERS, at + 1, &[0; 4]).is_err());
    assert!(driver.gpu.bar_write(pci::BAR_REGISTERS, at, &[0; 2]).is_err());
}

#[test]
fn the_msix_table_is_kept() {
    let driver = Driver::with(GpuConfig { msix_table: MsixTable::Device, ..GpuConfig::default() });
    let entry = 0xfee0_0000u64.to_le_bytes();
    driver.gpu.bar_write(pci::BAR_REGISTERS, pci::MSIX_TABLE_OFFSET, &entry).unwrap();
    let mut data = [0; 8];
    driver.gpu.bar_read(pci::BAR_REGISTERS, pci::MSIX_TABLE_OFFSET, &mut data).unwrap();
    assert_eq!(data, entry);
}

#[test]
fn masked_interrupts_wait_for_the_table_of_the_device() {
    use std::sync::atomic::Ordering;
    let mut driver = Driver::up_with(GpuConfig { msix_table: MsixTable::Device, ..GpuConfig::default() });
    driver.gpu.config_write(0xc2, &[3, 0x80]);
    driver.kiq(&[3 << 30 | 0x12 << 8, 0]);
    driver.kiq_test();
    assert_eq!(driver.interrupts.0.load(Ordering::SeqCst), 0, "vector 0 is masked after reset");
    let mut pending = [0; 8];
    driver.gpu.bar_read(pci::BAR_REGISTERS, pci::MSIX_PBA_OFFSET, &mut pending).unwrap();
    assert_eq!(pending[0], 1);
    driver.gpu.bar_write(pci::BAR_REGISTERS, pci::MSIX_TABLE_OFFSET + 12, &[0; 4]).unwrap();
    assert_eq!(driver.interrupts.0.load(Ordering::SeqCst), 1);
}

#[test]
fn the_pin_is_asserted_while_entries_wait_and_no_message_tells_of_them() {
    use std::sync::atomic::Ordering;
    let config = GpuConfig { msix_table: MsixTable::Device, interrupt_pin: true, ..GpuConfig::default() };
    let mut driver = Driver::up_with(config);
    let pin = |driver: &Driver| driver.interrupts.1.load(Ordering::SeqCst);
    let pending = |driver: &Driver| {
        let mut status = [0; 4];
        driver.gpu.config_read(4, &mut status);
        let mut byte = [0; 1];
        driver.gpu.config_read(6, &mut byte);
        assert_eq!(status[2], byte[0], "the same in every width");
        byte[0] & 1 << 3 != 0
    };
    let mut interrupt = [0; 2];
    driver.gpu.config_read(0x3c, &mut interrupt);
    assert_eq!(interrupt[1], 1, "INTA");
    driver.drain_interrupts();
    assert_eq!((pin(&driver), pending(&driver)), (false, false));
    driver.kiq(&[3 << 30 | 0x12 << 8, 0]);
    driver.kiq_test();
    assert_eq!((pin(&driver), pending(&driver)), (true, true));
    // The command register and messages take it away; the status register still shows the reason.
    let command = [0x06, 0x00];
    driver.gpu.config_write(4, &[0x06, 0x04]);
    assert_eq!((pin(&driver), pending(&driver)), (false, true));
    driver.gpu.config_write(4, &command);
    assert!(pin(&driver));
    driver.gpu.config_write(0xc2, &[3, 0x80]);
    assert_eq!((pin(&driver), pending(&driver)), (false, true));
    driver.gpu.config_write(0xc2, &[3, 0]);
    assert!(pin(&driver));
    // Reading the entries acknowledges.
    assert!(!driver.drain_interrupts().is_empty());
    assert_eq!((pin(&driver), pending(&driver)), (false, false));
    assert_eq!(driver.interrupts.0.load(Ordering::SeqCst), 0, "no message was sent");
    // So does a reset.
    driver.kiq(&[3 << 30 | 0x12 << 8, 0]);
    driver.kiq_test();
    assert!(pin(&driver));
    driver.gpu.reset(belfry_device::ResetKind::Flr);
    assert_eq!((pin(&driver), pending(&driver)), (false, false));
}

#[derive(Clone, Debug)]
enum Access {
    ConfigRead(usize, usize),
    ConfigWrite(usize, Vec<u8>),
    BarRead(u8, u64, usize),
    BarWrite(u8, u64, Vec<u8>),
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..(1 << 20),
        // Addresses of queues, contexts and interrupts.
        4 => (0x3200u64..0x3250).prop_map(|dword| dword * 4),
        2 => (0x28e8u64..0x29d0).prop_map(|dword| dword * 4),
        2 => (0x1120u64..0x1130).prop_map(|dword| dword * 4),
        2 => Just(0xa900 * 4),
        1 => (0u64..32).prop_map(|doorbell| doorbell * 8),
        1 => any::<u64>(),
    ]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => any::<[u8; 4]>().prop_map(Vec::from),
        2 => any::<[u8; 8]>().prop_map(Vec::from),
        1 => prop::collection::vec(any::<u8>(), 0..20),
        2 => (0u32..16).prop_map(|value| value.to_le_bytes().to_vec()),
    ]
}

fn access() -> impl Strategy<Value = Access> {
    let bar = prop_oneof![8 => Just(5u8), 2 => Just(2u8), 1 => Just(0u8), 1 => any::<u8>()];
    prop_oneof![
        1 => (any::<usize>(), 0usize..20).prop_map(|(at, len)| Access::ConfigRead(at, len)),
        1 => (0usize..5000, 0usize..20).prop_map(|(at, len)| Access::ConfigRead(at, len)),
        2 => (0usize..300, bytes()).prop_map(|(at, data)| Access::ConfigWrite(at, data)),
        4 => (bar.clone(), offset(), 0usize..20).prop_map(|(bar, at, len)| Access::BarRead(bar, at, len)),
        12 => (bar, offset(), bytes()).prop_map(|(bar, at, data)| Access::BarWrite(bar, at, data)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_accesses_is_survived(accesses in prop::collection::vec(access(), 1..200)) {
        let driver = Driver::new();
        driver.enable();
        for access in accesses {
            match access {
                Access::ConfigRead(at, len) => driver.gpu.config_read(at, &mut vec![0; len]),
                Access::ConfigWrite(at, data) => driver.gpu.config_write(at, &data),
                Access::BarRead(bar, at, len) => {
                    let _refused = driver.gpu.bar_read(bar, at, &mut vec![0; len]);
                }
                Access::BarWrite(bar, at, data) => {
                    let _refused = driver.gpu.bar_write(bar, at, &data);
                }
            }
        }
        // After any accesses, a reset brings the device back, and its threads are alive.
        driver.gpu.reset(belfry_device::ResetKind::System);
        let mut driver = driver;
        driver.bring_up();
        driver.mes_query();
    }
}
