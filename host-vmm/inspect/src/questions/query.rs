//! Questions in words, and the device's answers.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::time::Duration;

use belfry_abi::pm4::Opcode;
use belfry_abi::sdma::Op;
use belfry_device::Gpu;
use belfry_device::memory::Physical;
use belfry_tools::inspect::{AccessRange, BreakOn, Inspect as _, InspectError, MemoryAs, WaveId, WaveParts};
use serde::Serialize;
use serde_json::{Value, json};

use super::QuestionError;

/// The longest that `wait` waits.
const MAX_WAIT: u64 = 60;

/// All questions.
pub const HELP: &str = "\
overview                      counters of the device, and whether it is halted
queues                        all queues
queue DOORBELL                registers and packets of a queue
waves                         dispatches and waves on the compute units
wave ID [vN [LANE]]           a wave DISPATCH:X,Y,Z:WAVE with its code and registers, or with one vector register
walk PASID ADDRESS            page tables, level by level; PASID 0 is the kernel
backwards vram|system ADDRESS where a physical page is mapped
registers [BLOCK]             registers that were changed, or all of a block
unmodelled                    what was used and has no model, most used first
interrupts                    the interrupt rings
doorbells                     doorbells that somebody listens to
memory PASID ADDRESS LENGTH [words|packets|signals|descriptors]
kernels                       kernels of code objects that queues have dispatched from
status                        whether the device is halted, by what, and the breakpoints
pause, continue               halt everything, let it go on
wait SECONDS                  until the device is halted
step WAVE [COUNT]             run instructions of a wave while the device is halted
barrier WAVE                  run its workgroup to the next barrier
source WAVE                   source line of a wave, where symbols are known (`--symbols`)
break pc ADDRESS | line FILE:LINE | kernel NAME | packet KIND | register NAME | fault
break read|write|access [lds] ADDRESS [BYTES]
unbreak NUMBER | all
snapshot PATH                 save the GPU with its machine, or alone (`belfry snapshot`)
help                          this list";

/// Answers a question.
///
/// # Errors
///
/// A question that is none, or that the device has no answer to, in words.
pub fn answer(gpu: &Gpu, question: &str) -> Result<Value, QuestionError> {
    let words: Vec<&str> = question.split_whitespace().collect();
    let (&what, arguments) = words.split_first().ok_or(QuestionError::Empty)?;
    let inspector = gpu.inspect();
    match (what, arguments) {
        ("help", []) => Ok(json!(HELP.lines().collect::<Vec<_>>())),
        ("overview", []) => {
            let mut overview = value(&inspector.overview())?;
            overview["halted"] = inspector.status().halted.into();
            Ok(overview)
        }
        ("queues", []) => said(inspector.queues()),
        ("queue", [doorbell]) => said(inspector.queue(number(doorbell)?)),
        ("waves", []) => said(inspector.waves()),
        ("wave", [wave, rest @ ..]) => said(inspector.wave(wave_id(wave)?, parts(rest)?)),
        ("walk", [pasid, address]) => said(inspector.walk(number(pasid)?, number(address)?)),
        ("backwards", ["vram", address]) => said(inspector.backwards(Physical::local(number(address)?))),
        ("backwards", ["system", address]) => said(inspector.backwards(Physical::system(number(address)?))),
        ("registers", []) => said(inspector.registers(None)),
        ("registers", [block]) => said(inspector.registers(Some(block))),
        ("unmodelled", []) => value(&inspector.unmodelled()),
        ("interrupts", []) => value(&inspector.interrupts()),
        ("doorbells", []) => value(&inspector.doorbells()),
        ("memory", [pasid, address, length, rest @ ..]) => {
            let kind = match rest {
                [] => MemoryAs::Words,
                ["as", kind] | [kind] => kind.parse()?,
                _ => {
                    return Err(QuestionError::Form(
                        "memory PASID ADDRESS LENGTH [words|packets|signals|descriptors]",
                    ));
                }
            };
            said(inspector.memory(number(pasid)?, (number(address)?, number(length)?), kind))
        }
        ("kernels", []) => said(inspector.kernels()),
        ("status", []) => value(&inspector.status()),
        ("pause", []) => said(inspector.halt()),
        ("continue", []) => Ok(json!({ "was_halted": inspector.proceed() })),
        ("wait", [seconds]) => {
            let limit = Duration::from_secs(number::<u64>(seconds)?.min(MAX_WAIT));
            said(inspector.wait(limit))
        }
        ("step", [wave, rest @ ..]) => {
            let (wave, count) = (wave_id(wave)?, rest.first().map_or(Ok(1), |count| number(count))?);
            inspector.step(wave, count)?;
            Ok(inspector.wave(wave, WaveParts::default()).map_or(Value::Null, |wave| json!(wave)))
        }
        ("barrier", [wave]) => {
            let wave = wave_id(wave)?;
            inspector.step_to_barrier(wave)?;
            Ok(inspector.wave(wave, WaveParts::default()).map_or(Value::Null, |wave| json!(wave)))
        }
        ("break", ["register", name]) => number_of(inspector.break_on_register(name)),
        ("break", on) => number_of(inspector.add_break(break_on(on)?)),
        ("unbreak", ["all"]) => {
            inspector.clear_breaks();
            Ok(json!({ "removed": true }))
        }
        ("unbreak", [which]) => Ok(json!({ "removed": inspector.remove_break(number(which)?) })),
        _ => Err(QuestionError::Unknown(question.to_owned())),
    }
}

fn value(answer: &impl Serialize) -> Result<Value, QuestionError> {
    serde_json::to_value(answer).map_err(|error| QuestionError::Json(error.to_string()))
}

fn said<T: Serialize>(answer: Result<T, InspectError>) -> Result<Value, QuestionError> {
    value(&answer?)
}

fn number_of(added: Result<u32, InspectError>) -> Result<Value, QuestionError> {
    Ok(json!({ "breakpoint": added? }))
}

/// A number, decimal, or hexadecimal after `0x`.
fn number<T: TryFrom<u64>>(text: &str) -> Result<T, QuestionError> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let wrong = || QuestionError::Number(text.to_owned());
    T::try_from(parsed.map_err(|_| wrong())?).map_err(|_| wrong())
}

fn wave_id(text: &str) -> Result<WaveId, QuestionError> {
    Ok(WaveId::from_str(text)?)
}

/// `v3 5`: a vector register and a lane.
fn parts(words: &[&str]) -> Result<WaveParts, QuestionError> {
    let vgpr = |text: &str| number(text.strip_prefix('v').unwrap_or(text));
    match words {
        [] => Ok(WaveParts::default()),
        [register] => Ok(WaveParts { vgpr: Some(vgpr(register)?), lane: None }),
        [register, lane] => Ok(WaveParts { vgpr: Some(vgpr(register)?), lane: Some(number(lane)?) }),
        _ => Err(QuestionError::Form("wave ID [vN [LANE]]")),
    }
}

/// The words of breakpoints.
const BREAKS: &str = "break pc ADDRESS | line FILE:LINE | kernel NAME | packet KIND | read|write|access [lds] ADDRESS [BYTES] | register NAME | \
                      fault";

fn break_on(words: &[&str]) -> Result<BreakOn, QuestionError> {
    match words {
        ["pc", address] => Ok(BreakOn::Pc(number(address)?)),
        ["kernel", name] => Ok(BreakOn::Kernel((*name).to_owned())),
        ["packet", kind] => packet(&kind.to_ascii_uppercase()),
        [how @ ("read" | "write" | "access"), "lds", rest @ ..] => range(how, true, rest),
        [how @ ("read" | "write" | "access"), rest @ ..] => range(how, false, rest),
        ["fault"] => Ok(BreakOn::Fault),
        _ => Err(QuestionError::Form(BREAKS)),
    }
}

/// A kind of packets: of AQL by its name, of others after `PM4:` and `SDMA:`.
fn packet(kind: &str) -> Result<BreakOn, QuestionError> {
    let aql = ["KERNEL_DISPATCH", "BARRIER_AND", "BARRIER_OR", "BARRIER_VALUE", "PM4_IB"];
    let (engine, name) = kind.split_once(':').unwrap_or(("", kind));
    let names: BTreeSet<&str> = match engine {
        "" => aql.into(),
        "PM4" => (0..=u8::MAX).filter_map(|opcode| Opcode(opcode).name()).collect(),
        "SDMA" => (0..=u8::MAX).filter_map(|op| Op(op).name()).collect(),
        _ => return Err(QuestionError::Engine(engine.to_owned())),
    };
    if names.contains(name) {
        return Ok(BreakOn::Packet(kind.to_owned()));
    }
    let known = names.into_iter().collect::<Vec<_>>().join(", ");
    Err(QuestionError::Packet { name: name.to_owned(), known })
}

/// Accesses of bytes from an address on: of one byte, unless a number is given.
fn range(how: &str, lds: bool, words: &[&str]) -> Result<BreakOn, QuestionError> {
    let (first, length): (u64, u64) = match words {
        [address] => (number(address)?, 1),
        [address, length] => (number(address)?, number(length)?),
        _ => return Err(QuestionError::Form(BREAKS)),
    };
    let last = length.checked_sub(1).and_then(|behind| first.checked_add(behind));
    let last = last.ok_or(QuestionError::Range { first, length })?;
    let (reads, writes) = (how != "write", how != "read");
    Ok(BreakOn::Access(AccessRange { lds, first, last, reads, writes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_waves_and_breakpoints_are_read_or_refused_in_words() {
        assert_eq!((number::<u64>("0x10"), number::<u16>("16")), (Ok(16), Ok(16)));
        assert!(
            number::<u16>("65536").is_err() && number::<u64>("-1").is_err() && number::<u64>("").is_err()
        );
        let wave = WaveId { dispatch: 7, workgroup: [1, 2, 3], wave: 4 };
        assert_eq!((wave_id("7:1,2,3:4"), wave.to_string()), (Ok(wave), "7:1,2,3:4".to_owned()));
        for wrong in ["", "7", "7:1:", "7:1,2,3,4:5", "a:1:1"] {
            assert!(wave_id(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parts(&["v0", "3"]), Ok(WaveParts { vgpr: Some(0), lane: Some(3) }));
        assert!(parts(&["v256"]).is_err() && parts(&["v0", "1", "2"]).is_err());
        assert_eq!(break_on(&["pc", "0x100"]), Ok(BreakOn::Pc(0x100)));
        assert_eq!(break_on(&["packet", "barrier_and"]), Ok(BreakOn::Packet("BARRIER_AND".into())));
        assert_eq!(break_on(&["packet", "pm4:write_data"]), Ok(BreakOn::Packet("PM4:WRITE_DATA".into())));
        assert_eq!(break_on(&["packet", "SDMA:FENCE"]), Ok(BreakOn::Packet("SDMA:FENCE".into())));
        for wrong in ["pm4:nothing", "sdma:write_data", "aql:barrier_and"] {
            assert!(break_on(&["packet", wrong]).is_err(), "{wrong}");
        }
        let range = |lds, first, last, reads, writes| {
            Ok(BreakOn::Access(AccessRange { lds, first, last, reads, writes }))
        };
        assert_eq!(break_on(&["write", "0x100", "4"]), range(false, 0x100, 0x103, false, true));
        assert_eq!(break_on(&["access", "lds", "8"]), range(true, 8, 8, true, true));
        assert!(
            break_on(&["read", "8", "0"]).is_err() && break_on(&["read", "0xffffffffffffffff", "2"]).is_err()
        );
        assert!(break_on(&["packet", "nothing"]).is_err() && break_on(&[]).is_err());
    }
}
