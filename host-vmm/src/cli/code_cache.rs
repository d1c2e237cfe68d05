//! The option that keeps compiled code.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use belfry_device::KeptCode;
use belfry_image::Cache;
use clap::Args;

use crate::output::note;

/// The folder for compiled code, if there is one.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct CodeCacheArg {
    /// Keeps compiled code of large kernels in a folder; later runs execute it from there [without DIR: `code` in the
    /// cache].
    #[arg(long, value_name = "DIR")]
    code_cache: Option<Option<PathBuf>>,
}

impl CodeCacheArg {
    /// Makes the option of a command line with this folder.
    pub(super) fn in_folder(folder: &str) -> Self {
        Self { code_cache: Some(Some(folder.into())) }
    }

    /// Returns the folder as an absolute path, which stays right if the process changes its directory.
    ///
    /// # Errors
    ///
    /// The option names no folder, and there is no cache.
    pub(super) fn folder(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.code_cache {
            None => Ok(None),
            Some(Some(named)) => {
                Ok(Some(std::path::absolute(named).with_context(|| named.display().to_string())?))
            }
            Some(None) => Ok(Some(Cache::open()?.root().join("code"))),
        }
    }

    /// Opens the folder that keeps compiled code. If it cannot be used, the user is told, and the result is `None`.
    ///
    /// # Errors
    ///
    /// The errors of [`CodeCacheArg::folder`].
    pub(super) fn keep(&self) -> anyhow::Result<Option<Arc<KeptCode>>> {
        let folder = self.folder()?;
        Ok(folder.and_then(|folder| belfry_code_folder::keep_in(&folder, |text| note!("belfry: {text}"))))
    }

    /// Spells the option for another process.
    pub(super) fn spelled(&self) -> Vec<OsString> {
        let Some(named) = &self.code_cache else { return Vec::new() };
        let option = OsString::from("--code-cache");
        [option].into_iter().chain(named.as_ref().map(OsString::from)).collect()
    }
}
