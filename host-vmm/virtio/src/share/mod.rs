//! A folder of the host: a 9P transport (virtio 1.2 section 5.15 names the device; the layout is Linux's
//! `include/uapi/linux/virtio_9p.h`), and a server of 9P2000.L behind it.
//!
//! | part | file |
//! | --- | --- |
//! | the device: takes messages, returns replies | here |
//! | numbers and field layouts | `wire.rs` |
//! | messages and fids | `server.rs` |
//! | files of the folder, and no others | `tree.rs` |
//! | attributes | `attributes.rs` |
//!
//! The server is written here because the maintained crates leave confinement to a separate process: `p9` walks
//! through `..` and names with slashes, has no read-only mode, and keeps as many files open as a guest asks for.
//!
//! | what the guest must not do | what prevents it |
//! | --- | --- |
//! | leave the folder | names are single components, `..` is none; `openat2` with `RESOLVE_BENEATH` and without links |
//! | change a read-only folder | every changing message is refused, and files are opened for reading alone |
//! | make belfry wait | pipes, sockets and devices are never opened |
//! | use all descriptors or memory | fids and the size of messages are bounded |

mod attributes;
mod server;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod share_tests;
mod tree;
mod wire;

use std::io;
use std::path::Path;

use rustix::process::{Resource, getrlimit, setrlimit};
use virtio_bindings::virtio_ids::VIRTIO_ID_9P;

use super::ring::Rings;
use crate::broken::Broken;
use crate::device::{Device, Profile, Progress};
use server::Server;
use tree::Tree;
use wire::HEADER;

/// Mass storage, other.
const CLASS: u32 = 0x01_8000;
const QUEUE: usize = 0;
/// Number of buffers: as many as Linux uses for one message.
const QUEUE_SIZE: u16 = 128;
/// `VIRTIO_9P_MOUNT_TAG`.
const F_MOUNT_TAG: u64 = 1;
/// Largest number of open files of one folder, even if the limit of this process is higher.
const FILES: u64 = 1 << 14;

/// Returns the number of files that each of `folders` folders may keep: together a quarter of the files that this
/// process may have open. That limit is raised to the system's own first.
#[must_use]
pub fn files_for(folders: usize) -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it cannot be raised, the old limit stays.
    let _ = setrlimit(Resource::Nofile, limit);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4 / folders.max(1) as u64;
    most.min(FILES) as usize
}

/// The device.
#[derive(Debug)]
pub struct Share {
    tag: String,
    server: Server,
}

impl Share {
    /// Shares the folder `path` under the name `tag`, keeping no more than `files` of its files at a time.
    ///
    /// # Errors
    ///
    /// A folder that cannot be opened.
    pub fn new(tag: &str, path: &Path, read_only: bool, files: usize) -> io::Result<Self> {
        Ok(Self { tag: tag.to_owned(), server: Server::new(Tree::open(path, read_only)?, files) })
    }
}

impl Device for Share {
    fn profile(&self) -> Profile {
        // struct virtio_9p_config
        let mut config = Vec::from((self.tag.len() as u16).to_le_bytes());
        config.extend(self.tag.as_bytes());
        Profile {
            name: "virtio-9p".into(),
            id: VIRTIO_ID_9P as u16,
            class: CLASS,
            features: F_MOUNT_TAG,
            queues: vec![QUEUE_SIZE],
            config,
        }
    }

    fn reset(&mut self) {
        self.server.forget();
    }

    fn work(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        let Some(mut chain) = rings.pop(QUEUE)? else { return Ok(Progress::Idle) };
        let sent = chain.readable.len();
        let mut header = [0; HEADER];
        if chain.readable.read(rings.memory(), &mut header)? < HEADER {
            return Err(Broken(format!("queue {QUEUE}: a message of {sent} bytes has no header")));
        }
        let [s0, s1, s2, s3, kind, t0, t1] = header;
        let size = u32::from_le_bytes([s0, s1, s2, s3]);
        if u64::from(size) > sent || (size as usize) < HEADER {
            return Err(Broken(format!("queue {QUEUE}: {sent} bytes cannot be a message of {size}")));
        }
        let room = chain.writable.len();
        let tag = u16::from_le_bytes([t0, t1]);
        let reply = if size > self.server.longest() {
            Server::too_long(tag)
        } else {
            let mut body = vec![0; size as usize - HEADER];
            chain.readable.read(rings.memory(), &mut body)?;
            self.server.answer(kind, tag, &body, room)
        };
        if reply.len() as u64 > room {
            return Err(Broken(format!(
                "queue {QUEUE}: a reply of {} bytes does not fit into {room}",
                reply.len()
            )));
        }
        let written = chain.writable.write(rings.memory(), &reply)?;
        rings.push(QUEUE, &chain, written as u64)?;
        Ok(Progress::More)
    }
}
