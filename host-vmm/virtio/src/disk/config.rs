//! The disks of a machine, as a command line names them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Format of a disk in an image file.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum DiskFormat {
    /// Chosen by the first bytes: qcow2 if its magic number is there, raw otherwise.
    #[default]
    Auto,
    /// The disk's sectors one after the other.
    Raw,
    /// QEMU's copy-on-write format, versions 2 and 3.
    Qcow2,
}

impl FromStr for DiskFormat {
    type Err = DiskConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "raw" => Ok(Self::Raw),
            "qcow2" => Ok(Self::Qcow2),
            _ => Err(DiskConfigError(format!("disk format {text:?} is none of auto, raw and qcow2"))),
        }
    }
}

impl fmt::Display for DiskFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        })
    }
}

/// Error of a text that names no disk.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}; a disk is PATH[,format=auto|raw|qcow2][,ro][,backing=PATH], with commas in paths doubled")]
pub struct DiskConfigError(String);

/// A disk: an image that is never written to.
///
/// The guest's writes go to a temporary file that has no name and vanishes with the machine, unless the disk is read
/// only. Its text is `PATH[,format=auto|raw|qcow2][,ro][,backing=PATH]...`, with commas in paths doubled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DiskConfig {
    /// The image.
    pub path: PathBuf,
    /// Format of the image.
    pub format: DiskFormat,
    /// True if the guest cannot write; it is told so.
    pub read_only: bool,
    /// Files that the image may be an overlay of: its backing file, that file's backing file, and so on.
    ///
    /// A qcow2 image names its backing file itself, but only files named here are opened: the author of an image must
    /// not choose the host's files that a guest reads.
    pub backing: Vec<PathBuf>,
}

impl DiskConfig {
    /// Makes a disk that takes writes and forgets them.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: DiskFormat::Auto, read_only: false, backing: Vec::new() }
    }
}

impl FromStr for DiskConfig {
    type Err = DiskConfigError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = split(text).into_iter();
        let path = parts.next().filter(|path| !path.is_empty());
        let mut config = Self::new(path.ok_or_else(|| DiskConfigError(format!("{text:?} names no file")))?);
        for part in parts {
            match part.split_once('=') {
                Some(("format", format)) => config.format = format.parse()?,
                Some(("backing", path)) if !path.is_empty() => config.backing.push(path.into()),
                None if part == "ro" => config.read_only = true,
                _ => return Err(DiskConfigError(format!("{part:?} is no option of a disk"))),
            }
        }
        Ok(config)
    }
}

/// Splits at single commas; doubled commas become one.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == ',' && characters.next_if_eq(&',').is_none() {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_name_disks() {
        assert_eq!("disk.img".parse(), Ok(DiskConfig::new("disk.img")));
        let all = DiskConfig {
            path: "a,b=c".into(),
            format: DiskFormat::Qcow2,
            read_only: true,
            backing: vec!["base, one.img".into(), "two".into()],
        };
        let text = "a,,b=c,format=qcow2,ro,backing=base,, one.img,backing=two";
        assert_eq!(text.parse(), Ok(all));
        for format in [DiskFormat::Auto, DiskFormat::Raw, DiskFormat::Qcow2] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
    }

    #[test]
    fn other_texts_say_what_is_wrong() {
        for (text, part) in [
            ("", "names no file"),
            (",ro", "names no file"),
            ("x,format=vmdk", "\"vmdk\" is none of auto, raw and qcow2"),
            ("x,rw", "\"rw\" is no option"),
            ("x,", "\"\" is no option"),
            ("x,backing=", "\"backing=\" is no option"),
            ("x,ro=1", "\"ro=1\" is no option"),
        ] {
            let error = text.parse::<DiskConfig>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("PATH[,format="), "{text:?}: {error}");
        }
    }
}
