//! Programs that this machine does not have: the root file system to run them in, if the command line names none.

use std::ffi::{OsStr, OsString};

use belfry_device::chip::Model;
use belfry_image::rootfs::{Recipe, RootFsError};
use belfry_image::tools;
use belfry_suite::Standalone;
use belfry_suite::request::is_suite;

/// File that every root file system with ROCm has: the compiler of HIP.
const COMPILER: &str = "hipcc";
/// The suite over Vulkan, and the program that every root file system for it has: the compiler of its shaders.
const VULKAN: &str = "vulkan-suite";
const SHADERS: &str = "glslangValidator";

/// Finds the built-in root file system for a program that this machine does not have: one that has the program, and
/// whose ROCm knows all chips. `None` if the machine has the program, or if no root file system is known to have it.
///
/// # Errors
///
/// A recipe that cannot be read.
pub fn image_with(program: &[OsString], chips: &[&Model]) -> Result<Option<String>, RootFsError> {
    let name = program.first().filter(|name| is_searched_for(name) && !is_in_path(name));
    let Some(name) = name.and_then(|name| name.to_str()) else { return Ok(None) };
    let chips: Vec<_> = chips.iter().map(|chip| chip.name).collect();
    if let Some(program) = Standalone::named(name) {
        return Ok(Recipe::with_file(program.needs, &chips)?.map(|recipe| recipe.name));
    }
    let wanted = match name {
        VULKAN => SHADERS,
        _ if is_suite(name) => COMPILER,
        _ => name,
    };
    Ok(Recipe::with_program(wanted, &chips)?.map(|recipe| recipe.name))
}

/// Returns a root file system whose ROCm knows the chip, for messages that name one.
#[must_use]
pub fn image_for(chip: &Model) -> String {
    let found = Recipe::with_program(COMPILER, &[chip.name]).ok().flatten();
    found.map_or_else(|| "NAME".to_owned(), |recipe| recipe.name)
}

/// Returns true if a program of that name is searched for in `PATH`: the name is no path itself.
pub(super) fn is_searched_for(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_encoded_bytes().contains(&b'/')
}

/// Returns true if a directory of this process's `PATH` has a file of that name, executable or not.
#[must_use]
pub fn is_in_path(name: &OsStr) -> bool {
    tools::find(name, &[]).is_some()
}

#[cfg(test)]
mod tests {
    use belfry_device::chip::{DEFAULT, MODELS};

    use super::*;

    fn image(program: &str, chip: &Model) -> Option<String> {
        image_with(&[program.into(), "word".into()], &[chip]).unwrap()
    }

    #[test]
    fn suite_over_vulkan_has_a_root_file_system_where_mesa_knows_the_chip() {
        for chip in MODELS {
            let expected = ["gfx1100", "gfx1201", "gfx1151"].contains(&chip.name).then_some("mesa");
            assert_eq!(image(VULKAN, chip).as_deref(), expected, "{}", chip.name);
            assert_eq!(image("vulkaninfo", chip).as_deref(), expected, "{}", chip.name);
        }
    }

    #[test]
    fn every_chip_has_a_root_file_system_for_suites() {
        for chip in MODELS {
            let name = image("hip-suite", chip).unwrap_or_else(|| panic!("none for {chip}"));
            assert_eq!(name, image_for(chip));
            assert!(name.starts_with("rocm"), "{name}");
            for program in ["ddp-loop", "rccl-UnitTests"] {
                assert_eq!(image(program, chip).as_deref(), Some("rccl"), "{program} on {chip}");
            }
        }
    }

    #[test]
    fn root_file_system_for_several_chips_knows_all_of_them() {
        let found = |chips: &[&Model]| image_with(&["hip-suite".into()], chips).unwrap();
        assert_eq!(found(MODELS).as_deref(), Some("rocm-exp"));
        let discrete: Vec<&Model> =
            MODELS.iter().copied().filter(|chip| !["gfx1151", "gfx950"].contains(&chip.name)).collect();
        assert_eq!(found(&discrete).as_deref(), Some("rocm-sid"));
    }

    #[test]
    fn programs_of_this_machine_and_paths_have_none() {
        // The root file systems have a `bash`, but so has every machine.
        for program in
            ["bash", "./rocminfo", "/usr/bin/rocminfo", "/nowhere/hip-suite", "", "no-such-program"]
        {
            assert_eq!(image(program, DEFAULT), None, "{program}");
        }
        assert_eq!(image_with(&[], &[DEFAULT]).unwrap(), None);
    }
}
