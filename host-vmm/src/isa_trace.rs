//! `--trace-isa`: the instructions of a wave as text.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use belfry_device::trace::{Kind, Record, TraceSink, WaveId};
use belfry_isa::exec::Step;

use crate::symbols::Symbols;

/// Choice of the waves to trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TracedWave {
    /// One.
    One(WaveId),
    /// Every wave of every dispatch.
    All,
}

/// The first wave of the first dispatch.
impl Default for TracedWave {
    fn default() -> Self {
        Self::One(WaveId { dispatch: 0, workgroup: [0; 3], wave: 0 })
    }
}

impl fmt::Display for TracedWave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(id) => id.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

/// A text that names no wave to trace.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0} is neither `all` nor DISPATCH:WORKGROUP:WAVE, like 0:0:0 or 2:5,1,0:3")]
pub struct NoWave(pub String);

/// `DISPATCH:WORKGROUP:WAVE`, the workgroup as `X`, `X,Y` or `X,Y,Z`, or `all`.
impl FromStr for TracedWave {
    type Err = NoWave;

    fn from_str(text: &str) -> Result<Self, NoWave> {
        if text == "all" {
            return Ok(Self::All);
        }
        let bad = || NoWave(text.to_owned());
        let parts: Vec<&str> = text.split(':').collect();
        let [dispatch, group, wave] = parts[..] else { return Err(bad()) };
        let mut workgroup = [0; 3];
        let ids: Vec<&str> = group.split(',').collect();
        if ids.len() > workgroup.len() {
            return Err(bad());
        }
        for (id, text) in workgroup.iter_mut().zip(ids) {
            *id = text.parse().map_err(|_| bad())?;
        }
        let dispatch = dispatch.parse().map_err(|_| bad())?;
        Ok(Self::One(WaveId { dispatch, workgroup, wave: wave.parse().map_err(|_| bad())? }))
    }
}

/// Writes a line for each executed instruction: wave, source line if it is known, address, text, and the registers it
/// changed.
pub struct IsaTrace {
    wave: TracedWave,
    out: Mutex<Out>,
    has_symbols: bool,
}

struct Out {
    to: Box<dyn Write + Send>,
    symbols: Symbols,
}

impl fmt::Debug for IsaTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IsaTrace").field("wave", &self.wave).finish_non_exhaustive()
    }
}

impl IsaTrace {
    /// Traces to a file, or to stderr when it is `-`.
    ///
    /// # Errors
    ///
    /// When the file cannot be created.
    pub fn open(path: &Path, wave: TracedWave) -> io::Result<Self> {
        let out: Box<dyn Write + Send> = if path == Path::new("-") {
            Box::new(io::stderr())
        } else {
            let file = File::create(path)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            Box::new(BufWriter::new(file))
        };
        let out = Mutex::new(Out { to: out, symbols: Symbols::default() });
        Ok(Self { wave, out, has_symbols: false })
    }

    /// Adds source lines to the trace. Code objects are known by their kernels' names and places: the trace reads no
    /// memory.
    #[must_use]
    pub fn with(mut self, symbols: Symbols) -> Self {
        self.has_symbols = !symbols.is_empty();
        self.out.get_mut().unwrap_or_else(PoisonError::into_inner).symbols = symbols;
        self
    }
}

impl TraceSink for IsaTrace {
    fn record(&self, record: &Record) {
        if self.has_symbols && record.kind == Kind::DispatchStart {
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            out.symbols.dispatched(&record.text, record.arguments[0]);
        }
    }

    fn wants_waves(&self) -> bool {
        true
    }

    fn wants_wave(&self, wave: &WaveId) -> bool {
        match &self.wave {
            TracedWave::One(wanted) => wanted == wave,
            TracedWave::All => true,
        }
    }

    fn instruction(&self, wave: &WaveId, step: &Step<'_>) {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk or a reader that has left must not stop the program that is traced.
        let Out { to, symbols } = &mut *out;
        let _ = match symbols.line(step.pc) {
            None => writeln!(to, "{wave} {step}"),
            Some(source) => writeln!(to, "{wave} {source} {step}"),
        };
    }
}

impl Drop for IsaTrace {
    fn drop(&mut self) {
        let _ = self.out.get_mut().unwrap_or_else(PoisonError::into_inner).to.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_named_as_they_are_printed() {
        for (text, expected) in [
            ("0:0:0", Some("0:0,0,0:0")),
            ("3:4,5:6", Some("3:4,5,0:6")),
            ("3:4,5,7:6", Some("3:4,5,7:6")),
            ("all", Some("all")),
            ("", None),
            ("1:2", None),
            ("1:2:3:4", None),
            ("1:2,3,4,5:6", None),
            ("a:0:0", None),
            ("0:0:-1", None),
        ] {
            let wave = text.parse::<TracedWave>();
            assert_eq!(wave.ok().map(|wave| wave.to_string()).as_deref(), expected, "{text}");
        }
    }
}
