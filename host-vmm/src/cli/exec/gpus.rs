//! The GPUs that `belfry exec` offers.

use belfry_device::GpuConfig;
use belfry_machine::Gpus;

use super::ExecArgs;
use crate::cli::gpus::MOST;
use crate::cli::shape::Kinds;

/// Parses how many there are; `None` for a number that there is not.
pub(super) fn count(text: &str) -> Option<u8> {
    text.parse().ok().filter(|&gpus: &u8| (1..=MOST).contains(&gpus.into()))
}

/// Returns the GPUs that were asked for, of these kinds, and in all else like `gpu`.
///
/// # Errors
///
/// As [`GpusArgs::machine`](crate::cli::gpus::GpusArgs::machine).
pub(super) fn offered(args: &ExecArgs, gpu: &GpuConfig, kinds: &Kinds) -> anyhow::Result<Gpus> {
    let alone = [
        ("--sanitize", args.sanitize.is_asked_for()),
        ("--costs", args.costs),
        ("a plan of faults", !gpu.faults.is_off()),
    ];
    let gpus = args.gpus.machine(gpu, kinds, &alone)?;
    args.inspect.check_gpu(gpus.count())?;
    Ok(gpus)
}

/// Returns the line that says what a program gets.
pub(super) fn notice(gpus: &Gpus) -> String {
    let mut kinds: Vec<(usize, String)> = Vec::new();
    for gpu in gpus.all() {
        let each = described(&gpu);
        match kinds.last_mut().filter(|(_, kind)| *kind == each) {
            Some((count, _)) => *count += 1,
            None => kinds.push((1, each)),
        }
    }
    let what = match (&*kinds, gpus.count()) {
        ([(1, kind)], _) => kind.clone(),
        ([(_, kind)], many) => format!("{many} GPUs, {kind} each"),
        (_, many) => {
            let texts: Vec<_> = kinds
                .iter()
                .map(|(count, kind)| if *count == 1 { kind.clone() } else { format!("{count} times {kind}") })
                .collect();
            format!("{many} GPUs, {}", texts.join(", "))
        }
    };
    format!("belfry exec: {what} in each process that opens it; guest driver and VM are not in the path\n")
}

/// Describes a GPU.
fn described(gpu: &GpuConfig) -> String {
    let GpuConfig { chip, cus, xccs, vram_size, .. } = gpu;
    let cores = match (chip.max_xccs, xccs) {
        (1, _) => String::new(),
        (_, 1) => " on one XCC".to_owned(),
        (_, many) => format!(" on {many} XCCs"),
    };
    format!("{chip} with {cus} CUs{cores} and {} MiB", vram_size >> 20)
}

#[cfg(test)]
mod tests {
    use belfry_device::memory::Links;

    use super::super::{LinksArg, plain};
    use super::*;

    fn args(line: &str) -> ExecArgs {
        let words: Vec<_> = line.split(' ').map(Into::into).collect();
        plain(&words).unwrap()
    }

    /// As [`args`], with all options.
    fn all_args(words: &[&str]) -> ExecArgs {
        let line = ["belfry", "exec"].iter().chain(words).map(Into::into).collect::<Vec<_>>();
        super::super::parse_with_clap(&line).unwrap()
    }

    fn offer(args: &ExecArgs, gpu: &GpuConfig) -> anyhow::Result<Gpus> {
        let kinds = Kinds::of(&args.chip, args.gpus.usual_chip(), &GpuConfig::default())?;
        offered(args, gpu, &kinds)
    }

    #[test]
    fn gpus_are_as_many_as_were_asked_for() {
        for (line, many, says) in [
            ("--cus 4", 1, "exec: gfx1100"),
            ("--cus 4 --gpus 3", 3, "3 GPUs, gfx1100"),
            (
                "--chip gfx1100 --chip gfx942",
                2,
                "2 GPUs, gfx1100 with 8 CUs and 256 MiB, gfx942 with 8 CUs on one",
            ),
            ("--chip gfx1100 --chip gfx942 --gpus 4", 4, "MiB, 3 times gfx942"),
            ("--links mi300x-8", 8, "8 GPUs, gfx942 with 8 CUs on 8 XCCs and 256 MiB each"),
            ("--links 7900xtx-2", 2, "2 GPUs, gfx1100"),
        ] {
            let gpus = offer(&args(line), &GpuConfig::default()).unwrap();
            assert_eq!(gpus.count(), many, "{line}");
            assert!(notice(&gpus).contains(says), "{}", notice(&gpus));
        }
        for (line, says) in [
            ("--chip gfx1100 --chip gfx942 --gpus 1", "--gpus asks for 1, and --chip names 2"),
            ("--links mi300x-8 --gpus 4", "the machine has 4"),
            ("--links mi300x-8 --chip gfx1100", "no XGMI"),
            ("--links /nowhere/links.toml", "/nowhere/links.toml"),
        ] {
            let error = offer(&args(line), &GpuConfig::default()).unwrap_err();
            assert!(format!("{error:#}").contains(says), "{line}: {error:#}");
        }
        let many = ["--chip gfx1100"; 9].join(" ");
        let error = offer(&args(&many), &GpuConfig::default()).unwrap_err().to_string();
        assert!(error.contains("9 GPUs") && error.contains("8 at most"), "{error}");
    }

    #[test]
    fn gpus_of_different_chips_differ_in_their_shapes_alone() {
        let gpu = GpuConfig { deterministic: Some(3), ..GpuConfig::default() };
        let gpus = offer(&args("--chip gfx1100 --chip gfx942:cus=4,vram=512M"), &gpu).unwrap();
        let second = &gpus.others[0];
        assert_eq!((gpus.first.chip.name, second.chip.name), ("gfx1100", "gfx942"));
        assert_eq!((second.cus, second.vram_size, second.deterministic), (4, 512 << 20, Some(3)));
    }

    #[test]
    fn tools_that_look_at_one_gpu_are_refused_with_several() {
        let faults = "removal@3".parse().unwrap();
        for (words, config, named) in [
            (&["--sanitize"][..], GpuConfig::default(), "--sanitize"),
            (&["--json", "--costs"], GpuConfig::default(), "--costs"),
            (&[], GpuConfig { faults, ..GpuConfig::default() }, "a plan of faults"),
        ] {
            for several in [&["--gpus", "2"][..], &["--chip", "gfx942", "--chip", "gfx1100"]] {
                let two = [several, words].concat();
                let error = offer(&all_args(&two), &config).unwrap_err().to_string();
                assert!(
                    error.starts_with(named) && error.contains("the machine has 2"),
                    "{words:?}: {error}"
                );
            }
            assert_eq!(offer(&all_args(words), &config).unwrap().count(), 1, "{words:?}");
        }
        assert_eq!(offer(&all_args(&["--gpus", "2"]), &GpuConfig::default()).unwrap().count(), 2);
    }

    #[test]
    fn links_are_as_they_were_asked_for_and_xgmi_is_for_chips_that_have_it() {
        for (line, links) in [("--gpus 2", None), ("--gpus 2 --links none", Some(Links::None))] {
            assert_eq!(args(line).gpus.links, links.map(LinksArg::Of));
            let gpus = offer(&args(line), &GpuConfig::default()).unwrap();
            assert_eq!(gpus.links, links.unwrap_or_default());
            let spelled = args(line).of_device(gpus.count());
            let at = spelled.iter().position(|word| word == "--links");
            assert_eq!(at.map(|at| spelled[at + 1].clone()), links.map(|links| links.to_string().into()));
        }
        let error = offer(&args("--links xgmi"), &GpuConfig::default()).unwrap_err().to_string();
        assert!(error.contains("gfx1100 has no XGMI"), "{error}");
        for line in ["--links xgmi --chip gfx942", "--links xgmi --chip gfx1100 --chip gfx942"] {
            assert!(offer(&args(line), &GpuConfig::default()).is_ok(), "{line}");
        }
        let spelled = args("--chip gfx942 --chip gfx1100 --links mi300x-8").of_device(8);
        let words: Vec<_> = spelled.iter().map(|word| word.to_str().unwrap()).collect();
        assert!(words.join(" ").contains("--chip gfx942 --chip gfx1100"), "{words:?}");
        assert!(words.contains(&"mi300x-8"));
    }
}
