//! Folders of the host that a guest has under their own paths.

use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use belfry_channel::path::{PathError, writable};

/// Reason why a folder cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The folder does not exist, or cannot be read.
    #[error("cannot share {path}: {source}")]
    Open {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path is a file's, or is no text.
    #[error("cannot share {path}: {why}")]
    Unfit {
        /// The path.
        path: PathBuf,
        /// Reason, in words.
        why: &'static str,
    },
    /// The guest cannot mount it at its path.
    #[error("cannot share a folder under its own path: {0}")]
    Path(#[from] PathError),
}

/// A folder of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its absolute path, on both sides.
    pub path: String,
    /// True if the guest may only read.
    pub read_only: bool,
}

impl FromStr for Share {
    type Err = ShareError;

    /// Reads `DIR[:ro]`.
    fn from_str(text: &str) -> Result<Self, ShareError> {
        let (name, read_only) = match text.strip_suffix(":ro") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let path = fs::canonicalize(name).map_err(|source| ShareError::Open { path: name.into(), source })?;
        let unfit = |why| ShareError::Unfit { path: name.into(), why };
        if !path.is_dir() {
            return Err(unfit("it is no folder"));
        }
        let path = path.to_str().ok_or_else(|| unfit("its path is no UTF-8"))?;
        Ok(Self { path: writable(path)?, read_only })
    }
}

/// Returns the name of a share between machine and guest; numbers are those of [`super::GuestConfig::shares`].
pub(super) fn tag(number: usize) -> String {
    format!("belfry-share-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_folders_that_the_guest_can_have_under_their_paths() {
        let directory = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(directory.path()).unwrap().to_str().unwrap().to_owned();
        assert_eq!(path.parse::<Share>().unwrap(), Share { path: path.clone(), read_only: false });
        let read_only: Share = format!("{path}/../{}:ro", path.rsplit('/').next().unwrap()).parse().unwrap();
        assert_eq!(read_only, Share { path: path.clone(), read_only: true });
        let file = format!("{path}/file");
        fs::write(&file, b"").unwrap();
        for (text, why) in [
            (file.as_str(), "no folder"),
            ("/no/such/folder:ro", "/no/such/folder"),
            ("/", "no file's path"),
            ("/proc", "reserved"),
            ("", "No such file"),
        ] {
            let error = text.parse::<Share>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }
}
