//! The socket of a GPU, and a thread for each client.
//!
//! Clients are of the same user. Their number and the size of their questions are bounded. A client that has begun a
//! question and does not end it, or that does not take its answer, is dropped; the GPU runs on. A client waits after
//! each question for as long as its answer took, so that it cannot take all of the GPU's time.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use belfry_device::Gpu;
use belfry_tools::inspect::Inspect as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{InspectError, InspectOptions, MAX_QUESTION, places};
use crate::questions::{Lines, NotSaved, QuestionError};
use crate::symbols::Symbols;

/// Saves a GPU's machine to a file. Returns a description of what was saved, or the reason why nothing was.
pub type Save = Arc<dyn Fn(&Path) -> Result<String, NotSaved> + Send + Sync>;

/// Clients at the same time.
const MAX_CLIENTS: usize = 16;
/// Longest time a client may take to end a question that it has begun, or to take its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest that a client waits after a question.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// A question as it is sent.
#[derive(Deserialize)]
struct Question {
    query: String,
}

struct Shared {
    gpu: Weak<Gpu>,
    lines: Lines,
    /// Function that saves the GPU's machine, if it has one that can be saved.
    saver: Mutex<Option<Save>>,
    closing: AtomicBool,
    /// Twins of the clients' streams, by which they are closed.
    clients: Mutex<BTreeMap<u64, UnixStream>>,
    admitted: AtomicU64,
}

/// The socket of a GPU; it is removed when this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("closing", &self.closing).finish_non_exhaustive()
    }
}

impl Server {
    /// Lets the GPU of this process be inspected, over a socket at the path `at`, or in the folder of this user's
    /// sockets.
    ///
    /// # Errors
    ///
    /// A folder that is not this user's alone, a socket that cannot be made, no thread, or a breakpoint that is none.
    pub fn start(
        (gpu, at): (&Arc<Gpu>, Option<&Path>),
        options: &InspectOptions,
        symbols: &Arc<Mutex<Symbols>>,
    ) -> Result<Self, InspectError> {
        let path = match at {
            Some(at) => at.to_owned(),
            None => places::socket_of(&places::folder()?, std::process::id())?,
        };
        let server = Self::start_at(&path, gpu, symbols)?;
        for on in &options.breaks {
            let added = server.shared.lines.answer(gpu, &format!("break {on}"));
            added.map_err(|why| InspectError::Break(on.clone(), why))?;
        }
        Ok(server)
    }

    /// Starts a server with a socket at another path.
    ///
    /// # Errors
    ///
    /// A socket that cannot be made, or no thread.
    pub fn start_at(
        path: &Path,
        gpu: &Arc<Gpu>,
        symbols: &Arc<Mutex<Symbols>>,
    ) -> Result<Self, InspectError> {
        let listener = UnixListener::bind(path)
            .map_err(|source| InspectError::Socket { path: path.to_owned(), source })?;
        let shared = Arc::new(Shared {
            gpu: Arc::downgrade(gpu),
            lines: Lines::of(symbols),
            saver: Mutex::default(),
            closing: AtomicBool::new(false),
            clients: Mutex::default(),
            admitted: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("inspect".into());
        let thread = thread.spawn(move || accept(&listener, &accepting));
        let thread = Some(thread.map_err(InspectError::Thread)?);
        Ok(Self { path: path.to_owned(), shared, thread })
    }

    /// The GPU's machine can be saved.
    pub fn can_save(&self, saver: Save) {
        *self.shared.saver.lock().unwrap_or_else(PoisonError::into_inner) = Some(saver);
    }

    /// Path of the socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // No wave stays at the place where the GPU was stopped.
        if let Some(gpu) = self.shared.gpu.upgrade() {
            gpu.inspect().clear_breaks();
            gpu.inspect().proceed();
        }
        self.shared.lines.close();
        for client in self.shared.clients().values() {
            let _ = client.shutdown(Shutdown::Both);
        }
        // It waits for the next client.
        let woken = UnixStream::connect(&self.path);
        let _ = fs::remove_file(&self.path);
        if let (Ok(_), Some(thread)) = (woken, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.closing.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else {
            // No descriptors, for example: the next one may have better luck.
            std::thread::sleep(LONGEST_REST);
            continue;
        };
        if let Err(error) = admit(stream, shared) {
            log::debug!(target: "inspect", "client not served: {error}");
        }
    }
}

fn admit(mut stream: UnixStream, shared: &Arc<Shared>) -> io::Result<()> {
    let user = rustix::net::sockopt::socket_peercred(&stream)?.uid;
    if user != rustix::process::geteuid() {
        return Err(io::Error::other("of another user"));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut clients = shared.clients();
    if clients.len() >= MAX_CLIENTS {
        drop(clients);
        return reply(&mut stream, &json!({ "error": format!("{MAX_CLIENTS} clients are served already") }));
    }
    let number = shared.admitted.fetch_add(1, Ordering::Relaxed);
    clients.insert(number, stream.try_clone()?);
    drop(clients);
    let mine = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("inspect-client".into());
    let spawned = thread.spawn(move || {
        let ended = serve(&mut stream, &mine);
        log::debug!(target: "inspect", "client left: {ended:?}");
        let _ = stream.shutdown(Shutdown::Both);
        mine.clients().remove(&number);
    });
    if spawned.is_err() {
        shared.clients().remove(&number);
    }
    spawned.map(|_| ())
}

fn serve(stream: &mut UnixStream, shared: &Shared) -> io::Result<()> {
    let mut pending: Vec<u8> = Vec::new();
    let mut begun = Instant::now();
    let mut part = [0; MAX_QUESTION];
    loop {
        while let Some(end) = pending.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            let asked = Instant::now();
            let Some(gpu) = shared.gpu.upgrade() else { return Ok(()) };
            let answered = ask(&gpu, shared, &line[..end]);
            drop(gpu);
            reply(stream, &answered)?;
            std::thread::sleep(asked.elapsed().min(LONGEST_REST));
            begun = Instant::now();
        }
        if pending.len() >= MAX_QUESTION {
            reply(stream, &json!({ "error": format!("a question has at most {MAX_QUESTION} bytes") }))?;
            return Ok(());
        }
        match stream.read(&mut part[..MAX_QUESTION - pending.len()]) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                if pending.is_empty() {
                    begun = Instant::now();
                }
                pending.extend_from_slice(&part[..read]);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if shared.closing.load(Ordering::SeqCst) {
            return Ok(());
        }
        if !pending.is_empty() && begun.elapsed() >= PATIENCE {
            return Err(io::Error::other("a question was begun and not ended"));
        }
    }
}

fn ask(gpu: &Arc<Gpu>, shared: &Shared, line: &[u8]) -> Value {
    let question = match serde_json::from_slice::<Question>(line) {
        Ok(question) => question,
        Err(error) => return json!({ "error": format!("no question {{\"query\": \"...\"}}: {error}") }),
    };
    let answered = match question.query.strip_prefix("snapshot ") {
        Some(path) => save(shared, Path::new(path.trim())),
        None => shared.lines.answer(gpu, &question.query),
    };
    match answered {
        Ok(answer) => json!({ "answer": answer }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}

/// Saves the run.
fn save(shared: &Shared, path: &Path) -> Result<Value, QuestionError> {
    let saver = shared.saver.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let saver = saver.ok_or(QuestionError::NoSaver)?;
    // Only the client knows the directory that a relative path begins in.
    if !path.is_absolute() {
        return Err(QuestionError::Relative(path.display().to_string()));
    }
    Ok(saver(path).map(Value::from)?)
}

fn reply(stream: &mut UnixStream, value: &Value) -> io::Result<()> {
    let mut line = value.to_string().into_bytes();
    line.push(b'\n');
    stream.write_all(&line)
}
