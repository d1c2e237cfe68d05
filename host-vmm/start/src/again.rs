//! A start as the record of an earlier one says.

use core::cell::UnsafeCell;

use crate::entries::{Entries, Entry};
use crate::text::{Text, begins, length, same};
use crate::{kernel, record};

/// Variables of an environment at most.
const MAX_VARIABLES: usize = 4096;
/// Variables of a record at most.
const MAX_NEW: usize = 16;

/// Memory that is zero at first: on the stack, its first use would be a call of `memset`.
struct Room {
    record: [u8; record::MAX_SIZE],
    path: [u8; 4096],
    some: [u8; record::MAX_CGROUP + 1],
    environment: [*const u8; MAX_VARIABLES + 1],
    new: [*const u8; MAX_NEW],
}

struct Static(UnsafeCell<Room>);

// SAFETY: used before there is a second thread.
unsafe impl Sync for Static {}

static ROOM: Static = Static(UnsafeCell::new(Room {
    record: [0; record::MAX_SIZE],
    path: [0; 4096],
    some: [0; record::MAX_CGROUP + 1],
    environment: [core::ptr::null(); MAX_VARIABLES + 1],
    new: [core::ptr::null(); MAX_NEW],
}));

/// The command line: `belfry exec OPTIONS -- PROGRAM ...`.
struct Command {
    options: *const *const u8,
    count: usize,
    program: *const *const u8,
}

impl Command {
    unsafe fn of(count: usize, arguments: *const *const u8) -> Option<Self> {
        // SAFETY: the kernel's list ends with a null pointer, and its members are C strings.
        unsafe {
            if count < 4
                || !begins(*arguments.add(1), c"exec".as_ptr().cast(), 4)
                || *(*arguments.add(1)).add(4) != 0
            {
                return None;
            }
            let mut at = 2;
            while at < count {
                let word = *arguments.add(at);
                if length(word) == 2 && begins(word, c"--".as_ptr().cast(), 2) {
                    break;
                }
                at += 1;
            }
            if at + 1 >= count {
                return None;
            }
            Some(Self { options: arguments.add(2), count: at - 2, program: arguments.add(at + 1) })
        }
    }

    /// Returns true if the options are those of a record, each followed by a zero byte.
    unsafe fn has(&self, entry: Entry) -> bool {
        let mut used = 0;
        let mut at = 0;
        while at < self.count {
            // SAFETY: a C string of the list; the entry's bytes are checked for.
            unsafe {
                let word = *self.options.add(at);
                let size = length(word) + 1;
                if entry.size - used < size || !same(word, entry.value.add(used), size) {
                    return false;
                }
                used += size;
            }
            at += 1;
        }
        used == entry.size
    }
}

/// The value of a variable.
unsafe fn variable(environment: *const *const u8, name: &'static core::ffi::CStr) -> Option<*const u8> {
    let name: *const u8 = name.as_ptr().cast();
    // SAFETY: the kernel's list ends with a null pointer, and its members are C strings.
    unsafe {
        let size = length(name);
        let mut at = environment;
        while !(*at).is_null() {
            if begins(*at, name, size) {
                return Some((*at).add(size));
            }
            at = at.add(1);
        }
    }
    None
}

/// The path of the record: where `belfry_image::Cache` has the cache, in the directory of `exec`, which has to be the user's own.
unsafe fn record_path(
    path: &mut Text,
    environment: *const *const u8,
    command: &Command,
    binary: &record::Identity,
) -> Option<()> {
    // SAFETY: values are C strings.
    unsafe {
        let value = |name| variable(environment, name).filter(|&value| *value != 0);
        if let Some(cache) = value(c"BELFRY_CACHE=") {
            path.add(cache, length(cache))?;
        } else {
            if let Some(cache) = value(c"XDG_CACHE_HOME=") {
                path.add(cache, length(cache))?;
            } else {
                let home = variable(environment, c"HOME=")?;
                path.add(home, length(home))?;
                path.add(c"/.cache".as_ptr().cast(), 7)?;
            }
            path.add(c"/belfry".as_ptr().cast(), 7)?;
        }
        path.add(c"/exec".as_ptr().cast(), 5)?;
        if !kernel::is_own(path.to) {
            return None;
        }
        path.add(c"/".as_ptr().cast(), 1)?;
        path.add(record::NAME.as_ptr(), record::NAME.len())?;
        let mut hash = record::FNV_START;
        let mut at = 0;
        while at < command.count {
            let word = *command.options.add(at);
            let mut byte = 0;
            while byte <= length(word) {
                hash = record::hash(hash, *word.add(byte));
                byte += 1;
            }
            at += 1;
        }
        let bytes = record::identity_bytes(binary);
        let mut byte = 0;
        while byte < bytes.len() {
            hash = record::hash(hash, *bytes.as_ptr().add(byte));
            byte += 1;
        }
        let mut shift = 64;
        while shift > 0 {
            shift -= 4;
            let digit = record::digit((hash >> shift) as u8);
            path.add(&raw const digit, 1)?;
        }
    }
    Some(())
}

/// State that a record is compared with.
struct Now<'a> {
    command: &'a Command,
    binary: &'a record::Identity,
    room: *mut Room,
}

impl Now<'_> {
    /// Returns true if a condition holds; `None` if the entry is no condition.
    unsafe fn holds(&self, entry: Entry) -> Option<bool> {
        let Entry { kind, value, size } = entry;
        // SAFETY: the room has the sizes that are given for it; values of entries end with a zero byte.
        unsafe {
            let some: *mut u8 = (&raw mut (*self.room).some).cast();
            Some(match kind {
                record::OPTIONS => self.command.has(entry),
                record::BINARY => {
                    let bytes = record::identity_bytes(self.binary);
                    size == bytes.len() && same(value, bytes.as_ptr(), size)
                }
                record::MEMORY => kernel::memory().is_some_and(|memory| {
                    let bytes = memory.to_le_bytes();
                    size == 8 && same(value, bytes.as_ptr(), 8)
                }),
                record::PROCESSORS => {
                    let have = kernel::processors(some, record::MAX_CGROUP);
                    have == size as isize && same(value, some, size)
                }
                record::CGROUP => {
                    let path = c"/proc/self/cgroup".as_ptr().cast();
                    let have = kernel::read_file(path, some, record::MAX_CGROUP + 1);
                    have == size as isize && same(value, some, size)
                }
                record::PRESENT => kernel::access(value, 0) == 0,
                record::ABSENT => kernel::access(value, 0) == kernel::ENOENT,
                _ => return None,
            })
        }
    }
}

/// The environment of the program; nothing if there are too many variables.
unsafe fn environment(room: *mut Room, old: *const *const u8, entries: Entries) -> Option<()> {
    // SAFETY: indices are below the sizes of the room; the kernel's list ends with a null pointer.
    unsafe {
        let new: *mut *const u8 = (&raw mut (*room).new).cast();
        let all: *mut *const u8 = (&raw mut (*room).environment).cast();
        let (mut names, mut have) = (0, 0);
        let mut list = entries;
        while let Some(entry) = list.next() {
            if entry.kind == record::VARIABLE || entry.kind == record::WITHOUT {
                if names == MAX_NEW {
                    return None;
                }
                *new.add(names) = entry.value;
                names += 1;
            }
            if entry.kind == record::VARIABLE {
                *all.add(have) = entry.value;
                have += 1;
            }
        }
        let mut at = old;
        while !(*at).is_null() {
            let mut replaced = false;
            let mut name = 0;
            while name < names {
                let wanted = *new.add(name);
                let mut size = 0;
                while *wanted.add(size) != b'=' && *wanted.add(size) != 0 {
                    size += 1;
                }
                replaced |= begins(*at, wanted, size) && *(*at).add(size) == b'=';
                name += 1;
            }
            if !replaced {
                if have == MAX_VARIABLES {
                    return None;
                }
                *all.add(have) = *at;
                have += 1;
            }
            at = at.add(1);
        }
        *all.add(have) = core::ptr::null();
    }
    Some(())
}

/// Finds the path of the program that a name stands for, and puts it into `path`; `None` if there is none, or if it
/// takes a shell to run it.
unsafe fn find(path: &mut Text, name: *const u8, environment: *const *const u8) -> Option<()> {
    // SAFETY: C strings.
    unsafe {
        let size = length(name);
        let mut at = 0;
        while at < size {
            if *name.add(at) == b'/' {
                path.have = 0;
                path.add(name, size)?;
                return (runs(path.to) == 0).then_some(());
            }
            at += 1;
        }
        let mut from = variable(environment, c"PATH=")?;
        loop {
            let mut end = 0;
            while *from.add(end) != 0 && *from.add(end) != b':' {
                end += 1;
            }
            path.have = 0;
            // An empty one is the working directory.
            if end > 0 {
                path.add(from, end)?;
                path.add(c"/".as_ptr().cast(), 1)?;
            }
            path.add(name, size)?;
            match runs(path.to) {
                0 => return Some(()),
                kernel::ENOENT | kernel::ENOTDIR => {}
                _ => return None,
            }
            if *from.add(end) == 0 {
                return None;
            }
            from = from.add(end + 1);
        }
    }
}

/// Checks that the kernel itself can start a file: zero, or an error.
unsafe fn runs(path: *const u8) -> isize {
    let mut head = 0u32;
    // SAFETY: four bytes of this function's own; the path is the caller's.
    unsafe {
        let have = kernel::read_file(path, (&raw mut head).cast(), 4);
        if have < 0 {
            return have;
        }
        let known =
            head == u32::from_le_bytes(*b"\x7fELF") || head & 0xffff == u32::from_le_bytes(*b"#!\0\0");
        if have == 4 && known { kernel::access(path, 1) } else { kernel::EACCES }
    }
}

/// Becomes the program of `belfry exec`, if a record says how; otherwise returns, with nothing changed.
///
/// # Safety
///
/// `stack` is the stack that the kernel passes to a new process, and nothing else has run in it.
pub(crate) unsafe extern "C" fn again(stack: *const usize) {
    // SAFETY: as above.
    let _ = unsafe { try_again(stack) };
}

unsafe fn try_again(stack: *const usize) -> Option<()> {
    let room = ROOM.0.get();
    // SAFETY: number of arguments, arguments, null, environment, null (System V ABI for x86-64, 3.4.1).
    unsafe {
        let count = *stack;
        let arguments: *const *const u8 = stack.add(1).cast();
        let old = arguments.add(count + 1);
        let command = Command::of(count, arguments)?;
        let program = *command.program;
        let size = length(program);
        // The suites are belfry's own; another library that is loaded first comes after ours.
        let suite = size >= 6 && begins(program.add(size - 6), c"-suite".as_ptr().cast(), 6);
        if size == 0 || suite || variable(old, c"LD_PRELOAD=").is_some_and(|list| *list != 0) {
            return None;
        }
        let binary = kernel::identity(c"/proc/self/exe".as_ptr().cast())?;
        let mut path = Text { to: (&raw mut (*room).path).cast(), size: 4096, have: 0 };
        record_path(&mut path, old, &command, &binary)?;
        let content: *mut u8 = (&raw mut (*room).record).cast();
        let have = kernel::read_file(path.to, content, record::MAX_SIZE);
        let entries = Entries::of(content, usize::try_from(have).ok()?)?;
        let now = Now { command: &command, binary: &binary, room };
        let mut notice = None;
        let mut list = entries;
        loop {
            let entry = list.next()?;
            match (entry.kind, now.holds(entry)) {
                (record::END, _) => break,
                (record::NOTICE, _) => notice = Some(entry),
                (record::VARIABLE | record::WITHOUT, _) | (_, Some(true)) => {}
                _ => return None,
            }
        }
        environment(room, old, entries)?;
        find(&mut path, program, old)?;
        if let Some(text) = notice {
            kernel::say(text.value, text.size);
        }
        kernel::plain_signals();
        kernel::execute(path.to, command.program, (&raw const (*room).environment).cast());
    }
    None
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::entries::tests::entry;

    #[test]
    fn options_are_compared_word_by_word() {
        let words = [c"belfry", c"exec", c"-q", c"--cus", c"8", c"--", c"true", c"-q"];
        let list: Vec<*const u8> =
            words.iter().map(|word| word.as_ptr().cast()).chain([core::ptr::null()]).collect();
        // SAFETY: C strings, followed by a null pointer.
        unsafe {
            let command = Command::of(words.len(), list.as_ptr()).unwrap();
            assert_eq!(length(*command.program), 4);
            for (options, equal) in [
                (&b"-q\0--cus\x008\0"[..], true),
                (b"-q\0--cus\x008", false),
                (b"-q\0--cus\x008\0\0", false),
                (b"-q\0--cus\x0010\0", false),
                (b"-q\0", false),
                (b"", false),
            ] {
                let content = entry(record::OPTIONS, options);
                let entry =
                    Entry { kind: record::OPTIONS, value: content[5..].as_ptr(), size: options.len() };
                assert_eq!(command.has(entry), equal, "{options:?}");
            }
            for count in 0..7 {
                assert!(Command::of(count, list.as_ptr()).is_none(), "{count} words");
            }
        }
    }
}
