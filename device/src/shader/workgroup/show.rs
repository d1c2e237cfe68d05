//! A workgroup in words.

use std::fmt;

use belfry_isa::wave::Wave;

use super::{State, Workgroup};
use crate::show::Few;

/// Most waves that are shown.
const WAVES: usize = 8;

/// A wave and its state.
struct Shown<'a>(&'a State, &'a Wave);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(state, wave) = self;
        let running = if wave.is_privileged() { "InTrapHandler" } else { "Ready" };
        match state {
            State::Ready => f.write_str(running)?,
            state => state.fmt(f)?,
        }
        // The registers of an ended wave tell nothing.
        if **state == State::Ended {
            return Ok(());
        }
        f.write_str(" ")?;
        wave.fmt(f)
    }
}

impl fmt::Debug for Workgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |wanted| self.states.iter().filter(|&state| *state == wanted).count();
        let waves = self.states.iter().zip(&self.waves).map(|(state, wave)| Shown(state, wave));
        f.debug_struct("Workgroup")
            .field("id", &format_args!("{:?}", self.id))
            .field("lds_bytes", &format_args!("{}", self.lds.size()))
            .field("waves", &format_args!("{}", self.count))
            .field("at_barrier", &format_args!("{}", count(State::AtBarrier)))
            .field("ended", &format_args!("{}", count(State::Ended)))
            .field("seat", &self.seat)
            .field("wave_states", &Few::new(WAVES, waves))
            .finish_non_exhaustive()
    }
}
