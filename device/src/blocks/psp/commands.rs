//! Commands of the PSP's ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::psp::{Command, CommandBuffer, Frame, RESPONSE_OFFSET, Response, Status};

use crate::guest_error::GuestError;
use crate::stats::Counters;
use crate::vm::{AddressSpace, Contexts};

/// Size of the trusted memory region that is asked for: no firmware is kept there.
const TMR_SIZE: u32 = 1 << 20;
/// Trusted applications that may be loaded at once.
const SESSIONS: u32 = 32;

/// Bits of the commands that were done.
const HAS_TMR: u32 = 1 << 0;
const HAS_FIRMWARE: u32 = 1 << 1;
const HAS_ASD: u32 = 1 << 2;
const HAS_AUTOLOADED: u32 = 1 << 3;

/// Executor of commands, and the state that they leave.
#[derive(Debug)]
pub(super) struct Commands {
    contexts: Arc<Contexts>,
    counters: Arc<Counters>,
    /// `HAS_*`.
    done: AtomicU32,
    /// Sessions of loaded applications: session n is bit n - 1.
    sessions: AtomicU32,
}

/// A refused command, and the status of its answer.
struct Refused {
    why: GuestError,
    status: Status,
}

impl Refused {
    /// A command that comes at the wrong time, or names the wrong thing.
    fn cancel(why: GuestError) -> Self {
        Self { why, status: Status::CANCEL }
    }

    /// A command without a model.
    fn unsupported(why: GuestError) -> Self {
        Self { why, status: Status::NOT_SUPPORTED }
    }
}

impl Commands {
    pub(super) fn new(contexts: Arc<Contexts>, counters: Arc<Counters>) -> Self {
        Self { contexts, counters, done: AtomicU32::default(), sessions: AtomicU32::default() }
    }

    /// Executes the frame at an address of VMID 0: answers its command, then writes its fence.
    pub(super) fn execute(&self, at: u64) {
        let Some(space) = self.contexts.space(0) else {
            return self.counters.error(GuestError::PspUnmapped, format_args!("no VMID 0"));
        };
        let frame = space.read::<Frame>(at);
        let answered = frame.map_err(|_| ("frame", at)).and_then(|frame| self.answer(&space, &frame));
        if let Err((what, address)) = answered {
            self.counters.error(GuestError::PspUnmapped, format_args!("{what} at {address:#x}"));
        }
    }

    /// Answers the command of a frame. Returns the part that is not mapped, if there is one: its fence stays.
    fn answer(&self, space: &AddressSpace, frame: &Frame) -> Result<(), (&'static str, u64)> {
        let buffer = quad(frame.cmd_buf_addr_lo, frame.cmd_buf_addr_hi);
        let fence = quad(frame.fence_addr_lo, frame.fence_addr_hi);
        let command: CommandBuffer = space.read(buffer).map_err(|_| ("command", buffer))?;
        let id = Command(command.cmd_id);
        let response = self.run(id, &command).unwrap_or_else(|Refused { why, status }| {
            let name = id.name().unwrap_or("unknown");
            self.counters.error(why, format_args!("command={name} ({:#x})", id.0));
            Response { status: status.0, ..Response::default() }
        });
        let at = buffer.wrapping_add(RESPONSE_OFFSET);
        space.write(at, &response).map_err(|_| ("answer", at))?;
        space.write(fence, &frame.fence_value).map_err(|_| ("fence", fence))
    }

    fn has(&self, bit: u32) -> bool {
        self.done.load(Ordering::Acquire) & bit != 0
    }

    fn set(&self, bit: u32) -> Response {
        self.done.fetch_or(bit, Ordering::AcqRel);
        Response::default()
    }

    fn run(&self, id: Command, command: &CommandBuffer) -> Result<Response, Refused> {
        let [low, high, bytes, ..] = command.arguments;
        let order = || Refused::cancel(GuestError::PspCommandOrder);
        Ok(match id {
            Command::LOAD_TOC => {
                not_empty(bytes)?;
                Response { tmr_size: TMR_SIZE, ..Response::default() }
            }
            Command::SETUP_TMR => {
                if self.has(HAS_TMR) {
                    return Err(order());
                }
                not_empty(bytes)?;
                self.set(HAS_TMR)
            }
            Command::DESTROY_TMR => {
                let before =
                    self.done.fetch_and(!(HAS_TMR | HAS_FIRMWARE | HAS_AUTOLOADED), Ordering::AcqRel);
                if before & HAS_TMR == 0 {
                    return Err(order());
                }
                Response::default()
            }
            // Firmware may come before the region: the SMU's does, as it manages the states of the bus.
            Command::LOAD_IP_FW => {
                not_empty(bytes)?;
                self.set(HAS_FIRMWARE);
                Response { fw_addr_lo: low, fw_addr_hi: high, ..Response::default() }
            }
            Command::AUTOLOAD_RLC if !self.has(HAS_TMR) || !self.has(HAS_FIRMWARE) => return Err(order()),
            Command::AUTOLOAD_RLC => self.set(HAS_AUTOLOADED),
            Command::LOAD_ASD => {
                not_empty(bytes)?;
                self.set(HAS_ASD);
                self.open()?
            }
            Command::LOAD_TA => {
                not_empty(bytes)?;
                self.open()?
            }
            Command::UNLOAD_TA => {
                let bit = self.session(low)?;
                self.sessions.fetch_and(!bit, Ordering::AcqRel);
                Response::default()
            }
            Command::INVOKE_CMD => {
                self.session(low)?;
                return Err(Refused::unsupported(GuestError::PspApplication));
            }
            _ => return Err(Refused::unsupported(GuestError::PspCommand)),
        })
    }

    /// Opens the session of an application.
    fn open(&self) -> Result<Response, Refused> {
        let taken = self.sessions.fetch_update(Ordering::AcqRel, Ordering::Acquire, |sessions| {
            (sessions != u32::MAX).then(|| sessions | 1 << sessions.trailing_ones())
        });
        let before = taken.map_err(|_| Refused::cancel(GuestError::PspSessions))?;
        Ok(Response { session_id: before.trailing_ones() + 1, ..Response::default() })
    }

    /// Returns the bit of an open session.
    fn session(&self, id: u32) -> Result<u32, Refused> {
        let unknown = || Refused::cancel(GuestError::PspSession);
        let number = id.checked_sub(1).filter(|&number| number < SESSIONS).ok_or_else(unknown)?;
        let bit = 1 << number;
        if self.sessions.load(Ordering::Acquire) & bit == 0 { Err(unknown()) } else { Ok(bit) }
    }

    pub(super) fn kept(&self) -> Vec<&AtomicU32> {
        vec![&self.done, &self.sessions]
    }

    pub(super) fn reset(&self) {
        self.done.store(0, Ordering::Release);
        self.sessions.store(0, Ordering::Release);
    }
}

fn quad(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn not_empty(bytes: u32) -> Result<(), Refused> {
    if bytes == 0 { Err(Refused::cancel(GuestError::PspNoBytes)) } else { Ok(()) }
}
