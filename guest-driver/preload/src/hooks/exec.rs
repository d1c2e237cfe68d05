//! Programs started by the program: they get this library too, whatever environment they are given.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::inside::{inside, is_inside};
use crate::path::PATH_MAX;
use crate::real::{next, set_errno};
use belfry_kfd_hosted::prepared::{
    CARD_VARIABLE, DEBUGGABLE_VARIABLE, FAULTS_VARIABLE, INSPECT_VARIABLE, PROFILE_VARIABLE,
    SANITIZE_VARIABLE, SUMMARY_VARIABLE, TRACE_VARIABLE, TREE_VARIABLE,
};

use crate::settings::{PRELOAD, settings};
use crate::{card, node, notice, summary};

/// Variables of an environment that is handed on; one with more of them is left as it is, and that is said.
const MOST: usize = 2000;
/// Most variables that a started program needs.
const VARIABLES: usize = 9;

/// `NAME=value` of the variables a started program needs.
struct Own {
    /// This library's path, as the dynamic linker was told.
    library: Vec<u8>,
    /// At most [`VARIABLES`].
    variables: Vec<Vec<u8>>,
}

/// What this process was started with.
fn own() -> Option<&'static Own> {
    static OWN: OnceLock<Option<Own>> = OnceLock::new();
    OWN.get_or_init(|| {
        inside(|| {
            let settings = settings()?;
            let library = library()?;
            let line = |name: &str, value: &[u8]| [name.as_bytes(), b"=", value, b"\0"].concat();
            let mut variables = vec![line(PRELOAD, &library), line(TREE_VARIABLE, &settings.tree)];
            if let Some(summary) = &settings.summary {
                use std::os::unix::ffi::OsStrExt as _;
                variables.push(line(SUMMARY_VARIABLE, summary.as_os_str().as_bytes()));
            }
            if let Some(trace) = &settings.trace {
                variables.push(line(TRACE_VARIABLE, &trace.value()));
            }
            if let Some(sanitize) = &settings.sanitize {
                variables.push(line(SANITIZE_VARIABLE, sanitize));
            }
            if let Some(profile) = &settings.profile {
                variables.push(line(PROFILE_VARIABLE, profile));
            }
            if let Some(faults) = &settings.faults {
                variables.push(line(FAULTS_VARIABLE, faults));
            }
            if let Some(inspect) = &settings.inspect {
                variables.push(line(INSPECT_VARIABLE, inspect));
            }
            if settings.debuggable {
                variables.push(line(DEBUGGABLE_VARIABLE, b"1"));
            }
            if !settings.card_name.is_empty() {
                variables.push(line(CARD_VARIABLE, &settings.card_name));
            }
            Some(Own { library, variables })
        })
    })
    .as_ref()
}

/// The path this library was loaded from.
fn library() -> Option<Vec<u8>> {
    // SAFETY: the structure is this function's own, and the name it gets lives as long as the library.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(library as *const c_void, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        Some(CStr::from_ptr(info.dli_fname).to_bytes().to_vec())
    }
}

/// An environment with this library in it.
struct Environment {
    room: [*const c_char; MOST + VARIABLES + 1],
    /// A list of libraries with this one in front, if there was one without it.
    joined: Option<Vec<u8>>,
}

impl Environment {
    fn new() -> Self {
        Self { room: [std::ptr::null(); MOST + VARIABLES + 1], joined: None }
    }

    /// The environment to hand on instead of a given one.
    ///
    /// # Safety
    ///
    /// `given` is null or a list of C strings that ends with null.
    unsafe fn with_ours(&mut self, given: *const *const c_char) -> *const *const c_char {
        if is_inside() {
            return given;
        }
        let Some(own) = own() else { return given };
        let mut count = 0;
        let mut present = [false; VARIABLES];
        // SAFETY: the caller's contract.
        unsafe {
            while !given.is_null() && !(*given.add(count)).is_null() {
                if count == MOST {
                    notice::say(format_args!(
                        "an environment of more than {MOST} variables is left without the GPU"
                    ));
                    return given;
                }
                let entry = CStr::from_ptr(*given.add(count)).to_bytes();
                self.room[count] = *given.add(count);
                if let Some(at) = own.variables.iter().position(|variable| same_name(variable, entry)) {
                    present[at] = true;
                    if at == 0 && !entry.windows(own.library.len()).any(|part| part == own.library) {
                        let others = entry.get(PRELOAD.len() + 1..).unwrap_or_default();
                        let own = &own.variables[0][..own.variables[0].len() - 1];
                        let joined = inside(|| [own, b":", others, b"\0"].concat());
                        self.room[count] = self.joined.insert(joined).as_ptr().cast();
                    }
                }
                count += 1;
            }
        }
        if present[..own.variables.len()].iter().all(|&present| present) && self.joined.is_none() {
            return given;
        }
        for (variable, _) in own.variables.iter().zip(present).filter(|(_, present)| !present) {
            self.room[count] = variable.as_ptr().cast();
            count += 1;
        }
        self.room[count] = std::ptr::null();
        self.room.as_ptr()
    }
}

/// Whether two lines `NAME=value` name the same variable.
fn same_name(one: &[u8], other: &[u8]) -> bool {
    let name = |line: &[u8]| line.iter().position(|&byte| byte == b'=').map(|end| end + 1);
    name(one).is_some_and(|end| other.get(..end) == one.get(..end))
}

/// Says what will go wrong for a program that does not load this library; `searched` for in `PATH` if it is but a name.
fn examine(path: *const c_char, searched: bool) {
    if is_inside() || path.is_null() || settings().is_none() {
        return;
    }
    // SAFETY: the program gives a C string.
    let name = unsafe { CStr::from_ptr(path) };
    let mut room = [0; PATH_MAX];
    let name = match searched && !name.to_bytes().contains(&b'/') {
        true => match found_in_path(name.to_bytes(), &mut room) {
            Some(name) => name,
            None => return,
        },
        false => name,
    };
    let Some(fd) = node::raw_open(name, libc::O_RDONLY | libc::O_CLOEXEC) else { return };
    // The dynamic linker itself, called by its name, has no interpreter either.
    let file = name.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let why = if file.starts_with(b"ld") && file.contains(&b'.') { None } else { why_not_served(fd) };
    node::raw_close(fd);
    if let Some(why) = why {
        notice::say(format_args!("{} {why} (see --namespace)", name.to_string_lossy()));
    }
}

/// The file that a name is found as in `PATH`.
fn found_in_path<'a>(name: &[u8], room: &'a mut [u8; PATH_MAX]) -> Option<&'a CStr> {
    // SAFETY: the C library's list, read as it does to find the program.
    let path = unsafe { libc::getenv(c"PATH".as_ptr()) };
    if path.is_null() {
        return None;
    }
    // SAFETY: a variable's value is a C string.
    for directory in unsafe { CStr::from_ptr(path) }.to_bytes().split(|&byte| byte == b':') {
        let len = directory.len() + 1 + name.len();
        let Some(place) = room.get_mut(..=len) else { continue };
        place[..directory.len()].copy_from_slice(directory);
        place[directory.len()] = b'/';
        place[directory.len() + 1..len].copy_from_slice(name);
        place[len] = 0;
        let found = CStr::from_bytes_until_nul(place).ok()?;
        if let Some(fd) = node::raw_open(found, libc::O_PATH | libc::O_CLOEXEC) {
            node::raw_close(fd);
            return CStr::from_bytes_until_nul(room).ok();
        }
    }
    None
}

/// Reads from a place of a file, by a system call of our own: what there is.
fn read_at(fd: c_int, offset: usize, room: &mut [u8]) -> &[u8] {
    // SAFETY: the buffer is live and as long as it says.
    let count = unsafe {
        let at = room.as_mut_ptr() as usize;
        crate::real::raw::call(libc::SYS_pread64, [fd as usize, at, room.len(), offset, 0, 0])
    };
    usize::try_from(count).ok().and_then(|count| room.get(..count)).unwrap_or_default()
}

/// Why a program will not find the GPU although it is started with this library.
fn why_not_served(fd: c_int) -> Option<&'static str> {
    let mut header = [0u8; 4096];
    let header = read_at(fd, 0, &mut header);
    let stat = crate::real::raw::fstat(fd)?;
    // SAFETY: takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    if stat.st_mode & libc::S_ISUID != 0 && stat.st_uid != user {
        return Some("runs with another user's rights: it does not load this library and finds no GPU");
    }
    if has_no_interpreter(header) {
        return Some("is statically linked: it does not load this library and finds no GPU");
    }
    if is_of_go(fd, header) {
        return Some(
            "makes its system calls itself, as programs in Go do: it finds no GPU but through C libraries",
        );
    }
    None
}

/// Program headers of a 64-bit ELF file, as far as its first bytes hold them: type, and offset and
/// length in the file.
fn program_headers(header: &[u8]) -> impl Iterator<Item = (u32, usize, usize)> {
    let is_elf = header.get(..5) == Some(b"\x7fELF\x02");
    let half = |at: usize| {
        header.get(at..at + 2).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])))
    };
    let long = |at: usize| {
        let bytes = header.get(at..at.checked_add(8)?)?;
        usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
    };
    let (size, count) = (half(54), if is_elf { half(56) } else { 0 });
    let first = long(32).unwrap_or(usize::MAX);
    (0..count).filter_map(move |index| {
        let at = first.checked_add(index * size)?;
        let kind = long(at)? as u32;
        Some((kind, long(at.checked_add(8)?)?, long(at.checked_add(32)?)?))
    })
}

/// Whether Go's linker has made a program: it leaves a note with the name `Go` (`cmd/link`, `ELFNOTEGONAME`).
fn is_of_go(fd: c_int, header: &[u8]) -> bool {
    program_headers(header).filter(|&(kind, ..)| kind == PT_NOTE).any(|(_, offset, length)| {
        let mut room = [0u8; 1024];
        let length = length.min(room.len());
        let mut notes = read_at(fd, offset, &mut room[..length]);
        // Lengths of name and content, a type, then both in whole words.
        while let &[a, b, c, d, e, f, g, h, _, _, _, _, ref rest @ ..] = notes {
            if rest.starts_with(b"Go\0\0") && [a, b, c, d] == [4, 0, 0, 0] {
                return true;
            }
            let words = |bytes| (u32::from_le_bytes(bytes) as usize).next_multiple_of(4);
            let after = words([a, b, c, d]).saturating_add(words([e, f, g, h]));
            notes = rest.get(after..).unwrap_or_default();
        }
        false
    })
}

/// Whether the beginning of a file is that of a 64-bit ELF program without a dynamic linker (`PT_INTERP`).
fn has_no_interpreter(header: &[u8]) -> bool {
    header.get(..5) == Some(b"\x7fELF\x02") && !program_headers(header).any(|(kind, ..)| kind == PT_INTERP)
}

/// `elf.h`.
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;

/// Lists of C strings.
type Strings = *const *const c_char;

macro_rules! execs {
    ($(fn $name:ident($($before:ident: $type:ty,)* [$path:ident], argv $(, $after:ident)?), searched $searched:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($before: $type,)* $path: *const c_char, argv: Strings, envp: Strings $(, $after: c_int)?
        ) -> c_int {
            let mut environment = Environment::new();
            examine($path, $searched);
            // SAFETY: the program gives lists of C strings.
            let envp = unsafe { environment.with_ours(envp) };
            if !is_inside() {
                summary::write(summary::End::Exited);
                card::leave();
            }
            next!(
                $name($($before,)* $path, argv, envp $(, $after)?):
                fn($($type,)* *const c_char, Strings, Strings $(, execs!(@int $after))?) -> c_int, else -1
            )
        }
    )*};
    (@int $any:ident) => { c_int };
}

execs! {
    fn execve([path], argv), searched false;
    fn execvpe([path], argv), searched true;
    fn execveat(directory: c_int, [path], argv, flags), searched false;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fexecve(fd: c_int, argv: Strings, envp: Strings) -> c_int {
    let mut environment = Environment::new();
    // SAFETY: the program gives lists of C strings.
    let envp = unsafe { environment.with_ours(envp) };
    if !is_inside() {
        summary::write(summary::End::Exited);
        card::leave();
    }
    next!(fexecve(fd, argv, envp): fn(c_int, Strings, Strings) -> c_int, else -1)
}

unsafe extern "C" {
    /// The program's environment (unistd.h).
    static mut environ: Strings;
}

macro_rules! execs_in_own_environment {
    ($(fn $name:ident through $other:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, argv: Strings) -> c_int {
            // SAFETY: the C library's variable, read as it does.
            unsafe { $other(path, argv, environ) }
        }
    )*};
}

execs_in_own_environment! {
    fn execv through execve;
    fn execvp through execvpe;
}

macro_rules! spawns {
    ($($name:ident searched $searched:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void,
            argv: Strings, envp: Strings,
        ) -> c_int {
            let mut environment = Environment::new();
            examine(path, $searched);
            // SAFETY: the program gives lists of C strings.
            let envp = unsafe { environment.with_ours(envp) };
            next!(
                $name(pid, path, actions, attributes, argv, envp):
                fn(*mut c_int, *const c_char, *const c_void, *const c_void, Strings, Strings) -> c_int,
                else libc::ENOSYS
            )
        }
    )*};
}

spawns! {
    posix_spawn searched false;
    posix_spawnp searched true;
}

/// Has the program's own environment name this library again, if the program has taken it out.
fn restore_own_environment() {
    if is_inside() {
        return;
    }
    let Some(own) = own() else { return };
    for variable in &own.variables {
        let name = variable.iter().position(|&byte| byte == b'=').unwrap_or(0);
        let mut text = [0; 64];
        let Some(place) = text.get_mut(..name) else { continue };
        place.copy_from_slice(&variable[..name]);
        // SAFETY: C strings, which live as long as the process where they become part of the environment.
        unsafe {
            let value = libc::getenv(text.as_ptr().cast());
            let without = value.is_null() || *value == 0;
            if without {
                libc::putenv(variable.as_ptr().cast_mut().cast());
            }
        }
    }
}

/// An emptied environment keeps this library.
#[unsafe(no_mangle)]
unsafe extern "C" fn clearenv() -> c_int {
    let result = next!(clearenv(): fn() -> c_int, else -1);
    if result == 0 {
        restore_own_environment();
    }
    result
}

// What these start comes from inside the C library, with the program's own environment.
#[unsafe(no_mangle)]
unsafe extern "C" fn system(command: *const c_char) -> c_int {
    restore_own_environment();
    next!(system(command): fn(*const c_char) -> c_int, else -1)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void {
    restore_own_environment();
    next!(popen(command, mode): fn(*const c_char, *const c_char) -> *mut c_void, else std::ptr::null_mut())
}

/// How a function with a list of arguments ends that list.
#[derive(Clone, Copy)]
enum Listed {
    /// With null.
    Plain,
    /// The same, and the program is searched for.
    Searched,
    /// With null and an environment.
    Environment,
}

/// Most arguments of a function that lists them; as many as anybody has written down.
const LISTED: usize = 1000;

/// Does what a function with a list of arguments is for.
///
/// # Safety
///
/// `registers` are the first six arguments, the others are on the `stack`; there is a null among them.
unsafe fn exec_listed(registers: *const usize, stack: *const usize, kind: Listed) -> c_int {
    // SAFETY: the caller's contract.
    let argument =
        |index: usize| unsafe { if index < 6 { *registers.add(index) } else { *stack.add(index - 6) } };
    let mut argv = [std::ptr::null::<c_char>(); LISTED + 1];
    let mut count = 0;
    loop {
        let next = argument(1 + count) as *const c_char;
        if next.is_null() {
            break;
        }
        if count == LISTED {
            set_errno(libc::E2BIG);
            return -1;
        }
        argv[count] = next;
        count += 1;
    }
    let path = argument(0) as *const c_char;
    // SAFETY: the program's strings, and a list that ends with null.
    unsafe {
        match kind {
            Listed::Plain => execve(path, argv.as_ptr(), environ),
            Listed::Searched => execvpe(path, argv.as_ptr(), environ),
            Listed::Environment => execve(path, argv.as_ptr(), argument(2 + count) as Strings),
        }
    }
}

macro_rules! listed_execs {
    ($(fn $name:ident, $collect:ident, $kind:expr;)*) => {$(
        unsafe extern "C" fn $collect(registers: *const usize, stack: *const usize) -> c_int {
            // SAFETY: called by the function below, which the program gives a list.
            unsafe { exec_listed(registers, stack, $kind) }
        }

        /// Puts the arguments in registers beside those on the stack: a variadic function cannot be written in Rust.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> c_int {
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "mov rdi, rsp",
                "lea rsi, [rbp + 16]",
                "call {collect}",
                "leave",
                "ret",
                collect = sym $collect,
            )
        }
    )*};
}

listed_execs! {
    fn execl, collect_execl, Listed::Plain;
    fn execlp, collect_execlp, Listed::Searched;
    fn execle, collect_execle, Listed::Environment;
}
