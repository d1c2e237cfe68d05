//! The GPUs that `belfry exec` offers.

use belfry_device::GpuConfig;
use belfry_machine::Gpus;

use super::ExecArgs;
use crate::cli::gpus::{MOST, alike};

/// Parses how many there are; `None` for a number that there is not.
pub(super) fn count(text: &str) -> Option<u8> {
    text.parse().ok().filter(|&gpus: &u8| (1..=MOST).contains(&gpus.into()))
}

/// Returns the GPUs that were asked for, all of them like `gpu`.
///
/// # Errors
///
/// Several GPUs together with an option that looks at one GPU alone; links of XGMI for a chip that has none.
pub(super) fn offered(args: &ExecArgs, gpu: GpuConfig) -> anyhow::Result<Gpus> {
    let alone = [
        ("--sanitize", args.sanitize.is_asked_for()),
        ("--profile", args.profile.is_asked_for()),
        ("--trace", args.trace.is_asked_for()),
        ("--record", args.record.folder().is_some()),
        ("--inspect and --gdb", args.inspect.options(&args.symbols).is_some()),
        ("--costs", args.costs),
        ("a plan of faults", !gpu.faults.is_off()),
    ];
    alike((args.gpus, args.links), gpu, &alone)
}

/// Returns the line that says what a program gets.
pub(super) fn notice(gpus: &Gpus) -> String {
    let GpuConfig { chip, cus, xccs, vram_size, .. } = &gpus.first;
    let cores = match (chip.max_xccs, xccs) {
        (1, _) => String::new(),
        (_, 1) => " on one XCC".to_owned(),
        (_, many) => format!(" on {many} XCCs"),
    };
    let (many, each) = match gpus.count() {
        1 => (String::new(), ""),
        many => (format!("{many} GPUs, "), " each"),
    };
    format!(
        "belfry exec: {many}{chip} with {cus} CUs{cores} and {} MiB{each} in each process that opens it; guest driver and VM are not in the path\n",
        vram_size >> 20
    )
}

#[cfg(test)]
mod tests {
    use belfry_device::memory::Links;

    use super::super::plain;
    use super::*;

    fn args(line: &str) -> ExecArgs {
        let words: Vec<_> = line.split(' ').map(Into::into).collect();
        plain(&words).unwrap()
    }

    #[test]
    fn gpus_are_as_many_as_were_asked_for() {
        for (line, many, says) in
            [("--cus 4", 1, "exec: gfx1100"), ("--cus 4 --gpus 3", 3, "3 GPUs, gfx1100")]
        {
            let gpus = offered(&args(line), GpuConfig::default()).unwrap();
            assert_eq!(gpus.count(), many);
            assert!(notice(&gpus).contains(says), "{}", notice(&gpus));
        }
    }

    /// As [`args`], with all options.
    fn all_args(words: &[&str]) -> ExecArgs {
        let line = ["belfry", "exec"].iter().chain(words).map(Into::into).collect::<Vec<_>>();
        super::super::parse_with_clap(&line).unwrap()
    }

    #[test]
    fn tools_that_look_at_one_gpu_are_refused_with_several() {
        let faults = "removal@3".parse().unwrap();
        for (words, config, named) in [
            (&["--sanitize"][..], GpuConfig::default(), "--sanitize"),
            (&["--profile"], GpuConfig::default(), "--profile"),
            (&["--trace", "/nowhere/trace"], GpuConfig::default(), "--trace"),
            (&["--record", "/nowhere/records"], GpuConfig::default(), "--record"),
            (&["--inspect"], GpuConfig::default(), "--inspect and --gdb"),
            (&["--gdb"], GpuConfig::default(), "--inspect and --gdb"),
            (&["--json", "--costs"], GpuConfig::default(), "--costs"),
            (&[], GpuConfig { faults, ..GpuConfig::default() }, "a plan of faults"),
        ] {
            let two = [&["--gpus", "2"], words].concat();
            let error = offered(&all_args(&two), config.clone()).unwrap_err().to_string();
            assert!(error.starts_with(named) && error.contains("--gpus asks for 2"), "{words:?}: {error}");
            assert_eq!(offered(&all_args(words), config).unwrap().count(), 1, "{words:?}");
        }
        assert_eq!(offered(&all_args(&["--gpus", "2"]), GpuConfig::default()).unwrap().count(), 2);
    }

    #[test]
    fn links_are_as_they_were_asked_for_and_xgmi_is_for_chips_that_have_it() {
        for (line, links) in [("--gpus 2", None), ("--gpus 2 --links none", Some(Links::None))] {
            assert_eq!(args(line).links, links);
            let gpus = offered(&args(line), GpuConfig::default()).unwrap();
            assert_eq!(gpus.links, links.unwrap_or_default());
            let spelled = args(line).of_device();
            let at = spelled.iter().position(|word| word == "--links");
            assert_eq!(at.map(|at| spelled[at + 1].clone()), links.map(|links| links.to_string().into()));
        }
        let xgmi = args("--links xgmi");
        let error = offered(&xgmi, GpuConfig::default()).unwrap_err().to_string();
        assert!(error.contains("gfx1100 has no XGMI"), "{error}");
        let chip = &belfry_device::chip::gfx942::MODEL;
        assert!(offered(&xgmi, GpuConfig { chip, ..GpuConfig::default() }).is_ok());
    }
}
