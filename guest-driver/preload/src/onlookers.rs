//! Onlookers of this process's GPU: the socket of `belfry inspect`, and the stub for GDB.
//!
//! Their threads are the driver's, or the companion's if there is one: the program does not see their
//! signals. They have a table of descriptors of their own, so that the program cannot close their
//! descriptors, and finds no number taken.
//!
//! | end | what becomes of them |
//! | --- | --- |
//! | the program ends by itself | GDB is told the exit status, the socket is removed |
//! | it becomes another program, or a signal ends it | connections are closed; `belfry inspect` removes the socket |
//! | a forked child | has none until it opens the GPU itself |
#![expect(unsafe_code, reason = "hears of the process's end, and is forgotten in forked children")]

use std::ffi::{c_int, c_void};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use belfry_device::Gpu as Device;
use belfry_inspect::gdb::GdbAddress;
use belfry_inspect::inspect::{
    AskedOfProcess, InspectError, InspectOptions, Onlookers, gdb_socket_of, socket_of,
};
use belfry_inspect::symbols::Finder;
use belfry_kfd_hosted::{HostedMachine, leave_descriptors};

use crate::code_objects::CodeObjects;
use crate::inside::inside;
use crate::{companion, gpu, notice};

/// Longest time the end of the process waits for them.
const PATIENCE: Duration = Duration::from_secs(2);

/// Exit status of the process, and the channel to answer on when the onlookers know it.
type Ending = (c_int, SyncSender<()>);

/// Ends them; never freed, and null where there are none.
static END: AtomicPtr<Sender<Ending>> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    /// Has a function called when the process ends by itself, with its status (glibc).
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Starts the onlookers that were asked for. The user is told of those that cannot start, and the program goes on
/// without them.
pub(crate) fn serve(machine: &HostedMachine, asked: &[u8]) {
    let asked: AskedOfProcess = match serde_json::from_slice(asked) {
        Ok(asked) => asked,
        Err(error) => {
            return notice::say(format_args!("the GPU of this process cannot be looked at: {error}"));
        }
    };
    let number = asked.options.gpu;
    let Some(gpu) = machine.gpus().get(number) else {
        return notice::say(format_args!("this process has no GPU {number} to look at"));
    };
    let (started, start) = sync_channel(1);
    let (end, ends) = channel();
    let device = Arc::clone(gpu.device());
    let thread = std::thread::Builder::new().name("belfry-look".to_owned());
    let spawned = thread.spawn(move || run(&device, &asked, &started, &ends));
    match spawned.and_then(|_| start.recv().map_err(io::Error::other)) {
        Ok(said) => said.iter().for_each(|line| notice::say(format_args!("{line}"))),
        Err(error) => {
            return notice::say(format_args!("the GPU of this process cannot be looked at: {error}"));
        }
    }
    END.store(Box::into_raw(Box::new(end)), Ordering::Release);
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function stays as long as the process, as this library is never unloaded.
        unsafe { on_exit(at_exit, std::ptr::null_mut()) };
    }
}

/// The thread of the onlookers. It has no standard error from its beginning: messages about the start go to `started`.
fn run(
    device: &Arc<Device>,
    asked: &AskedOfProcess,
    started: &SyncSender<Vec<String>>,
    ends: &Receiver<Ending>,
) {
    let AskedOfProcess { folder, options } = asked;
    // The socket may be there without the stub: a port belongs to the first process that has it.
    let socket = InspectOptions { gdb: None, ..options.clone() };
    let gdb = InspectOptions { socket: false, breaks: Vec::new(), ..options.clone() };
    let (mut all, mut said) = (Vec::new(), Vec::new());
    let pid = companion::process();
    match leave_descriptors() {
        Err(error) => said.push(format!("the GPU of process {pid} cannot be looked at: {error}")),
        Ok(()) => {
            for options in [socket, gdb].iter().filter(|options| options.socket || options.gdb.is_some()) {
                match start(device, options, folder) {
                    Err(error) => said.push(format!("process {pid} goes on without: {error}")),
                    Ok(onlookers) => {
                        said.extend(onlookers.gdb().map(|at| {
                            format!("the first dispatch of process {pid} waits for GDB: target remote {at}")
                        }));
                        all.push(onlookers);
                    }
                }
            }
        }
    }
    let _ = started.send(said);
    if let Ok((status, told)) = ends.recv() {
        all.iter().for_each(|onlookers| onlookers.ended(status));
        drop(all);
        let _ = told.send(());
    }
}

fn start(device: &Arc<Device>, options: &InspectOptions, folder: &Path) -> Result<Onlookers, InspectError> {
    let pid = companion::process() as u32;
    let path = options.socket.then(|| socket_of(folder, pid)).transpose()?;
    let gdb = match &options.gdb {
        // The process is not the driver's own.
        Some(GdbAddress::Own) => Some(GdbAddress::Unix(gdb_socket_of(folder, pid)?)),
        other => other.clone(),
    };
    let options = &InspectOptions { gdb, ..options.clone() };
    // The one and the other have their own symbols.
    let found = CodeObjects::default();
    let finder: Finder = Arc::new(move || found.new_ones());
    Onlookers::start(device, options, (path.as_deref(), Some(finder)))
}

/// The process ends by itself.
extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    // A child of `vfork` ends alone.
    if gpu::own().is_none() {
        return;
    }
    let end = END.swap(std::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: the stored pointer came from a leaked box.
    let Some(end) = (unsafe { end.as_ref() }) else { return };
    inside(|| {
        let (tell, told) = sync_channel(1);
        if end.send((status, tell)).is_ok() {
            let _ = told.recv_timeout(PATIENCE);
        }
    });
}

/// In a forked child, where the threads are not.
pub(crate) fn forget() {
    END.store(std::ptr::null_mut(), Ordering::Release);
}
