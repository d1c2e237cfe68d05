//! Shared virtual memory in a guest: the GPU in memory of the program's own, while that changes under it.
#![expect(unsafe_code, reason = "maps, changes and unmaps its own memory, which a GPU uses meanwhile")]

mod cases;
pub(crate) mod migrate;
pub mod swap;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::svm::*;
use belfry_runtime::{Buffer, Completion, Condition, Kernel, KernelArg, Queue, Runtime};

use crate::nodes::{Nodes, PAGE};
use crate::waiting::{PATIENCE, publish};

/// Words of a page.
const WORDS: usize = PAGE / 4;
const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;
/// Value that the processor fills pages with; a page's number is added.
const FILL: u32 = 0x5000_0000;

pub(crate) const fn attribute(kind: u32, value: u32) -> SvmAttribute {
    SvmAttribute { kind, value }
}

/// Issues the ioctl with a command that has room for the attributes.
pub(crate) fn svm(nodes: &Nodes<'_>, args: SvmArgs, list: &mut [SvmAttribute]) -> io::Result<()> {
    let mut words = vec![0u64; 3 + list.len()];
    words[0] = args.start_addr;
    words[1] = args.size;
    words[2] = u64::from(args.op) | u64::from(args.nattr) << 32;
    for (word, one) in words[3..].iter_mut().zip(list.iter()) {
        *word = u64::from(one.kind) | u64::from(one.value) << 32;
    }
    let command = nr::ioc(3, nr::KFD_IOC_TYPE, nr::ioc_nr(nr::SVM), words.len() * 8);
    // SAFETY: the words are as long as the command says.
    let result = unsafe { libc::ioctl(nodes.kfd.as_raw_fd(), command.into(), words.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    for (one, word) in list.iter_mut().zip(&words[3..]) {
        *one = attribute(*word as u32, (word >> 32) as u32);
    }
    Ok(())
}

/// Sets attributes of a range.
pub(crate) fn set(nodes: &Nodes<'_>, start: u64, size: usize, list: &[SvmAttribute]) -> io::Result<()> {
    let args = SvmArgs {
        start_addr: start,
        size: size as u64,
        op: KFD_IOCTL_SVM_OP_SET_ATTR,
        nattr: list.len() as u32,
    };
    svm(nodes, args, &mut list.to_vec())
}

/// Asks for attributes of a range.
pub(crate) fn get(
    nodes: &Nodes<'_>,
    start: u64,
    size: usize,
    list: &[SvmAttribute],
) -> io::Result<Vec<SvmAttribute>> {
    let mut list = list.to_vec();
    let nattr = list.len() as u32;
    let args = SvmArgs { start_addr: start, size: size as u64, op: KFD_IOCTL_SVM_OP_GET_ATTR, nattr };
    svm(nodes, args, &mut list).map(|()| list)
}

/// Memory of the program's own, unmapped in the end.
pub(crate) struct Area {
    address: u64,
    len: usize,
}

impl Area {
    pub(crate) fn new(pages: usize) -> Result<Self> {
        Self::map(pages, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    pub(crate) fn of_file(file: &File, pages: usize) -> Result<Self> {
        Self::map(pages, libc::MAP_SHARED, file.as_raw_fd())
    }

    fn map(pages: usize, flags: i32, fd: i32) -> Result<Self> {
        let len = pages * PAGE;
        // SAFETY: a new mapping at a place the kernel chooses.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), len, RW, flags, fd, 0) };
        ensure!(address != libc::MAP_FAILED, "no memory: {}", io::Error::last_os_error());
        Ok(Self { address: address as u64, len })
    }

    pub(crate) fn page(&self, page: usize) -> u64 {
        self.address + (page * PAGE) as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first word of a page, which is mapped.
    pub(crate) fn word(&self, page: usize) -> &AtomicU32 {
        assert!(page * PAGE < self.len);
        // SAFETY: inside the mapping; the GPU may change the word.
        unsafe { AtomicU32::from_ptr(self.page(page) as *mut u32) }
    }

    /// Has the processor fill the pages.
    pub(crate) fn fill(&self) {
        for page in 0..self.len / PAGE {
            self.word(page).store(FILL + page as u32, Ordering::Relaxed);
        }
    }

    pub(crate) fn protect(&self, pages: std::ops::Range<usize>, prot: i32) {
        // SAFETY: this program's own memory, which it does not touch in ways that are forbidden.
        let result =
            unsafe { libc::mprotect(self.page(pages.start) as *mut libc::c_void, pages.len() * PAGE, prot) };
        assert_eq!(result, 0, "mprotect: {}", io::Error::last_os_error());
    }

    pub(crate) fn advise(&self, pages: std::ops::Range<usize>, advice: i32) -> io::Result<()> {
        let address = self.page(pages.start) as *mut libc::c_void;
        // SAFETY: this program's own memory; only atomics refer to it.
        match unsafe { libc::madvise(address, pages.len() * PAGE, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub(crate) fn unmap(&self, pages: std::ops::Range<usize>) {
        // SAFETY: nothing but the GPU uses them any more.
        unsafe { libc::munmap(self.page(pages.start) as *mut libc::c_void, pages.len() * PAGE) };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        self.unmap(0..self.len / PAGE);
    }
}

/// A GPU that is asked to read and to write.
struct Bench<'a> {
    nodes: Nodes<'a>,
    queue: Queue,
    peek: Kernel,
    poke: Kernel,
    spin: Kernel,
    seen: Buffer<u32>,
}

impl<'a> Bench<'a> {
    fn new(runtime: &Runtime, told: &'a (dyn Fn(i32) + Sync)) -> Result<Self> {
        let gpu = runtime.gpu();
        let probe = gpu.load(crate::probe(gpu))?;
        Ok(Self {
            nodes: Nodes::open(told)?,
            queue: gpu.queue()?,
            peek: probe.kernel("peek")?,
            poke: probe.kernel("poke")?,
            spin: probe.kernel("spin")?,
            seen: gpu.gtt().buffer(WORDS)?,
        })
    }

    fn access(&self) -> SvmAttribute {
        attribute(KFD_IOCTL_SVM_ATTR_ACCESS, self.nodes.gpu_id)
    }

    /// Gives the GPU access to all of an area.
    fn share(&self, area: &Area) -> Result<()> {
        set(&self.nodes, area.page(0), area.len(), &[self.access()]).context("SET_ATTR")
    }

    /// Word that the GPU reads at the start of a page.
    fn reads(&self, area: &Area, page: usize) -> Result<u32> {
        self.peek.launch(&self.queue).grid(64).block(64).arg(&self.seen).arg(area.page(page)).run()?;
        Ok(self.seen.get(0)?)
    }

    /// Has the GPU write the words of a page.
    fn writes(&self, area: &Area, page: usize, value: u32) -> Result<()> {
        self.poke.launch(&self.queue).grid(WORDS as u32).block(256).args((area.page(page), value)).run()?;
        Ok(())
    }

    /// Checks that each side sees the other one's writes to some pages.
    fn check(&self, area: &Area, pages: &[usize], what: &str) -> Result<()> {
        for &page in pages {
            let (mine, its) = (0x1111_0000 + page as u32, 0x2222_0000 + page as u32);
            area.word(page).store(mine, Ordering::Release);
            let seen = self.reads(area, page)?;
            ensure!(seen == mine, "{what}: page {page}: the GPU reads {seen:#x} instead of {mine:#x}");
            self.writes(area, page, its)?;
            let seen = area.word(page).load(Ordering::Acquire);
            ensure!(seen == its, "{what}: page {page}: the processor reads {seen:#x} instead of {its:#x}");
        }
        Ok(())
    }

    /// Starts a kernel that runs until the first word of page 0 is not 0, and tells by the first word of page 1 that it
    /// runs.
    fn spin(&self, area: &Area) -> Result<Completion> {
        area.word(0).store(0, Ordering::Release);
        area.word(1).store(0, Ordering::Release);
        let word = |page| KernelArg::Buffer { address: area.page(page), memory: Arc::new(()) };
        let launch = self.spin.launch(&self.queue).grid(32).block(32);
        let running = launch.args((word(0), word(1))).submit()?;
        let deadline = Instant::now() + PATIENCE;
        while area.word(1).load(Ordering::Acquire) == 0 {
            ensure!(Instant::now() < deadline, "the kernel did not start");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(running)
    }

    fn stop(&self, area: &Area, running: &Completion, what: &str) -> Result<()> {
        ensure!(running.signal().load() != 0, "{what}: the kernel has ended by itself");
        area.word(0).store(1, Ordering::Release);
        running
            .signal()
            .wait(Condition::Equal(0), Some(PATIENCE))
            .with_context(|| format!("{what}: the kernel does not see what the processor writes"))?;
        Ok(())
    }
}

/// Runs `body` in a forked child that stays until this returns; then ends the child.
fn beside_a_child<R>(body: impl FnOnce() -> R) -> R {
    // SAFETY: the child makes nothing but system calls.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        loop {
            // SAFETY: no memory is involved.
            unsafe { libc::pause() };
        }
    }
    assert!(pid > 0, "fork: {}", io::Error::last_os_error());
    let result = body();
    let mut status = 0;
    // SAFETY: the child is this process's own, and `status` outlives the call.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &raw mut status, 0);
    }
    result
}

/// Runs every case.
///
/// # Errors
///
/// When one of the cases fails.
pub fn run(runtime: &Runtime, out: &mut dyn Write) -> Result<()> {
    let bench = Bench::new(runtime, &|_| {})?;
    for (name, case) in cases::CASES.into_iter().chain(migrate::CASES) {
        case(&bench).with_context(|| name.to_owned())?;
        writeln!(out, "svm: {name}")?;
    }
    cases::refused(&bench)?;
    cases::churn(&bench, 40)?;
    let program = std::env::current_exe()?;
    for kind in ["protected", "unmapped", "moved", "untold"] {
        let output = Command::new(&program).args(["svm-fault", kind]).output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            output.status.success() && said.contains("fault"),
            "svm-fault {kind}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    writeln!(out, "svm: {} cases and their faults verified", cases::CASES.len() + migrate::CASES.len() + 2)?;
    Ok(())
}

/// Has the GPU touch memory that it may not any more.
///
/// # Errors
///
/// When that does not end in a memory fault.
pub fn fault(runtime: &Runtime, kind: &str, out: &mut dyn Write) -> Result<()> {
    let bench = Bench::new(runtime, &|_| {})?;
    let area = Area::new(8)?;
    bench.share(&area)?;
    bench.check(&area, &[0, 4, 7], "before")?;
    let mut place = None;
    match kind {
        "protected" => area.protect(4..5, libc::PROT_READ),
        "unmapped" => area.unmap(4..5),
        "moved" => {
            let new = place.insert(Area::new(1)?);
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let (old, new) = (area.page(4) as *mut libc::c_void, new.page(0) as *mut libc::c_void);
            // SAFETY: both ranges are this function's own.
            ensure!(unsafe { libc::mremap(old, PAGE, PAGE, flags, new) } == new, "mremap");
        }
        // New memory at the place of old memory.
        "untold" => {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            // SAFETY: replaces memory of this function's own.
            let new = unsafe { libc::mmap(area.page(4) as *mut libc::c_void, PAGE, RW, flags, -1, 0) };
            ensure!(new as u64 == area.page(4), "mmap");
        }
        other => bail!("no fault {other:?}"),
    }
    bench.check(&area, &[3, 5], "beside")?;
    let Err(error) = bench.writes(&area, 4, 1) else { bail!("the GPU wrote where it may not") };
    let text = error.to_string();
    ensure!(text.contains("fault"), "expected a memory fault, got: {text}");
    writeln!(out, "svm-fault: refused with {text}")?;
    Ok(())
}

/// Stores into the pages of the file `shared`, which are shared virtual memory, for ever, and tells by the
/// file `started`. Then another process ends this one, or, given `next`, it becomes that role with the file.
///
/// # Errors
///
/// When a kernel does not start, or ends.
pub fn store(runtime: &Runtime, shared: &Path, started: &Path, next: Option<&str>) -> Result<()> {
    const PAGES: usize = 256;
    const DEPTH: u32 = 16;
    fs::write(shared, vec![0; PAGES * PAGE])?;
    let file = File::options().read(true).write(true).open(shared)?;
    let area = Area::of_file(&file, PAGES)?;
    let bench = Bench::new(runtime, &|_| {})?;
    bench.share(&area)?;
    for first in (1u32..).step_by(DEPTH as usize) {
        let submitted: Vec<_> = (first..first + DEPTH)
            .map(|value| {
                let launch = bench.poke.launch(&bench.queue).grid((PAGES * WORDS) as u32).block(256);
                launch.args((area.page(0), value)).submit()
            })
            .collect::<Result<_, _>>()?;
        if first == 1 {
            let deadline = Instant::now() + PATIENCE;
            while area.word(0).load(Ordering::Relaxed) == 0 {
                ensure!(Instant::now() < deadline, "the kernel did not start");
                std::thread::sleep(Duration::from_millis(1));
            }
            publish(started, "storing")?;
            if let Some(next) = next {
                return Err(Command::new(std::env::current_exe()?).arg(next).arg(shared).exec().into());
            }
        }
        for completion in submitted {
            completion.wait()?;
        }
    }
    bail!("nobody ended the process")
}
