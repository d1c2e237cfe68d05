//! Bytes and C strings, without the functions of the C library that the compiler would otherwise call.

/// Bytes of a C string.
///
/// # Safety
///
/// The text has a zero byte.
pub(crate) unsafe fn length(text: *const u8) -> usize {
    let mut length = 0;
    // SAFETY: the caller's text has a zero byte.
    while unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    length
}

/// Returns true if `size` bytes are the same.
///
/// # Safety
///
/// As many can be read.
pub(crate) unsafe fn same(a: *const u8, b: *const u8, size: usize) -> bool {
    let mut at = 0;
    while at < size {
        // SAFETY: the caller vouches for the bytes.
        if unsafe { *a.add(at) != *b.add(at) } {
            return false;
        }
        at += 1;
    }
    true
}

/// Returns true if a C string begins with some bytes.
///
/// # Safety
///
/// `size` bytes of `with` can be read, and none is zero.
pub(crate) unsafe fn begins(text: *const u8, with: *const u8, size: usize) -> bool {
    let mut at = 0;
    while at < size {
        // SAFETY: the text has a zero byte, which is not among the bytes looked for.
        let (a, b) = unsafe { (*text.add(at), *with.add(at)) };
        if a != b || a == 0 {
            return false;
        }
        at += 1;
    }
    true
}

/// Text in the making, in a buffer that is never left.
pub(crate) struct Text {
    pub(crate) to: *mut u8,
    pub(crate) size: usize,
    pub(crate) have: usize,
}

impl Text {
    /// Adds bytes; nothing if there is no room for them and a zero byte.
    ///
    /// # Safety
    ///
    /// `size` bytes can be read; the buffer is as large as it says, and `have` is less.
    pub(crate) unsafe fn add(&mut self, from: *const u8, size: usize) -> Option<()> {
        if size >= self.size - self.have {
            return None;
        }
        let mut at = 0;
        while at < size {
            // SAFETY: there is room; the caller vouches for the source.
            unsafe { *self.to.add(self.have + at) = *from.add(at) };
            at += 1;
        }
        self.have += size;
        // SAFETY: there is room for one more.
        unsafe { *self.to.add(self.have) = 0 };
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_leaves_its_buffer() {
        let mut buffer = [0xffu8; 8];
        let mut text = Text { to: buffer.as_mut_ptr(), size: 6, have: 0 };
        // SAFETY: the sources are as long as said.
        unsafe {
            assert_eq!(text.add(b"abc".as_ptr(), 3), Some(()));
            assert_eq!(text.add(b"def".as_ptr(), 3), None);
            assert_eq!(text.add(b"de".as_ptr(), 2), Some(()));
        }
        assert_eq!(&buffer, b"abcde\0\xff\xff");
    }
}
