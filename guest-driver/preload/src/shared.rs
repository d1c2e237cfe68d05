//! Descriptors of memory that processes share: the hosted driver's, as programs see those of a kernel.

use belfry_kfd_hosted::dmabuf::Descriptor;

use crate::inside::{inside, is_inside};
use crate::real::raw;

/// Finds the shared memory that a descriptor of the program refers to, if it is memory of any process's GPU.
///
/// Asks the kernel one question about a descriptor of anything else, and allocates for files without a name
/// alone.
pub(crate) fn find(fd: i32) -> Option<Descriptor> {
    if fd < 0 || is_inside() {
        return None;
    }
    let stat = raw::fstat(fd)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG || stat.st_nlink != 0 {
        return None;
    }
    inside(|| Descriptor::of(fd).ok())
}

/// Result of `lseek` for memory of `size` bytes (`dma_buf_llseek`): programs ask for the size that way.
pub(crate) fn seek(size: u64, offset: i64, whence: i32) -> Result<i64, i32> {
    match (whence, offset) {
        (libc::SEEK_END, 0) => i64::try_from(size).map_err(|_| libc::EOVERFLOW),
        (libc::SEEK_SET, 0) => Ok(0),
        _ => Err(libc::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeking_tells_the_size_and_nothing_else() {
        assert_eq!(seek(8192, 0, libc::SEEK_END), Ok(8192));
        assert_eq!(seek(8192, 0, libc::SEEK_SET), Ok(0));
        for (offset, whence) in
            [(1, libc::SEEK_END), (-1, libc::SEEK_END), (1, libc::SEEK_SET), (0, libc::SEEK_CUR)]
        {
            assert_eq!(seek(8192, offset, whence), Err(libc::EINVAL), "{offset} {whence}");
        }
    }

    #[test]
    fn other_descriptors_are_none() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(find(std::os::fd::AsRawFd::as_raw_fd(&file)).is_none());
        assert!(find(-1).is_none());
        assert!(find(i32::MAX).is_none());
    }
}
