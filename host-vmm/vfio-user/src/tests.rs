//! Tests of the server with real clients: the `vfio_user` crate's, and raw sockets that break the rules.
#![expect(unsafe_code, reason = "the client crate takes raw descriptors")]

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use belfry_device::InterruptSink as _;
use rustix::fs::{MemfdFlags, SealFlags};
use std::fs::File;
use std::time::Duration;
use vfio_user::Client;
use vm_memory::{Bytes as _, GuestAddress, GuestAddressSpace as _, GuestMemoryAtomic, GuestMemoryMmap};

use super::protocol::command;
use super::*;

mod attacks;

const IRQ_EVENTFD: u32 = 1 << 5 | 1 << 2;
const MSIX: u32 = 2;

/// A function with registers that store, a configuration space that stores, and counts of all other calls.
#[derive(Debug, Default)]
struct Fake {
    config: Mutex<Vec<u8>>,
    registers: Mutex<Vec<u8>>,
    resets: AtomicU64,
    left: AtomicU64,
    memory: AtomicU64,
}

impl Function for Fake {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        data.copy_from_slice(&self.config.lock().unwrap()[offset..offset + data.len()]);
    }
    fn config_write(&self, offset: usize, data: &[u8]) {
        self.config.lock().unwrap()[offset..offset + data.len()].copy_from_slice(data);
    }
    fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> Result<(), i32> {
        let offset = offset as usize;
        match bar {
            5 => data.copy_from_slice(&self.registers.lock().unwrap()[offset..offset + data.len()]),
            _ => return Err(libc::EIO),
        }
        Ok(())
    }
    fn bar_write(&self, _bar: u8, offset: u64, data: &[u8]) -> Result<(), i32> {
        let offset = offset as usize;
        self.registers.lock().unwrap()[offset..offset + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn memory_changed(&self) {
        self.memory.fetch_add(1, Ordering::SeqCst);
    }
    fn reset(&self) {
        self.resets.fetch_add(1, Ordering::SeqCst);
    }
    fn client_left(&self, _regions: &mut Regions) -> Result<(), SetupError> {
        self.left.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

struct Bench {
    _directory: tempfile::TempDir,
    path: PathBuf,
    fake: Arc<Fake>,
    irqs: Arc<Irqs>,
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl Bench {
    fn new() -> Self {
        Self::with_timeout(server::CLIENT_TIMEOUT)
    }

    fn with_timeout(limit: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gpu.sock");
        let fake = Arc::new(Fake {
            config: Mutex::new(vec![0; 4096]),
            registers: Mutex::new(vec![0; 0x1000]),
            ..Fake::default()
        });
        let irqs = Arc::new(Irqs::new(4).unwrap());
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let vram = memory_file(0x10_0000);
        let regions = Regions::new((0x10_0000, Some(vram)), (0x20_0000, None), 0x1000);
        let mut server = Server::bind(&path, fake.clone(), regions, irqs.clone(), memory.clone()).unwrap();
        server.set_client_timeout(limit);
        let stop = server.stop_handle();
        let thread = Some(std::thread::spawn(move || server.run()));
        Self { _directory: directory, path, fake, irqs, memory, stop, thread }
    }

    fn client(&self) -> Client {
        Client::new(&self.path).unwrap()
    }

    /// Makes a raw connection that has negotiated a version.
    fn raw(&self) -> UnixStream {
        let mut stream = UnixStream::connect(&self.path).unwrap();
        stream.write_all(&message(1, command::VERSION, 0, b"\0\0\x01\0{\"capabilities\":{}}\0")).unwrap();
        let (error, payload) = reply(&mut stream).unwrap();
        assert_eq!(error, 0);
        assert!(payload.len() > 4);
        stream
    }

    /// Waits until `clients` clients have come and gone.
    fn wait_left(&self, clients: u64) {
        for _ in 0..2000 {
            if self.fake.left.load(Ordering::SeqCst) >= clients {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server did not notice that its client left");
    }

    fn check_alive(&self) {
        let mut client = self.client();
        client.region_write(5, 0x10, &0xfeed_u32.to_le_bytes()).unwrap();
        let mut data = [0; 4];
        client.region_read(5, 0x10, &mut data).unwrap();
        assert_eq!(u32::from_le_bytes(data), 0xfeed);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop.stop();
        let result = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            result.unwrap().unwrap();
        }
    }
}

fn memory_file(size: u64) -> OwnedFd {
    let fd = rustix::fs::memfd_create("memory", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, size).unwrap();
    fd
}

fn message(id: u16, command: u16, flags: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&id.to_le_bytes());
    bytes.extend_from_slice(&command.to_le_bytes());
    bytes.extend_from_slice(&(16 + payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&flags.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the errno and payload of the next reply, or `None` if the server has closed the connection.
fn reply(stream: &mut UnixStream) -> Option<(u32, Vec<u8>)> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).ok()?;
    let size = u32::from_le_bytes(head[4..8].try_into().unwrap());
    let error = u32::from_le_bytes(head[12..16].try_into().unwrap());
    let mut payload = vec![0; size as usize - 16];
    stream.read_exact(&mut payload).ok()?;
    Some((error, payload))
}

fn eventfd() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
}

#[test]
fn client_sees_the_nine_regions_and_maps_vram() {
    let bench = Bench::new();
    let client = bench.client();
    let sizes: Vec<u64> = (0..9).map(|index| client.region(index).unwrap().size).collect();
    assert_eq!(sizes, [0x10_0000, 0, 0x20_0000, 0, 0, 0x1000, 0, 4096, 0]);
    let vram = client.region(0).unwrap();
    assert_eq!(vram.sparse_areas.len(), 1);
    assert_eq!((vram.sparse_areas[0].offset, vram.sparse_areas[0].size), (0, 0x10_0000));
    assert!(vram.file_offset.is_some());
    assert!(client.region(2).unwrap().file_offset.is_none(), "doorbells are trapped");
}

#[test]
fn accesses_reach_configuration_space_and_registers() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.region_write(7, 0x44, &[1, 2]).unwrap();
    let mut word = [0; 4];
    client.region_read(7, 0x42, &mut word).unwrap();
    assert_eq!(word, [0, 0, 1, 2]);
    client.region_write(5, 0xffc, &[9; 4]).unwrap();
    client.region_read(5, 0xffc, &mut word).unwrap();
    assert_eq!(word, [9; 4]);
    client.reset().unwrap();
    assert_eq!(bench.fake.resets.load(Ordering::SeqCst), 1);
}

#[test]
fn mapped_memory_is_the_clients_own() {
    let bench = Bench::new();
    let mut client = bench.client();
    let fd = memory_file(0x8000);
    client.dma_map(0x1000, 0x4000_0000, 0x4000, fd.as_raw_fd()).unwrap();
    bench.memory.memory().write_slice(b"device", GuestAddress(0x4000_0100)).unwrap();
    let mut bytes = [0; 6];
    std::os::unix::fs::FileExt::read_exact_at(&File::from(fd), &mut bytes, 0x1100).unwrap();
    assert_eq!(&bytes, b"device");
    client.dma_unmap(0x4000_0000, 0x4000).unwrap();
    assert!(bench.memory.memory().read_slice(&mut bytes, GuestAddress(0x4000_0100)).is_err());
    assert_eq!(bench.fake.memory.load(Ordering::SeqCst), 2);
}

#[test]
fn raised_vector_signals_the_clients_eventfd() {
    let bench = Bench::new();
    let mut client = bench.client();
    let info = client.get_irq_info(MSIX).unwrap();
    assert_eq!((info.count, info.flags), (4, 1));
    assert_eq!(client.get_irq_info(0).unwrap().count, 0, "no INTx");
    let event = eventfd();
    client.set_irqs(MSIX, IRQ_EVENTFD, 3, 1, &[event.as_raw_fd()]).unwrap();
    bench.irqs.raise(3);
    bench.irqs.raise(2);
    let mut count = [0; 8];
    rustix::io::read(&event, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 1);
}

#[test]
fn next_client_finds_a_reset_device_without_the_last_ones_memory() {
    let bench = Bench::new();
    for round in 1..=3 {
        let mut client = bench.client();
        let fd = memory_file(0x1000);
        client.dma_map(0, 0x1000, 0x1000, fd.as_raw_fd()).unwrap();
        let event = eventfd();
        client.set_irqs(MSIX, IRQ_EVENTFD, 0, 1, &[event.as_raw_fd()]).unwrap();
        client.shutdown().unwrap();
        drop(client);
        bench.wait_left(round);
        assert!(bench.memory.memory().write_obj(0u8, GuestAddress(0x1000)).is_err());
        bench.irqs.raise(0);
        assert_eq!(bench.irqs.raised(), 0, "nobody listens any more");
    }
}

#[test]
fn malformed_messages_are_answered_and_the_connection_goes_on() {
    let bench = Bench::new();
    let mut stream = bench.raw();
    let read = |index: u32, offset: u64, count: u32| {
        [offset.to_le_bytes().as_slice(), &index.to_le_bytes(), &count.to_le_bytes()].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let cases: Vec<(&str, u16, Vec<u8>, i32)> = vec![
        ("unknown command with a body", 99, vec![7; 40], libc::ENOTSUP),
        ("command 0", 0, vec![], libc::ENOTSUP),
        ("REGION_IO_FDS", command::DEVICE_GET_REGION_IO_FDS, vec![0; 16], libc::ENOTSUP),
        ("DMA_READ", command::DMA_READ, vec![0; 16], libc::ENOTSUP),
        ("DEVICE_FEATURE", command::DEVICE_FEATURE, vec![0; 8], libc::ENOTSUP),
        ("read of 4 GiB", command::REGION_READ, read(5, 0, u32::MAX), libc::EINVAL),
        ("read beyond the region", command::REGION_READ, read(5, 0xffd, 4), libc::EINVAL),
        ("read of no region", command::REGION_READ, read(77, 0, 4), libc::EINVAL),
        ("read of an empty region", command::REGION_READ, read(1, 0, 4), libc::EINVAL),
        ("short read", command::REGION_READ, vec![1, 2, 3], libc::EINVAL),
        ("write without its data", command::REGION_WRITE, read(5, 0, 8), libc::EINVAL),
        (
            "write that wraps",
            command::REGION_WRITE,
            [read(5, u64::MAX, 4), vec![0; 4]].concat(),
            libc::EINVAL,
        ),
        ("endless multi write", command::REGION_WRITE_MULTI, u64::MAX.to_le_bytes().to_vec(), libc::EINVAL),
        (
            "multi write of 9 bytes",
            command::REGION_WRITE_MULTI,
            [1u64.to_le_bytes().to_vec(), read(5, 0, 9), vec![0; 8]].concat(),
            libc::EINVAL,
        ),
        ("short map", command::DMA_MAP, vec![0; 31], libc::EINVAL),
        ("empty map", command::DMA_MAP, words(&[32, 3, 0, 0, 0, 0, 0, 0]), libc::EINVAL),
        ("unmap of nothing", command::DMA_UNMAP, words(&[24, 0, 0x1000, 0, 0x1000, 0]), libc::ENOENT),
        ("short unmap", command::DMA_UNMAP, words(&[24, 2]), libc::EINVAL),
        ("region info of no region", command::DEVICE_GET_REGION_INFO, words(&[32, 0, 9, 0]), libc::EINVAL),
        ("irq info of no index", command::DEVICE_GET_IRQ_INFO, words(&[16, 0, 5, 0]), libc::EINVAL),
        ("too many vectors", command::DEVICE_SET_IRQS, words(&[20, 0x24, 2, 0, 5]), libc::EINVAL),
        ("INTx vector", command::DEVICE_SET_IRQS, words(&[20, 0x24, 0, 0, 1]), libc::EINVAL),
        ("other version", command::VERSION, vec![1, 0, 0, 0], libc::EINVAL),
    ];
    for (number, (name, command, payload, errno)) in cases.into_iter().enumerate() {
        stream.write_all(&message(number as u16, command, 0, &payload)).unwrap();
        let (error, _) = reply(&mut stream).unwrap_or_else(|| panic!("{name}: hung up"));
        assert_eq!(error, errno as u32, "{name}");
    }
    // There is no reply to a request that wants none, not even an error; the next answer belongs to the next request.
    stream.write_all(&message(1, 99, 1 << 4, &[0; 8])).unwrap();
    stream.write_all(&message(2, command::DEVICE_GET_INFO, 0, &[0; 16])).unwrap();
    let (error, payload) = reply(&mut stream).unwrap();
    assert_eq!((error, payload), (0, words(&[16, 3, 9, 5])));
    drop(stream);
    bench.check_alive();
}

#[test]
fn broken_connections_leave_the_server_serving() {
    let bench = Bench::new();
    let oversized = {
        let mut bytes = message(1, command::VERSION, 0, b"");
        bytes[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        bytes
    };
    let undersized = {
        let mut bytes = message(1, command::VERSION, 0, b"");
        bytes[4..8].copy_from_slice(&15u32.to_le_bytes());
        bytes
    };
    let openings: [(&str, Vec<u8>); 8] = [
        ("nothing", vec![]),
        ("half a header", vec![1; 7]),
        ("half a message", message(1, command::VERSION, 0, &[0; 64])[..40].to_vec()),
        ("a size of 4 GiB", oversized),
        ("a size below the header's", undersized),
        ("no version first", message(1, command::REGION_READ, 0, &[0; 16])),
        ("a version that is not JSON", message(1, command::VERSION, 0, b"\0\0\x01\0{{{{\0")),
        ("a version of one byte", message(1, command::VERSION, 0, b"\0")),
    ];
    for (name, bytes) in openings {
        let mut stream = UnixStream::connect(&bench.path).unwrap();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        while let Some((error, _)) = reply(&mut stream) {
            assert_ne!(error, 0, "{name}");
        }
        bench.check_alive();
    }
}

#[test]
fn multi_write_stores_each_of_its_writes() {
    let bench = Bench::new();
    let mut stream = bench.raw();
    let mut payload = 2u64.to_le_bytes().to_vec();
    for (offset, data) in [(0x20u64, 0x11u64), (0x28, 0x22)] {
        payload.extend_from_slice(&offset.to_le_bytes());
        payload.extend_from_slice(&5u32.to_le_bytes());
        payload.extend_from_slice(&8u32.to_le_bytes());
        payload.extend_from_slice(&data.to_le_bytes());
    }
    stream.write_all(&message(1, command::REGION_WRITE_MULTI, 0, &payload)).unwrap();
    assert_eq!(reply(&mut stream).unwrap(), (0, 2u64.to_le_bytes().to_vec()));
    let registers = bench.fake.registers.lock().unwrap();
    assert_eq!((registers[0x20], registers[0x28]), (0x11, 0x22));
}

#[test]
fn socket_of_a_dead_server_is_replaced_and_a_live_one_is_not() {
    let bench = Bench::new();
    let bind = |path: &Path| {
        Server::bind(
            path,
            Arc::new(Fake::default()),
            Regions::new((0, None), (0, None), 0),
            Arc::new(Irqs::new(1).unwrap()),
            GuestMemoryAtomic::new(GuestMemoryMmap::new()),
        )
    };
    assert!(matches!(bind(&bench.path), Err(ServerError::Exists(_))));
    let stale = bench.path.with_extension("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    drop(bind(&stale).unwrap());
    assert!(!stale.exists(), "removed when the server is dropped");
    let file = bench.path.with_extension("file");
    std::fs::write(&file, b"precious").unwrap();
    assert!(bind(&file).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn socket_of_another_server_at_the_same_path_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gpu.sock");
    let server = serve_gpu(&path, small_gpu(), DoorbellMode::Trapped).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(server);
    assert!(path.exists());
}

fn small_gpu() -> GpuConfig {
    GpuConfig { vram_size: 16 << 20, workers: 1, ..GpuConfig::default() }
}

#[test]
fn gpu_shows_itself_and_forgets_its_last_client() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gpu.sock");
    let mut server = serve_gpu(&path, small_gpu(), DoorbellMode::Polled).unwrap();
    let stop = server.stop_handle();
    let thread = std::thread::spawn(move || server.run());

    let secret = [0xa5; 64];
    {
        let mut client = Client::new(&path).unwrap();
        let mut ids = [0; 4];
        client.region_read(7, 0, &mut ids).unwrap();
        assert_eq!(ids, [0x02, 0x10, 0x4c, 0x74]);
        assert!(client.region(2).unwrap().file_offset.is_some(), "doorbells are mapped");
        // Memory decoding on, as firmware leaves it.
        client.region_write(7, 4, &[6, 0]).unwrap();
        client.region_write(0, 0x1000, &secret).unwrap();
        let mut back = [0; 64];
        client.region_read(0, 0x1000, &mut back).unwrap();
        assert_eq!(back, secret);
        client.shutdown().unwrap();
    }
    // Clients are served in turn, so the device is reset by the time that this client is served.
    let mut client = Client::new(&path).unwrap();
    client.region_write(7, 4, &[6, 0]).unwrap();
    let mut left = [1; 64];
    client.region_read(0, 0x1000, &mut left).unwrap();
    assert_eq!(left, [0; 64]);
    let mut discovery = [0; 4];
    client.region_read(0, (16 << 20) - (64 << 10), &mut discovery).unwrap();
    assert_ne!(discovery, [0; 4], "the discovery table is back");
    stop.stop();
    thread.join().unwrap().unwrap();
}
