//! The nested tier: belfry's own machine on a KVM that QEMU's translator emulates, where the real one is of no use.
//!
//! The outer guest (L1) is Debian's kernel in QEMU with a processor that has AMD's virtualisation; it carries kvm_amd,
//! a static belfry and a packed guest, which that belfry boots (L2).

use std::time::Duration;

use anyhow::{Context as _, Result};
use belfry_embedded::PARTS;
use belfry_guest::{Exit, Guest, GuestConfig, Stream};
use belfry_image::module_files::stock_modules;
use belfry_image::{Cache, GuestImage, InitramfsFile, Progress, packed};

use crate::built::{self, strip};
use crate::guest_image;

/// Path of belfry in L1.
pub const BELFRY: &str = "/bin/belfry";
/// Path of the packed guest in L1.
const PACKED: &str = "/image";

/// L1, ready to run belfry.
#[derive(Debug)]
pub struct Nested {
    guest: Guest,
}

impl Nested {
    /// Builds everything and boots L1, yet without KVM.
    ///
    /// # Errors
    ///
    /// A part that cannot be built, fetched or booted; never a reason to skip.
    pub fn boot(progress: &Progress) -> Result<Self> {
        let cache = Cache::open()?;
        // With modules for root file systems, shared folders and networks; only packed guests of this tier have them.
        let inner = belfry_image::with_root(guest_image(&cache)?, &cache)?;
        let bare_metal = belfry_image::bare_metal::obtain(&cache, &PARTS)?;
        let directory = tempfile::tempdir()?;
        // A program without shared libraries, as every belfry is; its debug sections would fill L1's memory.
        let belfry = directory.path().join("belfry");
        strip(&built::belfry()?, &belfry)?;

        let mut files = packed::files(&inner, Some(&bare_metal), PACKED);
        files.push(InitramfsFile { guest: BELFRY.to_owned(), mode: 0o755, host: belfry });
        let (name, content) = packed::index(&inner);
        let index = directory.path().join(name);
        std::fs::write(&index, content).context("writing the packed guest's index")?;
        files.push(InitramfsFile { guest: format!("{PACKED}/{name}"), mode: 0o644, host: index });
        let modules = stock_modules(&cache, &inner.kernel, &["kvm_amd"])?;
        let outer = GuestImage { modules, files, ..inner };

        // One processor: with two, L2 has triple-faulted in runs of `many-queues`, for a reason not found so far; what is
        // known and what is excluded is in docs/machine.md, under "In the nested tier".
        let config = GuestConfig { gpus: Vec::new(), cpus: 1, memory: 3 << 30, ..GuestConfig::default() };
        let step = progress.spinner("booting the outer guest (L1)");
        let guest = Guest::boot(&outer, &config, &cache).context("L1 does not boot")?;
        step.done("up");
        Ok(Self { guest })
    }

    /// Loads KVM's modules; from then on L1 has a /dev/kvm.
    ///
    /// # Errors
    ///
    /// Modules that do not load.
    pub fn load_kvm(&mut self) -> Result<()> {
        let loaded = self.guest.load_driver();
        loaded.context("L1 has no KVM: kvm_amd does not load under QEMU's translator").map(drop)
    }

    /// Time from QEMU's start to L1's init.
    #[must_use]
    pub fn boot_time(&self) -> Duration {
        self.guest.boot_time()
    }

    /// L1 itself.
    pub fn guest(&mut self) -> &mut Guest {
        &mut self.guest
    }

    /// Runs a program in L1, as belfry is meant to be run there; `output` gets the program's output, as it comes.
    ///
    /// # Errors
    ///
    /// An L1 that fails, or a program that has not ended after `limit`; its exit status is no error.
    pub fn run(
        &mut self,
        argv: &[&str],
        limit: Duration,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Exit> {
        let argv: Vec<String> = argv.iter().map(|&argument| argument.to_owned()).collect();
        let environment = [
            "PATH=/bin".to_owned(),
            "HOME=/root".to_owned(),
            "BELFRY_CACHE=/tmp/belfry".to_owned(),
            format!("{}={PACKED}", packed::VARIABLE),
            format!("RUST_LOG={}", std::env::var("RUST_LOG").unwrap_or_else(|_| "error".to_owned())),
        ];
        let id = self.guest.spawn(&argv, &environment, "/root")?;
        Ok(self.guest.wait(id, limit, output)?)
    }

    /// Switches L1 off.
    ///
    /// # Errors
    ///
    /// An L1 that does not answer.
    pub fn power_off(self) -> Result<()> {
        Ok(self.guest.power_off()?)
    }
}
