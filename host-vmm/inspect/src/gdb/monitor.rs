//! `monitor` commands: requests that GDB's own commands do not reach.

use std::sync::PoisonError;

use belfry_tools::inspect::{BreakOn, Hex, Inspect as _, InspectError};
use gdbstub::common::Tid;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, outputln};

use super::target::Waves;
use crate::questions::{QuestionError, answer_with, faulting};
use crate::symbols::{Loaded, ValueError};

const HELP: &str = "\
lane [N]                      the lane whose variables and private memory are shown; also: set $lane = N
thread N                      the wave that the commands below are for, until something runs: at first the one that has stopped (N as in `Thread 1.N`)
waves                         dispatches and waves
wave [ID]                     a wave with its code and registers
disassemble                   code around the pc of the wave that has stopped
where                         source line of the wave that has stopped
print VARIABLE                a variable of the selected lane, from the debug information
locals                        all of them
symbols                       code objects whose files are known
break line FILE:LINE          stop at a source line, of each kernel that has code there
break kernel NAME             stop before a dispatch of a kernel; also `packet KIND`, `register NAME`, `fault`, as `belfry inspect` has them
unbreak                       removes breakpoints that monitor has set
help                          this list
Anything else is a question of `belfry inspect --json`.";

/// Reasons why a command has no answer; the texts are for GDB's user.
#[derive(Debug, thiserror::Error)]
pub(super) enum MonitorError {
    /// The command is not UTF-8.
    #[error("that is no text")]
    NoText,
    /// A lane is none.
    #[error("{0:?} is no lane from 0 to 63")]
    Lane(String),
    /// A thread is none.
    #[error("{0:?} is no thread of a wave")]
    Thread(String),
    /// No wave has stopped yet.
    #[error("no wave has stopped")]
    NoWave,
    /// The wave is no more.
    #[error("the wave has ended")]
    Ended,
    /// GDB has a command of its own.
    #[error("GDB's own `break *ADDRESS` does that")]
    Break,
    /// The command would change the device behind GDB's back.
    #[error("GDB would not know of it; use its own commands")]
    Unseen,
    /// An address belongs to no file that is known.
    #[error("no symbols are known for {0:#x}; --symbols PATH names their file")]
    NoSymbols(u64),
    /// An address has no source line.
    #[error("no source line is known for {0}")]
    NoLine(Hex),
    /// A variable has no value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// The device has no answer.
    #[error(transparent)]
    Device(#[from] InspectError),
    /// A question of `belfry inspect` has no answer.
    #[error(transparent)]
    Question(#[from] QuestionError),
}

impl MonitorCmd for Waves {
    fn handle_monitor_cmd(&mut self, command: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), Self::Error> {
        let said = match std::str::from_utf8(command) {
            Ok(command) => self.monitor(command.trim()),
            Err(_) => Err(MonitorError::NoText),
        };
        let said = said.unwrap_or_else(|error| error.to_string());
        outputln!(out, "{}", plain(&said));
        Ok(())
    }
}

/// A text without characters that act on a terminal: names come from guests' memory.
pub(super) fn plain(text: &str) -> String {
    let shown = |character: char| if character.is_control() && character != '\n' { '?' } else { character };
    text.chars().map(shown).collect()
}

impl Waves {
    fn monitor(&mut self, command: &str) -> Result<String, MonitorError> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            [] | ["help"] => Ok(HELP.to_owned()),
            ["lane"] => Ok(format!("lane {}", self.lane)),
            ["lane", number] => {
                let lane = number.parse().ok().filter(|lane| *lane < 64);
                self.lane = lane.ok_or_else(|| MonitorError::Lane(number.to_owned()))?;
                Ok(format!("lane {}", self.lane))
            }
            ["thread", number] => {
                let thread = number.parse().ok().and_then(|thread| self.wave(thread));
                self.current = Some(thread.ok_or_else(|| MonitorError::Thread(number.to_owned()))?);
                self.place()
            }
            ["waves"] => self.waves(),
            ["disassemble"] => self.disassemble(),
            ["wave"] => {
                let wave = self.current.ok_or(MonitorError::NoWave)?;
                self.ask(&format!("wave {wave}"))
            }
            ["break", "pc", ..] => Err(MonitorError::Break),
            ["where"] => self.place(),
            ["print", name] => {
                let thread = self.stopped_thread()?;
                self.variable(thread, name).map(|value| format!("{name} = {value}"))
            }
            ["locals"] => self.locals(),
            ["symbols"] => Ok(self.known_symbols()),
            ["break", "kernel", name] => self.add(BreakOn::Kernel(name.to_owned())),
            ["break", "fault"] => self.add(BreakOn::Fault),
            ["break", ..] => {
                let gpu = std::sync::Arc::clone(&self.gpu);
                let said = answer_with(&gpu, &self.symbols, command)?;
                let numbers =
                    said["breakpoints"].as_array().into_iter().flatten().chain(said.get("breakpoint"));
                let numbers = numbers.filter_map(|number| u32::try_from(number.as_u64()?).ok());
                self.others.extend(numbers);
                Ok(format!("{command}: set"))
            }
            ["unbreak"] => {
                let count = self.others.len();
                for number in std::mem::take(&mut self.others) {
                    self.gpu.inspect().remove_break(number);
                }
                Ok(format!("{count} removed"))
            }
            ["continue" | "step" | "barrier" | "pause" | "unbreak" | "wait", ..] => Err(MonitorError::Unseen),
            _ => self.ask(command),
        }
    }

    fn add(&mut self, on: BreakOn) -> Result<String, MonitorError> {
        let said = format!("break {on}: set");
        let number = self.gpu.inspect().add_break(on)?;
        self.others.push(number);
        Ok(said)
    }

    fn ask(&self, question: &str) -> Result<String, MonitorError> {
        Ok(format!("{:#}", answer_with(&self.gpu, &self.symbols, question)?))
    }

    fn waves(&mut self) -> Result<String, MonitorError> {
        let view = self.gpu.inspect().waves()?;
        let mut lines: Vec<String> = Vec::new();
        for wave in &view.waves {
            let thread = self.thread(wave.wave);
            lines.push(format!(
                "thread {thread}: wave {} of {} at {}, exec {}, {}",
                wave.wave, wave.kernel, wave.pc, wave.exec, wave.waits
            ));
        }
        lines.push(format!("{} waves of {} dispatches", view.all, view.dispatches.len()));
        Ok(lines.join("\n"))
    }

    fn stopped_thread(&mut self) -> Result<Tid, MonitorError> {
        let wave = self.current.ok_or(MonitorError::NoWave)?;
        Ok(self.thread(wave))
    }

    fn disassemble(&mut self) -> Result<String, MonitorError> {
        let thread = self.stopped_thread()?;
        let seen = self.details(thread).ok_or(MonitorError::Ended)?.code.clone();
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for line in &seen {
            let source = symbols.line(line.address.0).map(|source| source.to_string()).unwrap_or_default();
            let mark = if line.next { "=>" } else { "  " };
            lines.push(format!("{mark} {}  {source:16} {}", line.address, line.text));
        }
        Ok(lines.join("\n"))
    }

    fn place(&mut self) -> Result<String, MonitorError> {
        let thread = self.stopped_thread()?;
        let seen = self.details(thread).ok_or(MonitorError::Ended)?;
        let (pc, kernel) = (seen.view.pc, seen.view.kernel.clone());
        let off = if seen.view.exec.0 >> self.lane & 1 == 0 { " (off)" } else { "" };
        self.source_of(pc.0)?;
        let status = self.gpu.inspect().status();
        let why = status.why.filter(|why| status.wave == self.current && why.starts_with("fault"));
        let why = why.unwrap_or_default();
        let lane = self.lane;
        let lane = faulting(&why).unwrap_or_else(|| format!(", lane {lane}{off}"));
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(source) = symbols.line(pc.0) else {
            return Err(MonitorError::NoLine(pc));
        };
        let function = source.function.unwrap_or("?");
        let why = if why.is_empty() { why } else { format!("\n{why}") };
        Ok(format!("{source}{lane}, in {function} of {kernel}, {}, {pc}{why}", source.file))
    }

    fn locals(&mut self) -> Result<String, MonitorError> {
        let thread = self.stopped_thread()?;
        let pc = self.details(thread).ok_or(MonitorError::Ended)?.view.pc.0;
        let (file, own) = self.source_of(pc)?;
        let lines = file.names(own).into_iter().map(|name| match self.variable(thread, name) {
            Ok(value) => format!("{name} = {value}"),
            Err(why) => format!("{name}: {why}"),
        });
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }

    fn known_symbols(&self) -> String {
        let symbols = self.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        if symbols.loaded.is_empty() {
            return "none; --symbols PATH names files of code objects".to_owned();
        }
        let line = |loaded: &Loaded| {
            let lines =
                if loaded.file.has_lines() { "" } else { ", without debug information (compile with -g)" };
            format!("{:#x} of process {:#x}: {}{lines}", loaded.base, loaded.pasid, loaded.file.path())
        };
        symbols.loaded.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
