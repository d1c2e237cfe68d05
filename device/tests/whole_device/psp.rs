//! The PSP, the SMU and the ROM through registers, as the stock driver uses them.

use belfry_abi::psp::{BootCommand, Command, RESPONSE, RESPONSE_OFFSET, RingCommand, Status};
use belfry_abi::regs::{mp, mp1, nbio, smuio};
use belfry_abi::sensors::{JUNCTION, POWER_LIMIT, Peaks, Sensors};
use belfry_abi::smu::{Answer, Clock, Features, Message, PpTable, SmuMetrics, Table, Temperature};
use belfry_device::GpuConfig;
use belfry_device::chip::gfx1100::dword;
use zerocopy::{FromBytes, IntoBytes};

use crate::driver::{Driver, FB};

/// Places in VRAM of the ring, of a command and of the fence.
const RING: u64 = 0x20_0000;
const COMMAND: u64 = 0x20_1000;
const FENCE: u64 = 0x20_2000;
const RING_BYTES: u32 = 0x1000;

fn vram_u32(driver: &Driver, at: u64) -> u32 {
    let mut data = [0; 4];
    driver.gpu.bar_read(belfry_abi::pci::BAR_VRAM, at, &mut data).unwrap();
    u32::from_le_bytes(data)
}

fn boot(driver: &Driver, command: BootCommand) -> u32 {
    driver.write(dword::<mp::MP0_SMN_C2PMSG_36>(), (FB >> 20) as u32);
    driver.write(dword::<mp::MP0_SMN_C2PMSG_35>(), command.0);
    driver.read(dword::<mp::MP0_SMN_C2PMSG_35>())
}

fn control(driver: &Driver, command: RingCommand) -> u32 {
    driver.write(dword::<mp::MP0_SMN_C2PMSG_64>(), command.0);
    driver.read(dword::<mp::MP0_SMN_C2PMSG_64>())
}

/// Boots the operating system and makes its ring.
fn up() -> Driver {
    let driver = Driver::new();
    driver.enable();
    for command in
        [BootCommand::KEY_DATABASE, BootCommand::TOS_SPL_TABLE, BootCommand::SYSDRV, BootCommand::SOSDRV]
    {
        assert_eq!(boot(&driver, command), RESPONSE);
    }
    make_ring(&driver, RING_BYTES);
    assert_eq!(control(&driver, RingCommand::INIT_GPCOM_RING), RESPONSE);
    driver
}

fn make_ring(driver: &Driver, bytes: u32) {
    driver.write(dword::<mp::MP0_SMN_C2PMSG_69>(), (FB + RING) as u32);
    driver.write(dword::<mp::MP0_SMN_C2PMSG_70>(), ((FB + RING) >> 32) as u32);
    driver.write(dword::<mp::MP0_SMN_C2PMSG_71>(), bytes);
}

/// Submits a command; returns its status, its session, the size it returns, and true if its fence was written.
fn submit(driver: &Driver, command: Command, arguments: [u32; 6]) -> (u32, u32, u32, bool) {
    let wptr = driver.read(dword::<mp::MP0_SMN_C2PMSG_67>());
    let value = vram_u32(driver, FENCE) + 1;
    let (low, high) = ((FB + COMMAND) as u32, ((FB + COMMAND) >> 32) as u32);
    let frame = [low, high, 1024, (FB + FENCE) as u32, ((FB + FENCE) >> 32) as u32, value];
    driver.put_vram(RING + u64::from(wptr) * 4, frame.as_bytes());
    let mut buffer = [0u32; 13];
    buffer[2] = command.0;
    buffer[7..].copy_from_slice(&arguments);
    driver.put_vram(COMMAND, buffer.as_bytes());
    driver.put_vram(COMMAND + RESPONSE_OFFSET, &[0xff; 20]);
    driver.write(dword::<mp::MP0_SMN_C2PMSG_67>(), (wptr + 16) % (RING_BYTES / 4));
    let answer = |word: u64| vram_u32(driver, COMMAND + RESPONSE_OFFSET + word * 4);
    (answer(0), answer(1), answer(4), vram_u32(driver, FENCE) == value)
}

#[test]
fn psp_boots_in_order_and_loads_everything() {
    let driver = up();
    // A driver waits for the sign of life to change.
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_81>()), 0);
    assert_ne!(driver.read(dword::<mp::MP0_SMN_C2PMSG_81>()), 0);
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_67>()), 0);
    let bytes = [FB as u32, (FB >> 32) as u32, 256, 0, 0, 0];
    let (status, _, tmr, fenced) = submit(&driver, Command::LOAD_TOC, bytes);
    assert!(status == 0 && fenced && tmr != 0 && tmr.is_multiple_of(4096));
    for command in [Command::LOAD_IP_FW, Command::SETUP_TMR, Command::LOAD_IP_FW, Command::AUTOLOAD_RLC] {
        let (status, _, _, fenced) = submit(&driver, command, bytes);
        assert!(status == 0 && fenced, "{command:?}");
    }
    let (_, first, ..) = submit(&driver, Command::LOAD_ASD, bytes);
    let (_, second, ..) = submit(&driver, Command::LOAD_TA, bytes);
    assert_eq!((first, second), (1, 2));
    assert_eq!(submit(&driver, Command::UNLOAD_TA, [1, 0, 0, 0, 0, 0]).0, 0);
    assert_eq!(submit(&driver, Command::DESTROY_TMR, [0; 6]).0, 0);
    assert!(driver.gpu.stats().errors.is_empty(), "{:?}", driver.gpu.stats().errors);
    // The ring goes round.
    for _ in 0..100 {
        assert!(submit(&driver, Command::LOAD_IP_FW, bytes).3);
    }
    assert_eq!(control(&driver, RingCommand::DESTROY_RINGS), RESPONSE);
}

#[test]
fn psp_refuses_commands_out_of_order_by_name() {
    let driver = Driver::new();
    driver.enable();
    assert_ne!(boot(&driver, BootCommand::SOSDRV), RESPONSE);
    assert_eq!(driver.errors("operating system of the PSP before its system driver"), 1);
    assert_ne!(boot(&driver, BootCommand(0x7)), RESPONSE);
    assert_eq!(driver.errors("command that the boot loader of the PSP does not know"), 1);
    assert_ne!(control(&driver, RingCommand::INIT_GPCOM_RING), RESPONSE);
    assert_eq!(driver.errors("command about the ring of a PSP whose operating system does not run"), 1);
    driver.write(dword::<mp::MP0_SMN_C2PMSG_67>(), 16);
    assert_eq!(driver.errors("write pointer of a PSP without a ring"), 1);

    let driver = up();
    assert_ne!(boot(&driver, BootCommand::SYSDRV), RESPONSE);
    assert_eq!(driver.errors("command to the boot loader of a PSP whose operating system runs"), 1);
    let cancel = |command, arguments| submit(&driver, command, arguments);
    let (status, _, _, fenced) = cancel(Command::AUTOLOAD_RLC, [0; 6]);
    assert!(status == Status::CANCEL.0 && fenced, "refused, and answered");
    assert_eq!(cancel(Command::DESTROY_TMR, [0; 6]).0, Status::CANCEL.0);
    assert_eq!(driver.errors("command of the PSP at the wrong time"), 2);
    assert_eq!(cancel(Command::LOAD_IP_FW, [0; 6]).0, Status::CANCEL.0);
    assert_eq!(driver.errors("command of the PSP that loads nothing"), 1);
    for session in [0, 1, 33, u32::MAX] {
        assert_eq!(cancel(Command::UNLOAD_TA, [session, 0, 0, 0, 0, 0]).0, Status::CANCEL.0);
    }
    assert_eq!(driver.errors("command of the PSP for an application that is not loaded"), 4);
    assert_eq!(cancel(Command(0x77), [0; 6]).0, Status::NOT_SUPPORTED.0);
    assert_eq!(driver.errors("command of the PSP that is not modelled"), 1);
    for _ in 0..32 {
        assert_eq!(cancel(Command::LOAD_TA, [0, 0, 1, 0, 0, 0]).0, 0);
    }
    assert_eq!(cancel(Command::LOAD_TA, [0, 0, 1, 0, 0, 0]).0, Status::CANCEL.0);
    assert_eq!(driver.errors("more applications than the PSP takes"), 1);
}

#[test]
fn psp_survives_rings_and_pointers_that_make_no_sense() {
    let driver = up();
    for wptr in [1, 0x400, u32::MAX] {
        driver.write(dword::<mp::MP0_SMN_C2PMSG_67>(), wptr);
    }
    assert_eq!(driver.errors("write pointer of the PSP outside of its ring, or within a frame"), 3);
    for bytes in [0, 63, 0x2_0000, u32::MAX] {
        make_ring(&driver, bytes);
        assert_ne!(control(&driver, RingCommand::INIT_GPCOM_RING), RESPONSE, "{bytes:#x}");
    }
    assert_eq!(driver.errors("ring of the PSP with an impossible size"), 4);
    // A ring where nothing is mapped.
    make_ring(&driver, RING_BYTES);
    driver.write(dword::<mp::MP0_SMN_C2PMSG_70>(), 0x7000);
    assert_eq!(control(&driver, RingCommand::INIT_GPCOM_RING), RESPONSE);
    driver.write(dword::<mp::MP0_SMN_C2PMSG_67>(), 16);
    assert_eq!(
        driver.errors("frame, command, answer or fence of the PSP at an address that is not mapped"),
        1
    );
    assert_ne!(control(&driver, RingCommand(0x7_0000)), RESPONSE);
    assert_eq!(driver.errors("command about the PSP's ring that is not modelled"), 1);
}

#[test]
fn reset_brings_the_psp_back_to_its_boot_loader() {
    let driver = up();
    assert_eq!(submit(&driver, Command::SETUP_TMR, [0, 0, 4096, 0, 0, 0]).0, 0);
    driver.gpu.reset(belfry_device::ResetKind::Flr);
    driver.enable();
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_81>()), 0);
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_35>()), RESPONSE);
    for command in [BootCommand::SYSDRV, BootCommand::SOSDRV] {
        assert_eq!(boot(&driver, command), RESPONSE);
    }
    make_ring(&driver, RING_BYTES);
    assert_eq!(control(&driver, RingCommand::INIT_GPCOM_RING), RESPONSE);
    assert_eq!(submit(&driver, Command::SETUP_TMR, [0, 0, 4096, 0, 0, 0]).0, 0, "the region is gone");
}

/// Sends a message to the SMU; returns its answer and its value.
fn message(driver: &Driver, message: Message, parameter: u32) -> (u32, u32) {
    driver.write(dword::<mp1::MP1_SMN_C2PMSG_90>(), 0);
    driver.write(dword::<mp1::MP1_SMN_C2PMSG_82>(), parameter);
    driver.write(dword::<mp1::MP1_SMN_C2PMSG_66>(), message.0);
    (driver.read(dword::<mp1::MP1_SMN_C2PMSG_90>()), driver.read(dword::<mp1::MP1_SMN_C2PMSG_82>()))
}

#[test]
fn smu_answers_messages_and_writes_tables() {
    let driver = Driver::new();
    driver.enable();
    assert_eq!(message(&driver, Message::TEST_MESSAGE, 41), (Answer::OK.0, 42));
    assert_eq!(message(&driver, Message::GET_DRIVER_IF_VERSION, 0), (Answer::OK.0, 0x3d));
    for decoder in
        [Message::POWER_UP_VCN, Message::POWER_UP_JPEG, Message::POWER_DOWN_JPEG, Message::POWER_DOWN_VCN]
    {
        assert_eq!(message(&driver, decoder, 0).0, Answer::OK.0, "{:?}", decoder.name());
    }
    assert!(message(&driver, Message::GET_SMU_VERSION, 0).1 >= 0x004e_2900, "it takes Mode1Reset");
    driver.put_vram(COMMAND, &[0xff; 0x4004]);
    message(&driver, Message::SET_DRIVER_DRAM_ADDR_HIGH, ((FB + COMMAND) >> 32) as u32);
    message(&driver, Message::SET_DRIVER_DRAM_ADDR_LOW, (FB + COMMAND) as u32);
    let table = |table: Table| message(&driver, Message::TRANSFER_TABLE_SMU2DRAM, table.0).0;
    assert_eq!(table(Table::COMBO_PPTABLE), Answer::OK.0);
    assert_eq!(vram_u32(&driver, COMMAND) >> 16, u32::from(PpTable::FORMAT_REVISION));
    assert_eq!(vram_u32(&driver, COMMAND + PpTable::VERSION as u64), PpTable::CURRENT_VERSION);
    let watts = vram_u32(&driver, COMMAND + PpTable::SOCKET_POWER_LIMIT_AC as u64) & 0xffff;
    assert_eq!(watts, POWER_LIMIT);
    assert_eq!(vram_u32(&driver, COMMAND + 0x3ffc), 0);
    assert_eq!(vram_u32(&driver, COMMAND + 0x4000), u32::MAX, "no more than the table");
    assert_eq!(table(Table(0x77)), Answer::FAILED.0);
    message(&driver, Message::SET_DRIVER_DRAM_ADDR_HIGH, 0x7000);
    assert_eq!(table(Table::SMU_METRICS), Answer::FAILED.0);
    assert_eq!(driver.errors("table of the SMU at an address that is not mapped"), 1);
    assert_eq!(message(&driver, Message(0xfe), 7), (Answer::UNKNOWN.0, 7));
    assert_eq!(driver.errors("message of the SMU that is not modelled"), 1);
}

#[test]
fn smu_runs_the_features_that_it_has_and_measures() {
    let driver = Driver::new();
    driver.enable();
    let says = |which, parameter| message(&driver, which, parameter);
    assert_eq!(says(Message::GET_RUNNING_SMU_FEATURES_LOW, 0), (Answer::OK.0, 0));
    says(Message::SET_ALLOWED_FEATURES_MASK_LOW, u32::MAX);
    says(Message::SET_ALLOWED_FEATURES_MASK_HIGH, u32::MAX);
    assert_eq!(says(Message::ENABLE_ALL_SMU_FEATURES, 0).0, Answer::OK.0);
    let running = says(Message::GET_RUNNING_SMU_FEATURES_LOW, 0).1;
    let expected = Features::DPM_GFXCLK.with(Features::DPM_UCLK).with(Features::THROTTLERS).halves()[0];
    assert_eq!(running & expected, expected);
    let clock = |clock: Clock, level: u32| clock.0 << 16 | level;
    assert_eq!(says(Message::GET_MIN_DPM_FREQ, clock(Clock::GFXCLK, 0)), (Answer::OK.0, 500));
    assert_eq!(says(Message::GET_MAX_DPM_FREQ, clock(Clock::GFXCLK, 0)), (Answer::OK.0, 2482));
    assert_eq!(says(Message::GET_DPM_FREQ_BY_INDEX, clock(Clock::UCLK, Clock::LEVELS)), (Answer::OK.0, 4));
    assert_eq!(says(Message::GET_DPM_FREQ_BY_INDEX, clock(Clock::UCLK, 3)), (Answer::OK.0, 1249));
    assert_eq!(says(Message::GET_DPM_FREQ_BY_INDEX, clock(Clock::UCLK, 4)).0, Answer::FAILED.0);
    assert_eq!(says(Message::SET_SOFT_MIN_BY_FREQ, clock(Clock(12), 500)).0, Answer::FAILED.0);
    assert_eq!(driver.errors("clock of the SMU, or level of one, that does not exist"), 2);
    assert_eq!(says(Message::GET_PPT_LIMIT, 0).1, POWER_LIMIT);
    assert_eq!(says(Message::SET_PPT_LIMIT, POWER_LIMIT).0, Answer::OK.0);
    assert_eq!(says(Message::SET_PPT_LIMIT, POWER_LIMIT + 1).0, Answer::FAILED.0);
    assert_eq!(driver.errors("limit of power that the SMU cannot have"), 1);

    says(Message::SET_DRIVER_DRAM_ADDR_HIGH, ((FB + COMMAND) >> 32) as u32);
    says(Message::SET_DRIVER_DRAM_ADDR_LOW, (FB + COMMAND) as u32);
    let measured = || {
        assert_eq!(says(Message::TRANSFER_TABLE_SMU2DRAM, Table::SMU_METRICS.0).0, Answer::OK.0);
        let mut bytes = [0; size_of::<SmuMetrics>()];
        driver.gpu.bar_read(belfry_abi::pci::BAR_VRAM, COMMAND, &mut bytes).unwrap();
        SmuMetrics::read_from_bytes(&bytes).unwrap()
    };
    let at_rest = measured();
    let sensors = Sensors { peaks: Peaks::GFX1100, busy_percent: 0 };
    assert_eq!(at_rest.average_gfx_activity, 0);
    assert_eq!(u32::from(at_rest.average_socket_power), sensors.power());
    assert_eq!(u32::from(at_rest.avg_temperature[Temperature::HOTSPOT.0]), sensors.temperature(&JUNCTION));
    assert_eq!(at_rest.curr_clock[Clock::UCLK.0 as usize], 96);
    assert_eq!((at_rest.pcie_rate, at_rest.pcie_width), (4, 16));
    says(Message::SET_SOFT_MIN_BY_FREQ, clock(Clock::GFXCLK, 1800));
    assert_eq!(measured().curr_clock[0], 1800, "the clock obeys its limits");
    driver.gpu.reset(belfry_device::ResetKind::Flr);
    driver.enable();
    assert_eq!(says(Message::GET_RUNNING_SMU_FEATURES_LOW, 0), (Answer::OK.0, 0));
}

#[test]
fn mode1_reset_makes_a_device_that_is_driven_from_its_beginning() {
    let driver = up();
    driver.write(dword::<nbio::BIOS_SCRATCH_7>(), 0x200);
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_81>()), 0);
    assert_ne!(driver.read(dword::<mp::MP0_SMN_C2PMSG_81>()), 0, "its PSP lives");
    driver.put_vram(COMMAND, &[0x77; 4]);
    assert_eq!(message(&driver, Message::MODE1_RESET, 0).0, Answer::OK.0);
    assert_eq!(driver.gpu.stats().resets, 1);
    // Linux waits for the boot loader, and takes a device with a sign of life for one that has to be reset.
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_35>()), RESPONSE);
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_81>()), 0);
    assert_eq!(driver.read(dword::<nbio::BIOS_SCRATCH_7>()) & 0x200, 0x200, "it need not be posted");
    assert_eq!(vram_u32(&driver, COMMAND), 0x7777_7777);
    // The function is still configured, and everything starts again.
    for command in
        [BootCommand::KEY_DATABASE, BootCommand::TOS_SPL_TABLE, BootCommand::SYSDRV, BootCommand::SOSDRV]
    {
        assert_eq!(boot(&driver, command), RESPONSE);
    }
    make_ring(&driver, RING_BYTES);
    assert_eq!(control(&driver, RingCommand::INIT_GPCOM_RING), RESPONSE);
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_67>()), 0);
    assert!(submit(&driver, Command::LOAD_TOC, [FB as u32, (FB >> 32) as u32, 256, 0, 0, 0]).3);
    assert!(driver.gpu.stats().errors.is_empty(), "{:?}", driver.gpu.stats().errors);
}

#[test]
fn vbios_is_the_same_through_registers_and_the_rom() {
    let rom = GpuConfig::default().card_rom().expect("the chip has a VBIOS");
    let driver = Driver::new();
    driver.write(dword::<smuio::ROM_INDEX>(), 0);
    for (at, word) in (0..).step_by(4).zip(rom.image().as_chunks::<4>().0) {
        assert_eq!(driver.read(dword::<smuio::ROM_DATA>()).to_le_bytes(), *word, "at {at:#x}");
    }
    assert_eq!(driver.read(dword::<smuio::ROM_DATA>()), u32::MAX, "after its end");
    driver.write(dword::<smuio::ROM_INDEX>(), u32::MAX);
    assert_eq!(driver.read(dword::<smuio::ROM_DATA>()), u32::MAX);
    driver.write(dword::<smuio::ROM_INDEX>(), 0x30);
    assert_eq!(driver.read(dword::<smuio::ROM_DATA>()).to_le_bytes(), *b" 761");
}
