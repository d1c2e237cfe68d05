//! Code objects, as GDB's shared libraries: their files are copies that stock GDB understands, which it reads from the stub.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use gdbstub::common::Tid;
use gdbstub::target::TargetResult;
use gdbstub::target::ext::host_io::{
    HostIo, HostIoClose, HostIoCloseOps, HostIoErrno, HostIoError, HostIoFstat, HostIoFstatOps, HostIoOpen,
    HostIoOpenFlags, HostIoOpenMode, HostIoOpenOps, HostIoPread, HostIoPreadOps, HostIoResult, HostIoStat,
};
use gdbstub::target::ext::libraries::Libraries;

use super::monitor::MonitorError;
use super::target::{Waves, part};
use crate::symbols::{Loaded, Place, Register, State, SymbolFile};

/// Files that a client has open at most.
const MAX_OPEN: usize = 64;

/// The name of a code object's file for GDB.
fn name(loaded: &Loaded) -> String {
    let path = Path::new(loaded.file.path());
    let file = path.file_name().and_then(|name| name.to_str()).unwrap_or("code");
    format!("/belfry/{}/{:x}/{file}", loaded.pasid, loaded.base)
}

impl Waves {
    /// Looks for code objects that have come. Returns true if there are any whose symbols are known.
    pub(super) fn look_for_code(&mut self) -> bool {
        crate::questions::look_for_code(&self.gpu, &self.symbols)
    }

    /// Returns true if there are code objects whose symbols are known.
    pub(super) fn has_code(&self) -> bool {
        !self.symbols.lock().unwrap_or_else(PoisonError::into_inner).loaded.is_empty()
    }

    /// The value of a variable of a lane, where a wave is.
    pub(super) fn variable(&mut self, thread: Tid, name: &str) -> Result<String, MonitorError> {
        let pc = self.details(thread).ok_or(MonitorError::Ended)?.view.pc.0;
        let (file, own) = self.source_of(pc)?;
        Ok(file.value((own, pc.wrapping_sub(own)), name, &mut Lane { waves: self, thread })?)
    }

    /// The file of an address, and the address in it.
    pub(super) fn source_of(&self, pc: u64) -> Result<(Arc<SymbolFile>, u64), MonitorError> {
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        symbols.around(pc).ok_or(MonitorError::NoSymbols(pc))
    }

    fn library_list(&self) -> String {
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let mut xml = "<library-list version=\"1.0\">".to_owned();
        for loaded in &symbols.loaded {
            let name = name(loaded).replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
            xml += &format!("<library name=\"{name}\"><segment address=\"{:#x}\"/></library>", loaded.base);
        }
        xml + "</library-list>"
    }

    fn open_file(&self, number: u32) -> HostIoResult<&Arc<SymbolFile>, Self> {
        let file = self.open.get(number as usize).and_then(Option::as_ref);
        file.ok_or(HostIoError::Errno(HostIoErrno::EBADF))
    }
}

/// A lane of a thread's wave.
struct Lane<'a> {
    waves: &'a mut Waves,
    thread: Tid,
}

impl State for Lane<'_> {
    fn register(&mut self, register: Register) -> Option<u32> {
        let lane = self.waves.lane as usize;
        let wave = self.waves.details(self.thread)?;
        let vector = |name: String| {
            let (_, lanes) = wave.vgprs.iter().find(|(known, _)| *known == name)?;
            lanes.get(lane).map(|value| value.0 as u32)
        };
        match register {
            Register::Scalar(number) => wave.sgprs.get(usize::from(number)).map(|value| value.0 as u32),
            Register::Vector(number) => vector(format!("v{number}")),
            Register::Accumulator(number) => vector(format!("a{number}")),
        }
    }

    fn read(&mut self, place: Place, bytes: &mut [u8]) -> bool {
        use crate::windows::{LDS, PRIVATE};
        let address = match place {
            Place::Private(offset) => PRIVATE | u64::from(offset),
            Place::Lds(offset) => LDS | offset,
            Place::Memory(address) => address,
            Place::Value(_) | Place::Register(_) => return false,
        };
        self.waves.read(self.thread, address, bytes) == bytes.len()
    }
}

impl Libraries for Waves {
    fn get_libraries(&self, offset: u64, length: usize, buf: &mut [u8]) -> TargetResult<usize, Self> {
        Ok(part(self.library_list().as_bytes(), offset, length, buf))
    }
}

impl HostIo for Waves {
    fn support_open(&mut self) -> Option<HostIoOpenOps<'_, Self>> {
        Some(self)
    }

    fn support_close(&mut self) -> Option<HostIoCloseOps<'_, Self>> {
        Some(self)
    }

    fn support_pread(&mut self) -> Option<HostIoPreadOps<'_, Self>> {
        Some(self)
    }

    fn support_fstat(&mut self) -> Option<HostIoFstatOps<'_, Self>> {
        Some(self)
    }
}

impl HostIoOpen for Waves {
    /// Nothing but the copies can be opened: no file of this machine.
    fn open(
        &mut self,
        filename: &[u8],
        flags: HostIoOpenFlags,
        _mode: HostIoOpenMode,
    ) -> HostIoResult<u32, Self> {
        if flags.intersects(HostIoOpenFlags::O_WRONLY | HostIoOpenFlags::O_RDWR | HostIoOpenFlags::O_CREAT) {
            return Err(HostIoError::Errno(HostIoErrno::EROFS));
        }
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let found = symbols.loaded.iter().find(|loaded| name(loaded).as_bytes() == filename);
        let file = Arc::clone(&found.ok_or(HostIoError::Errno(HostIoErrno::ENOENT))?.file);
        drop(symbols);
        let free = self.open.iter().position(Option::is_none).unwrap_or(self.open.len());
        if free >= MAX_OPEN {
            return Err(HostIoError::Errno(HostIoErrno::EMFILE));
        }
        if free == self.open.len() {
            self.open.push(None);
        }
        self.open[free] = Some(file);
        Ok(free as u32)
    }
}

impl HostIoClose for Waves {
    fn close(&mut self, fd: u32) -> HostIoResult<(), Self> {
        self.open_file(fd)?;
        self.open[fd as usize] = None;
        Ok(())
    }
}

impl HostIoPread for Waves {
    fn pread(&mut self, fd: u32, count: usize, offset: u64, buf: &mut [u8]) -> HostIoResult<usize, Self> {
        Ok(part(self.open_file(fd)?.for_gdb(), offset, count, buf))
    }
}

impl HostIoFstat for Waves {
    fn fstat(&mut self, fd: u32) -> HostIoResult<HostIoStat, Self> {
        let size = self.open_file(fd)?.for_gdb().len() as u64;
        let mode = HostIoOpenMode::S_IFREG | HostIoOpenMode::S_IRUSR;
        let (blocks, none) = (size.div_ceil(512), 0);
        Ok(HostIoStat {
            st_dev: none,
            st_ino: fd,
            st_mode: mode,
            st_nlink: 1,
            st_uid: none,
            st_gid: none,
            st_rdev: none,
            st_size: size,
            st_blksize: 4096,
            st_blocks: blocks,
            st_atime: none,
            st_mtime: none,
            st_ctime: none,
        })
    }
}
