//! Disk images: opened, checked to be whole, and overlaid with a temporary file that takes the guest's writes.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use imago::file::File;
use imago::qcow2::Qcow2;
use imago::raw::Raw;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder as _};

use super::disk_config::{DiskConfig, DiskFormat};
use super::qcow2_tables;

/// Bytes of a sector; a disk has a whole number of them.
pub(super) const SECTOR: u64 = 512;
/// The largest disk.
const LARGEST: u64 = 64 << 40;
const QCOW2_MAGIC: [u8; 4] = *b"QFI\xfb";
/// Where temporary files go that may grow large: unlike /tmp, it is rarely memory.
const TEMPORARY: &str = "/var/tmp";

/// Why an image is no disk.
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
    /// The contents make no disk.
    #[error("the {format} disk image {path} cannot be used: {why}")]
    Bad {
        /// The image.
        path: PathBuf,
        /// How it was read.
        format: DiskFormat,
        /// What is wrong.
        why: String,
    },
    /// It needs a file that the user did not name.
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
    /// A file was named that nothing needs.
    #[error("{backing} is named as a backing file, but {path} is no overlay")]
    NoOverlay {
        /// The image.
        path: PathBuf,
        /// The file that was named.
        backing: PathBuf,
    },
    /// The guest's writes have no place to go.
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
    /// Whatever keeps a machine from having this disk.
    pub fn check(&self) -> Result<(), DiskError> {
        Disk::open(self).map(drop)
    }

    /// The first bytes of the disk, as a guest reads them: `length`, or all where it has fewer.
    ///
    /// # Errors
    ///
    /// Whatever keeps a machine from having this disk, and an image whose beginning cannot be read.
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
pub(super) struct Disk {
    access: FormatAccess<File>,
    pub(super) path: PathBuf,
    pub(super) read_only: bool,
}

impl Disk {
    /// Opens an image; what is written to it goes to a file without a name.
    pub(super) fn open(config: &DiskConfig) -> Result<Self, DiskError> {
        let base = layer(&config.path, config.format, &config.backing)?;
        let access = if config.read_only { base } else { overlay(&config.path, base)? };
        Ok(Self { access, path: config.path.clone(), read_only: config.read_only })
    }

    /// Bytes of the disk.
    pub(super) fn size(&self) -> u64 {
        self.access.size()
    }

    pub(super) fn read(&self, data: &mut [u8], offset: u64) -> io::Result<()> {
        self.access.read(data, offset)
    }

    pub(super) fn write(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.access.write(data, offset)
    }

    /// Makes a range read as zeroes, and gives back what it took of the temporary file.
    pub(super) fn discard(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.access.discard_to_zero(offset, length)
    }

    /// Makes a range read as zeroes.
    pub(super) fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        self.access.write_zeroes(offset, length)
    }
}

/// Opens one image, and those it is an overlay of.
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
        qcow2_tables::check(&file, length).map_err(bad)?;
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

/// Opens a file that is one, or a block device: nothing that could keep the opener waiting.
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

/// Puts a temporary qcow2 image over another one.
fn overlay(path: &Path, base: FormatAccess<File>) -> Result<FormatAccess<File>, DiskError> {
    let make = || -> io::Result<FormatAccess<File>> {
        let directory = match std::env::var_os("TMPDIR") {
            Some(directory) if !directory.is_empty() => PathBuf::from(directory),
            _ if Path::new(TEMPORARY).is_dir() => PathBuf::from(TEMPORARY),
            _ => std::env::temp_dir(),
        };
        let size = base.size();
        let file = File::try_from(tempfile::tempfile_in(directory)?)?;
        let image = Qcow2::<File>::create_builder(file)
            .size(size)
            .create_open(DenyImplicitOpenGate::default(), |file| {
                Ok(Qcow2::builder(file).backing(Some(base)))
            })?;
        Ok(FormatAccess::new(image))
    };
    make().map_err(|source| DiskError::Overlay { path: path.to_owned(), source })
}
