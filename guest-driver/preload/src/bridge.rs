//! Faults of device threads: memory that the program has unmapped a moment ago.
//!
//! Between an unmapping and the driver's hearing of it, the device may touch memory that is gone. A page of
//! zeros is put there, whose content no program reads or misses, and the driver is told: from then on the GPU
//! faults as it does on hardware. The program's own handlers of these signals work as if this one was not
//! there.
//!
//! If a summary of the process is wanted, the handler is also there for other signals that end it, as long as
//! the program has no action for them (`ending.rs`).
#![expect(unsafe_code, reason = "a signal handler")]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{sigaction, siginfo_t};

use crate::inside::{is_device_thread, is_inside};
use crate::real::{next, raw};
use crate::{ending, gpu, notice, summary, unmapped};

/// `SEGV_MAPERR` of `siginfo_t::si_code`: nothing is mapped there.
const SEGV_MAPERR: c_int = 1;
/// Programs' actions that are kept; a program that sets more different ones than these loses its oldest.
const KEPT: usize = 64;

/// Signals that the device's own threads may raise.
const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// Other signals that end a process without an action for them.
const ENDS: [c_int; 14] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGSYS,
];

/// The program's actions for [`FAULTS`], then [`ENDS`]; null before the handler is there.
static ACTIONS: [AtomicPtr<sigaction>; FAULTS.len() + ENDS.len()] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; FAULTS.len() + ENDS.len()];

static INSTALLED: AtomicBool = AtomicBool::new(false);
/// The signals of [`ENDS`] are kept here as well.
static ENDS_KEPT: AtomicBool = AtomicBool::new(false);

fn slot(signal: c_int) -> Option<&'static AtomicPtr<sigaction>> {
    let at = FAULTS.iter().chain(&ENDS).position(|&kept| kept == signal)?;
    (at < FAULTS.len() || ENDS_KEPT.load(Ordering::Acquire)).then(|| &ACTIONS[at])
}

/// The C library's function that the hook replaces.
pub(crate) fn real_sigaction(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    next!(sigaction(signal, new, old): fn(c_int, *const sigaction, *mut sigaction) -> c_int, else -1)
}

fn nothing() -> sigaction {
    // SAFETY: all zeros are the default action.
    unsafe { std::mem::zeroed() }
}

/// Puts the handler in front of the program's.
pub(crate) fn install() {
    ENDS_KEPT.store(summary::is_wanted(), Ordering::Release);
    let ends = if ENDS_KEPT.load(Ordering::Acquire) { &ENDS[..] } else { &[] };
    for &signal in FAULTS.iter().chain(ends) {
        let mut before = nothing();
        real_sigaction(signal, std::ptr::null(), &raw mut before);
        if before.sa_sigaction != handle as *const () as usize {
            remember(signal, &before);
            put(signal, &before);
        }
    }
    INSTALLED.store(true, Ordering::Release);
}

/// Puts the handler of faults into a companion, whose actions are not the program's.
pub(crate) fn install_here() {
    for signal in FAULTS {
        let mut action = nothing();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        real_sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

/// Installs the handler with the mask and the flags of the program's action.
///
/// Signals that no thread of the device raises go straight to the program's action.
fn put(signal: c_int, program: &sigaction) {
    if !FAULTS.contains(&signal) && program.sa_sigaction != libc::SIG_DFL {
        real_sigaction(signal, &raw const *program, std::ptr::null_mut());
        return;
    }
    let mut action = *program;
    action.sa_sigaction = handle as *const () as usize;
    action.sa_flags = (program.sa_flags | libc::SA_SIGINFO) & !libc::SA_RESETHAND;
    real_sigaction(signal, &raw const action, std::ptr::null_mut());
}

/// Keeps a program's action where the handler finds it. A kept action is never freed, as a handler may be reading it.
fn remember(signal: c_int, action: &sigaction) {
    static MEMORY: [AtomicPtr<sigaction>; KEPT] = [const { AtomicPtr::new(std::ptr::null_mut()) }; KEPT];
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let Some(slot) = slot(signal) else { return };
    let at = &MEMORY[NEXT.fetch_add(1, Ordering::Relaxed) % KEPT];
    let mut place = at.load(Ordering::Acquire);
    if place.is_null() {
        place = Box::leak(Box::new(nothing()));
        at.store(place, Ordering::Release);
    }
    // SAFETY: the place was leaked, so that it is there for ever; its turn comes again after KEPT changes only.
    unsafe { place.write_volatile(*action) };
    slot.store(place, Ordering::Release);
}

fn program_action(signal: c_int) -> sigaction {
    let action = slot(signal).map_or(std::ptr::null_mut(), |slot| slot.load(Ordering::Acquire));
    // SAFETY: null, or leaked by `remember`.
    if action.is_null() { nothing() } else { unsafe { action.read_volatile() } }
}

/// Returns true if the program's actions for a signal are kept here and not with the kernel.
pub(crate) fn is_kept(signal: c_int) -> bool {
    slot(signal).is_some() && INSTALLED.load(Ordering::Acquire) && !is_inside()
}

/// `sigaction` for a signal that is kept here.
///
/// # Safety
///
/// The pointers are null or valid, as for `sigaction`.
pub(crate) unsafe fn exchange(signal: c_int, new: *const sigaction, old: *mut sigaction) -> c_int {
    let before = program_action(signal);
    if gpu::is_borrowed() {
        // The actions are a child's own; those that are kept here are its parent's.
        let result = real_sigaction(signal, new, old);
        // SAFETY: the caller's contract.
        if let Some(old) = unsafe { old.as_mut() }
            && result == 0
            && old.sa_sigaction == handle as *const () as usize
        {
            *old = before;
        }
        return result;
    }
    // SAFETY: the caller's contract.
    if let Some(new) = unsafe { new.as_ref() } {
        remember(signal, new);
        put(signal, new);
    }
    // SAFETY: the caller's contract.
    if let Some(old) = unsafe { old.as_mut() } {
        *old = before;
    }
    0
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if FAULTS.contains(&signal) && go_on_behind(context) {
        return;
    }
    if (is_device_thread() || is_inside()) && bridge(signal, info) {
        return;
    }
    if is_device_thread() {
        // Not a fault of the program's: its handler has nothing to do with this thread.
        ending::by(signal);
        real_sigaction(signal, &raw const DEFAULT, std::ptr::null_mut());
        return;
    }
    pass_on(signal, info, context);
}

/// Ends a copy of the driver's that has met a bad pointer of the program. Returns true if the fault was such a copy's.
fn go_on_behind(context: *mut c_void) -> bool {
    // SAFETY: the kernel gives handlers with SA_SIGINFO the registers of the thread, which it goes on with.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    let behind = belfry_kfd_hosted::behind_fault(*at as usize);
    if let Some(behind) = behind {
        *at = behind as i64;
    }
    behind.is_some()
}

/// Puts a page at an address where a device thread has found none. Returns true if that helps.
fn bridge(signal: c_int, info: *mut siginfo_t) -> bool {
    // SAFETY: the kernel gives a valid structure to handlers with SA_SIGINFO.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code <= 0 || !(4096..1 << 47).contains(&address) {
        return false;
    }
    if signal != libc::SIGSEGV || code != SEGV_MAPERR {
        notice::say(format_args!(
            "the GPU uses memory at {address:#x} that the program has made read-only or cut off; it cannot go on"
        ));
        return false;
    }
    let page = address & !0xfff;
    let mapped = raw::mmap_free(page, 4096, libc::PROT_READ | libc::PROT_WRITE);
    unmapped::post(&(page..page + 4096), unmapped::Told::Changed);
    // What is there by now does as well.
    matches!(mapped, Ok(()) | Err(libc::EEXIST))
}

/// Acts as the kernel would have by the program's action.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let action = program_action(signal);
    // Faults happen again; signals that were sent, or events that have happened already, do not.
    // SAFETY: as in `bridge`.
    let code = unsafe { (*info).si_code };
    let again = code > 0 && [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE].contains(&signal);
    match action.sa_sigaction {
        libc::SIG_IGN if !again => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The fault happens again when this returns, and ends the process as it should.
            ending::by(signal);
            real_sigaction(signal, &raw const DEFAULT, std::ptr::null_mut());
            if !again {
                // SAFETY: to this thread; delivered when the handler returns.
                unsafe { libc::raise(signal) };
            }
        }
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                remember(signal, &nothing());
            }
            // SAFETY: the program gave this address as a handler, of the kind its flags say.
            unsafe {
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                } else {
                    let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
    }
}

/// The default action.
// SAFETY: all zeros are a value of the structure.
static DEFAULT: sigaction = unsafe { std::mem::zeroed() };
