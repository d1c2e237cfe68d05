//! `belfry serve`.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use belfry_machine::signals::Signals;
use belfry_vfio_user::server::CLIENT_TIMEOUT;
use belfry_vfio_user::{
    DoorbellMode, GpuFunction, Server, ServerError, StopHandle, qemu_devices, serve_gpus,
};
use clap::Args;

use super::gpus::{GpusArgs, check_guest};
use super::inspect::InspectFlags;
use super::record::{Recorded, ServeRecordArgs};
use super::trace::TraceArgs;
use super::{GpuArgs, interrupted_status};
use crate::inspect::look_at;
use crate::output::say;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Path of the socket to listen on. Each of several GPUs has a socket, PATH.0 and so on.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(flatten)]
    pub(super) gpu: GpuArgs,
    #[command(flatten)]
    gpus: GpusArgs,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    inspect: InspectFlags,
    #[command(flatten)]
    record: ServeRecordArgs,
    /// Way in which doorbell writes reach the device.
    #[arg(long, value_enum, default_value_t)]
    doorbell: DoorbellMode,
    /// Time limit for a client to introduce itself, to end a message that it has begun, or to take a reply, before
    /// the next client is served. Between messages a client may be silent for ever, as with a guest that idles.
    #[arg(long, value_name = "SECS", default_value_t = CLIENT_TIMEOUT.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86400))]
    client_timeout: u64,
}

/// Runs `belfry serve`.
pub(super) fn serve(args: &ServeArgs) -> anyhow::Result<u8> {
    args.gpu.check_symbols(&args.inspect, false)?;
    let kinds = args.gpu.device.kinds(args.gpus.usual_chip())?;
    let mut config = args.gpu.config(kinds.first().clone())?;
    let alone =
        [("--trace-isa", args.gpu.trace_isa.is_some()), ("a plan of faults", !config.faults.is_off())];
    // Before any file is made.
    let board = args.gpus.machine(&config, &kinds, &alone)?;
    check_guest(&board)?;
    args.inspect.check_gpu(board.count())?;
    let recording = args.trace.start()?;
    if let Some(recording) = &recording {
        config.trace = Some(recording.sink());
    }
    // From here on a signal ends the server in order, with its socket removed.
    let signals = Signals::catch().context("cannot catch signals")?;
    let recorded = args.record.start()?;
    config.record = recorded.as_ref().map(Recorded::recording);
    let gpus = args.gpus.machine(&config, &kinds, &[])?;
    let sockets = sockets(&std::path::absolute(&args.socket)?, gpus.count());
    let offered = sockets.iter().map(PathBuf::as_path).zip(gpus.all());
    let mut servers = serve_gpus(offered, gpus.links, args.doorbell)?;
    servers.iter_mut().for_each(|server| server.set_client_timeout(Duration::from_secs(args.client_timeout)));
    let stops: Vec<_> = servers.iter().map(Server::stop_handle).collect();
    let served: Vec<_> = servers.iter().map(|server| Arc::clone(server.function().gpu())).collect();
    let inspect = args.inspect.options(&args.gpu.symbols);
    let looked_at = inspect.and_then(|options| servers.get(options.gpu).zip(Some(options)));
    let _inspector =
        looked_at.map(|(server, options)| look_at(server.function().gpu(), &options)).transpose()?;
    let stop_all = stops.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        signals.wait();
        stop_all.iter().for_each(StopHandle::stop);
    })?;
    let paths: Vec<_> = sockets.iter().map(|path| path.display().to_string()).collect();
    let what = if sockets.len() == 1 { "this device" } else { "these devices" };
    say!("listening on {}; give QEMU (10.1 or newer) memory it can share, and {what}:", paths.join(", "));
    say!("  -object memory-backend-memfd,id=ram,size=1G,share=on -machine q35,memory-backend=ram \\");
    let devices: Vec<_> =
        qemu_devices(&sockets).iter().map(|device| format!("  -device '{device}'")).collect();
    say!("{}", devices.join(" \\\n"));
    let ended = run_all(&mut servers, &stops);
    if let Some(recorded) = recorded {
        // However the server has ended, the record ends with the devices.
        served.iter().for_each(|gpu| gpu.stop());
        recorded.finish();
    }
    if let Some(recording) = recording {
        recording.finish();
    }
    ended?;
    Ok(interrupted_status().unwrap_or(0))
}

/// Returns the paths of the sockets of that many GPUs.
fn sockets(path: &Path, count: usize) -> Vec<PathBuf> {
    if count == 1 {
        return vec![path.to_owned()];
    }
    let numbered = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    (0..count).map(numbered).collect()
}

/// Runs the servers of a machine until one of them ends, which ends the others; the first error counts.
fn run_all(servers: &mut [Server<GpuFunction>], stops: &[StopHandle]) -> Result<(), ServerError> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = servers
            .iter_mut()
            .map(|server| {
                scope.spawn(move || {
                    let ended = server.run();
                    stops.iter().for_each(StopHandle::stop);
                    ended
                })
            })
            .collect();
        let ended =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.fold(Ok(()), Result::and)
    })
}
