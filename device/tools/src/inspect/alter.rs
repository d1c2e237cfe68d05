//! Changing waves and memory of a halted device by hand.

use std::sync::Arc;

use belfry_device::vm::AddressSpace;
pub use belfry_isa::wave::RegisterName;

use super::control::key;
use super::memory::{BytesOf, places_of};
use super::{Hex, InspectError, Inspector, WaveId, waves};

impl Inspector<'_> {
    /// Sets a register of a wave of a halted device.
    ///
    /// # Errors
    ///
    /// A device that is not halted, no such wave, a register that it does not have, or a value that does not fit.
    pub fn set_register(&self, wave: WaveId, register: RegisterName, value: u64) -> Result<(), InspectError> {
        let mut set = false;
        self.alter(wave, &mut |wave, _| set = wave.set_register(register, value))?;
        if !set {
            return Err(InspectError::Value(format!("{register:?}"), Hex(value)));
        }
        if register == RegisterName::Pc {
            self.device.stops().moved(key(wave));
        }
        Ok(())
    }

    /// Writes memory, private memory or LDS of a wave of a halted device; returns the number of bytes that
    /// could be written.
    ///
    /// # Errors
    ///
    /// A device that is not halted, or no such wave.
    pub fn write_of_wave(&self, wave: WaveId, to: BytesOf, bytes: &[u8]) -> Result<usize, InspectError> {
        if let BytesOf::Lds(offset) = to {
            let mut written = 0;
            self.alter(wave, &mut |_, lds| {
                let room = lds.bytes_mut().get_mut(offset as usize..).unwrap_or_default();
                written = room.len().min(bytes.len());
                room[..written].copy_from_slice(&bytes[..written]);
            })?;
            return Ok(written);
        }
        let mut places = None;
        self.look(&mut |seen| {
            if waves::id(seen) == wave {
                places = Some((Arc::clone(seen.dispatch.space), places_of(seen.wave, to, bytes.len())));
            }
        })?;
        let (space, places) = places.ok_or(InspectError::Wave(wave))?;
        if !self.device.stops().is_halted() {
            return Err(InspectError::NotHalted);
        }
        Ok(write_each(&space, &places, bytes))
    }

    /// Writes memory of a process while the device is halted; returns the number of bytes that could be
    /// written.
    ///
    /// # Errors
    ///
    /// A device that is not halted, or no such process.
    pub fn write_of_process(&self, pasid: u16, address: u64, bytes: &[u8]) -> Result<usize, InspectError> {
        let space = self.space(pasid)?;
        if !self.device.stops().is_halted() {
            return Err(InspectError::NotHalted);
        }
        let places: Vec<u64> = (0..bytes.len() as u64).map(|index| address.wrapping_add(index)).collect();
        Ok(write_each(&space, &places, bytes))
    }

    fn alter(
        &self,
        wave: WaveId,
        change: &mut dyn FnMut(&mut belfry_isa::wave::Wave, &mut belfry_isa::exec::Lds),
    ) -> Result<(), InspectError> {
        self.device.alter(key(wave), change).map_err(|error| InspectError::of_wave(error, wave))
    }
}

/// Writes bytes, each to its own address, up to the first one that cannot be written.
fn write_each(space: &AddressSpace, places: &[u64], bytes: &[u8]) -> usize {
    let each = places.iter().zip(bytes);
    each.take_while(|(at, byte)| space.write_bytes(**at, std::slice::from_ref(*byte)).is_ok()).count()
}
