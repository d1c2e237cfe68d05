//! Tests of the command lines that are taken, and of those that are refused.

use std::path::Path;

use super::*;
use belfry_device::memory::Links;
use clap::CommandFactory as _;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn run_takes_its_options_and_leaves_the_programs_alone() {
    let line = "belfry run --mode hosted --cus 4 --vram 1G --json --file a:/b --file c:d --doorbell polled \
                -- launch x.hsaco --kernel k --json";
    let Verb::Run(args) = parse(line).unwrap().command else { panic!("not run") };
    assert_eq!((args.mode, args.gpu.device.cus, args.gpu.device.vram), (Mode::Hosted, 4, 1 << 30));
    assert_eq!(args.files.len(), 2);
    assert_eq!(args.doorbell, Some(Doorbell::Polled));
    assert_eq!(args.program, ["launch", "x.hsaco", "--kernel", "k", "--json"]);
    let Verb::Run(args) = parse("belfry run").unwrap().command else { panic!("not run") };
    assert_eq!((args.mode, args.gpu.device.vram, args.json), (Mode::Auto, 256 << 20, false));
    assert!(args.program.is_empty());
    let Verb::Run(args) = parse("belfry run --mode kvm --guest bare-metal").unwrap().command else {
        panic!("not run")
    };
    assert_eq!((args.mode, args.guest), (Mode::Kvm, GuestKind::BareMetal));
    let Verb::Run(args) = parse("belfry run --cpus 3 --memory 512M").unwrap().command else {
        panic!("not run")
    };
    assert_eq!((args.machine.cpus, args.machine.memory), (Some(3), Some(512 << 20)));
    let Verb::Run(args) = parse("belfry run --append -x --append init_on_free=1").unwrap().command else {
        panic!("not run")
    };
    assert_eq!(args.machine.append, ["-x", "init_on_free=1"]);
}

#[test]
fn root_file_system_is_a_name_or_a_path_but_not_both() {
    let Verb::Run(args) = parse("belfry run --image rocm -- rocminfo").unwrap().command else {
        panic!("not run")
    };
    assert_eq!((args.image.as_deref(), args.root), (Some("rocm"), None));
    let Verb::Run(args) = parse("belfry run --root /tree -- ./a").unwrap().command else { panic!("not run") };
    assert_eq!((args.image, args.root.as_deref()), (None, Some(Path::new("/tree"))));
    for line in ["belfry run --image rocm --root / -- a", "belfry run --image", "belfry run --root"] {
        assert!(parse(line).is_err(), "{line}");
    }
}

#[test]
fn huge_pages_are_transparent_unless_said_otherwise() {
    for (line, expected) in [
        ("belfry run", HugePages::Off),
        ("belfry run --huge-pages -- vector-add", HugePages::Transparent),
        ("belfry run --huge-pages=reserved", HugePages::Reserved),
    ] {
        let Verb::Run(args) = parse(line).unwrap().command else { panic!("not run") };
        assert_eq!(args.machine.huge_pages, expected, "{line}");
    }
    assert!(parse("belfry run --huge-pages=1G").is_err());
}

#[test]
fn bad_command_lines_are_refused() {
    for line in [
        "belfry",
        "belfry run vector-add",
        "belfry run --mode xen",
        "belfry run --guest dos",
        "belfry run --vram lots",
        "belfry run --file nocolon",
        "belfry run --trace-wave 0:0:0",
        "belfry run --trace-isa --trace-wave 0:0",
        "belfry run --trace-isa --trace-wave 0:0,0,0,0:0",
        "belfry run --trace-isa --trace-wave 0:x:0",
        "belfry run --deterministic x",
        "belfry run --cpus 0",
        "belfry run --cpus 65",
        "belfry run --memory 1M",
        "belfry run --memory 100000001",
        "belfry run --memory 1T",
        "belfry run --disk x,format=vmdk",
        "belfry run --file x:../../init",
        "belfry run --append",
        "belfry serve",
        "belfry serve --socket x --client-timeout 0",
        "belfry disasm",
        "belfry bench",
        "belfry bench isa --workers x",
        "belfry bench vmm --samples x",
        "belfry bench isa --runs many",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    for line in ["belfry run --cus 3", "belfry run --cus 98"] {
        let Verb::Run(args) = parse(line).unwrap().command else { panic!("not run") };
        assert!(args.gpu.device.config().is_err(), "{line}");
    }
}

#[test]
fn chip_is_the_one_that_is_named() {
    for model in chip::MODELS {
        let Verb::Serve(args) = parse(&format!("belfry serve --socket x --chip {model}")).unwrap().command
        else {
            panic!("not serve")
        };
        assert_eq!(args.gpu.device.config().unwrap().chip, *model);
    }
}

#[test]
fn chip_of_other_commands_is_checked_as_that_of_run() {
    for model in chip::MODELS {
        for command in
            ["doctor", "bench isa", "bench sdma", "bench sharing", "run", "exec", "serve --socket x"]
        {
            assert!(
                parse(&format!("belfry {command} --chip {model}:cus=4,vram=64M")).is_ok(),
                "{command} {model}"
            );
        }
        assert!(parse(&format!("belfry disasm x --chip {model}")).is_ok(), "{model}");
    }
    let Verb::Doctor { chip } = parse("belfry doctor --chip gfx942:xccs=8,cus=16").unwrap().command else {
        panic!("not doctor")
    };
    let config = chip.config().unwrap();
    assert_eq!((config.chip.name, config.xccs, config.cus), ("gfx942", 8, 16));
    let Verb::Bench { what } = parse("belfry bench sdma --chip gfx942:xccs=9").unwrap().command else {
        panic!("not bench")
    };
    assert!(bench::measure(what).unwrap_err().to_string().contains("XCCs"));
    assert!(parse("belfry disasm x --chip gfx9000").is_err());
}

#[test]
fn causes_are_named_once() {
    let cause = anyhow::anyhow!("disk full");
    assert_eq!(
        describe(&cause.context("cannot write: disk full").context("no guest")),
        "no guest: cannot write: disk full"
    );
}

#[test]
fn exec_has_the_options_that_the_whole_command_line_shows() {
    for line in [
        "belfry exec",
        "belfry exec --root / --cus 4 -q -- a --b",
        "belfry exec --chip gfx1100 --workers 3 --json",
    ] {
        let words: Vec<_> = line.split(' ').map(OsString::from).collect();
        let alone = exec::parse(&words).unwrap().unwrap();
        let Verb::Exec(args) = parse(line).unwrap().command else { panic!("not exec") };
        assert_eq!(format!("{alone:?}"), format!("{args:?}"));
    }
    assert!(exec::parse(&["belfry", "run"].map(OsString::from)).is_none());
    let wrong = exec::parse(&["belfry", "exec", "--cu", "4"].map(OsString::from)).unwrap();
    assert!(wrong.unwrap_err().to_string().contains("Usage: belfry exec"), "as the whole command line says");
}

#[test]
fn install_driver_takes_one_disk_with_its_options() {
    assert!(parse("belfry image install-driver ./debian.raw,format=raw").is_ok());
    for line in ["", " a.img,format=vmdk", " a.img b.img", " a.img --update"] {
        assert!(parse(&format!("belfry image install-driver{line}")).is_err(), "{line}");
    }
}

/// Returns the GPUs of a run.
fn machine(args: &RunArgs, alone: &[(&str, bool)]) -> anyhow::Result<belfry_machine::Gpus> {
    let kinds = args.gpu.device.kinds(args.gpus.usual_chip())?;
    args.gpus.machine(&args.gpu.config(kinds.first().clone())?, &kinds, alone)
}

#[test]
fn inspector_and_debugger_look_at_the_gpu_that_is_chosen() {
    for (line, gpu, says) in [
        ("--gpus 2 --inspect", 0, None),
        ("--gpus 2 --inspect --gpu 1", 1, None),
        ("--gpus 2 --gdb --gpu 1", 1, None),
        ("--gpus 2 --inspect --gpu 2", 2, Some("there is no GPU 2: the last one of this machine is 1")),
        ("--inspect --gpu 1", 1, Some("there is no GPU 1")),
    ] {
        let Verb::Run(args) = parse(&format!("belfry run --mode hosted {line}")).unwrap().command else {
            panic!("not run")
        };
        let gpus = machine(&args, &alone(&args, &GpuConfig::default())).unwrap();
        let refused = args.inspect.check_gpu(gpus.count()).err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), says.is_some(), "{line}: {refused:?}");
        assert!(says.is_none_or(|says| refused.unwrap().contains(says)), "{line}");
        assert_eq!(args.inspect.options(&[]).unwrap().gpu, gpu, "{line}");
    }
    let Verb::Run(args) = parse("belfry run --gpus 2 --gpu 1").unwrap().command else { panic!("not run") };
    assert!(args.inspect.check_gpu(2).unwrap_err().to_string().contains("neither is there"));
}

#[test]
fn boards_of_guests_have_one_hive_and_a_root_port_for_each_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.toml");
    for (text, says) in [
        ("[[hive]]\ngpus = [0, 1]", None),
        ("[[hive]]\ngpus = [0, 1]\n[[hive]]\ngpus = [2, 3]", Some("several hives")),
        ("[[switch]]\ngpus = [0, 1]", Some("switches and memory nodes")),
        ("[[numa]]\ngpus = [0, 1]\n[[numa]]\ngpus = [2, 3]", Some("switches and memory nodes")),
    ] {
        std::fs::write(&path, text).unwrap();
        let line = format!("belfry run --chip gfx942 --gpus 4 --links {}", path.display());
        let Verb::Run(args) = parse(&line).unwrap().command else { panic!("not run") };
        let refused = check_guest(&machine(&args, &[]).unwrap()).err().map(|error| error.to_string());
        assert_eq!(refused.is_some(), says.is_some(), "{text}: {refused:?}");
        assert!(says.is_none_or(|says| refused.unwrap().contains(says)), "{text}");
    }
}

#[test]
fn several_gpus_are_alike_and_what_looks_at_one_is_refused_by_name() {
    let run = |line: &str| match parse(line).unwrap().command {
        Verb::Run(args) => *args,
        _ => panic!("not run"),
    };
    for (line, count, links) in [
        ("belfry run", 1, Links::Xgmi),
        ("belfry run --gpus 3 --chip gfx942", 3, Links::Xgmi),
        ("belfry run --gpus 2 --links none", 2, Links::None),
    ] {
        let args = run(line);
        let gpus = machine(&args, &[]).unwrap();
        assert_eq!((gpus.count(), gpus.links), (count, links), "{line}");
        assert!(gpus.all().iter().all(|gpu| gpu.chip == gpus.first.chip));
    }
    let different = machine(&run("belfry run --chip gfx942:vram=512M --chip gfx1100 --gpus 3"), &[]).unwrap();
    let kinds = different.all().into_iter().map(|gpu| (gpu.chip.name, gpu.vram_size >> 20));
    assert_eq!(kinds.collect::<Vec<_>>(), [("gfx942", 512), ("gfx1100", 256), ("gfx1100", 256)]);
    for (line, named) in [
        ("--trace-isa", "--trace-isa"),
        ("--sanitize", "--sanitize"),
        ("--warm", "--snapshot, --from and --warm"),
        ("--schedule preempt:1", "--schedule"),
        ("--chaos 1", "a plan of faults"),
    ] {
        let args = run(&format!("belfry run --mode hosted --gpus 2 {line}"));
        let gpu = GpuConfig { faults: args.gpu.faults.plan().unwrap(), ..GpuConfig::default() };
        let error = machine(&args, &alone(&args, &gpu)).unwrap_err().to_string();
        assert!(error.starts_with(named) && error.contains("the machine has 2"), "{line}: {error}");
    }
    let args = run("belfry run --mode hosted --gpus 2 --profile");
    assert_eq!(machine(&args, &alone(&args, &GpuConfig::default())).unwrap().count(), 2);
    let args = run("belfry run --links xgmi");
    let error = machine(&args, &[]).unwrap_err().to_string();
    assert!(error.contains("gfx1100 has no XGMI"), "{error}");
    assert!(parse("belfry run --gpus 9").is_err() && parse("belfry run --gpus 0").is_err());
}
