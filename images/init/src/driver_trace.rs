//! The driver's own events: a thread takes them out of the driver while programs run, so that they have room there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_channel::Event;

use crate::host::Host;
use crate::{annotate, sys};

/// Directory on which debugfs is mounted.
const DEBUGFS: &str = "/sys/kernel/debug";
/// The driver's file below `dri/CARD`.
const FILE: &str = "belfry_trace";
/// Longest time events wait.
const PERIOD: Duration = Duration::from_millis(50);
/// Bytes of one read: more than the driver gives at a time.
const ROOM: usize = 128 << 10;

/// Thread that takes the driver's events, if they are taken.
#[derive(Debug, Default)]
pub(crate) struct DriverTrace(Option<Taking>);

#[derive(Debug)]
struct Taking {
    /// Nothing is sent; it is dropped when that shall end.
    end: Sender<()>,
    thread: JoinHandle<io::Result<()>>,
}

impl DriverTrace {
    /// Records with room for `records` events; 0 ends that.
    pub(crate) fn record(&mut self, records: u32, host: &Host) -> io::Result<()> {
        self.stop()?;
        if records == 0 {
            return Ok(());
        }
        let file = start(records)?;
        let (end, ended) = channel::<()>();
        let host = host.clone();
        let thread = std::thread::Builder::new().name("driver-trace".into()).spawn(move || {
            let mut file = file;
            let mut buffer = vec![0; ROOM];
            while ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                take(&mut file, &mut buffer, &host)?;
            }
            take(&mut file, &mut buffer, &host)?;
            file.write_all(b"0")
        })?;
        self.0 = Some(Taking { end, thread });
        Ok(())
    }

    /// Returns when all events are told, if any are taken.
    fn stop(&mut self) -> io::Result<()> {
        let Some(Taking { end, thread }) = self.0.take() else { return Ok(()) };
        drop(end);
        let result = thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread has panicked")));
        result.map_err(|error| annotate(FILE, &error))
    }
}

/// Opens the driver's file and has events recorded. Programs do not see that debugfs was mounted for that.
fn start(records: u32) -> io::Result<File> {
    let was_there = match sys::mount("debugfs", DEBUGFS, "") {
        Ok(()) => false,
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => true,
        Err(error) => return Err(annotate("debugfs cannot be mounted in the guest", &error)),
    };
    let opened = open();
    if !was_there {
        sys::detach(DEBUGFS)?;
    }
    let mut file = opened?;
    file.write_all(records.to_string().as_bytes()).map_err(|error| annotate(FILE, &error))?;
    Ok(file)
}

/// Opens the file of the first card that has one: of several GPUs, the driver's events on the first one are taken.
fn open() -> io::Result<File> {
    let cards = fs::read_dir(format!("{DEBUGFS}/dri")).into_iter().flatten().flatten();
    let numbered = cards.filter_map(|card| {
        let number: u32 = card.file_name().to_str()?.parse().ok()?;
        let path = card.path().join(FILE);
        path.exists().then_some((number, path))
    });
    let (_, path) = numbered.min().ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("the driver has no file {FILE} in debugfs"))
    })?;
    let file = OpenOptions::new().read(true).write(true).open(&path);
    file.map_err(|error| annotate(&path.display().to_string(), &error))
}

/// Tells the host the events that there are: a first chunk in any case, later ones only with events.
fn take(file: &mut File, buffer: &mut [u8], host: &Host) -> io::Result<()> {
    loop {
        match file.read(buffer)? {
            0 => return Ok(()),
            count => host.tell(&Event::DriverTrace { data: buffer[..count].to_vec() }),
        }
    }
}
