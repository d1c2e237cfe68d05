//! Disk images: opened, checked to be whole, and overlaid with a temporary file that takes the guest's writes.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use imago::file::File;
use imago::qcow2::Qcow2;
use imago::raw::Raw;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder as _};

use super::config::{DiskConfig, DiskFormat};
use super::qcow2_tables;
use crate::saved::Unsaved;
use crate::saved::{SavedBlock, StateError};

/// Bytes of a sector; a disk has a whole number of them.
pub(crate) const SECTOR: u64 = 512;
/// The largest disk in bytes.
const LARGEST: u64 = 64 << 40;
const QCOW2_MAGIC: [u8; 4] = *b"QFI\xfb";
/// Folder for temporary files that may grow large: unlike /tmp, it is rarely in memory.
const TEMPORARY: &str = "/var/tmp";
/// Largest number of bytes of such a file that a snapshot holds.
const SAVED: u64 = 512 << 20;

/// Reason why an image is no disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The file cannot be opened or read.
    #[error("cannot read the disk image {path}: {source}")]
    Read {
        /// The image.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is a directory, or something else that holds no image.
    #[error("{0} is no disk image: it is neither a file nor a block device")]
    NotAFile(PathBuf),
    /// The contents are not those of a disk.
    #[error("the {format} disk image {path} cannot be used: {why}")]
    Bad {
        /// The image.
        path: PathBuf,
        /// Format that it was read as.
        format: DiskFormat,
        /// Mistake in the contents.
        why: String,
    },
    /// The image needs a file that the user did not name.
    #[error(
        "the disk image {path} is an overlay of {backing:?}; an image does not choose which files are opened, so add \
         `backing=` and that file's path to the disk's options, or make the image whole with `qemu-img convert`"
    )]
    Backing {
        /// The image.
        path: PathBuf,
        /// The file its header names.
        backing: String,
    },
    /// The user named a file that no image needs.
    #[error("{backing} is named as a backing file, but {path} is no overlay")]
    NoOverlay {
        /// The image.
        path: PathBuf,
        /// The file that was named.
        backing: PathBuf,
    },
    /// There is no place for the guest's writes.
    #[error(
        "cannot make a temporary file for what the guest writes to {path}: {source}; set TMPDIR to a directory with \
         space, or make the disk read only with `ro`"
    )]
    Overlay {
        /// The image.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl DiskConfig {
    /// Opens the image and closes it again.
    ///
    /// # Errors
    ///
    /// An error that keeps a machine from having this disk.
    pub fn check(&self) -> Result<(), DiskError> {
        Disk::open(self).map(drop)
    }

    /// Returns the first bytes of the disk, as a guest reads them: `length`, or all if it has fewer.
    ///
    /// # Errors
    ///
    /// An error that keeps a machine from having this disk, and an image whose beginning cannot be read.
    pub fn beginning(&self, length: usize) -> Result<Vec<u8>, DiskError> {
        let disk = layer(&self.path, self.format, &self.backing)?;
        let mut beginning = vec![0; usize::try_from(disk.size()).unwrap_or(usize::MAX).min(length)];
        let read = disk.read(beginning.as_mut_slice(), 0);
        read.map_err(|source| DiskError::Read { path: self.path.clone(), source })?;
        Ok(beginning)
    }
}

/// A disk.
#[derive(Debug)]
pub(crate) struct Disk {
    access: FormatAccess<File>,
    /// The file that takes writes.
    overlay: Option<fs::File>,
    config: DiskConfig,
    pub(crate) path: PathBuf,
    pub(crate) read_only: bool,
}

impl Disk {
    /// Opens an image; writes to the disk go to a file without a name.
    pub(crate) fn open(config: &DiskConfig) -> Result<Self, DiskError> {
        let base = layer(&config.path, config.format, &config.backing)?;
        let (access, overlay) = match config.read_only {
            true => (base, None),
            false => overlay(&config.path, base).map(|(access, file)| (access, Some(file)))?,
        };
        let (path, read_only) = (config.path.clone(), config.read_only);
        Ok(Self { access, overlay, config: config.clone(), path, read_only })
    }

    /// Returns the name of the image, and the writes.
    pub(crate) fn save(&self) -> Result<SavedBlock, Unsaved> {
        let unreadable = Unsaved::Refused("a disk whose image or temporary file cannot be read");
        let (length, modified) = identity(&self.path).map_err(|_| unreadable)?;
        let mut bytes = Vec::new();
        if let Some(file) = &self.overlay {
            // Writes that are so far only in imago's memory reach the file.
            self.access.flush().map_err(|_| unreadable)?;
            let length = file.metadata().map_err(|_| unreadable)?.len();
            if length > SAVED {
                return Err(Unsaved::Refused("a disk to which more than 512 MiB were written"));
            }
            bytes.resize(length as usize, 0);
            file.read_exact_at(&mut bytes, 0).map_err(|_| unreadable)?;
        }
        let DiskConfig { path, format, read_only, backing } = &self.config;
        let of = |path: &Path| path.as_os_str().as_bytes().to_vec();
        Ok(SavedBlock {
            path: of(path),
            format: *format as u8,
            read_only: *read_only,
            backing: backing.iter().map(|path| of(path).into()).collect(),
            length,
            modified,
            overlay: bytes,
        })
    }

    /// Goes on with the writes to a disk of an equal image; the bytes are not trusted.
    pub(crate) fn restore(&mut self, saved: &SavedBlock) -> Result<(), StateError> {
        let path = || self.path.clone();
        let wrong = |why: String| StateError::Disk { path: path(), why };
        let failed = |error: io::Error| wrong(error.to_string());
        if identity(&self.path).map_err(failed)? != (saved.length, saved.modified) {
            return Err(StateError::Changed { path: path() });
        }
        if self.read_only {
            return Ok(());
        }
        let base = layer(&self.path, self.config.format, &self.config.backing);
        let base = base.map_err(|error| wrong(error.to_string()))?;
        let size = base.size();
        let file = tempfile::tempfile_in(temporary()).map_err(failed)?;
        file.write_all_at(&saved.overlay, 0).map_err(failed)?;
        let tables = qcow2_tables::check(&file, saved.overlay.len() as u64);
        tables.map_err(|error| wrong(error.to_string()))?;
        let written = file.try_clone().and_then(File::try_from).map_err(failed)?;
        let mut image = Qcow2::<File>::open_image(written, true).map_err(failed)?;
        if image.requires_external_data_file() || image.implicit_backing_file().is_some() {
            return Err(wrong("it names another file".to_owned()));
        }
        image.set_data_file(None);
        image.set_backing(Some(base));
        let access = FormatAccess::new(image);
        if access.size() != size {
            return Err(wrong(format!("it has {} bytes, and the image {size}", access.size())));
        }
        (self.access, self.overlay) = (access, Some(file));
        Ok(())
    }

    /// Returns the bytes of the disk.
    pub(crate) fn size(&self) -> u64 {
        self.access.size()
    }

    pub(crate) fn read(&self, data: &mut [u8], offset: u64) -> io::Result<()> {
        self.access.read(data, offset)
    }

    pub(crate) fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.access.write(data, offset)
    }

    /// Makes a range read as zeroes, and frees its room in the temporary file.
    pub(crate) fn discard(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.access.discard_to_zero(offset, length)
    }

    /// Makes a range read as zeroes.
    pub(crate) fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        self.access.write_zeroes(offset, length)
    }
}

/// Returns the identity of an image: bytes of its file, and the time of its last change.
fn identity(path: &Path) -> io::Result<(u64, (i64, i64))> {
    let metadata = fs::metadata(path)?;
    Ok((metadata.len(), (metadata.mtime(), metadata.mtime_nsec())))
}

impl From<&SavedBlock> for DiskConfig {
    /// The configuration of the saved disk.
    fn from(saved: &SavedBlock) -> Self {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let formats = [DiskFormat::Auto, DiskFormat::Raw, DiskFormat::Qcow2];
        Self {
            path: path(&saved.path),
            format: formats.get(usize::from(saved.format)).copied().unwrap_or_default(),
            read_only: saved.read_only,
            backing: saved.backing.iter().map(|bytes| path(bytes)).collect(),
        }
    }
}

/// Opens one image, and the images that it is an overlay of.
fn layer(path: &Path, format: DiskFormat, backing: &[PathBuf]) -> Result<FormatAccess<File>, DiskError> {
    let read = |source| DiskError::Read { path: path.to_owned(), source };
    let mut file = open(path)?;
    let mut magic = Vec::new();
    (&file).take(4).read_to_end(&mut magic).map_err(read)?;
    let format = match format {
        DiskFormat::Auto if magic == QCOW2_MAGIC => DiskFormat::Qcow2,
        DiskFormat::Auto => DiskFormat::Raw,
        chosen => chosen,
    };
    let length = file.seek(SeekFrom::End(0)).map_err(read)?;
    let bad = |why: String| DiskError::Bad { path: path.to_owned(), format, why };
    let access = if format == DiskFormat::Qcow2 {
        if magic != QCOW2_MAGIC {
            return Err(bad("it does not start with qcow2's magic number".into()));
        }
        qcow2_tables::check(&file, length).map_err(|error| bad(error.to_string()))?;
        qcow2(path, File::try_from(file).map_err(read)?, backing, &bad)?
    } else {
        let file = File::try_from(file).map_err(read)?;
        if let Some(backing) = backing.first() {
            return Err(DiskError::NoOverlay { path: path.to_owned(), backing: backing.clone() });
        }
        FormatAccess::new(Raw::open_image(file, false).map_err(|error| bad(error.to_string()))?)
    };
    let size = access.size();
    if size == 0 {
        return Err(bad("it is empty".into()));
    }
    if !size.is_multiple_of(SECTOR) || size > LARGEST {
        return Err(bad(format!(
            "a disk of {size} bytes must be whole sectors of {SECTOR} bytes, and no more than 64 TiB; it may be cut short"
        )));
    }
    Ok(access)
}

/// Opens a regular file or a block device; other files could keep the opener waiting.
fn open(path: &Path) -> Result<fs::File, DiskError> {
    let read = |source| DiskError::Read { path: path.to_owned(), source };
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(read)?;
    let kind = file.metadata().map_err(read)?.file_type();
    if kind.is_file() || kind.is_block_device() {
        Ok(file)
    } else {
        Err(DiskError::NotAFile(path.to_owned()))
    }
}

fn qcow2(
    path: &Path,
    file: File,
    backing: &[PathBuf],
    bad: &dyn Fn(String) -> DiskError,
) -> Result<FormatAccess<File>, DiskError> {
    let mut image = Qcow2::<File>::open_image(file, false).map_err(|error| bad(error.to_string()))?;
    if image.requires_external_data_file() {
        return Err(bad("its data is in another file; make it whole with `qemu-img convert`".into()));
    }
    image.set_data_file(None);
    let below = match (image.implicit_backing_file(), backing) {
        (None, []) => None,
        (None, [unused, ..]) => {
            return Err(DiskError::NoOverlay { path: path.to_owned(), backing: unused.clone() });
        }
        (Some(name), []) => {
            return Err(DiskError::Backing { path: path.to_owned(), backing: name.clone() });
        }
        (Some(_), [below, further @ ..]) => {
            let format = match image.implicit_backing_format().map(String::as_str) {
                Some("qcow2") => DiskFormat::Qcow2,
                Some("raw" | "file") => DiskFormat::Raw,
                None => DiskFormat::Auto,
                Some(other) => return Err(bad(format!("its backing file has the unknown format {other:?}"))),
            };
            Some(layer(below, format, further)?)
        }
    };
    image.set_backing(below);
    Ok(FormatAccess::new(image))
}

/// Returns the folder of temporary files.
fn temporary() -> PathBuf {
    match std::env::var_os("TMPDIR") {
        Some(directory) if !directory.is_empty() => PathBuf::from(directory),
        _ if Path::new(TEMPORARY).is_dir() => PathBuf::from(TEMPORARY),
        _ => std::env::temp_dir(),
    }
}

/// Puts a temporary qcow2 image over another one.
fn overlay(path: &Path, base: FormatAccess<File>) -> Result<(FormatAccess<File>, fs::File), DiskError> {
    let make = || -> io::Result<(FormatAccess<File>, fs::File)> {
        let size = base.size();
        let written = tempfile::tempfile_in(temporary())?;
        let file = File::try_from(written.try_clone()?)?;
        let image = Qcow2::<File>::create_builder(file)
            .size(size)
            .create_open(DenyImplicitOpenGate::default(), |file| {
                Ok(Qcow2::builder(file).backing(Some(base)))
            })?;
        Ok((FormatAccess::new(image), written))
    };
    make().map_err(|source| DiskError::Overlay { path: path.to_owned(), source })
}
