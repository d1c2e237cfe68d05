//! A kernel ring that is being served.

use std::collections::VecDeque;
use std::time::Duration;

use belfry_abi::mes::API_FRAME_SIZE_IN_DWORDS;
use belfry_abi::pm4::Pm4Header;

use crate::cp::Execution;
use crate::doorbell::{Heard, Owner};
use crate::firmware::kiq::MAX_PACKET;
use crate::firmware::{Ports, Turn, mes};
use crate::guest_error::GuestError;
use crate::moments::{Moment, Verdict};
use crate::pm4;
use crate::queue::{HqdId, Ring};
use crate::sanitize::{Misuse, Rule};
use crate::save::{Broken, check};
use crate::vm::{AddressSpace, VMIDS};

/// Most packets of a kernel ring that are executed before the other queues have their turn.
const BATCH: usize = 64;

/// [`Running`] as plain values.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub(in crate::firmware) struct SavedRunning {
    ring: Ring,
    activation: u32,
    seen: Option<u64>,
    dead: bool,
    buffers: Execution,
    vmid: u8,
}

/// The ring of an active queue.
#[derive(Debug)]
pub(in crate::firmware) struct Running {
    pub(in crate::firmware) ring: Ring,
    /// Number of the queue's activation that the ring belongs to.
    pub(in crate::firmware) activation: u32,
    /// Doorbell value last looked at; `None` before the first look, which takes the value that is there.
    seen: Option<u64>,
    /// True if its next packet has begun and waits.
    begun: bool,
    /// Indirect buffers that it is in.
    pub(in crate::firmware) buffers: Execution,
    /// VMID of their addresses.
    pub(in crate::firmware) vmid: u8,
    /// True if it has met an error that it cannot go past, until it is activated anew.
    pub(in crate::firmware) dead: bool,
    /// Time of the device until which its doorbell is not heard.
    deaf: Option<Duration>,
    /// Time until which its next packet is held back.
    held: Option<Duration>,
    /// Pending frames as they were when they were found, for the sanitizer.
    noted: VecDeque<Box<Frame>>,
}

/// A frame of the MES.
type Frame = [u32; API_FRAME_SIZE_IN_DWORDS];

/// Fate of a packet, by the planned faults.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::firmware) enum Fate {
    /// The packet is executed.
    Done,
    /// The packet is executed later.
    Late,
    /// The packet is taken and not answered.
    Unanswered,
    /// The packet is refused.
    Refused,
}

impl Running {
    /// Returns true if the queue has stayed active since this ring began. If it has not, its doorbell is given up,
    /// unless the driver has started the queue again with the doorbell.
    pub(in crate::firmware) fn goes_on(&self, ports: &Ports, (xcc, id): (u8, HqdId)) -> bool {
        let doorbell = self.ring.doorbell();
        ports.hqds.hqd_of(xcc, id, |hqd| {
            let goes_on = hqd.is_active() && hqd.activation == self.activation;
            if !goes_on && (!hqd.is_active() || hqd.doorbell() != doorbell) {
                ports.doorbells.own(doorbell, Owner::Nobody);
            }
            goes_on
        })
    }

    pub(in crate::firmware) fn save(&self) -> SavedRunning {
        SavedRunning {
            ring: self.ring.clone(),
            activation: self.activation,
            seen: self.seen,
            dead: self.dead,
            buffers: self.buffers.clone(),
            vmid: self.vmid,
        }
    }

    pub(in crate::firmware) fn restored(saved: SavedRunning) -> Result<Self, Broken> {
        let SavedRunning { ring, activation, seen, dead, buffers, vmid } = saved;
        ring.check()?;
        buffers.check()?;
        check("VMID of an indirect buffer", vmid, usize::from(vmid) < VMIDS)?;
        Ok(Self { seen, dead, buffers, vmid, ..Self::new(ring, activation) })
    }

    pub(in crate::firmware) fn new(ring: Ring, activation: u32) -> Self {
        Self {
            ring,
            activation,
            seen: None,
            begun: false,
            buffers: Execution::default(),
            vmid: 0,
            dead: false,
            deaf: None,
            held: None,
            noted: VecDeque::new(),
        }
    }

    /// Executes packets by `step`, which returns false if there was none. Returns the time of the next call, and the
    /// error that the ring cannot go past.
    pub(in crate::firmware) fn batch(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<bool, GuestError>,
    ) -> (Turn, Option<GuestError>) {
        let mut turn = Turn::WhenWoken;
        for _ in 0..BATCH {
            match step(self) {
                Ok(true) => turn = Turn::Now,
                Ok(false) => break,
                Err(why) => {
                    self.dead = true;
                    return (turn, Some(why));
                }
            }
        }
        (turn, None)
    }

    /// Takes the next packet of a ring of PM4 packets, if all of it is there.
    pub(in crate::firmware) fn next_packet(
        &mut self,
        space: &AddressSpace,
    ) -> Result<Option<(Pm4Header, Vec<u32>)>, GuestError> {
        let available = self.ring.available();
        if self.dead || available == 0 {
            return Ok(None);
        }
        let mut header = [0];
        self.ring.peek(space, 0, &mut header).map_err(|_| GuestError::KiqRingUnmapped)?;
        let header = pm4::header(header[0]).map_err(|error| error.kind())?;
        let length = 1 + u64::from(header.body_dwords());
        if length > MAX_PACKET {
            return Err(GuestError::Pm4PacketLength);
        }
        if length > available {
            return Ok(None);
        }
        let mut body = vec![0; length as usize - 1];
        self.ring.peek(space, 1, &mut body).map_err(|_| GuestError::KiqRingUnmapped)?;
        self.ring.consume(length);
        self.begun = false;
        Ok(Some((header, body)))
    }

    /// Gives back the packet that was taken last, because it waits: it is executed again from its beginning.
    pub(in crate::firmware) fn put_back(&mut self, header: Pm4Header) {
        self.ring.go_back(1 + u64::from(header.body_dwords()));
        self.begun = true;
    }

    /// Notes that the packet at its position has begun and waits.
    pub(in crate::firmware) fn wait(&mut self) {
        self.begun = true;
    }

    /// Notes that the packet at its position is over.
    pub(in crate::firmware) fn go_on(&mut self) {
        self.begun = false;
    }

    /// Returns true if its next packet waits for memory, whose change no doorbell announces.
    pub(in crate::firmware) fn waits(&self) -> bool {
        self.begun && !self.dead
    }

    /// Copies the new frames of a ring of the MES as they are now.
    pub(in crate::firmware) fn note_frames(&mut self, ports: &Ports, space: &AddressSpace) {
        if !ports.tools.checks(Rule::MesFrameReused) {
            return;
        }
        let length = API_FRAME_SIZE_IN_DWORDS as u64;
        while (self.noted.len() as u64 + 1) * length <= self.ring.available() {
            let mut frame = Box::new([0; API_FRAME_SIZE_IN_DWORDS]);
            if self.ring.peek(space, self.noted.len() as u64 * length, &mut frame[..]).is_err() {
                return;
            }
            self.noted.push_back(frame);
        }
    }

    /// Checks that a frame that is taken has not changed since it was found.
    pub(in crate::firmware) fn check_frame(&mut self, ports: &Ports, frame: &Frame) {
        let Some(noted) = self.noted.pop_front() else { return };
        let Some(at) = noted.iter().zip(frame).position(|(before, now)| before != now) else { return };
        let found = format!("dword {at} is {:#x}, and was {:#x}", frame[at], noted[at]);
        ports.tools.misused(Misuse::new(Rule::MesFrameReused, found).named(mes::name(noted[0])));
    }

    /// Decides the fate of the next packet, if there is one.
    pub(in crate::firmware) fn fate(&mut self, ports: &Ports, what: &str) -> Fate {
        if !ports.tools.may_strike() || self.dead || self.begun || self.ring.available() == 0 {
            return Fate::Done;
        }
        if let Some(until) = self.held {
            if !ports.tools.is_over(until) {
                return Fate::Late;
            }
            self.held = None;
            return Fate::Done;
        }
        match ports.at(Moment::Frame { what, doorbell: self.ring.doorbell() }) {
            Verdict::Delay(until) => {
                self.held = Some(until);
                Fate::Late
            }
            Verdict::Refuse => Fate::Refused,
            Verdict::Lose => Fate::Unanswered,
            _ => Fate::Done,
        }
    }

    /// Takes the doorbell's value, if it has changed.
    pub(in crate::firmware) fn look(&mut self, ports: &Ports) {
        if self.deaf.is_some_and(|until| !ports.tools.is_over(until)) {
            return;
        }
        let value = ports.doorbells.load(self.ring.doorbell().offset());
        let heard = self.deaf.take().is_some();
        match self.seen.replace(value) {
            _ if heard => {}
            Some(seen) if seen == value => return,
            // A ring of the doorbell before the queue was mapped was meant for this queue.
            None => {
                ports.doorbells.take(self.ring.doorbell());
            }
            Some(_) => match ports.watch.look(self.ring.doorbell(), self.ring.available() == 0) {
                Heard::Nothing | Heard::Ring => {}
                Heard::Lost => return,
                Heard::Late(until) => {
                    self.deaf = Some(until);
                    return;
                }
            },
        }
        if let Err(why) = self.ring.look(&ports.doorbells) {
            ports.counters.error(why, format_args!("doorbell={:#x} value={value:#x}", self.ring.doorbell()));
        }
    }
}
