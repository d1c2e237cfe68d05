//! `--arg SPEC`: a scalar (`i32:5`), a buffer (`buf:f32:1024:iota:out=PATH`), or LDS (`local:256`).

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use belfry_runtime::Scalar;

use super::element::Element;

/// One argument as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Spec {
    Scalar {
        text: String,
        value: Scalar,
    },
    Buffer(BufferSpec),
    /// A structure, laid out as C does.
    Struct {
        text: String,
        bytes: Vec<u8>,
    },
    /// Bytes for a `__local` pointer.
    Local {
        text: String,
        bytes: u32,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct BufferSpec {
    text: String,
    pub(super) element: Element,
    pub(super) count: usize,
    pub(super) contents: Contents,
    /// File to which the buffer is written once the kernel is done.
    pub(super) output: Option<PathBuf>,
}

/// Contents of a buffer at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    Zero,
    Iota,
    Random(u64),
    File(PathBuf),
}

/// The part of a buffer SPEC that names the output.
const OUT: &str = ":out=";

impl Spec {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        Self::parse_inner(text).with_context(|| format!("bad --arg `{text}`"))
    }

    fn parse_inner(text: &str) -> anyhow::Result<Self> {
        let (kind, rest) = text
            .split_once(':')
            .context("expected TYPE:VALUE, buf:TYPE:COUNT:CONTENTS, struct:... or local:BYTES")?;
        match kind {
            "struct" => Ok(Self::Struct { text: text.to_owned(), bytes: structure(rest)? }),
            "buf" => Ok(Self::Buffer(BufferSpec::parse(text, rest)?)),
            "local" => {
                let bytes = rest.parse().with_context(|| format!("`{rest}` is not a number of bytes"))?;
                Ok(Self::Local { text: text.to_owned(), bytes })
            }
            _ => Ok(Self::Scalar { text: text.to_owned(), value: Element::parse(kind)?.scalar(rest)? }),
        }
    }

    /// The SPEC as it was written.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Scalar { text, .. } | Self::Struct { text, .. } | Self::Local { text, .. } => text,
            Self::Buffer(buffer) => &buffer.text,
        }
    }

    /// Checks that input files have the right size and that outputs have a folder to go to.
    pub(super) fn check_files(&self) -> anyhow::Result<()> {
        let Self::Buffer(buffer) = self else { return Ok(()) };
        let check = || {
            if let Contents::File(path) = &buffer.contents {
                buffer.check_file(path)?;
            }
            let folder = buffer.output.as_deref().and_then(Path::parent);
            if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
                ensure!(folder.is_dir(), "there is no folder {} to write to", folder.display());
            }
            Ok(())
        };
        check().with_context(|| format!("--arg {}", buffer.text))
    }
}

/// The bytes of a structure with members `TYPE:VALUE`, separated by commas: each member aligned to its size, the whole to its
/// most aligned member.
fn structure(members: &str) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut align = 1;
    for member in members.split(',') {
        let (kind, value) =
            member.split_once(':').with_context(|| format!("the member `{member}` is not TYPE:VALUE"))?;
        let element = Element::parse(kind)?;
        align = align.max(element.size());
        bytes.resize(bytes.len().next_multiple_of(element.size()), 0);
        bytes.extend(element.scalar(value)?.to_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(align), 0);
    Ok(bytes)
}

impl BufferSpec {
    /// Parses the text after `buf:`.
    fn parse(text: &str, rest: &str) -> anyhow::Result<Self> {
        let mut parts = rest.splitn(3, ':');
        let (Some(element), Some(count), Some(contents)) = (parts.next(), parts.next(), parts.next()) else {
            bail!("expected buf:TYPE:COUNT:CONTENTS, where CONTENTS is zero, iota, random:SEED or file:PATH");
        };
        let element = Element::parse(element)?;
        let count: usize = count.parse().with_context(|| format!("`{count}` is not a number of elements"))?;
        ensure!(count > 0, "a buffer has at least one element");
        ensure!(
            count.checked_mul(element.size()).is_some_and(|bytes| isize::try_from(bytes).is_ok()),
            "{count} elements of {element} are more than any memory holds"
        );
        // From the right: the path of an input may contain anything, the path of an output anything but this.
        let (contents, output) = match contents.rsplit_once(OUT) {
            Some((contents, output)) => {
                ensure!(!output.is_empty(), "out= names no file");
                (contents, Some(PathBuf::from(output)))
            }
            None => (contents, None),
        };
        let contents = match contents.split_once(':') {
            None if contents == "zero" => Contents::Zero,
            None if contents == "iota" => Contents::Iota,
            Some(("random", seed)) => {
                Contents::Random(seed.parse().with_context(|| format!("`{seed}` is not a seed"))?)
            }
            Some(("file", path)) if !path.is_empty() => Contents::File(PathBuf::from(path)),
            _ => bail!("`{contents}` is not zero, iota, random:SEED or file:PATH"),
        };
        Ok(Self { text: text.to_owned(), element, count, contents, output })
    }

    /// Bytes of the buffer; the parser checked that they fit.
    pub(super) fn bytes(&self) -> usize {
        self.count * self.element.size()
    }

    /// Checks that an input file is there and has exactly the buffer's size.
    pub(super) fn check_file(&self, path: &Path) -> anyhow::Result<()> {
        let metadata = std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        ensure!(metadata.is_file(), "{} is not a file", path.display());
        ensure!(
            metadata.len() == self.bytes() as u64,
            "{} has {} bytes, {} elements of {} have {}",
            path.display(),
            metadata.len(),
            self.count,
            self.element,
            self.bytes()
        );
        Ok(())
    }

    /// The same SPEC with other paths.
    pub(super) fn with_paths(&self, input: Option<&str>, output: Option<&str>) -> String {
        let contents = match (&self.contents, input) {
            (Contents::Zero, _) => "zero".to_owned(),
            (Contents::Iota, _) => "iota".to_owned(),
            (Contents::Random(seed), _) => format!("random:{seed}"),
            (Contents::File(_), Some(path)) => format!("file:{path}"),
            (Contents::File(path), None) => format!("file:{}", path.display()),
        };
        let output = output.map(|path| format!("{OUT}{path}")).unwrap_or_default();
        format!("buf:{}:{}:{contents}{output}", self.element, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(text: &str) -> BufferSpec {
        match Spec::parse(text).unwrap() {
            Spec::Buffer(buffer) => buffer,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn scalars_and_lds_are_read() {
        let Spec::Scalar { value, .. } = Spec::parse("f32:1.5").unwrap() else { panic!() };
        assert_eq!(value, Scalar::F32(1.5));
        assert!(matches!(Spec::parse("local:256").unwrap(), Spec::Local { bytes: 256, .. }));
    }

    #[test]
    fn structures_are_laid_out_as_in_c() {
        let Spec::Struct { bytes, .. } = Spec::parse("struct:u8:1,i32:-1,f16:1,u64:0x102,u8:7").unwrap()
        else {
            panic!()
        };
        let members: [&[u8]; 6] = [
            &[1, 0, 0, 0],
            &[0xff; 4],
            &[0, 0x3c, 0, 0, 0, 0, 0, 0],
            &[2, 1, 0, 0, 0, 0, 0, 0],
            &[7],
            &[0; 7],
        ];
        assert_eq!(bytes, members.concat());
    }

    #[test]
    fn buffers_are_read() {
        for (text, count, contents, output) in [
            ("buf:f32:1024:zero", 1024, Contents::Zero, None),
            ("buf:f32:1024:iota:out=a.bin", 1024, Contents::Iota, Some("a.bin")),
            ("buf:u8:1:random:7", 1, Contents::Random(7), None),
            ("buf:f16:2:random:7:out=/x/y", 2, Contents::Random(7), Some("/x/y")),
            ("buf:i64:3:file:in.bin", 3, Contents::File("in.bin".into()), None),
            ("buf:i64:3:file:a:b.bin:out=c:d", 3, Contents::File("a:b.bin".into()), Some("c:d")),
        ] {
            let spec = buffer(text);
            assert_eq!(spec.count, count, "{text}");
            assert_eq!(spec.contents, contents, "{text}");
            assert_eq!(spec.output.as_deref(), output.map(Path::new), "{text}");
        }
    }

    #[test]
    fn misuse_is_named() {
        for (text, message) in [
            ("5", "expected TYPE:VALUE"),
            ("i33:5", "unknown type `i33`"),
            ("i32:five", "`five` is not a number of type i32"),
            ("u8:300", "does not fit type u8"),
            ("local:x", "not a number of bytes"),
            ("struct:", "the member `` is not TYPE:VALUE"),
            ("struct:f32:1,2", "the member `2` is not TYPE:VALUE"),
            ("struct:f31:1", "unknown type `f31`"),
            ("buf:f32", "expected buf:TYPE:COUNT:CONTENTS"),
            ("buf:f32:16", "expected buf:TYPE:COUNT:CONTENTS"),
            ("buf:f33:16:zero", "unknown type `f33`"),
            ("buf:f32:-1:zero", "not a number of elements"),
            ("buf:f32:0:zero", "at least one element"),
            ("buf:f64:18446744073709551615:zero", "more than any memory"),
            ("buf:f64:2305843009213693951:zero", "more than any memory"),
            ("buf:f32:16:ones", "`ones` is not zero, iota"),
            ("buf:f32:16:random", "`random` is not zero, iota"),
            ("buf:f32:16:random:x", "`x` is not a seed"),
            ("buf:f32:16:file:", "`file:` is not zero, iota"),
            ("buf:f32:16:zero:out=", "out= names no file"),
            ("buf:f32:16:zero:in=x", "`zero:in=x` is not zero, iota"),
        ] {
            let error = format!("{:#}", Spec::parse(text).unwrap_err());
            assert!(error.contains(message) && error.contains(&format!("bad --arg `{text}`")), "{error}");
        }
    }

    #[test]
    fn paths_can_be_replaced() {
        let spec = buffer("buf:i64:3:file:a:b.bin:out=c");
        assert_eq!(spec.with_paths(Some("/in"), Some("/out")), "buf:i64:3:file:/in:out=/out");
        assert_eq!(buffer("buf:u8:9:random:4").with_paths(None, None), "buf:u8:9:random:4");
    }
}
