//! The guest's first process: mounts, modules, programs, files, over one virtio-serial port.
//!
//! This process does what the host asks and nothing by itself; when the host goes away, it powers the guest
//! off.

mod driver_trace;
mod host;
mod network;
mod programs;
mod root;
mod sys;
mod volumes;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belfry_channel::module::parameters;
use belfry_channel::path::writable;
use belfry_channel::{CHUNK, Event, PORT, Request, VERSION, receive};

use driver_trace::DriverTrace;
use host::Host;
use programs::Programs;
use root::Root;

/// File in the initramfs that lists the modules the channel itself needs, in load order.
const BOOT_MODULES: &str = "/lib/modules/boot.list";

/// The guest's first serial port.
const CONSOLE: &str = "/dev/ttyS0";

fn main() {
    let init = sys::uptime();
    if std::process::id() != 1 {
        eprintln!("belfry-init is the first process of a guest; it does nothing elsewhere");
        std::process::exit(1);
    }
    if let Err(error) = start(init) {
        eprintln!("belfry-init: {error}");
    }
    sys::power_off();
}

fn start(init: Duration) -> io::Result<()> {
    for (kind, target) in
        [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp"), ("tmpfs", "/dev/shm")]
    {
        sys::mount(kind, target, "").map_err(|error| annotate(&format!("mount {target}"), &error))?;
    }
    for path in fs::read_to_string(BOOT_MODULES)?.lines() {
        load(path).map_err(|error| annotate(&format!("load {path}"), &error))?;
    }
    // Programs rely on it everywhere; a kernel without networks still serves programs that do not need it.
    if let Err(error) = sys::loopback_up() {
        eprintln!("belfry-init: {}", annotate("switch on the network interface lo", &error));
    }
    let port = open_port()?;
    let host = Host::new(port.try_clone()?);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned();
    host.tell(&Event::Hello { version: VERSION, init_ns: nanoseconds(init), kernel });
    serve(port, &host)
}

/// Waits for the virtio-serial port and opens it.
fn open_port() -> io::Result<File> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        for entry in fs::read_dir("/sys/class/virtio-ports").into_iter().flatten().flatten() {
            let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
            if name.trim() == PORT {
                let device = Path::new("/dev").join(entry.file_name());
                return OpenOptions::new().read(true).write(true).open(device);
            }
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no virtio-serial port org.belfry.0"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn serve(mut port: File, host: &Host) -> io::Result<()> {
    let programs = Programs::start()?;
    let mut root = Root::default();
    let mut trace = DriverTrace::default();
    loop {
        let request = match receive::<Request>(&mut port) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        let started = Instant::now();
        let result = match request {
            Request::PutFile { path, mode, append, data } => put_file(&path, mode, append, &data),
            Request::Run { id, argv, env, directory, terminal } => {
                run(id, &argv, &env, &Place { directory, terminal }, host, &programs);
                continue;
            }
            Request::Kill { id, signal } => programs.kill(id, signal),
            Request::GetFile { path } => match get_file(&path, host) {
                Ok(()) => continue,
                Err(error) => Err(annotate(&path, &error)),
            },
            Request::KernelLog => {
                let log = sys::kernel_log().unwrap_or_else(|error| error.to_string().into_bytes());
                let mut pieces = log.chunks(CHUNK).peekable();
                while let Some(piece) = pieces.next() {
                    host.tell(&Event::File { last: pieces.peek().is_none(), data: piece.to_vec() });
                }
                continue;
            }
            Request::LoadModules { paths } => paths.iter().try_for_each(|path| {
                load(&root.in_initramfs(path)).map_err(|error| annotate(&format!("load {path}"), &error))
            }),
            Request::EnterRoot { serial } => root.enter(&serial),
            Request::EnterSystem { serial } => root.enter_system(&serial),
            Request::Network(network) => network::set_up(&network),
            Request::TraceDriver { records } => trace.record(records, host),
            Request::MountShare { tag, path, read_only } => root::mount_share(&tag, &path, read_only),
            Request::UnloadModule { name } => {
                sys::unload_module(&name).map_err(|error| annotate(&format!("unload {name}"), &error))
            }
            Request::PowerOff => return Ok(()),
        };
        host.tell(&match result {
            Ok(()) => Event::Done { elapsed_ns: nanoseconds(started.elapsed()) },
            Err(error) => Event::Failed { text: error.to_string(), errno: errno_of(&error) },
        });
    }
}

fn load(path: &str) -> io::Result<()> {
    let parameters = parameters(&fs::read_to_string("/proc/cmdline")?, path);
    match sys::load_module(&File::open(path)?, &parameters) {
        // What is there already need not be loaded.
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        result => result,
    }
}

fn put_file(path: &str, mode: u32, append: bool, data: &[u8]) -> io::Result<()> {
    // The host has looked already; init does not rely on that for the files it lives from.
    let path = &writable(path).map_err(|error| io::Error::new(io::ErrorKind::PermissionDenied, error))?;
    if let Some(parent) = Path::new(path).parent() {
        fs::create_dir_all(parent).map_err(|error| annotate(path, &error))?;
    }
    let mut file = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(!append)
        .append(append)
        .mode(mode)
        .open(path)
        .map_err(|error| annotate(path, &error))?;
    file.write_all(data)?;
    file.set_permissions(fs::Permissions::from_mode(mode))
}

fn get_file(path: &str, host: &Host) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut left = file.metadata()?.len();
    loop {
        let mut data = Vec::new();
        (&mut file).take(CHUNK as u64).read_to_end(&mut data)?;
        left = left.saturating_sub(data.len() as u64);
        let last = left == 0 || data.is_empty();
        host.tell(&Event::File { last, data });
        if last {
            return Ok(());
        }
    }
}

/// Directory and terminal in which a program runs.
struct Place {
    directory: String,
    /// Rows and columns of the console, if it is the program's terminal.
    terminal: Option<(u16, u16)>,
}

fn run(id: u32, argv: &[String], env: &[String], place: &Place, host: &Host, programs: &Programs) {
    let started = Instant::now();
    let failed = |error: &io::Error| {
        let program = argv.first().map_or("", String::as_str);
        host.tell(&Event::Output { id, stream: 2, data: format!("{program}: {error}\n").into_bytes() });
        host.tell(&Event::Exit { id, status: 127, elapsed_ns: nanoseconds(started.elapsed()) });
    };
    let Some((program, arguments)) = argv.split_first() else {
        return failed(&io::ErrorKind::InvalidInput.into());
    };
    let directory = &place.directory;
    if let Err(error) = fs::create_dir_all(directory) {
        return failed(&annotate(directory, &error));
    }
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(env.iter().filter_map(|entry| entry.split_once('=')))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let terminal = match place.terminal.map(|size| on_console(&mut command, size)).transpose() {
        Ok(terminal) => terminal,
        Err(error) => return failed(&annotate(CONSOLE, &error)),
    };
    let (mut child, end) = match programs.spawn(id, &mut command) {
        Ok(started) => started,
        Err(error) => return failed(&error),
    };
    let pumps = [
        child.stdout.take().map(|stream| pump(id, 1, stream, host.clone())),
        child.stderr.take().map(|stream| pump(id, 2, stream, host.clone())),
    ];
    let host = host.clone();
    std::thread::spawn(move || {
        let status = end.status();
        let elapsed = started.elapsed();
        for pump in pumps.into_iter().flatten() {
            let _ = pump.join();
        }
        // The machine may end as soon as the host knows of the program's end.
        let _ = terminal.map(|terminal| sys::drain(&terminal));
        host.tell(&Event::Exit { id, status, elapsed_ns: nanoseconds(elapsed) });
    });
}

/// Lets a program have the console as its terminal.
fn on_console(command: &mut Command, size: (u16, u16)) -> io::Result<File> {
    let console = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open(CONSOLE)?;
    sys::on_terminal(command, &console, size)?;
    Ok(console)
}

fn pump(
    id: u32,
    stream: u8,
    mut source: impl Read + Send + 'static,
    host: Host,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = source.read(&mut buffer) {
            host.tell(&Event::Output { id, stream, data: buffer[..count].to_vec() });
        }
    })
}

/// An I/O error with its subject, and its errno kept.
#[derive(Debug)]
struct Annotated {
    text: String,
    errno: i32,
}

impl std::fmt::Display for Annotated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Annotated {}

fn annotate(what: &str, error: &io::Error) -> io::Error {
    let annotated = Annotated { text: format!("{what}: {error}"), errno: errno_of(error) };
    io::Error::new(error.kind(), annotated)
}

fn errno_of(error: &io::Error) -> i32 {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Annotated>());
    inner.map_or_else(|| error.raw_os_error().unwrap_or(0), |annotated| annotated.errno)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
