//! `belfry image`: the parts of guests and root file systems, fetched and built ahead.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use belfry_embedded::PARTS;
use belfry_image::{Cache, Freshness, Progress, artifacts, dkms, packed, prune, rootfs};
use belfry_machine::DiskConfig;
use clap::{Args, Subcommand};

use crate::install_driver::{Installed, install_driver};
use crate::output::say;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ImageArgs {
    #[command(subcommand)]
    task: Option<Task>,
    /// Asks the archive for newer packages.
    #[arg(long)]
    update: bool,
    /// Writes a guest into a directory, for machines that cannot make one: on those, set BELFRY_IMAGE to the
    /// directory.
    #[arg(long, value_name = "DIR")]
    pack: Option<PathBuf>,
    /// Makes a root file system instead and prints its path alone; without a name, lists the root file systems.
    #[arg(long, value_name = "NAME", num_args = 0..=1, conflicts_with = "pack")]
    rootfs: Option<Option<String>>,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Makes a root file system of a list of Debian's packages, for `--image NAME` of `run` and `exec`; prints its path.
    Build {
        /// Name of the root file system; one that already has this name is replaced.
        name: String,
        /// The list: names of packages, divided by blanks or lines; `#` begins a comment.
        #[arg(long, value_name = "LIST")]
        from: PathBuf,
        /// The root file system that the packages are added to: `rocm`, for example.
        #[arg(long, value_name = "NAME")]
        base: Option<String>,
        /// The release they are taken from [default: that of the base, or trixie].
        #[arg(long, value_name = "CODENAME")]
        release: Option<String>,
        /// Asks the archive for newer packages.
        #[arg(long)]
        update: bool,
    },
    /// Writes a root file system that is in the cache into a file, for machines without a mirror and for other users.
    Export {
        /// Its name, as for `--image`.
        name: String,
        /// The file [default: NAME.tar.gz].
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Takes a root file system out of a file that `export` has written into the cache; prints its path.
    Import {
        /// The file.
        file: PathBuf,
    },
    /// Removes parts of the cache that nothing uses: of earlier versions, left by killed processes, without a use for a week.
    Prune {
        /// Removes everything that can be fetched or made again, root file systems among it.
        #[arg(long)]
        all: bool,
        /// Lists the parts, and removes nothing.
        #[arg(long)]
        list: bool,
    },
    /// Writes the driver as a Debian package, which guests with a kernel of their own install; prints its path.
    DriverDeb {
        /// Directory of the package.
        #[arg(default_value = ".")]
        directory: PathBuf,
    },
    /// Puts the driver into a disk with a system of its own, for `run --image PATH`; again brings it up to date.
    ///
    /// The system has to be a Debian or one made of its packages, for x86-64, with its root on ext4 and a kernel from
    /// 6.12 on that has CONFIG_DRM. A guest of Belfry's own builds the driver there, with the system's own compiler.
    /// The system's own apt fetches missing build tools (dkms, gcc, make, the kernel's headers). A copy of the disk
    /// beside it is changed first and replaces it at the end: after a failure the disk is as it was.
    InstallDriver {
        /// The disk, raw or qcow2: a path, then options as for `run --disk`, `,format=raw` for example.
        disk: DiskConfig,
    },
}

pub(super) fn image(args: &ImageArgs) -> anyhow::Result<u8> {
    if let Some(task) = &args.task {
        return perform(task);
    }
    let cache = Cache::open()?;
    let freshness = if args.update { Freshness::Update } else { Freshness::Cached };
    let progress = Progress::new();
    if let Some(name) = &args.rootfs {
        return root_file_system(&cache, name.as_deref(), freshness, &progress);
    }
    let qemu = artifacts::qemu(&cache, freshness, &progress)?;
    let image = belfry_image::prepare(&cache, &PARTS, freshness, &progress)?;
    if let Some(directory) = &args.pack {
        let bare_metal = belfry_image::bare_metal::obtain(&cache, &PARTS)?;
        packed::write(&image, Some(&bare_metal), directory)?;
        say!("packed    {}; use it with {}=DIR", directory.display(), packed::VARIABLE);
    }
    say!("cache     {}", cache.root().display());
    cache.shared().iter().for_each(|shared| say!("shared    {}", shared.display()));
    say!("QEMU      {} ({})", qemu.version, qemu.program.display());
    say!("kernel    {}", image.kernel.release);
    for module in &image.modules {
        say!("module    {} ({})", module.name, module.path.display());
    }
    say!("initramfs {} bytes", image.initramfs()?.len());
    for artifact in ["qemu", "kernel", "headers"] {
        for package in cache.find(artifact).map(|found| found.manifest.packages).unwrap_or_default() {
            say!("package   {artifact}: {} {} sha256:{}", package.name, package.version, package.sha256);
        }
    }
    Ok(0)
}

fn perform(task: &Task) -> anyhow::Result<u8> {
    let (name, from, base, release, update) = match task {
        Task::Build { name, from, base, release, update } => (name, from, base, release, update),
        Task::Export { name, to } => {
            let to = to.clone().unwrap_or_else(|| format!("{name}.tar.gz").into());
            rootfs::export(&Cache::open()?, name, &to)?;
            say!("{} ({} MB)", to.display(), std::fs::metadata(&to)?.len().div_ceil(1_000_000));
            return Ok(0);
        }
        Task::Import { file } => {
            let (name, tree) = rootfs::import(&Cache::open()?, file)?;
            say!("{name}: {}", tree.path.display());
            return Ok(0);
        }
        Task::Prune { all, list } => return prune_cache(*all, *list),
        Task::DriverDeb { directory } => {
            say!("{}", dkms::package(&PARTS, directory)?.display());
            return Ok(0);
        }
        Task::InstallDriver { disk } => {
            let Installed { kernels, .. } = install_driver(disk, &Progress::new())?;
            kernels.iter().for_each(|kernel| say!("{}: driver for {kernel}", disk.path.display()));
            return Ok(0);
        }
    };
    let list = list_of(from).with_context(|| from.display().to_string())?;
    let wish = rootfs::Wish { name, list: &list, base: base.as_deref(), release: release.as_deref() };
    let freshness = if *update { Freshness::Update } else { Freshness::Cached };
    let tree = rootfs::build(&Cache::open()?, &wish, freshness, &Progress::new())?;
    say!("{}", tree.path.display());
    Ok(0)
}

/// Removes parts of the cache, or lists them.
fn prune_cache(all: bool, list: bool) -> anyhow::Result<u8> {
    let parts = prune::removable(&Cache::open()?, all)?;
    let mut bytes = 0;
    for part in &parts {
        if !list {
            prune::remove(part)?;
        }
        bytes += part.bytes;
        say!("{:>8.1} MB  {}: {}", part.bytes as f64 / 1e6, part.path.display(), part.why);
    }
    say!("{:>8.1} MB  {}", bytes as f64 / 1e6, if list { "could be removed" } else { "removed" });
    Ok(0)
}

/// Largest list of packages that is read, in bytes.
const MAX_LIST: u64 = 16 << 20;

/// Reads a list of packages, which may come through a pipe.
fn list_of(from: &Path) -> io::Result<String> {
    let mut list = String::new();
    let read = File::open(from)?.take(MAX_LIST + 1).read_to_string(&mut list)?;
    if read as u64 > MAX_LIST {
        return Err(io::Error::other(format!(
            "it has more than {MAX_LIST} bytes, and is no list of packages"
        )));
    }
    Ok(list)
}

/// Makes the root file system `name` if it is not there, and prints its path; without a name, lists all.
fn root_file_system(
    cache: &Cache,
    name: Option<&str>,
    freshness: Freshness,
    progress: &Progress,
) -> anyhow::Result<u8> {
    if let Some(name) = name {
        say!("{}", rootfs::obtain(cache, name, freshness, progress)?.path.display());
        return Ok(0);
    }
    for recipe in rootfs::recipes(cache)? {
        say!("{:<10}  {}", recipe.name, recipe.about);
        if let Some(tree) = rootfs::cached(cache, &recipe) {
            say!("{:<10}  {}", "", tree.path.display());
        }
    }
    Ok(0)
}
