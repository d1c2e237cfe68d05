//! What `belfry exec` says: where the prepared files are, and what the device is made of.
//!
//! The environment names a directory, which holds the settings beside the files that were made with them.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::OnceLock;

use belfry_kfd_hosted::HostedConfig;
use belfry_kfd_hosted::prepared::{Prepared, SETTINGS_FILE, SUMMARY_VARIABLE, TREE_VARIABLE};

use crate::inside::inside;
use crate::node::Identity;

/// The environment variable of the dynamic linker that names this library.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// Everything a process of the program needs to know.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The directory, without a slash at its end.
    pub(crate) tree: Vec<u8>,
    /// What is found in it instead of where it says.
    pub(crate) prefixes: Vec<Vec<u8>>,
    /// The stand-ins of the device nodes.
    pub(crate) kfd: Identity,
    pub(crate) render: Identity,
    pub(crate) card: Identity,
    pub(crate) render_minor: u32,
    pub(crate) summary: Option<PathBuf>,
    prepared: Prepared,
}

/// The settings; `None` in a process that was not started by `belfry exec`.
pub(crate) fn settings() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    SETTINGS.get_or_init(|| inside(read)).as_ref()
}

fn read() -> Option<Settings> {
    let tree = std::env::var_os(TREE_VARIABLE)?.into_vec();
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
    Some(Settings {
        kfd: stand_in("/dev/kfd")?,
        render: stand_in(&format!("/dev/dri/renderD{}", prepared.render_minor))?,
        card: stand_in("/dev/dri/card0")?,
        prefixes: prepared.paths.iter().map(|path| path.clone().into_bytes()).collect(),
        render_minor: prepared.render_minor,
        summary: std::env::var_os(SUMMARY_VARIABLE).map(PathBuf::from),
        tree,
        prepared,
    })
}

impl Settings {
    /// What the device is made of.
    pub(crate) fn device(&self, poll_doorbells: bool) -> HostedConfig {
        self.prepared.config(poll_doorbells)
    }
}

#[cfg(test)]
impl Settings {
    /// Settings that name nothing on this machine.
    pub(crate) fn for_tests(tree: &str, prefixes: &[&str]) -> Self {
        let paths: Vec<String> = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
        let prepared = Prepared {
            cus: 8,
            vram: 1 << 28,
            workers: 1,
            deterministic: None,
            system_memory: 1 << 30,
            domain: 0,
            location_id: 0x100,
            render_minor: 128,
            paths,
        };
        let nothing = Identity::of_path(c"/dev/null").expect("every machine has it");
        Self {
            tree: tree.into(),
            prefixes: prepared.paths.iter().map(|path| path.clone().into_bytes()).collect(),
            kfd: nothing,
            render: nothing,
            card: nothing,
            render_minor: 128,
            summary: None,
            prepared,
        }
    }
}
