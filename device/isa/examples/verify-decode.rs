//! Compares decoder and disassembler with `llvm-mc` on random code.
//!
//! `verify-decode [WORDS [SEED]]`: half the samples are random bytes, half are encodings of the tables with random
//! operands, so that rare encodings are met too. Both wave sizes. Exits with an error when `llvm-mc` cannot be run
//! (`LLVM_MC` names another than `llvm-mc-19`) or when fewer than 99 % of the instructions agree.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};

use belfry_isa::disasm::disassemble;
use belfry_isa::inst::{Arch, Format, Inst, WaveSize};
use belfry_isa::tables::{Pattern, patterns};

/// Bytes of a sample: the longest instruction with its literal and room for what follows it.
const SAMPLE: usize = 16;
/// Ends a sample in the listings: `s_sethalt 0x5a5a`, as unlikely as any word in random code.
const END: [u8; 4] = [0x5a, 0x5a, 0x82, 0xbf];
/// Its text.
const END_TEXT: &str = "s_sethalt 0x5a5a";

#[derive(Default)]
struct Tally {
    same: usize,
    total: usize,
    examples: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let words: usize = args.next().map_or(Ok(100_000), |arg| arg.parse())?;
    let seed: u64 = args.next().map_or(Ok(1), |arg| arg.parse())?;
    let patterns: Vec<Pattern> = patterns(Arch::Gfx1100).collect();
    let mut random = Random(seed);
    let samples: Vec<[u8; SAMPLE]> = (0..words / (SAMPLE / 4))
        .map(|index| {
            let noise = u128::from(random.next()) << 64 | u128::from(random.next());
            let bits = if index % 2 == 0 {
                noise
            } else {
                let pattern = patterns[usize::try_from(random.next() % patterns.len() as u64).unwrap_or(0)];
                noise & !pattern.mask | pattern.value
            };
            bits.to_le_bytes()
        })
        .collect();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for wave in [WaveSize::Wave32, WaveSize::Wave64] {
        for chunk in samples.chunks(20_000) {
            compare(wave, chunk, &mut tallies)?;
        }
    }
    let (mut same, mut total) = (0, 0);
    for (name, tally) in &tallies {
        same += tally.same;
        total += tally.total;
        println!(
            "{name:10} {:8} of {:8}  {:7.3} %",
            tally.same,
            tally.total,
            percent(tally.same, tally.total)
        );
        for example in &tally.examples {
            println!("    {example}");
        }
    }
    println!("{:10} {same:8} of {total:8}  {:7.3} %", "all", percent(same, total));
    if percent(same, total) < 99.0 {
        return Err("fewer than 99 % of the instructions agree with llvm-mc".into());
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a percentage for people")]
fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 { 100.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// Lists the samples with both disassemblers and counts, per encoding, where they agree.
fn compare(
    wave: WaveSize,
    samples: &[[u8; SAMPLE]],
    tallies: &mut BTreeMap<String, Tally>,
) -> Result<(), Box<dyn Error>> {
    let Some(theirs) = llvm_mc(wave, samples)? else {
        if let [sample] = samples {
            println!("llvm-mc crashes on {} in {wave:?}", hex(sample));
            return Ok(());
        }
        let (left, right) = samples.split_at(samples.len() / 2);
        compare(wave, left, tallies)?;
        return compare(wave, right, tallies);
    };
    if theirs.len() != samples.len() {
        return Err(format!("llvm-mc listed {} samples of {}", theirs.len(), samples.len()).into());
    }
    'samples: for (sample, theirs) in samples.iter().zip(theirs) {
        let mut theirs = theirs.into_iter();
        for line in disassemble(Arch::Gfx1100, wave, sample, 0) {
            // llvm-mc gives a block up where it meets no instruction. Lengths show in what comes next.
            let Ok(inst) = line.inst else { break };
            let (mine, expected) = (line.text(), theirs.next());
            if expected.is_none() && halves(&inst) {
                // LLVM 19 knows no high halves in the short encodings.
                count(tallies, "high halves", true, String::new);
                continue 'samples;
            }
            let same = expected.as_ref() == Some(&mine);
            count(tallies, &format!("{:?}", inst.format), same, || {
                format!("{} {wave:?}: {mine:?} llvm {expected:?}", hex(&sample[offset(line.address)..]))
            });
            if !same {
                continue 'samples;
            }
        }
        if let Some(text) = theirs.next() {
            count(tallies, "missed", false, || format!("{} {wave:?}: llvm {text:?}", hex(sample)));
        }
    }
    Ok(())
}

fn count(tallies: &mut BTreeMap<String, Tally>, format: &str, same: bool, example: impl FnOnce() -> String) {
    let tally = tallies.entry(format.to_owned()).or_default();
    tally.total += 1;
    if same {
        tally.same += 1;
    } else if tally.examples.len() < 8 {
        tally.examples.push(example());
    }
}

/// Whether a 16-bit operand of a short encoding is the high half of its register.
fn halves(inst: &Inst) -> bool {
    inst.mods.op_sel != 0 && matches!(inst.format, Format::Vop1 | Format::Vop2 | Format::Vopc)
}

fn offset(address: u64) -> usize {
    usize::try_from(address).unwrap_or(0)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `llvm-mc`'s listing of each sample, `None` when it crashes.
fn llvm_mc(wave: WaveSize, samples: &[[u8; SAMPLE]]) -> Result<Option<Vec<Vec<String>>>, Box<dyn Error>> {
    let program = std::env::var("LLVM_MC").unwrap_or_else(|_| "llvm-mc-19".to_owned());
    let attributes = match wave {
        WaveSize::Wave32 => "-mattr=+wavefrontsize32,-wavefrontsize64",
        WaveSize::Wave64 => "-mattr=-wavefrontsize32,+wavefrontsize64",
    };
    let mut child = Command::new(&program)
        .args(["--disassemble", "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx1100", "-show-encoding", attributes])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("{program} cannot be run: {error}; install llvm-19 or set LLVM_MC"))?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    let input: String = samples
        .iter()
        .map(|sample| {
            let line =
                |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:#04x}")).collect::<Vec<_>>().join(",");
            format!("[{}]\n[{}]\n", line(sample), line(&END))
        })
        .collect();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output()?;
    let written = writer.join().map_err(|_| "the writer panicked")?;
    if output.status.code().is_none() {
        return Ok(None);
    }
    written?;
    // 1 says that some bytes were no instruction.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(format!("{program} failed: {}", output.status).into());
    }
    let mut listings = Vec::new();
    let mut current = Vec::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        let Some((text, _)) = line.split_once("; encoding: [") else { continue };
        let text = text.trim();
        if text == END_TEXT {
            listings.push(std::mem::take(&mut current));
        } else {
            current.push(text.to_owned());
        }
    }
    Ok(Some(listings))
}

/// xorshift64*: reproducible, and good enough to pick operands.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
