//! Options of `belfry exec` that are read without clap.

use std::ffi::OsString;

use belfry_device::{GpuConfig, Matrices, Tier};
use belfry_kfd_hosted::prepared::Wait;

use super::{
    CodeCacheArg, ExecArgs, ExecRecordArgs, FaultFlags, GpusArgs, InspectFlags, LinksArg, ProfileArgs,
    SanitizeArgs, TraceArgs, gpus, parse_size,
};

/// Parses options that are complete and correct; `None` if clap has an error or a help text to print, or knows
/// another spelling.
///
/// Clap's set-up takes a large part of the time that `belfry exec` adds to a program.
pub(super) fn plain(options: &[OsString]) -> Option<ExecArgs> {
    let mut args = ExecArgs {
        root: None,
        image: None,
        chip: Vec::new(),
        gpus: GpusArgs::default(),
        cus: GpuConfig::default().cus,
        vram: 1 << 30,
        workers: None,
        deterministic: None,
        tier: Tier::Auto,
        matrix: Matrices::Fast,
        code: CodeCacheArg::default(),
        namespace: false,
        debuggable: false,
        wait: Wait::Auto,
        costs: false,
        json: false,
        trace: TraceArgs::default(),
        record: ExecRecordArgs::default(),
        sanitize: SanitizeArgs::default(),
        profile: ProfileArgs::default(),
        faults: FaultFlags::default(),
        inspect: InspectFlags::default(),
        symbols: Vec::new(),
        quiet: false,
        program: Vec::new(),
    };
    let mut seen = Vec::new();
    let mut rest = options.iter();
    while let Some(option) = rest.next() {
        if option == "--" {
            args.program = rest.cloned().collect();
            break;
        }
        let option = option.to_str()?;
        let flag = match option {
            "--namespace" => Some(&mut args.namespace),
            "--debuggable" => Some(&mut args.debuggable),
            "--json" => Some(&mut args.json),
            "--quiet" | "-q" => Some(&mut args.quiet),
            _ => None,
        };
        if let Some(flag) = flag {
            if std::mem::replace(flag, true) {
                return None;
            }
            continue;
        }
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, value),
            None => (option, rest.next()?.to_str()?),
        };
        if value.is_empty() || value.starts_with('-') || seen.contains(&name) {
            return None;
        }
        if name != "--chip" {
            seen.push(name);
        }
        match name {
            "--root" => args.root = Some(value.into()),
            "--image" => args.image = Some(value.to_owned()),
            "--chip" => args.chip.push(value.to_owned()),
            "--gpus" => args.gpus.gpus = Some(gpus::count(value)?),
            "--links" => args.gpus.links = Some(LinksArg::parse(value).ok()?),
            "--cus" => args.cus = value.parse().ok()?,
            "--vram" => args.vram = parse_size(value).ok()?,
            "--workers" => args.workers = Some(value.parse().ok()?),
            "--deterministic" => args.deterministic = Some(value.parse().ok()?),
            "--tier" => args.tier = Tier::named(value)?,
            "--wait" => args.wait = Wait::named(value)?,
            "--matrix" => args.matrix = Matrices::named(value)?,
            "--code-cache" => args.code = CodeCacheArg::in_folder(value),
            _ => return None,
        }
    }
    (args.root.is_none() || args.image.is_none()).then_some(args)
}
