//! Settings that `belfry exec` hands over: the place of the prepared files, and the parts of the device.
//!
//! The environment names a directory, which holds the settings beside the files that were made with them.

#![expect(unsafe_code, reason = "keeps strings from before the program runs")]

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, OsString, c_char};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use once_cell::race::OnceBox;

use belfry_kfd_hosted::HostedConfig;
use belfry_kfd_hosted::prepared::{
    CARD_VARIABLE, DEBUGGABLE_VARIABLE, FAULTS_VARIABLE, INSPECT_VARIABLE, PROFILE_VARIABLE, Prepared,
    RECORD_VARIABLE, SANITIZE_VARIABLE, SETTINGS_FILE, SUMMARY_VARIABLE, TRACE_VARIABLE, TREE_VARIABLE,
    WAIT_VARIABLE, Wait,
};

use crate::identity::{DrmNodes, Identity, card_minor};
use crate::inside::inside;
use crate::real::PATH_MAX;

/// The environment variable of the dynamic linker that names this library.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// Everything a process of the program needs to know.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The directory, without a slash at its end.
    pub(crate) tree: Vec<u8>,
    /// Paths that are found below the directory instead of at their own place.
    pub(crate) prefixes: Vec<Vec<u8>>,
    /// The stand-ins of the device nodes.
    pub(crate) kfd: Identity,
    /// The stand-ins of DRM's nodes, of all partitions of all GPUs, by the numbers that the driver has for them.
    pub(crate) drm: Vec<DrmNodes>,
    pub(crate) summary: Option<PathBuf>,
    pub(crate) trace: Option<TraceTo>,
    /// The directory of records.
    pub(crate) record: Option<PathBuf>,
    /// Options of the checks of kernels, as handed over.
    pub(crate) sanitize: Option<Vec<u8>>,
    /// Options of the profile of kernels, as handed over.
    pub(crate) profile: Option<Vec<u8>>,
    /// Plan of faults, as handed over.
    pub(crate) faults: Option<Vec<u8>>,
    /// Ways in which the GPU may be looked at, as handed over.
    pub(crate) inspect: Option<Vec<u8>>,
    /// The driver of each process is in a companion.
    pub(crate) debuggable: bool,
    /// Way in which threads wait for signals.
    pub(crate) wait: Wait,
    /// Name of the card; empty where it has none.
    pub(crate) card_name: Vec<u8>,
    prepared: Prepared,
}

/// Destination of recorded events.
#[derive(Debug)]
pub(crate) struct TraceTo {
    /// Each process has a file in it.
    pub(crate) directory: PathBuf,
    /// Bytes of such a file.
    pub(crate) size: usize,
}

impl TraceTo {
    /// Reads `SIZE:DIRECTORY`.
    fn parse(value: &[u8]) -> Option<Self> {
        let colon = value.iter().position(|&byte| byte == b':')?;
        let size = std::str::from_utf8(&value[..colon]).ok()?.parse().ok()?;
        Some(Self { directory: PathBuf::from(OsString::from_vec(value[colon + 1..].to_vec())), size })
    }

    /// The value that is read so.
    pub(crate) fn value(&self) -> Vec<u8> {
        [self.size.to_string().as_bytes(), b":", self.directory.as_os_str().as_bytes()].concat()
    }
}

/// A variable as the process was started with it: the program may empty its environment before it opens anything.
struct Started {
    name: &'static str,
    value: UnsafeCell<[u8; PATH_MAX]>,
    len: AtomicUsize,
}

// SAFETY: the value is written before the program's first thread runs, and only read afterwards.
unsafe impl Sync for Started {}

impl Started {
    const fn new(name: &'static str) -> Self {
        Self { name, value: UnsafeCell::new([0; PATH_MAX]), len: AtomicUsize::new(0) }
    }

    /// The value; other libraries' constructors may ask before this one's has run.
    fn get(&self) -> Option<Vec<u8>> {
        match self.len.load(Ordering::Relaxed) {
            0 => std::env::var_os(self.name).map(OsString::into_vec),
            // SAFETY: the value is not written any more.
            len => unsafe { &*self.value.get() }.get(..len).map(<[u8]>::to_vec),
        }
    }

    /// Takes the value out of a line `NAME=value` of the variable.
    fn take(&self, line: &[u8]) {
        let value = line.strip_prefix(self.name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        let Some(value) = value.filter(|value| value.len() < PATH_MAX) else { return };
        // SAFETY: called before there is a second thread.
        let room = unsafe { &mut *self.value.get() };
        room[..value.len()].copy_from_slice(value);
        self.len.store(value.len(), Ordering::Relaxed);
    }
}

static TREE: Started = Started::new(TREE_VARIABLE);
static SUMMARY: Started = Started::new(SUMMARY_VARIABLE);
static TRACE: Started = Started::new(TRACE_VARIABLE);
static RECORD: Started = Started::new(RECORD_VARIABLE);
static SANITIZE: Started = Started::new(SANITIZE_VARIABLE);
static PROFILE: Started = Started::new(PROFILE_VARIABLE);
static FAULTS: Started = Started::new(FAULTS_VARIABLE);
static INSPECT: Started = Started::new(INSPECT_VARIABLE);
static CARD: Started = Started::new(CARD_VARIABLE);
static DEBUGGABLE: Started = Started::new(DEBUGGABLE_VARIABLE);
static WAIT: Started = Started::new(WAIT_VARIABLE);

/// Takes the variables out of the environment that the process was started with.
///
/// # Safety
///
/// `lines` is null or a list of C strings that ends with null. There is no second thread yet.
pub(crate) unsafe fn note(lines: *const *const c_char) {
    let mut at = lines;
    // SAFETY: the caller's contract.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            let line = CStr::from_ptr(*at).to_bytes();
            for started in [
                &TREE,
                &SUMMARY,
                &TRACE,
                &RECORD,
                &SANITIZE,
                &PROFILE,
                &FAULTS,
                &INSPECT,
                &CARD,
                &DEBUGGABLE,
                &WAIT,
            ] {
                started.take(line);
            }
            at = at.add(1);
        }
    }
}

/// The settings; `None` in a process that was not started by `belfry exec`.
pub(crate) fn settings() -> Option<&'static Settings> {
    // Threads that ask at once all read, and none waits for another: a child that is forked meanwhile has one thread alone.
    static SETTINGS: OnceBox<Option<Settings>> = OnceBox::new();
    SETTINGS.get_or_init(|| inside(|| Box::new(read()))).as_ref()
}

fn read() -> Option<Settings> {
    let tree = TREE.get()?;
    let file = [&tree[..], b"/", SETTINGS_FILE.as_bytes()].concat();
    let text = std::fs::read(PathBuf::from(OsString::from_vec(file)));
    let prepared: Option<Prepared> = text.ok().and_then(|text| serde_json::from_slice(&text).ok());
    let Some(prepared) = prepared else {
        crate::notice::say(format_args!(
            "{TREE_VARIABLE} names {}, which holds no settings of this version; the GPU is not there",
            String::from_utf8_lossy(&tree)
        ));
        return None;
    };
    let stand_in = |path: &str| {
        let path = CString::new([&tree[..], path.as_bytes()].concat()).ok()?;
        Identity::of_path(&path)
    };
    let nodes = |minor: u32| {
        let render = stand_in(&format!("/dev/dri/renderD{minor}"))?;
        Some(DrmNodes { minor, render, card: stand_in(&format!("/dev/dri/card{}", card_minor(minor)))? })
    };
    let drm: Option<Vec<DrmNodes>> = prepared.render_minors().map(nodes).collect();
    Some(Settings {
        kfd: stand_in("/dev/kfd")?,
        drm: drm?,
        prefixes: prepared.paths.iter().map(|path| path.clone().into_bytes()).collect(),
        card_name: CARD.get().unwrap_or_default(),
        trace: TRACE.get().as_deref().and_then(TraceTo::parse),
        record: RECORD.get().map(|path| PathBuf::from(OsString::from_vec(path))),
        sanitize: SANITIZE.get(),
        profile: PROFILE.get(),
        faults: FAULTS.get(),
        inspect: INSPECT.get(),
        debuggable: DEBUGGABLE.get().is_some(),
        wait: WAIT.get().and_then(|name| Wait::named(std::str::from_utf8(&name).ok()?)).unwrap_or_default(),
        summary: SUMMARY.get().map(|path| PathBuf::from(OsString::from_vec(path))),
        tree,
        prepared,
    })
}

impl Settings {
    /// The folder that compiled code is kept in.
    pub(crate) fn code_folder(&self) -> Option<&Path> {
        self.prepared.code_folder.as_deref()
    }

    /// Threads that execute waves.
    pub(crate) fn workers(&self) -> usize {
        self.prepared.workers
    }

    /// Configurations of the devices.
    pub(crate) fn devices(&self, poll_doorbells: bool) -> Vec<HostedConfig> {
        self.prepared.configs(poll_doorbells)
    }
}

#[cfg(test)]
impl Settings {
    /// Settings that name nothing on this machine.
    pub(crate) fn for_tests(tree: &str, prefixes: &[&str]) -> Self {
        let paths: Vec<String> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        let gpu = belfry_kfd_hosted::prepared::PreparedGpu {
            chip: belfry_device::chip::DEFAULT,
            xccs: 1,
            partition: belfry_abi::partition::ComputePartition::Spx,
            cus: 8,
            vram: 1 << 28,
            location_id: 0x100,
            render_minor: 128,
            hive: None,
            numa_node: 0,
            bridges: vec![0x8],
        };
        let prepared = Prepared {
            gpus: vec![gpu],
            links: belfry_kfd_hosted::Links::default(),
            numa_nodes: 1,
            numa_distance: 10,
            workers: 1,
            deterministic: None,
            tier: belfry_device::Tier::Auto,
            matrices: belfry_device::Matrices::Fast,
            counts_code: false,
            code_folder: None,
            system_memory: 1 << 30,
            domain: 0,
            root_bus: 0,
            paths,
        };
        let nothing = Identity::of_path(c"/dev/null").expect("every machine has it");
        Self {
            tree: tree.into(),
            prefixes: prepared.paths.iter().map(|path| path.clone().into_bytes()).collect(),
            kfd: nothing,
            drm: vec![DrmNodes { minor: 128, render: nothing, card: nothing }],
            summary: None,
            trace: None,
            record: None,
            sanitize: None,
            profile: None,
            faults: None,
            inspect: None,
            debuggable: false,
            wait: Wait::Auto,
            card_name: Vec::new(),
            prepared,
        }
    }
}
