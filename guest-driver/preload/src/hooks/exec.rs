//! Programs started by the program: they get this library too, with any environment they are given.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;

use once_cell::race::OnceBox;

use crate::inside::{inside, is_inside};
use crate::program_file::examine;
use crate::real::{next, raw, set_errno};
use belfry_kfd_hosted::prepared::{
    CARD_VARIABLE, DEBUGGABLE_VARIABLE, FAULTS_VARIABLE, INSPECT_VARIABLE, PROFILE_VARIABLE, RECORD_VARIABLE,
    SANITIZE_VARIABLE, SUMMARY_VARIABLE, TRACE_VARIABLE, TREE_VARIABLE, WAIT_VARIABLE, Wait,
};

use crate::settings::{PRELOAD, settings};
use crate::{card, notice, summary};

/// Most variables of an environment that is handed on. A longer one is left as it is, and the user is told.
const MOST: usize = 2000;
/// Most variables that a started program needs.
const VARIABLES: usize = 10;

/// `NAME=value` of the variables a started program needs.
struct Own {
    /// This library's path, as the dynamic linker was told.
    library: Vec<u8>,
    /// At most [`VARIABLES`].
    variables: Vec<Vec<u8>>,
}

/// Variables that this process was started with.
fn own() -> Option<&'static Own> {
    // As in `settings`.
    static OWN: OnceBox<Option<Own>> = OnceBox::new();
    let find = || {
        let settings = settings()?;
        let library = library()?;
        let line = |name: &str, value: &[u8]| [name.as_bytes(), b"=", value, b"\0"].concat();
        let mut variables = vec![line(PRELOAD, &library), line(TREE_VARIABLE, &settings.tree)];
        if let Some(summary) = &settings.summary {
            variables.push(line(SUMMARY_VARIABLE, summary.as_os_str().as_bytes()));
        }
        if let Some(trace) = &settings.trace {
            variables.push(line(TRACE_VARIABLE, &trace.value()));
        }
        if let Some(record) = &settings.record {
            variables.push(line(RECORD_VARIABLE, record.as_os_str().as_bytes()));
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
        if settings.wait != Wait::Auto {
            variables.push(line(WAIT_VARIABLE, settings.wait.name().as_bytes()));
        }
        if !settings.card_name.is_empty() {
            variables.push(line(CARD_VARIABLE, &settings.card_name));
        }
        Some(Own { library, variables })
    };
    OWN.get_or_init(|| inside(|| Box::new(find()))).as_ref()
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

/// Variables of an environment that is handed on from the stack. A caller that starts programs may have a few kilobytes
/// of stack (a child of `clone` with a stack of its own).
const FEW: usize = 100;

/// An environment with this library in it.
struct Environment {
    room: [*const c_char; FEW + VARIABLES + 1],
    /// Room for more, as an address and its size, if that was needed.
    more: Option<(*mut *const c_char, usize)>,
    /// A list of libraries with this one in front, if there was one without it.
    joined: Option<Vec<u8>>,
}

impl Environment {
    fn new() -> Self {
        Self { room: [std::ptr::null(); FEW + VARIABLES + 1], more: None, joined: None }
    }

    /// Room for `count` variables, those of this library and the end of the list.
    fn room(&mut self, count: usize) -> Option<&mut [*const c_char]> {
        if count <= FEW {
            return Some(&mut self.room);
        }
        let len = count + VARIABLES + 1;
        let size = len * size_of::<*const c_char>();
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of this function alone.
        let at =
            unsafe { raw::call(libc::SYS_mmap, [0, size, access as usize, kind as usize, usize::MAX, 0]) };
        if at < 0 {
            return None;
        }
        let at = at as *mut *const c_char;
        self.more = Some((at, size));
        // SAFETY: as long as it says, zeroed, and given back with this structure alone.
        Some(unsafe { std::slice::from_raw_parts_mut(at, len) })
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
        // SAFETY: the caller's contract.
        while unsafe { !given.is_null() && !(*given.add(count)).is_null() } {
            count += 1;
        }
        if count > MOST {
            notice::say(format_args!("an environment of more than {MOST} variables is left without the GPU"));
            return given;
        }
        let mut joined = None;
        let Some(room) = self.room(count) else { return given };
        let mut present = [false; VARIABLES];
        for (index, place) in room.iter_mut().enumerate().take(count) {
            // SAFETY: the caller's contract; there are so many.
            let (pointer, entry) = unsafe {
                let pointer = *given.add(index);
                (pointer, CStr::from_ptr(pointer).to_bytes())
            };
            *place = pointer;
            if let Some(at) = own.variables.iter().position(|variable| same_name(variable, entry)) {
                present[at] = true;
                if at == 0 && !entry.windows(own.library.len()).any(|part| part == own.library) {
                    let others = entry.get(PRELOAD.len() + 1..).unwrap_or_default();
                    let own = &own.variables[0][..own.variables[0].len() - 1];
                    let text = inside(|| [own, b":", others, b"\0"].concat());
                    *place = joined.insert(text).as_ptr().cast();
                }
            }
        }
        if present[..own.variables.len()].iter().all(|&present| present) && joined.is_none() {
            return given;
        }
        for (variable, _) in own.variables.iter().zip(present).filter(|(_, present)| !present) {
            room[count] = variable.as_ptr().cast();
            count += 1;
        }
        room[count] = std::ptr::null();
        let list = room.as_ptr();
        self.joined = joined;
        list
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if let Some((at, size)) = self.more {
            // SAFETY: the memory of `room`, which no code uses any more.
            unsafe { raw::call(libc::SYS_munmap, [at as usize, size, 0, 0, 0, 0]) };
        }
    }
}

/// Returns true if two lines `NAME=value` name the same variable.
fn same_name(one: &[u8], other: &[u8]) -> bool {
    let name = |line: &[u8]| line.iter().position(|&byte| byte == b'=').map(|end| end + 1);
    name(one).is_some_and(|end| other.get(..end) == one.get(..end))
}

/// Lists of C strings.
type Strings = *const *const c_char;

/// Becomes another program: `exec` is given the environment to hand on.
///
/// # Safety
///
/// `envp` is null or a list of C strings that ends with null.
#[inline(never)]
pub(super) unsafe fn exec_by(envp: Strings, exec: impl FnOnce(Strings) -> c_int) -> c_int {
    let mut environment = Environment::new();
    // SAFETY: the caller's contract.
    let envp = unsafe { environment.with_ours(envp) };
    if !is_inside() {
        summary::write(summary::End::Exited);
        card::leave();
    }
    exec(envp)
}

macro_rules! execs {
    ($(fn $name:ident($($before:ident: $type:ty,)* [$path:ident], argv $(, $after:ident)?), searched $searched:literal;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($before: $type,)* $path: *const c_char, argv: Strings, envp: Strings $(, $after: c_int)?
        ) -> c_int {
            examine($path, $searched);
            let exec = |envp: Strings| next!(
                $name($($before,)* $path, argv, envp $(, $after)?):
                fn($($type,)* *const c_char, Strings, Strings $(, execs!(@int $after))?) -> c_int, else -1
            );
            // SAFETY: the program gives lists of C strings.
            unsafe { exec_by(envp, exec) }
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
    let exec = |envp: Strings| next!(fexecve(fd, argv, envp): fn(c_int, Strings, Strings) -> c_int, else -1);
    // SAFETY: the program gives lists of C strings.
    unsafe { exec_by(envp, exec) }
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

/// Way in which a function with a list of arguments ends that list.
#[derive(Clone, Copy)]
enum Listed {
    /// With null.
    Plain,
    /// With null; the program is searched for.
    Searched,
    /// With null and an environment.
    Environment,
}

/// Most arguments of a function that lists them; no program is expected to list more.
const LISTED: usize = 1000;
/// Arguments of most calls are fewer.
const FEW_LISTED: usize = 32;

/// Implements a function with a list of arguments.
///
/// # Safety
///
/// `registers` are the first six arguments, the others are on the `stack`; there is a null among them.
unsafe fn exec_listed(registers: *const usize, stack: *const usize, kind: Listed) -> c_int {
    // SAFETY: the caller's contract.
    let argument =
        |index: usize| unsafe { if index < 6 { *registers.add(index) } else { *stack.add(index - 6) } };
    match (0..=LISTED).find(|count| argument(1 + count) == 0) {
        Some(count @ ..FEW_LISTED) => exec_list::<FEW_LISTED>(&argument, count, kind),
        Some(count) => exec_list::<{ LISTED + 1 }>(&argument, count, kind),
        None => {
            set_errno(libc::E2BIG);
            -1
        }
    }
}

/// Implements such a function for fewer than `MOST` arguments. `argument` returns the path, the arguments, null, and
/// the environment if there is one. The stack may be small.
#[inline(never)]
fn exec_list<const MOST: usize>(argument: &impl Fn(usize) -> usize, count: usize, kind: Listed) -> c_int {
    let mut argv = [std::ptr::null::<c_char>(); MOST];
    for (index, place) in argv.iter_mut().enumerate().take(count) {
        *place = argument(1 + index) as *const c_char;
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
