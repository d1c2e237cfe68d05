//! Tests of doorbells that a hostile guest rings, in every mode.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::regs::gc::{
    CP_HQD_ACTIVE, CP_HQD_PQ_BASE, CP_HQD_PQ_CONTROL, CP_HQD_PQ_DOORBELL_CONTROL, GRBM_GFX_CNTL,
};
use belfry_device::GuestError;
use belfry_device::chip::gfx1100::dword;
use kvm_ioctls::{IoEventAddress, NoDatamatch};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::*;

const MODES: [DoorbellMode; 3] = [DoorbellMode::Trapped, DoorbellMode::Ioeventfd, DoorbellMode::Adaptive];
/// A doorbell of the second slice, and one on the next page.
const BELL: u64 = 0x2000;
/// Time limit for an event that should be immediate.
const LIMIT: Duration = Duration::from_secs(30);
const OTHER: u64 = 0x3058;
/// Control register of the capability of PCI Express, and the bit that resets the function.
const DEVCTL: u32 = 0x6c;
const RESET: u16 = 1 << 15;

/// Makes a bus whose BARs decode, with a device that listens to doorbells.
fn ready(mode: DoorbellMode) -> Bus {
    let bus = Bus::placed_with(mode);
    register::<RCC_DOORBELL_APER_EN>(&bus, 1);
    bus
}

fn register<R: belfry_abi::regs::Register>(bus: &Bus, value: u32) {
    bus.gpu.bar_write(pci::BAR_REGISTERS, u64::from(dword::<R>()) * 4, &value.to_le_bytes()).unwrap();
}

/// Makes one of the kernel's rings listen to a doorbell at this offset.
fn listen(bus: &Bus, doorbell: u64) {
    // Micro engine 3, pipe 1: the KIQ.
    register::<GRBM_GFX_CNTL>(bus, 3 << 2 | 1);
    register::<CP_HQD_PQ_BASE>(bus, 1);
    register::<CP_HQD_PQ_CONTROL>(bus, 9);
    register::<CP_HQD_PQ_DOORBELL_CONTROL>(bus, (doorbell as u32 / 4) << 2 | 1 << 30);
    register::<CP_HQD_ACTIVE>(bus, 1);
    register::<GRBM_GFX_CNTL>(bus, 0);
    assert!(bus.gpu.doorbells(doorbell & !0xfff).any(|(at, _)| at.bytes() == doorbell), "nobody listens");
}

fn ring(bus: &Bus, at: u64, value: u64) -> bool {
    bus.bus.write(at, &value.to_le_bytes())
}

/// Rings until the page is memory.
fn ring_often(bus: &Bus, at: u64, value: u64) {
    let deadline = Instant::now() + LIMIT;
    while held(bus) == 0 {
        assert!(Instant::now() < deadline, "the page goes on trapping");
        assert!(ring(bus, at, value));
    }
}

fn held(bus: &Bus) -> usize {
    match &bus.doorbells {
        Some(Doorbells::Pages(pages)) => pages.held(),
        _ => panic!("not adaptive"),
    }
}

#[test]
fn accesses_of_every_width_at_every_offset_are_answered_and_counted() {
    for mode in MODES {
        let bus = ready(mode);
        let mut taken = 0;
        for base in [0, 0xffc, BELL, OTHER, pci::DOORBELL_BAR_SIZE - 16] {
            for offset in base..base + 16 {
                for width in [1, 2, 4, 8] {
                    let inside = offset + width <= pci::DOORBELL_BAR_SIZE;
                    let mut data = vec![0xa5; width as usize];
                    assert!(bus.bus.write(DOORBELLS_AT + offset, &data));
                    assert!(bus.bus.read(DOORBELLS_AT + offset, &mut data));
                    let takes = width >= 4 && offset.is_multiple_of(width) && inside;
                    taken += u64::from(takes);
                    let expected = if takes { 0xa5 } else { 0 };
                    assert!(
                        data.iter().all(|byte| *byte == expected),
                        "{width} bytes at {offset:#x}: {data:x?}"
                    );
                }
            }
        }
        let stats = bus.gpu.stats();
        let ways = (stats.doorbells_trapped, stats.doorbells_woken, stats.doorbells_polled);
        assert_eq!((ways, stats.doorbells_unknown), ((taken, 0, 0), taken), "{mode:?}");
        assert_eq!(stats.errors[&GuestError::UnknownDoorbell], taken);
    }
}

#[test]
fn pages_nobody_listens_to_stay_as_they_are() {
    let bus = ready(DoorbellMode::Adaptive);
    for page in 0..pci::DOORBELL_BAR_SIZE / 4096 {
        for value in 0..3 {
            assert!(ring(&bus, DOORBELLS_AT + page * 4096, value));
        }
    }
    assert_eq!(held(&bus), 0);
    listen(&bus, BELL);
    for value in 0..100 {
        ring(&bus, DOORBELLS_AT + BELL + 8, value);
    }
    assert_eq!(held(&bus), 0, "another doorbell of the page");
    ring_often(&bus, DOORBELLS_AT + BELL, 1);
    // Doorbells are off: the page is given back when its queue has gone.
    register::<GRBM_GFX_CNTL>(&bus, 3 << 2 | 1);
    register::<CP_HQD_ACTIVE>(&bus, 0);
    let deadline = Instant::now() + LIMIT;
    while held(&bus) > 0 {
        assert!(Instant::now() < deadline, "the page stays memory");
        std::thread::yield_now();
    }
}

#[test]
fn kernel_slice_is_never_memory() {
    let bus = ready(DoorbellMode::Adaptive);
    listen(&bus, 0x58);
    for value in 0..100 {
        ring(&bus, DOORBELLS_AT + 0x58, value);
    }
    assert_eq!((held(&bus), bus.gpu.stats().doorbells_trapped), (0, 100));
}

#[test]
fn resets_take_every_page_away() {
    for reset in [false, true] {
        let bus = ready(DoorbellMode::Adaptive);
        for round in 1..20u64 {
            listen(&bus, BELL);
            ring_often(&bus, DOORBELLS_AT + BELL, round);
            if reset {
                bus.config_write(DEVCTL, &RESET.to_le_bytes());
                assert!(!ring(&bus, DOORBELLS_AT + BELL, 0), "a BAR that decodes after a reset");
            } else {
                bus.config_write(4, &[0, 0]);
            }
            assert_eq!(held(&bus), 0, "round {round}");
            bus.place();
            register::<RCC_DOORBELL_APER_EN>(&bus, 1);
            let mut value = [0; 8];
            bus.bus.read(DOORBELLS_AT + BELL, &mut value);
            assert_eq!(u64::from_le_bytes(value), if reset { 0 } else { round });
        }
    }
}

#[test]
fn bars_that_move_while_doorbells_are_rung_keep_the_last_value() {
    const ELSEWHERE: u64 = 0xd000_0000;
    for mode in MODES {
        let bus = ready(mode);
        listen(&bus, BELL);
        let moved = AtomicBool::new(false);
        let last = std::thread::scope(|scope| {
            let ringing = scope.spawn(|| {
                let mut value = 0;
                while !moved.load(Ordering::SeqCst) || value < 100 {
                    value += 1;
                    // Outside of the BAR, no device answers.
                    for at in [DOORBELLS_AT, ELSEWHERE] {
                        ring(&bus, at + BELL, value);
                    }
                }
                value
            });
            for at in [ELSEWHERE, DOORBELLS_AT].repeat(100) {
                bus.config_write(0x18, &(at as u32).to_le_bytes());
            }
            moved.store(true, Ordering::SeqCst);
            ringing.join().unwrap()
        });
        let mut value = [0; 8];
        assert!(bus.bus.read(DOORBELLS_AT + BELL, &mut value));
        assert!(u64::from_le_bytes(value) <= last);
        assert!(ring(&bus, DOORBELLS_AT + BELL, last + 1));
        assert!(bus.bus.read(DOORBELLS_AT + BELL, &mut value));
        assert_eq!(u64::from_le_bytes(value), last + 1);
    }
}

#[test]
fn eventfds_are_bounded_and_follow_the_bar() {
    let bus = ready(DoorbellMode::Ioeventfd);
    let Some(Doorbells::Wakeups(wakeups)) = &bus.doorbells else { panic!("not ioeventfd") };
    // The place of one doorbell is taken already.
    let taken = EventFd::new(EFD_NONBLOCK).unwrap();
    let at = IoEventAddress::Mmio(DOORBELLS_AT + BELL + 8);
    bus.vm.register_ioevent(&taken, &at, NoDatamatch).unwrap();
    let offsets = (0..400).map(|at| BELL + at * 8);
    for offset in offsets.clone() {
        wakeups.listens(DoorbellOffset::from_bytes(offset), true);
    }
    let all = wakeups.registered();
    assert!((100..400).contains(&all), "{all} eventfds");
    // At another address, all places are free.
    bus.config_write(0x18, &0xd000_0000u32.to_le_bytes());
    assert_eq!(wakeups.registered(), all + 1);
    bus.config_write(4, &[0, 0]);
    assert_eq!(wakeups.registered(), 0);
    bus.config_write(4, &[6, 0]);
    assert_eq!(wakeups.registered(), all + 1);
    for offset in offsets.clone().take(300) {
        wakeups.listens(DoorbellOffset::from_bytes(offset), false);
    }
    assert_eq!(wakeups.registered(), 0);
    // There is room again; a kernel's ring takes none of it.
    wakeups.listens(DoorbellOffset::from_bytes(BELL), true);
    listen(&bus, OTHER);
    assert_eq!(wakeups.registered(), 1);
    bus.config_write(DEVCTL, &RESET.to_le_bytes());
    assert_eq!(wakeups.registered(), 0);
    assert_eq!(bus.gpu.stats().doorbells_woken, 0);
}
