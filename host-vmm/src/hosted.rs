//! The hosted mode: driver core and device in this process, under the same runtime and examples as in a guest.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use belfry_device::explore::Hang;
use belfry_device::faults::FaultReport;
use belfry_device::{Gpu, Stats};
use belfry_kfd_hosted::{HostedConfig, HostedMachine, Numa, Place};
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

use belfry_guest::Stream;
use belfry_machine::{Gpus, totals};

use crate::inspect::{self, InspectError, InspectOptions};
use crate::racy;
use crate::snapshot::{SnapshotOptions, Source, Taking, Watch};

/// Time limit of waits on a GPU that fails on purpose: longer than the driver waits for any part of it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Errors before or beside a hosted program.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// Device or driver could not be started.
    #[error("cannot start the hosted GPU: {0}")]
    Start(#[from] belfry_kfd_hosted::Error),
    /// The runtime found no GPU on it.
    #[error("cannot open the hosted GPU: {0}")]
    Open(#[from] belfry_runtime::Error),
    /// The GPU cannot be looked at.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The program did not end in time.
    #[error("the program did not end within {limit:?}; {running}")]
    Timeout {
        /// Time limit that the program had.
        limit: Duration,
        /// Waves and faults that are on the GPU, as text.
        running: String,
    },
    /// The program's thread could not be started, or panicked.
    #[error("the program's thread failed: {0}")]
    Thread(String),
}

/// Result of a hosted program.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// 0, or 1 for a program that failed.
    pub exit_status: i32,
    /// Time to start the device and its driver.
    pub device: Duration,
    /// Time to open the runtime.
    pub driver: Duration,
    /// Time the program took.
    pub program: Duration,
    /// The device's counters at its end.
    pub stats: Stats,
    /// Registers the driver used that the device has no behaviour for: name, reads, writes.
    pub unmodelled: Vec<(String, u64, u64)>,
    /// Effects of the planned faults.
    pub faults: FaultReport,
}

/// Additions to the run of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Around<'a> {
    /// Options of the inspector, if the GPU can be looked at.
    pub inspect: Option<&'a InspectOptions>,
    /// File and moment of a snapshot, if one is taken.
    pub snapshot: Option<&'a SnapshotOptions>,
}

/// Runs a bundled example on a machine of its own; `output` gets what it writes, as it comes. Examples use the first GPU; tools look at that
/// one alone.
///
/// # Errors
///
/// The GPU, its driver or its onlookers cannot be set up; the example fails or does not end in time.
pub fn run(
    (gpus, around): (&Gpus, Around<'_>),
    program: &str,
    arguments: &[String],
    limit: Duration,
    output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Outcome, HostedError> {
    let started = Instant::now();
    let (config, mut watched) = (&gpus.first, gpus.clone());
    let watch = Watch::over(&mut watched.first, around.snapshot);
    let (links, board) = (gpus.links, &gpus.board);
    let numa = Numa { nodes: board.numa_nodes, distance: board.numa_distance };
    let configs = watched.all().into_iter().enumerate().map(|(number, gpu)| {
        let config = HostedConfig { links, numa, ..gpu.into() };
        let place = Place { numa_node: board.numa_node(number), ..config.place };
        HostedConfig { place, ..config }
    });
    let machine = HostedMachine::new(configs.collect())?;
    let gpu = Arc::clone(machine.first());
    let device = started.elapsed();
    let source = || Source::Hosted(Arc::downgrade(&gpu));
    let looked_at = around.inspect.and_then(|options| machine.gpus().get(options.gpu).zip(Some(options)));
    let onlookers = looked_at.map(|(gpu, options)| inspect::look_at(gpu.device(), options)).transpose()?;
    // A file has one GPU with the memory that it reaches, not several.
    if let Some(onlookers) = onlookers.as_ref().filter(|_| machine.gpus().len() == 1) {
        onlookers.can_save(source().into_save());
    }
    let taking = around.snapshot.map(|options| {
        Taking::start(options, (source(), Some(gpu.device())), watch.as_deref())
            .map_err(|error| HostedError::Thread(error.to_string()))
    });
    let taking = taking.transpose()?;
    let started = Instant::now();
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu)?)?;
    if !config.faults.is_off() {
        runtime.limit_waits(PATIENCE);
    }
    let driver = started.elapsed();

    let started = Instant::now();
    let (sender, receiver) = sync_channel(64);
    let (name, arguments) = (program.to_owned(), arguments.to_vec());
    let explorer = config.explorer.clone();
    if let Some(explorer) = &explorer {
        let sender = sender.clone();
        explorer.on_hang(move |why, _| {
            // A thread that the schedule has brought here cannot go on.
            let _ = sender.send(Message::Hung(why));
            loop {
                std::thread::park();
            }
        });
    }
    let own = Arc::clone(&gpu);
    let thread = std::thread::Builder::new()
        .name("program".into())
        .spawn(move || {
            let mut out = Lines { sender, pending: Vec::new() };
            if let Some(explorer) = &explorer {
                explorer.begin();
            }
            let result = racy::run(&own, &runtime, (&name, &arguments), &mut out);
            if let Some(explorer) = &explorer {
                explorer.end();
            }
            out.send();
            out.end();
            result
        })
        .map_err(|error| HostedError::Thread(error.to_string()))?;
    let ended = forward(&receiver, started + limit, output);
    if let Some(taking) = taking {
        taking.finish();
    }
    let hung = ended.map_err(|()| HostedError::Timeout { limit, running: running(gpu.device()) })?;
    let joined = match hung {
        Some(why) => Ok(Err(anyhow::anyhow!("it hangs: {why}"))),
        None => thread.join(),
    };
    let exit_status = match joined {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            output(Stream::Stderr, format!("{error:#}\n").as_bytes());
            1
        }
        Err(_) => return Err(HostedError::Thread("it panicked".into())),
    };
    if let Some(onlookers) = &onlookers {
        onlookers.ended(exit_status);
    }
    let (stats, unmodelled) = totals(machine.gpus().iter().map(|gpu| &**gpu.device()));
    Ok(Outcome {
        exit_status,
        device,
        driver,
        program: started.elapsed(),
        stats,
        unmodelled,
        faults: gpu.device().faults().report(),
    })
}

/// Describes the waves and faults that are on a GPU whose program does not end.
pub(crate) fn running(gpu: &Gpu) -> String {
    const WAVES: usize = 8;
    let waves = gpu.running_waves(WAVES);
    let mut text = waves.map_or_else(|| "the device has stopped".to_owned(), |running| running.to_string());
    for strike in gpu.faults().report().strikes.iter().take(WAVES) {
        text.push_str("\nfault ");
        text.push_str(&strike.to_string());
    }
    text
}

/// Messages of the program's thread.
enum Message {
    Text(Vec<u8>),
    /// The program cannot go on, in a schedule that is explored.
    Hung(Hang),
    End,
}

/// Hands on what the program writes until the program ends or hangs; fails at the deadline.
fn forward(
    receiver: &Receiver<Message>,
    deadline: Instant,
    output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<Option<Hang>, ()> {
    loop {
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Message::Text(data)) => output(Stream::Stdout, &data),
            Ok(Message::Hung(why)) => return Ok(Some(why)),
            Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => return Err(()),
        }
    }
}

/// Sends the program's output line by line.
struct Lines {
    sender: SyncSender<Message>,
    pending: Vec<u8>,
}

impl Lines {
    fn send(&mut self) {
        if !self.pending.is_empty() {
            // After a time-out the receiver is gone; the program is about to end then.
            let _ = self.sender.send(Message::Text(std::mem::take(&mut self.pending)));
        }
    }

    fn end(&self) {
        // As above: the receiver may be gone.
        let _ = self.sender.send(Message::End);
    }
}

impl io::Write for Lines {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(data);
        if data.contains(&b'\n') {
            self.send();
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send();
        Ok(())
    }
}
