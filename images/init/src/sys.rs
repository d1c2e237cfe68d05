//! The few system calls init makes that the standard library does not.
#![expect(unsafe_code, reason = "mount, modules, power: plain system calls")]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

fn check(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn text(value: &str) -> io::Result<CString> {
    CString::new(value).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Mounts a file system that needs no device, with options of its own kind.
pub(crate) fn mount(kind: &str, target: &str, options: &str) -> io::Result<()> {
    std::fs::create_dir_all(target)?;
    let (kind, target, options) = (text(kind)?, text(target)?, text(options)?);
    // SAFETY: all pointers are NUL-terminated strings that live across the call.
    check(i64::from(unsafe {
        libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast())
    }))
}

/// Mounts the ext4 file system of `device` for one guest's life: nothing is kept, and no time is spent on tables.
pub(crate) fn mount_disk(device: &str, target: &str) -> io::Result<()> {
    std::fs::create_dir_all(target)?;
    let (device, target) = (text(device)?, text(target)?);
    // SAFETY: all pointers are NUL-terminated strings that live across the call.
    check(i64::from(unsafe {
        libc::mount(
            device.as_ptr(),
            target.as_ptr(),
            c"ext4".as_ptr(),
            libc::MS_NOATIME,
            c"noinit_itable".as_ptr().cast(),
        )
    }))
}

/// Unmounts the file system at `target`.
pub(crate) fn unmount(target: &str) -> io::Result<()> {
    let target = text(target)?;
    // SAFETY: the path is a NUL-terminated string that lives across the call.
    check(i64::from(unsafe { libc::umount2(target.as_ptr(), 0) }))
}

/// Takes away the file system at `target`; open files of it stay.
pub(crate) fn detach(target: &str) -> io::Result<()> {
    let target = text(target)?;
    // SAFETY: the path is a NUL-terminated string that lives across the call.
    check(i64::from(unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) }))
}

/// Mounts the folder that the machine offers over 9p as `tag`; programs may map its files, and see each other's writes
/// at once.
pub(crate) fn mount_share(tag: &str, target: &str, read_only: bool) -> io::Result<()> {
    std::fs::create_dir_all(target)?;
    let (tag, target) = (text(tag)?, text(target)?);
    let flags = if read_only { libc::MS_RDONLY } else { 0 };
    let options = c"trans=virtio,version=9p2000.L,msize=262144,cache=mmap";
    // SAFETY: all pointers are NUL-terminated strings that live across the call.
    check(i64::from(unsafe {
        libc::mount(tag.as_ptr(), target.as_ptr(), c"9p".as_ptr(), flags, options.as_ptr().cast())
    }))
}

/// Makes the file system at `target` the root of this process and of those it starts.
///
/// As `switch_root` does: the initramfs cannot be unmounted, so the new root is moved onto it.
pub(crate) fn switch_root(target: &str) -> io::Result<()> {
    std::env::set_current_dir(target)?;
    // SAFETY: all pointers are NUL-terminated strings, or null where the kernel reads none.
    check(i64::from(unsafe {
        libc::mount(c".".as_ptr(), c"/".as_ptr(), std::ptr::null(), libc::MS_MOVE, std::ptr::null())
    }))?;
    std::os::unix::fs::chroot(".")?;
    std::env::set_current_dir("/")
}

/// Switches the network interface `lo` on; the kernel gives it its addresses by itself.
pub(crate) fn loopback_up() -> io::Result<()> {
    up("lo")
}

/// Gives a network interface an address in a network, and switches it on.
pub(crate) fn set_address(interface: &str, address: [u8; 4], mask: [u8; 4]) -> io::Result<()> {
    for (number, address) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, mask)] {
        configure(interface, number, libc::__c_anonymous_ifr_ifru { ifru_addr: ipv4(address) })?;
    }
    up(interface)
}

fn up(interface: &str) -> io::Result<()> {
    let flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    configure(interface, libc::SIOCSIFFLAGS, libc::__c_anonymous_ifr_ifru { ifru_flags: flags })
}

fn configure(interface: &str, number: libc::Ioctl, value: libc::__c_anonymous_ifr_ifru) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zeros are a valid request, with an empty name and no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays the end of the name.
    let room = request.ifr_name.len() - 1;
    for (to, byte) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
        *to = byte.cast_signed();
    }
    request.ifr_ifru = value;
    // SAFETY: the socket is open, and the request is one for this number that lives across the call.
    check(i64::from(unsafe { libc::ioctl(socket.as_raw_fd(), number, &raw const request) }))
}

/// Sends packets for any other network through `gateway`.
pub(crate) fn add_default_route(gateway: [u8; 4]) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zeros are a valid route, without a device's name.
    let mut route: libc::rtentry = unsafe { std::mem::zeroed() };
    (route.rt_dst, route.rt_genmask, route.rt_gateway) = (ipv4([0; 4]), ipv4([0; 4]), ipv4(gateway));
    route.rt_flags = libc::RTF_UP | libc::RTF_GATEWAY;
    // SAFETY: the socket is open, and the route is one for this number that lives across the call.
    check(i64::from(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCADDRT, &raw const route) }))
}

/// An IPv4 address as the kernel takes it: port, then address, both in network order.
fn ipv4(address: [u8; 4]) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, byte) in data[2..].iter_mut().zip(address) {
        *to = byte.cast_signed();
    }
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

/// Loads the kernel module in `file`.
pub(crate) fn load_module(file: &File, parameters: &str) -> io::Result<()> {
    let parameters = text(parameters)?;
    // SAFETY: the descriptor is open and the parameters are a NUL-terminated string.
    check(unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), parameters.as_ptr(), 0) })
}

/// Unloads a kernel module, failing while it is in use.
pub(crate) fn unload_module(name: &str) -> io::Result<()> {
    let name = text(name)?;
    // SAFETY: the name is a NUL-terminated string.
    check(unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) })
}

/// The kernel's log, oldest line first; never empty.
pub(crate) fn kernel_log() -> io::Result<Vec<u8>> {
    const READ_ALL: libc::c_int = 3;
    let mut buffer = vec![0u8; 1 << 20];
    // SAFETY: the kernel writes at most the given length into the buffer.
    let length = unsafe { libc::klogctl(READ_ALL, buffer.as_mut_ptr().cast(), buffer.len() as libc::c_int) };
    check(i64::from(length))?;
    buffer.truncate(length as usize);
    buffer.push(b'\n');
    Ok(buffer)
}

/// Lets a program have a terminal of that many rows and columns as its standard streams and its controlling terminal.
pub(crate) fn on_terminal(command: &mut Command, terminal: &File, size: (u16, u16)) -> io::Result<()> {
    let size = libc::winsize { ws_row: size.0, ws_col: size.1, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the terminal is open, and the size is one for this number that lives across the call.
    check(i64::from(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }))?;
    command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal.try_clone()?);
    let leads = || {
        // SAFETY: neither call touches memory; the child's standard input is the terminal by now.
        check(i64::from(unsafe { libc::setsid() }))?;
        // SAFETY: as above. The terminal is taken from the session that had it.
        check(i64::from(unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCSCTTY, 1) }))
    };
    // SAFETY: the closure makes two system calls and reads errno: nothing that another thread's lock could hold up.
    unsafe { command.pre_exec(leads) };
    Ok(())
}

/// Waits until everything written to a terminal has left the machine.
pub(crate) fn drain(terminal: &File) -> io::Result<()> {
    // SAFETY: the terminal is open, and the call touches no memory.
    check(i64::from(unsafe { libc::tcdrain(terminal.as_raw_fd()) }))
}

/// Sends `signal` to a process.
pub(crate) fn kill(pid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: kill touches no memory.
    check(i64::from(unsafe { libc::kill(pid.cast_signed(), signal) }))
}

/// Waits until a child has ended, and leaves it to be reaped.
pub(crate) fn wait_for_any() -> io::Result<()> {
    // SAFETY: all zeros are a valid place for the result, which is not read.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes to that place alone.
    check(i64::from(unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOWAIT) }))
}

/// Reaps one child that has ended: its process id and wait status.
pub(crate) fn reap_any() -> Option<(u32, i32)> {
    let mut status = 0;
    // SAFETY: the kernel writes the status to a variable of this frame.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid.cast_unsigned(), status))
}

/// Ends the guest at once.
pub(crate) fn power_off() -> ! {
    // SAFETY: neither call touches memory; `reboot` does not come back.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Time since the kernel started.
pub(crate) fn uptime() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
