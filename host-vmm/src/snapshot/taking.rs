//! Waiting for the moment, and saving.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use belfry_device::record::Until;
use belfry_device::trace::{Record, TraceSink, WaveId};
use belfry_device::{Gpu, GpuConfig};
use belfry_isa::exec::Step;
use belfry_machine::snapshot::Saved;
use belfry_tools::inspect::Inspect as _;

use super::{Moment, SnapshotOptions, Source, SourceError};
use crate::output::note;

/// Message to the thread that saves.
#[derive(Debug)]
enum Told {
    /// The moment has come.
    Now,
    /// The run has ended.
    Over,
}

/// Counts the device's events, and halts the device at one of them; all events are passed on to the next trace sink.
#[derive(Debug)]
pub(crate) struct Watch {
    until: Until,
    seen: AtomicU64,
    next: Option<Arc<dyn TraceSink>>,
    /// GPU to halt, and channel to the thread that saves; `None` before the machine is there, and after the event.
    told: Mutex<Option<(Weak<Gpu>, Sender<Told>)>>,
}

impl TraceSink for Watch {
    fn record(&self, record: &Record) {
        if let Some(next) = &self.next {
            next.record(record);
        }
        if self.until.kind.is_some_and(|kind| kind != record.kind)
            || self.seen.fetch_add(1, Ordering::SeqCst) + 1 != self.until.number
        {
            return;
        }
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((gpu, told)) = told {
            // Work under way stays as it is until it is saved.
            if let Some(gpu) = gpu.upgrade() {
                gpu.inspect().halt_soon();
            }
            // If the thread has gone, it knows that the run is over.
            let _ = told.send(Told::Now);
        }
    }

    fn wants_waves(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.wants_waves())
    }

    fn wants_wave(&self, wave: &WaveId) -> bool {
        self.next.as_ref().is_some_and(|next| next.wants_wave(wave))
    }

    fn instruction(&self, wave: &WaveId, step: &Step<'_>) {
        if let Some(next) = &self.next {
            next.instruction(wave, step);
        }
    }
}

impl Watch {
    /// Adds a watch to the device of a configuration, if the moment is an event of the device.
    pub(crate) fn over(gpu: &mut GpuConfig, options: Option<&SnapshotOptions>) -> Option<Arc<Self>> {
        let Moment::Event(until) = options?.at else { return None };
        Some(Self::put(gpu, until))
    }

    /// Counts all events of the device of a configuration; the device is never halted.
    pub(crate) fn counting(gpu: &mut GpuConfig) -> Arc<Self> {
        Self::put(gpu, Until { kind: None, number: u64::MAX })
    }

    fn put(gpu: &mut GpuConfig, until: Until) -> Arc<Self> {
        let (next, told) = (gpu.trace.take(), Mutex::new(None));
        let watch = Arc::new(Self { until, seen: AtomicU64::new(0), next, told });
        gpu.trace = Some(watch.clone());
        watch
    }

    /// Returns the number of counted events so far.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }
}

/// A run that is to be saved.
#[derive(Debug)]
pub(crate) struct Taking {
    options: SnapshotOptions,
    told: Sender<Told>,
    thread: JoinHandle<Option<Result<Saved, SourceError>>>,
}

impl Taking {
    /// Saves a run that is about to begin, with this GPU, when its moment comes.
    pub(crate) fn start(
        options: &SnapshotOptions,
        (source, gpu): (Source, Option<&Arc<Gpu>>),
        watch: Option<&Watch>,
    ) -> io::Result<Self> {
        let (told, tells) = channel();
        if let (Some(watch), Some(gpu)) = (watch, gpu) {
            let mut place = watch.told.lock().unwrap_or_else(PoisonError::into_inner);
            *place = Some((Arc::downgrade(gpu), told.clone()));
        }
        let (path, at) = (options.path.clone(), options.at);
        let halted = gpu.filter(|_| watch.is_some()).map(Arc::downgrade);
        let thread = std::thread::Builder::new().name("snapshot".into()).spawn(move || {
            let told = match at {
                Moment::After(time) => tells.recv_timeout(time),
                Moment::Event(_) => tells.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            if !matches!(told, Ok(Told::Now) | Err(RecvTimeoutError::Timeout)) {
                return None;
            }
            let saved = source.save(&path);
            if let Some(gpu) = halted.and_then(|gpu| gpu.upgrade()) {
                gpu.inspect().proceed();
            }
            Some(saved)
        })?;
        Ok(Self { options: options.clone(), told, thread })
    }

    /// Ends with the run: reports the snapshot. A run that could not be saved is as good as before.
    pub(crate) fn finish(self) {
        // A thread that has saved does not listen any more.
        let _ = self.told.send(Told::Over);
        let path = self.options.path.display();
        let text = match self.thread.join() {
            Ok(Some(Ok(saved))) => format!("{}: {path}", describe(&saved)),
            Ok(Some(Err(error))) => error.to_string(),
            Ok(None) => format!("there is no snapshot {path}: the run ended before {}", self.options.at),
            Err(_) => format!("there is no snapshot {path}: the thread that saves panicked"),
        };
        note!("belfry: {text}");
    }
}

/// Describes a snapshot in words.
pub(crate) fn describe(saved: &Saved) -> String {
    let Saved { head, stood_still, bytes } = saved;
    let used = (head.ram.pages, head.vram.pages);
    format!(
        "saved {} waves in flight, {} pages of memory and {} of VRAM in {bytes} bytes; all stood still for {:.1} ms",
        head.waves,
        used.0,
        used.1,
        stood_still.as_secs_f64() * 1000.0
    )
}
