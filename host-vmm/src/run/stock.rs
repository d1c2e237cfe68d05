//! The kernel's own driver in a guest.

use belfry_device::GpuConfig;

use super::{Driver, GuestKind, Mode, RunError, RunOptions};

/// Refuses the kernel's own driver in a run that has no guest, a guest with a driver of its own, or a chip that it cannot
/// start on.
pub(super) fn check(options: &RunOptions) -> Result<(), RunError> {
    if options.driver == Driver::Own {
        return Ok(());
    }
    let refusals = [
        (options.mode == Mode::Hosted, "--driver stock is the driver of a guest's kernel; use --mode qemu"),
        (
            options.guest == GuestKind::BareMetal,
            "the bare-metal guest drives the GPU itself; leave out --driver",
        ),
        (options.system.is_some(), "a disk with a system of its own has its own driver; leave out --driver"),
        (options.warm, "--warm keeps guests with Belfry's driver alone; leave out --warm or --driver"),
        (
            options.gpus.all().iter().any(|gpu| gpu.chip.generation.smu.is_none()),
            "--driver stock starts on gfx1100 alone: other chips have no firmware of the SMU",
        ),
    ];
    match refusals.into_iter().find(|(asked, _)| *asked) {
        Some((_, refusal)) => Err(RunError::WrongGuest(refusal)),
        None => Ok(()),
    }
}

/// Returns a GPU as the driver of a guest needs it: the kernel's own reads the VBIOS in the expansion ROM.
pub(super) fn gpu(driver: Driver, gpu: GpuConfig) -> GpuConfig {
    match driver {
        Driver::Own => gpu,
        Driver::Stock => GpuConfig { rom: gpu.card_rom(), ..gpu },
    }
}

#[cfg(test)]
mod tests {
    use belfry_device::chip;
    use belfry_machine::Gpus;

    use super::*;

    #[test]
    fn runs_without_a_guest_of_the_kernel_are_refused() {
        let base = RunOptions { driver: Driver::Stock, mode: Mode::Qemu, ..RunOptions::default() };
        check(&base).expect("gfx1100 in a guest");
        let refused = |options: RunOptions| check(&options).expect_err("refused").to_string();
        assert!(refused(RunOptions { mode: Mode::Hosted, ..base.clone() }).contains("--mode qemu"));
        let bare = RunOptions { guest: GuestKind::BareMetal, ..base.clone() };
        assert!(refused(bare).contains("bare-metal"));
        let other = chip::MODELS.iter().find(|model| model.generation.smu.is_none()).expect("some have none");
        let gpus = Gpus { first: GpuConfig { chip: other, ..GpuConfig::default() }, ..Gpus::default() };
        assert!(refused(RunOptions { gpus, ..base.clone() }).contains("gfx1100"));
        assert!(check(&RunOptions { driver: Driver::Own, mode: Mode::Hosted, ..base }).is_ok());
    }

    #[test]
    fn only_the_kernels_driver_has_a_rom() {
        assert!(gpu(Driver::Own, GpuConfig::default()).rom.is_none());
        assert!(gpu(Driver::Stock, GpuConfig::default()).rom.is_some());
    }
}
