//! Questions about source lines and variables.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr as _;
use std::sync::{Mutex, PoisonError};

use belfry_device::Gpu;
use belfry_tools::inspect::{BreakOn, Inspect as _, WaveId, WaveParts};
use serde_json::{Value, json};

use super::{QuestionError, answer};
use crate::symbols::Symbols;

/// Looks for code objects that have come. Returns true if there are any whose symbols are known.
pub fn look_for_code(gpu: &Gpu, symbols: &Mutex<Symbols>) -> bool {
    let mut symbols = symbols.lock().unwrap_or_else(PoisonError::into_inner);
    if symbols.is_empty() {
        return false;
    }
    let inspector = gpu.inspect();
    let kernels = inspector.kernels().unwrap_or_default();
    let objects: BTreeSet<(u16, u64)> =
        kernels.iter().map(|kernel| (kernel.pasid, kernel.code_object.0)).collect();
    let mut found = false;
    for (pasid, base) in objects {
        found |= symbols.found(pasid, base, &mut |address, bytes| {
            inspector.bytes_of_process(pasid, address, bytes).unwrap_or(0)
        });
    }
    found
}

/// Answers a question with the help of symbols: `break line`, and source lines beside the code of waves.
///
/// # Errors
///
/// A question that is none, or that the device has no answer to, in words.
pub fn answer_with(gpu: &Gpu, symbols: &Mutex<Symbols>, question: &str) -> Result<Value, QuestionError> {
    let words: Vec<&str> = question.split_whitespace().collect();
    match words[..] {
        ["break", "line", place] => {
            let addresses = addresses(gpu, symbols, place)?;
            if addresses.is_empty() {
                return Err(QuestionError::NoCode {
                    known: "on the GPU is known",
                    place: place.to_owned(),
                    why: reason(symbols),
                });
            }
            break_at(gpu, addresses)
        }
        ["source", wave] => {
            look_for_code(gpu, symbols);
            let wave =
                gpu.inspect().wave(WaveId::from_str(wave)?, WaveParts { vgpr: Some(0), lane: Some(0) });
            let pc = wave?.view.pc;
            let symbols = symbols.lock().unwrap_or_else(PoisonError::into_inner);
            let source = symbols.line(pc.0).ok_or(QuestionError::NoLine(pc))?;
            Ok(json!({ "pc": pc, "file": source.file, "line": source.line, "function": source.function }))
        }
        ["status"] | ["wait", _] => {
            let mut said = answer(gpu, question)?;
            add_place(gpu, symbols, &mut said);
            Ok(said)
        }
        ["wave", ..] | ["step", ..] => {
            let mut said = answer(gpu, question)?;
            look_for_code(gpu, symbols);
            add_lines(&mut said, &symbols.lock().unwrap_or_else(PoisonError::into_inner));
            Ok(said)
        }
        _ => answer(gpu, question),
    }
}

/// A source line.
pub(super) fn source_line(place: &str) -> Result<(&str, u32), QuestionError> {
    let (file, line) = place.rsplit_once(':').ok_or(QuestionError::Form("break line FILE:LINE"))?;
    Ok((file, line.parse().map_err(|_| QuestionError::Line(line.to_owned()))?))
}

/// Addresses at which code of a source line begins on the GPU.
pub(super) fn addresses(gpu: &Gpu, symbols: &Mutex<Symbols>, place: &str) -> Result<Vec<u64>, QuestionError> {
    let (file, line) = source_line(place)?;
    look_for_code(gpu, symbols);
    Ok(symbols.lock().unwrap_or_else(PoisonError::into_inner).addresses(file, line))
}

/// Adds breakpoints at addresses, and answers with their numbers.
pub(super) fn break_at(gpu: &Gpu, addresses: Vec<u64>) -> Result<Value, QuestionError> {
    let add = |address| gpu.inspect().add_break(BreakOn::Pc(address));
    let numbers = addresses.into_iter().map(add).collect::<Result<Vec<u32>, _>>()?;
    Ok(json!({ "breakpoints": numbers }))
}

/// Why there is no code of a line.
pub(super) fn reason(symbols: &Mutex<Symbols>) -> &'static str {
    let symbols = symbols.lock().unwrap_or_else(PoisonError::into_inner);
    match (symbols.is_empty(), symbols.loaded.is_empty()) {
        (true, _) => "--symbols PATH names files of code objects",
        (_, true) => "nothing was dispatched from a code object whose file is known",
        _ => "the line has none",
    }
}

/// Adds the source line of the wave by which the device is halted, and the lanes of a fault in words.
fn add_place(gpu: &Gpu, symbols: &Mutex<Symbols>, status: &mut Value) {
    let Some(wave) = status["wave"].as_str().map(str::to_owned) else { return };
    if let Ok(found) = answer_with(gpu, symbols, &format!("source {wave}")) {
        let file = found["file"].as_str().unwrap_or_default();
        let name = Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file);
        let lanes = status["why"].as_str().and_then(faulting).unwrap_or_default();
        status["source"] = format!("{name}:{}{lanes}", found["line"]).into();
    }
}

/// `, lane 7`: the first lane of a fault that names its lanes as a mask.
pub(crate) fn faulting(why: &str) -> Option<String> {
    let digits = why.split("(lanes 0x").nth(1)?.split(')').next()?;
    let mask = u64::from_str_radix(digits, 16).ok().filter(|mask| *mask != 0)?;
    let others =
        if mask.count_ones() > 1 { format!(" and {} more", mask.count_ones() - 1) } else { String::new() };
    Some(format!(", lane {}{others}", mask.trailing_zeros()))
}

/// Adds source lines to the code of a wave.
fn add_lines(wave: &mut Value, symbols: &Symbols) {
    for line in wave.get_mut("code").and_then(Value::as_array_mut).into_iter().flatten() {
        let digits = line["address"].as_str().and_then(|text| text.strip_prefix("0x"));
        let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        if let Some(source) = address.and_then(|address| symbols.line(address)) {
            line["source"] = source.to_string().into();
        }
    }
}
