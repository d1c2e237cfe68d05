//! Waves: their places, their registers, and the events they wait for.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use belfry_device::cp::kernel_at;
use belfry_device::look::SeenWave;
use belfry_device::shader::Waiting;
use belfry_device::vm::AddressSpace;
use belfry_isa::disasm::disassemble;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::wave::Wave;
use serde::{Serialize, Serializer};

use super::{Hex, InspectError, Inspector};

/// Most waves of a list.
const MOST: usize = 256;
/// Bytes of code in a listing before the next instruction, and from it on.
const BEFORE: u64 = 64;
const BEHIND: u64 = 96;
/// Bytes of LDS that are shown unless a query asks for some.
const LDS: usize = 65536;

/// Name of a wave: the number of its dispatch, the identifier of its workgroup, its number there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct WaveId {
    /// Dispatches submitted before its own.
    pub dispatch: u64,
    /// Its workgroup.
    pub workgroup: [u32; 3],
    /// Its number in the workgroup.
    pub wave: u32,
}

impl fmt::Display for WaveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dispatch, workgroup: [x, y, z], wave } = self;
        write!(f, "{dispatch}:{x},{y},{z}:{wave}")
    }
}

/// A text that is no name of a wave.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is no wave DISPATCH:X,Y,Z:WAVE")]
pub struct NoWaveId(pub String);

impl FromStr for WaveId {
    type Err = NoWaveId;

    /// Reads `DISPATCH:X,Y,Z:WAVE`.
    fn from_str(text: &str) -> Result<Self, NoWaveId> {
        let wrong = || NoWaveId(text.to_owned());
        let mut parts = text.splitn(3, ':');
        let mut part = || parts.next().ok_or_else(wrong);
        let dispatch = part()?.parse().map_err(|_| wrong())?;
        let mut workgroup = [0; 3];
        let numbers: Vec<&str> = part()?.split(',').collect();
        if numbers.len() > 3 {
            return Err(wrong());
        }
        for (place, number) in workgroup.iter_mut().zip(numbers) {
            *place = number.parse().map_err(|_| wrong())?;
        }
        Ok(Self { dispatch, workgroup, wave: part()?.parse().map_err(|_| wrong())? })
    }
}

impl Serialize for WaveId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A register by name.
#[derive(Clone, Debug, Serialize)]
pub struct NamedRegister {
    /// Its name.
    pub name: String,
    /// Value of the register.
    pub value: Hex,
}

impl NamedRegister {
    pub(super) fn new(name: impl Into<String>, value: u64) -> Self {
        Self { name: name.into(), value: Hex(value) }
    }
}

/// A dispatch that is not done.
#[derive(Clone, Debug, Serialize)]
pub struct DispatchView {
    /// Dispatches submitted before it.
    pub dispatch: u64,
    /// Its packet's index.
    pub packet: u64,
    /// Its kernel, if a code object has its name.
    pub kernel: String,
    /// The kernel's first instruction.
    pub entry: Hex,
    /// Work-items.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub workgroup: [u32; 3],
    /// Workgroups.
    pub workgroups: u64,
    /// Workgroups that have not begun.
    pub not_begun: u64,
    /// Workgroups that have ended.
    pub ended: u64,
}

/// A wave of a list.
#[derive(Clone, Debug, Serialize)]
pub struct WaveView {
    /// Name of the wave.
    pub wave: WaveId,
    /// Its kernel's name, if it has one.
    pub kernel: String,
    /// The next instruction's address.
    pub pc: Hex,
    /// The next instruction.
    pub instruction: Option<String>,
    /// Lanes that are on.
    pub exec: Hex,
    /// Event that it waits for; `runs` if it waits only for its turn.
    pub waits: String,
}

/// Dispatches and waves on the compute units.
#[derive(Clone, Debug, Default, Serialize)]
pub struct WavesView {
    /// Dispatches that are not done.
    pub dispatches: Vec<DispatchView>,
    /// Waves that have begun and not ended, the first ones.
    pub waves: Vec<WaveView>,
    /// Number of all such waves.
    pub all: usize,
}

/// A line of a listing.
#[derive(Clone, Debug, Serialize)]
pub struct CodeLine {
    /// Address of the instruction.
    pub address: Hex,
    /// The instruction.
    pub text: String,
    /// True for the next instruction.
    pub next: bool,
    /// Target of a branch.
    pub target: Option<Hex>,
}

/// Parts of a wave that are wanted beside its place.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct WaveParts {
    /// Only this vector register.
    pub vgpr: Option<u8>,
    /// Only this lane.
    pub lane: Option<u32>,
}

/// A wave with its registers.
#[derive(Clone, Debug, Serialize)]
pub struct WaveDetails {
    /// The wave as in a list.
    #[serde(flatten)]
    pub view: WaveView,
    /// 32 or 64.
    pub lanes: u32,
    /// Instructions that it has executed.
    pub instructions: u64,
    /// `MODE`, `STATUS` and `TRAPSTS`, with the fields that are not 0.
    pub status: Vec<(String, Hex, String)>,
    /// Code around the next instruction.
    pub code: Vec<CodeLine>,
    /// `VCC`, `M0` and `SCC`.
    pub special: Vec<NamedRegister>,
    /// `s0` and the registers after it.
    pub sgprs: Vec<Hex>,
    /// Vector registers: name, and its lanes.
    pub vgprs: Vec<(String, Vec<Hex>)>,
    /// Bytes of LDS of its workgroup, in hexadecimal.
    pub lds: String,
}

pub(super) fn id(seen: &SeenWave<'_>) -> WaveId {
    WaveId { dispatch: seen.dispatch.number, workgroup: seen.workgroup, wave: seen.number }
}

fn size(wave: &Wave) -> WaveSize {
    if wave.lanes() == 32 { WaveSize::Wave32 } else { WaveSize::Wave64 }
}

/// Code from an address on, as much as can be read.
fn read(space: &AddressSpace, from: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    for (word, at) in bytes.chunks_mut(4).zip((from..).step_by(4)) {
        if space.read_bytes(at, word).is_err() {
            bytes.truncate((at - from) as usize);
            return bytes;
        }
    }
    bytes
}

/// The code around an address. Instructions have no marks at their beginning: the listing starts at the
/// earliest place from which it meets the address, at most [`BEFORE`] bytes before it and not before the
/// kernel's entry.
fn code(arch: Arch, size: WaveSize, space: &AddressSpace, (entry, pc): (u64, u64)) -> Vec<CodeLine> {
    let earliest = if entry <= pc && pc - entry < BEFORE { entry } else { pc.saturating_sub(BEFORE) };
    let mut from = earliest;
    while from < pc {
        let bytes = read(space, from, pc - from);
        let whole = bytes.len() as u64 == pc - from;
        let last = disassemble(arch, size, &bytes, from).last();
        let meets =
            last.is_some_and(|line| line.inst.is_ok() && line.address + line.words().len() as u64 * 4 == pc);
        if whole && meets && disassemble(arch, size, &bytes, from).all(|line| line.inst.is_ok()) {
            break;
        }
        from += 4;
    }
    let bytes = read(space, from, pc - from + BEHIND);
    let lines = disassemble(arch, size, &bytes, from);
    lines
        .map(|line| CodeLine {
            address: Hex(line.address),
            text: line.text(),
            next: line.address == pc,
            target: line.target().map(Hex),
        })
        .collect()
}

impl Inspector<'_> {
    pub(super) fn look(
        &self,
        waves: &mut dyn FnMut(&SeenWave<'_>),
    ) -> Result<Vec<DispatchView>, InspectError> {
        let mut dispatches: Vec<DispatchView> = Vec::new();
        let mut spaces = Vec::new();
        let looked = self.device.waves(
            &mut |seen| {
                spaces.push(Arc::clone(seen.space));
                dispatches.push(DispatchView {
                    dispatch: seen.number,
                    packet: seen.packet,
                    kernel: String::new(),
                    entry: Hex(seen.launch.entry),
                    grid: seen.launch.grid,
                    workgroup: seen.launch.workgroup,
                    workgroups: seen.workgroups,
                    not_begun: seen.left,
                    ended: seen.ended,
                });
            },
            waves,
        );
        looked.map_err(|_| InspectError::Stopped)?;
        // Names are found here, after the device has gone on.
        for (dispatch, space) in dispatches.iter_mut().zip(&spaces) {
            dispatch.kernel = kernel_at(space, dispatch.entry.0).unwrap_or_default();
        }
        Ok(dispatches)
    }

    fn view(&self, seen: &SeenWave<'_>) -> WaveView {
        let wave = seen.wave;
        let bytes = read(seen.dispatch.space, wave.pc(), 20);
        let line =
            disassemble(self.device.gpu().config().chip.generation.arch, size(wave), &bytes, wave.pc())
                .next();
        let waits = match seen.waiting {
            Waiting::Nothing if wave.is_privileged() => "runs its trap handler".to_owned(),
            waiting => waiting.to_string(),
        };
        WaveView {
            wave: id(seen),
            kernel: String::new(),
            pc: Hex(wave.pc()),
            instruction: line.map(|line| line.text()),
            exec: Hex(wave.exec()),
            waits,
        }
    }

    /// Returns the dispatches and waves on the compute units.
    ///
    /// # Errors
    ///
    /// A device that is stopped.
    pub fn waves(&self) -> Result<WavesView, InspectError> {
        let mut view = WavesView::default();
        view.dispatches = self.look(&mut |seen| {
            view.all += 1;
            if view.waves.len() < MOST {
                view.waves.push(self.view(seen));
            }
        })?;
        for wave in &mut view.waves {
            let of = view.dispatches.iter().find(|dispatch| dispatch.dispatch == wave.wave.dispatch);
            wave.kernel = of.map(|of| of.kernel.clone()).unwrap_or_default();
        }
        Ok(view)
    }

    /// One wave with its registers.
    ///
    /// # Errors
    ///
    /// There is none of that name.
    pub fn wave(&self, which: WaveId, parts: WaveParts) -> Result<WaveDetails, InspectError> {
        let mut found = None;
        let dispatches = self.look(&mut |seen| {
            if id(seen) == which {
                found = Some(self.details(seen, parts));
            }
        })?;
        let mut found: WaveDetails = found.ok_or(InspectError::Wave(which))?;
        let of = dispatches.into_iter().find(|dispatch| dispatch.dispatch == which.dispatch);
        found.view.kernel = of.map(|of| of.kernel).unwrap_or_default();
        Ok(found)
    }

    fn details(&self, seen: &SeenWave<'_>, parts: WaveParts) -> WaveDetails {
        let wave = seen.wave;
        let arch = self.device.gpu().config().chip.generation.arch;
        let lanes = |read: &dyn Fn(u32) -> u32| -> Vec<Hex> {
            let wanted = (0..wave.lanes()).filter(|lane| parts.lane.is_none_or(|wanted| wanted == *lane));
            wanted.map(|lane| Hex(read(lane).into())).collect()
        };
        let vector = (0..=u8::MAX).take_while(|number| u16::from(*number) < wave.vgprs());
        let vector = vector.filter(|number| parts.vgpr.is_none_or(|wanted| wanted == *number));
        let mut vgprs: Vec<_> =
            vector.map(|v| (format!("v{v}"), lanes(&|lane| wave.vgpr(v, lane)))).collect();
        if parts.vgpr.is_none() {
            let more = (0..=u8::MAX).take_while(|number| u16::from(*number) < wave.agprs());
            vgprs.extend(more.map(|a| (format!("a{a}"), lanes(&|lane| wave.agpr(a, lane)))));
        }
        let lds = seen.lds.iter().take(if parts == WaveParts::default() { LDS } else { 0 });
        WaveDetails {
            view: self.view(seen),
            lanes: wave.lanes(),
            instructions: wave.instructions,
            status: wave
                .status_in_words()
                .map(|(name, bits, words)| (name.to_owned(), Hex(bits.into()), words))
                .into(),
            code: code(arch, size(wave), seen.dispatch.space, (seen.dispatch.launch.entry, wave.pc())),
            special: vec![
                NamedRegister::new("VCC", wave.vcc()),
                NamedRegister::new("M0", wave.m0().into()),
                NamedRegister::new("SCC", wave.scc().into()),
            ],
            sgprs: (0..wave.sgprs()).map(|number| Hex(wave.sgpr(number).into())).collect(),
            vgprs,
            lds: lds.map(|byte| format!("{byte:02x}")).collect(),
        }
    }
}
