//! The files a `launch` command line names, for a host that has to carry them into a guest and back.

use std::path::{Path, PathBuf};

use super::command::{Command, wants_help};
use super::spec::{Contents, Spec};

/// Folder of the guest that carried files are in.
pub const GUEST_DIRECTORY: &str = "/files";

/// One file and its paths on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Carried {
    /// Path on the host, as the command line has it.
    pub host: PathBuf,
    /// Path in the guest, below [`GUEST_DIRECTORY`].
    pub guest: PathBuf,
}

/// Files that a command line reads and writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileUse {
    /// Files to be there before the launch: the code object and buffer contents.
    pub inputs: Vec<Carried>,
    /// Files the launch writes.
    pub outputs: Vec<Carried>,
    /// The same command line with guest paths.
    pub args: Vec<String>,
}

/// Tells which host files the arguments of `launch` name, and rewrites them to guest paths.
///
/// Everything that can be checked without a GPU is checked first, so that a mistake is reported with the user's
/// own paths, before any guest starts.
///
/// # Errors
///
/// The first mistake in the command line or its input files, in one line.
pub fn files(args: &[String]) -> anyhow::Result<FileUse> {
    if wants_help(args) {
        return Ok(FileUse { args: args.to_vec(), ..FileUse::default() });
    }
    super::check(args)?;
    rewrite(&Command::parse(args)?)
}

fn rewrite(command: &Command) -> anyhow::Result<FileUse> {
    let mut result = FileUse::default();
    let code = guest_path("code", 0);
    result.inputs.push(Carried { host: command.file.clone(), guest: PathBuf::from(&code) });
    let extent = |extent: [u32; 3]| extent.map(|size| size.to_string()).join(",");
    let mut line = vec![code, "--kernel".into(), command.kernel.clone()];
    line.extend(["--grid".into(), extent(command.grid), "--block".into(), extent(command.block)]);
    line.extend(["--shared".into(), command.shared.to_string()]);
    for (index, spec) in command.args.iter().enumerate() {
        line.push("--arg".into());
        let Spec::Buffer(buffer) = spec else {
            line.push(spec.text().to_owned());
            continue;
        };
        let carry = |list: &mut Vec<Carried>, kind, host: &Path| {
            let guest = guest_path(kind, index);
            list.push(Carried { host: host.to_owned(), guest: PathBuf::from(&guest) });
            guest
        };
        let input = match &buffer.contents {
            Contents::File(path) => Some(carry(&mut result.inputs, "in", path)),
            _ => None,
        };
        let output = buffer.output.as_deref().map(|path| carry(&mut result.outputs, "out", path));
        line.push(buffer.with_paths(input.as_deref(), output.as_deref()));
    }
    result.args = line;
    Ok(result)
}

/// A name without anything in it that a SPEC or a shell could trip over.
fn guest_path(kind: &str, index: usize) -> String {
    format!("{GUEST_DIRECTORY}/{kind}-{index}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(ToOwned::to_owned).collect()
    }

    fn carried(host: &str, guest: &str) -> Carried {
        Carried { host: host.into(), guest: guest.into() }
    }

    #[test]
    fn paths_become_guest_paths_and_the_rest_stays() {
        let line = words(
            "my.hsaco --kernel k --grid 8 --block 4 --arg i32:5 --arg buf:f32:8:file:a:1.bin:out=a:1.bin \
             --arg buf:u8:3:random:9 --arg buf:u8:3:zero:out=c.bin",
        );
        let result = rewrite(&Command::parse(&line).unwrap()).unwrap();
        assert_eq!(result.inputs, [carried("my.hsaco", "/files/code-0"), carried("a:1.bin", "/files/in-1")]);
        assert_eq!(result.outputs, [carried("a:1.bin", "/files/out-1"), carried("c.bin", "/files/out-3")]);
        let expected = words(
            "/files/code-0 --kernel k --grid 8,1,1 --block 4,1,1 --shared 0 --arg i32:5 \
             --arg buf:f32:8:file:/files/in-1:out=/files/out-1 --arg buf:u8:3:random:9 \
             --arg buf:u8:3:zero:out=/files/out-3",
        );
        assert_eq!(result.args, expected);
        // The result is a command line again, and means the same.
        assert_eq!(Command::parse(&result.args).unwrap().grid, [8, 1, 1]);
    }

    #[test]
    fn mistakes_are_reported_before_a_guest_starts() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("k.hsaco"), crate::kernels::VECADD.objects[0].1).unwrap();
        std::fs::write(path("short.bin"), [0; 10]).unwrap();
        std::fs::write(path("text.hsaco"), "not a code object").unwrap();
        let line = |file: &str, rest: &str| {
            let mut line = vec![path(file)];
            line.extend(words(&format!("--grid 8 --block 4 {rest}")));
            line
        };
        let ok = line("k.hsaco", &format!("--kernel vecadd --arg buf:u8:10:file:{}", path("short.bin")));
        assert_eq!(files(&ok).unwrap().inputs.len(), 2);
        let cases = [
            (line("none.hsaco", "--kernel vecadd"), "cannot read the code object"),
            (line(".", "--kernel vecadd"), "not a file"),
            (line("text.hsaco", "--kernel vecadd"), "not a readable ELF file"),
            (line("k.hsaco", "--kernel nope"), "no kernel `nope`"),
            (line("k.hsaco", "--kernel vecadd --arg buf:u8:4:file:/none"), "cannot read /none"),
            (
                line("k.hsaco", &format!("--kernel vecadd --arg buf:f32:4:file:{}", path("short.bin"))),
                "has 10 bytes, 4 elements of f32 have 16",
            ),
            (line("k.hsaco", "--kernel vecadd --arg buf:u8:4:zero:out=/no/such/x"), "no folder /no/such"),
        ];
        for (line, message) in cases {
            let error = format!("{:#}", files(&line).unwrap_err());
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(files(&words("--help")).unwrap().args, ["--help"]);
    }
}
