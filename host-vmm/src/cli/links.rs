//! `--links` on the command line.

use std::fmt;
use std::path::{Path, PathBuf};

use belfry_device::memory::Links;
use belfry_machine::links_file::{BoardError, BoardFile, Preset};

use super::size::ValueError;

/// Links between the GPUs of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LinksArg {
    /// The same between all.
    Of(Links),
    /// Links of a board that has a name.
    Preset(&'static Preset),
    /// Links of a file.
    File(PathBuf),
}

impl LinksArg {
    /// Reads a name, or the path of a file: with a slash, or ending in `.toml`.
    pub(super) fn parse(text: &str) -> Result<Self, ValueError> {
        if let Some(links) = Links::named(text) {
            return Ok(Self::Of(links));
        }
        if let Some(preset) = Preset::named(text) {
            return Ok(Self::Preset(preset));
        }
        let is_toml = Path::new(text).extension().is_some_and(|ending| ending == "toml");
        if text.contains('/') || is_toml {
            // Programs of suites start in another folder.
            let path = std::path::absolute(text).map_err(|_| ValueError::Links(text.to_owned()))?;
            return Ok(Self::File(path));
        }
        Err(ValueError::Links(text.to_owned()))
    }

    /// Returns the board that it names.
    pub(super) fn preset(&self) -> Option<&'static Preset> {
        match self {
            Self::Preset(preset) => Some(preset),
            Self::Of(_) | Self::File(_) => None,
        }
    }

    /// Returns the board, if it is one.
    ///
    /// # Errors
    ///
    /// A file that is none.
    pub(super) fn board(&self) -> Result<Option<BoardFile>, BoardError> {
        match self {
            Self::Of(_) => Ok(None),
            Self::Preset(preset) => preset.board().map(Some),
            Self::File(path) => BoardFile::read(path).map(Some),
        }
    }
}

impl fmt::Display for LinksArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(links) => links.fmt(f),
            Self::Preset(preset) => f.write_str(preset.name),
            Self::File(path) => path.display().fmt(f),
        }
    }
}
