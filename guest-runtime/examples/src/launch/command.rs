//! The command line of `launch`.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};

use super::spec::Spec;

/// Output of `launch --help`.
pub const USAGE: &str = "\
usage: launch FILE --kernel NAME --grid X,Y,Z --block X,Y,Z [--shared BYTES] --arg SPEC...

  FILE            code object (clang -target amdgcn-amd-amdhsa -mcpu=gfx1100 ...; docs/launch.md has the whole line, also
                  for kernels that use library functions), offload bundle, or HIP program
  --kernel NAME   kernel to launch; of a C++ kernel the function's name is enough where no other kernel has it
  --grid X,Y,Z    work-items of the whole grid
  --block X,Y,Z   work-items of a workgroup
  --shared BYTES  LDS on top of what the kernel declares
  --arg SPEC      one argument, in order:
      TYPE:VALUE                              a number: i32:5, f32:1.5, u64:0x10
      buf:TYPE:COUNT:CONTENTS[:out=PATH]      a buffer, written to PATH when the kernel is done
      struct:TYPE:VALUE,TYPE:VALUE,...        a structure by value, laid out as C does
      local:BYTES                             LDS for a __local pointer
    TYPE is i8 u8 i16 u16 i32 u32 i64 u64 f16 f32 f64; CONTENTS is zero, iota (0, 1, 2, ...), random:SEED
    (floats from 0 to 1, any integer), or file:PATH (raw little-endian bytes, exactly as many as fit).";

/// A parsed command line.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) file: PathBuf,
    pub(super) kernel: String,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) args: Vec<Spec>,
}

/// True if the command line asks for the usage text: `--help`, `-h`, or nothing at all.
pub fn wants_help(args: &[String]) -> bool {
    args.is_empty() || args.iter().any(|arg| arg == "--help" || arg == "-h")
}

impl Command {
    pub(super) fn parse(args: &[String]) -> anyhow::Result<Self> {
        let (mut file, mut kernel, mut grid, mut block, mut shared) = (None, None, None, None, None);
        let mut specs = Vec::new();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--kernel" => set(&mut kernel, arg, value()?.clone())?,
                "--grid" => set(&mut grid, arg, extent(arg, value()?)?)?,
                "--block" => set(&mut block, arg, extent(arg, value()?)?)?,
                "--shared" => {
                    let text = value()?;
                    let bytes = text
                        .parse()
                        .with_context(|| format!("--shared `{text}` is not a number of bytes"))?;
                    set(&mut shared, arg, bytes)?;
                }
                "--arg" => specs.push(Spec::parse(value()?)?),
                option if option.starts_with('-') => bail!("unknown option `{option}`\n\n{USAGE}"),
                path if file.is_none() => file = Some(PathBuf::from(path)),
                extra => bail!("unexpected `{extra}`: the code object was already named"),
            }
        }
        Ok(Self {
            file: file.context("no code object was named")?,
            kernel: kernel.context("--kernel is missing")?,
            grid: grid.context("--grid is missing")?,
            block: block.context("--block is missing")?,
            shared: shared.unwrap_or(0),
            args: specs,
        })
    }
}

fn set<T>(slot: &mut Option<T>, option: &str, value: T) -> anyhow::Result<()> {
    ensure!(slot.is_none(), "{option} is given twice");
    *slot = Some(value);
    Ok(())
}

/// `X,Y,Z`; missing dimensions are 1.
fn extent(option: &str, text: &str) -> anyhow::Result<[u32; 3]> {
    let mut extent = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    ensure!(parts.len() <= 3, "{option} `{text}` has {} dimensions, there are three", parts.len());
    for (slot, part) in extent.iter_mut().zip(&parts) {
        *slot =
            part.trim().parse().with_context(|| format!("{option} `{text}`: `{part}` is not a number"))?;
        ensure!(*slot > 0, "{option} `{text}` has a dimension of 0");
    }
    Ok(extent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn a_full_line_is_read() {
        let command = Command::parse(&words(
            "k.hsaco --kernel add --grid 1024,2,1 --block 64,1,1 --shared 128 --arg i32:-5 --arg buf:f32:4:iota",
        ))
        .unwrap();
        assert_eq!(command.file, PathBuf::from("k.hsaco"));
        assert_eq!(command.kernel, "add");
        assert_eq!((command.grid, command.block, command.shared), ([1024, 2, 1], [64, 1, 1], 128));
        assert_eq!(command.args.len(), 2);
        let short = Command::parse(&words("--grid 7 --block 1,1 --kernel k f")).unwrap();
        assert_eq!((short.grid, short.block), ([7, 1, 1], [1, 1, 1]));
    }

    #[test]
    fn misuse_is_named() {
        for (line, message) in [
            ("--kernel k --grid 1 --block 1", "no code object"),
            ("f --grid 1 --block 1", "--kernel is missing"),
            ("f --kernel k --block 1", "--grid is missing"),
            ("f --kernel k --grid 1", "--block is missing"),
            ("f --kernel", "--kernel needs a value"),
            ("f --kernel a --kernel b", "--kernel is given twice"),
            ("f g", "unexpected `g`"),
            ("f --blocks 1", "unknown option `--blocks`"),
            ("f --grid 1,2,3,4", "4 dimensions"),
            ("f --grid 1,x", "`x` is not a number"),
            ("f --grid 1,,1", "`` is not a number"),
            ("f --grid 0,1,1", "dimension of 0"),
            ("f --grid -1", "`-1` is not a number"),
            ("f --grid 99999999999", "is not a number"),
            ("f --shared lots", "not a number of bytes"),
            ("f --arg nonsense", "bad --arg `nonsense`"),
        ] {
            let error = format!("{:#}", Command::parse(&words(line)).unwrap_err());
            assert!(error.contains(message), "{line}: {error}");
        }
    }
}
