//! vCPUs: one thread each, stopped by a signal that cannot be missed.

#![expect(
    unsafe_code,
    reason = "the signal handler writes to KVM's run page, and signals are sent to threads"
)]

pub(super) mod gate;

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use belfry_snapshot::SavedVcpu;
use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_VCPU_TSC_CTRL, KVM_VCPU_TSC_OFFSET, KVMIO, Msrs, kvm_device_attr,
    kvm_msr_entry,
};
use kvm_ioctls::{VcpuExit, VcpuFd};
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;
use vmm_sys_util::signal::{Killable as _, SIGRTMIN, register_signal_handler};

use super::board::Board;
use crate::ending::{End, Ending};

use gate::Gate;

// Linux `include/uapi/linux/kvm.h`; kvm-ioctls has it for other processors only.
ioctl_iow_nr!(KVM_SET_DEVICE_ATTR, KVMIO, 0xe1, kvm_device_attr);

thread_local! {
    /// `kvm_run.immediate_exit` of this thread's vCPU.
    static IMMEDIATE_EXIT: Cell<*mut u8> = const { Cell::new(ptr::null_mut()) };
}

/// Makes the next KVM_RUN of this thread return at once, even if the signal arrives just before it.
extern "C" fn leave(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let immediate_exit = IMMEDIATE_EXIT.get();
    if !immediate_exit.is_null() {
        // SAFETY: the pointer is to the run page, which is mapped while it is set (`run` clears it before the vCPU goes),
        // and only this thread writes the byte.
        unsafe { immediate_exit.write_volatile(1) };
    }
}

fn install_handler() -> io::Result<()> {
    static ONCE: Once = Once::new();
    let mut result = Ok(());
    ONCE.call_once(|| result = register_signal_handler(SIGRTMIN(), leave).map_err(io::Error::from));
    result
}

/// Makes the vCPU's time stamp counter count as the host's does.
pub(super) fn follow_host_clock(vcpu: &VcpuFd) -> io::Result<()> {
    let offset = 0u64;
    let attribute = kvm_device_attr {
        group: KVM_VCPU_TSC_CTRL,
        attr: KVM_VCPU_TSC_OFFSET.into(),
        addr: (&raw const offset).addr() as u64,
        flags: 0,
    };
    // SAFETY: the attribute is a quadword, which is there until the call returns; KVM reads it only.
    if unsafe { ioctl_with_ref(vcpu, KVM_SET_DEVICE_ATTR(), &attribute) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `IA32_MISC_ENABLE`, and its bit for fast string operations.
const MISC_ENABLE: u32 = 0x1a0;
const FAST_STRINGS: u64 = 1;
/// `IA32_MTRR_DEF_TYPE`: on, and write-back.
const MTRR_DEF_TYPE: u32 = 0x2ff;
const MTRR_WRITE_BACK: u64 = 1 << 11 | 6;

/// Does what firmware does for every processor: memory is cached, strings are fast. A kernel that finds this missing
/// works without page attributes, or copies slowly.
pub(super) fn set_msrs(vcpu: &VcpuFd) -> Result<(), kvm_ioctls::Error> {
    let entry = |index, data| kvm_msr_entry { index, data, ..Default::default() };
    let list = |entries: &[_]| Msrs::from_entries(entries).map_err(|_| kvm_ioctls::Error::new(libc::E2BIG));
    let mut before = list(&[entry(MISC_ENABLE, 0)])?;
    let read = vcpu.get_msrs(&mut before)?;
    let misc = before.as_slice().iter().take(read).map(|entry| entry.data).next().unwrap_or(0);
    for (index, data) in [(MTRR_DEF_TYPE, MTRR_WRITE_BACK), (MISC_ENABLE, misc | FAST_STRINGS)] {
        // Not every host has every register for guests, and kernels can work without them.
        if vcpu.set_msrs(&list(&[entry(index, data)])?)? == 0 {
            log::debug!(target: "kvm", "register {index:#x} cannot be set to {data:#x}");
        }
    }
    Ok(())
}

/// `IA32_TSC_DEADLINE`: arms the APIC's timer, and is set after all other state.
const TSC_DEADLINE: u32 = 0x6e0;

/// Accesses a list of registers, without those that cannot be accessed: `access` takes as many as it can, and returns
/// their number.
fn each_msr(
    mut entries: Vec<kvm_msr_entry>,
    access: impl Fn(&mut Msrs) -> Result<usize, kvm_ioctls::Error>,
) -> Result<Vec<kvm_msr_entry>, kvm_ioctls::Error> {
    let mut done = Vec::new();
    while !entries.is_empty() {
        let mut list = Msrs::from_entries(&entries).map_err(|_| kvm_ioctls::Error::new(libc::E2BIG))?;
        let count = access(&mut list)?;
        done.extend_from_slice(list.as_slice().get(..count).unwrap_or_default());
        if let Some(entry) = entries.get(count) {
            log::debug!(target: "kvm", "register {:#x} of a vCPU is not taken along", entry.index);
        }
        entries.drain(..(count + 1).min(entries.len()));
    }
    Ok(done)
}

/// Returns the state of a vCPU that is not in KVM_RUN; `msrs` are the registers that KVM saves.
pub(super) fn save(vcpu: &VcpuFd, msrs: &[u32]) -> Result<SavedVcpu, kvm_ioctls::Error> {
    let wanted = msrs.iter().map(|&index| kvm_msr_entry { index, ..Default::default() }).collect();
    Ok(SavedVcpu {
        // This comes first: it takes from the APIC the interrupts that are due next.
        mp: vcpu.get_mp_state()?,
        cpuid: vcpu.get_cpuid2(KVM_MAX_CPUID_ENTRIES)?.as_slice().to_vec(),
        regs: vcpu.get_regs()?,
        sregs: vcpu.get_sregs()?,
        xsave: vcpu.get_xsave()?,
        xcrs: vcpu.get_xcrs()?,
        debug: vcpu.get_debug_regs()?,
        lapic: vcpu.get_lapic()?,
        msrs: each_msr(wanted, |list| vcpu.get_msrs(list))?,
        events: vcpu.get_vcpu_events()?,
    })
}

/// Gives a new vCPU, whose CPUID is set, the state of a saved one.
pub(super) fn restore(vcpu: &VcpuFd, saved: &SavedVcpu) -> Result<(), kvm_ioctls::Error> {
    vcpu.set_sregs(&saved.sregs)?;
    vcpu.set_regs(&saved.regs)?;
    vcpu.set_xcrs(&saved.xcrs)?;
    // SAFETY: KVM reads the 4096 bytes of the structure and no more: this process has asked for no state beyond them
    // (ARCH_REQ_XCOMP_GUEST_PERM).
    unsafe { vcpu.set_xsave(&saved.xsave) }?;
    vcpu.set_debug_regs(&saved.debug)?;
    vcpu.set_lapic(&saved.lapic)?;
    let (last, first): (Vec<_>, Vec<_>) =
        saved.msrs.iter().copied().partition(|entry| entry.index == TSC_DEADLINE);
    each_msr(first, |list| vcpu.set_msrs(list))?;
    each_msr(last, |list| vcpu.set_msrs(list))?;
    vcpu.set_vcpu_events(&saved.events)?;
    vcpu.set_mp_state(saved.mp)
}

/// A vCPU's thread, which can be called out of the guest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thread(libc::pthread_t);

impl Thread {
    pub(super) fn current() -> Self {
        // SAFETY: the call has no conditions.
        Self(unsafe { libc::pthread_self() })
    }

    /// Makes KVM_RUN return soon. The thread must not have ended: [`Gate`] knows the threads that have not.
    pub(super) fn call_out(self) {
        // SAFETY: the thread has not ended: before it ends, its gate forgets it under the lock that the caller holds.
        // Its handler is `leave`.
        if unsafe { libc::pthread_kill(self.0, SIGRTMIN()) } != 0 {
            log::debug!(target: "kvm", "a vCPU's thread takes no signal");
        }
    }
}

/// Runs until the machine ends.
fn run(mut vcpu: VcpuFd, number: u8, board: &Board, (ending, gate): (&Ending, &Gate), stop: &AtomicBool) {
    IMMEDIATE_EXIT.set(&raw mut vcpu.get_kvm_run().immediate_exit);
    gate.enter(number);
    while !stop.load(Ordering::SeqCst) {
        // KVM completes the last access before it checks this, so that no access is half done.
        let parks = gate.wanted();
        if parks {
            vcpu.set_kvm_immediate_exit(1);
        }
        let end = match vcpu.run() {
            Ok(VcpuExit::IoIn(port, data)) => {
                board.port_read(port, data);
                continue;
            }
            Ok(VcpuExit::IoOut(port, data)) => {
                board.port_write(port, data);
                continue;
            }
            Ok(VcpuExit::MmioRead(address, data)) => {
                board.memory_read(address, data);
                continue;
            }
            Ok(VcpuExit::MmioWrite(address, data)) => {
                board.memory_write(address, data);
                continue;
            }
            Ok(VcpuExit::Intr) => continue,
            Ok(VcpuExit::Shutdown) => "a triple fault".to_owned(),
            Ok(VcpuExit::Hlt) => "a halt nothing can end".to_owned(),
            Ok(VcpuExit::InternalError) => "an instruction KVM cannot execute".to_owned(),
            Ok(VcpuExit::FailEntry(reason, _)) => format!("a state KVM cannot enter (reason {reason:#x})"),
            Ok(exit) => format!("{exit:?}"),
            Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {
                vcpu.set_kvm_immediate_exit(0);
                if parks {
                    gate.park(number, &vcpu);
                }
                continue;
            }
            Err(error) => format!("an error of KVM: {error}"),
        };
        let rip = vcpu.get_regs().map_or(0, |regs| regs.rip);
        ending.end(End::Crash(format!("vCPU {number} stopped at {rip:#x} by {end}")));
        break;
    }
    gate.leave(number);
    IMMEDIATE_EXIT.set(ptr::null_mut());
}

/// A vCPU's thread; stopped and joined when dropped.
#[derive(Debug)]
pub(super) struct Vcpu {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Vcpu {
    /// Lets a vCPU run.
    pub(super) fn start(
        vcpu: VcpuFd,
        number: u8,
        board: Arc<Board>,
        (ending, gate): (Arc<Ending>, Arc<Gate>),
    ) -> io::Result<Self> {
        install_handler()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name(format!("vcpu{number}")).spawn(move || {
            // A panic of the board is a bug of Belfry's; the machine ends with it, and does not hang.
            let guard = EndOnPanic(Arc::clone(&ending), Arc::clone(&gate), number);
            run(vcpu, number, &board, (&ending, &gate), &stopped);
            drop(guard);
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

struct EndOnPanic(Arc<Ending>, Arc<Gate>, u8);

impl Drop for EndOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.1.leave(self.2);
            self.0
                .end(End::Crash(format!("the thread of vCPU {} panicked; this is a bug in belfry", self.2)));
        }
    }
}

impl Drop for Vcpu {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.stop.store(true, Ordering::SeqCst);
        let mut warned = Instant::now() + Duration::from_secs(5);
        while !thread.is_finished() {
            // The signal is repeated: a thread that is not in KVM_RUN yet finds the flag, one that is in it gets the
            // signal.
            if let Err(error) = thread.kill(SIGRTMIN()) {
                log::debug!(target: "kvm", "a vCPU's thread takes no signal: {error}");
            }
            std::thread::sleep(Duration::from_micros(200));
            if Instant::now() > warned {
                log::warn!(target: "kvm", "a vCPU does not stop");
                warned += Duration::from_secs(60);
            }
        }
        let _ = thread.join();
    }
}
