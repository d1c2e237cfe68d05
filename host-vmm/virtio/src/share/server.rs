//! The messages of 9P2000.L: the effect of each on the client's fids, and its reply.
//!
//! The layouts are those of the protocol's description, `Documentation` of diod (`protocol.md`), and of Linux's client,
//! `Documentation` of diod (`protocol.md`) and Linux's client, `net/9p/client.c`, describe the layouts. Requests that
//! are not served get the error `EOPNOTSUPP`: authentication, extended attributes, and the requests that need the
//! path of a fid (`Trename`, `Tremove`), which Linux can do without.

use std::collections::BTreeMap;

use rustix::io::Errno;

use super::attributes::{self, Changes};
use super::tree::{Node, Owner, Tree};
use super::wire::{DATA, Fields, LONGEST, NONE, Qid, Reply, SHORTEST, VERSION, WALK, request};

/// Bytes of an entry of `Rreaddir` beside its name.
const ENTRY: usize = Qid::SIZE + 8 + 1 + 2;
/// `P9_LOCK_SUCCESS`, and the kind of a free lock (`P9_LOCK_TYPE_UNLCK`).
const LOCKED: u8 = 0;
const UNLOCKED: u8 = 2;

/// The file of a fid, the client's number for it, and its user.
#[derive(Debug)]
struct Fid {
    node: Node,
    user: Option<u32>,
}

/// The server of one folder.
#[derive(Debug)]
pub(super) struct Server {
    tree: Tree,
    /// Negotiated size of messages; `None` before the negotiation.
    size: Option<u32>,
    fids: BTreeMap<u32, Fid>,
    most: usize,
}

/// A request that is being carried out.
struct Call<'a> {
    fields: Fields<'a>,
    reply: Reply,
    /// Largest size of its reply in bytes.
    room: usize,
}

impl Server {
    /// Makes a server that keeps no more than `most` fids.
    pub(super) fn new(tree: Tree, most: usize) -> Self {
        Self { tree, size: None, fids: BTreeMap::new(), most }
    }

    /// Forgets the client and its fids.
    pub(super) fn forget(&mut self) {
        self.fids.clear();
        self.size = None;
    }

    /// Returns the longest message that is allowed.
    pub(super) fn longest(&self) -> u32 {
        self.size.unwrap_or(LONGEST)
    }

    /// Returns the reply to a message that is longer.
    pub(super) fn too_long(tag: u16) -> Vec<u8> {
        Reply::error(tag, Errno::MSGSIZE)
    }

    /// Carries out a request; returns a reply of no more than `room` bytes, if it can be so short.
    pub(super) fn answer(&mut self, kind: u8, tag: u16, body: &[u8], room: u64) -> Vec<u8> {
        let room = room.min(self.longest().into()) as usize;
        let mut call = Call { fields: Fields(body), reply: Reply::new(kind.wrapping_add(1), tag), room };
        match self.carry_out(kind, &mut call) {
            Ok(()) => {
                let reply = call.reply.finish();
                if reply.len() > room { Self::too_long(tag) } else { reply }
            }
            Err(error) => {
                log::debug!(target: "kvm", "9p request {kind} of {} bytes: {error}", body.len());
                Reply::error(tag, error)
            }
        }
    }

    fn carry_out(&mut self, kind: u8, call: &mut Call<'_>) -> Result<(), Errno> {
        if self.size.is_none() && kind != request::VERSION {
            return Err(Errno::PROTO);
        }
        match kind {
            request::VERSION => self.version(call),
            request::ATTACH => self.attach(call),
            // Requests are carried out one by one, so that none is left to give up.
            request::FLUSH => Ok(()),
            request::WALK => self.walk(call),
            request::LOPEN => self.open(call),
            request::LCREATE => self.create(call),
            request::READ => self.read(call),
            request::WRITE => self.write(call),
            request::READDIR => self.entries(call),
            request::CLUNK => self.clunk(call).map(drop),
            request::REMOVE => self.clunk(call).and(Err(Errno::OPNOTSUPP)),
            request::GETATTR => self.attributes(call),
            request::SETATTR => self.set_attributes(call),
            request::STATFS => self.file_system(call),
            request::READLINK => self.link_target(call),
            request::SYMLINK | request::MKNOD | request::MKDIR => self.make(kind, call),
            request::LINK => self.link(call),
            request::RENAMEAT => self.rename(call),
            request::UNLINKAT => self.unlink(call),
            request::FSYNC => self.sync(call),
            request::LOCK => self.lock(call),
            request::GETLOCK => self.lock_holder(call),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn fid(&self, number: u32) -> Result<&Fid, Errno> {
        self.fids.get(&number).ok_or(Errno::BADF)
    }

    fn node(&self, number: u32) -> Result<&Node, Errno> {
        Ok(&self.fid(number)?.node)
    }

    /// Checks that one more fid can be kept, and that its number is free.
    fn check_new(&self, number: u32) -> Result<(), Errno> {
        if number == NONE || self.fids.contains_key(&number) {
            return Err(Errno::INVAL);
        }
        if self.fids.len() < self.most { Ok(()) } else { Err(Errno::MFILE) }
    }

    fn version(&mut self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (size, version) = (call.fields.u32()?, call.fields.string()?);
        self.forget();
        if size < SHORTEST {
            return Err(Errno::MSGSIZE);
        }
        let size = size.min(LONGEST);
        call.reply.u32(size);
        if version == VERSION {
            self.size = Some(size);
            call.reply.string(VERSION)
        } else {
            call.reply.string(b"unknown")
        }
    }

    fn attach(&mut self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, authentication) = (call.fields.u32()?, call.fields.u32()?);
        let (_name, tree, user) = (call.fields.string()?, call.fields.string()?, call.fields.u32()?);
        if authentication != NONE {
            return Err(Errno::OPNOTSUPP);
        }
        if !matches!(tree, b"" | b"/") {
            return Err(Errno::NOENT);
        }
        self.check_new(number)?;
        let node = self.tree.root()?;
        call.reply.qid(node.qid());
        self.fids.insert(number, Fid { node, user: (user != NONE).then_some(user) });
        Ok(())
    }

    fn walk(&mut self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (from, to, count) = (call.fields.u32()?, call.fields.u32()?, call.fields.u16()?);
        if count > WALK {
            return Err(Errno::INVAL);
        }
        if to != from {
            self.check_new(to)?;
        }
        let start = self.fids.get(&from).ok_or(Errno::BADF)?;
        if to == from && start.node.is_open() {
            return Err(Errno::INVAL);
        }
        let user = start.user;
        let mut at = self.tree.again(&start.node)?;
        let mut qids = Vec::new();
        for _ in 0..count {
            let next = call.fields.name().and_then(|name| self.tree.child(&at, name));
            match next {
                Ok(next) => {
                    qids.push(next.qid());
                    at = next;
                }
                Err(error) if qids.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        call.reply.u16(qids.len() as u16);
        // A walk that stops early leaves the fids as they were.
        if qids.len() == usize::from(count) {
            self.fids.insert(to, Fid { node: at, user });
        }
        qids.into_iter().for_each(|qid| call.reply.qid(qid));
        Ok(())
    }

    fn open(&mut self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, flags) = (call.fields.u32()?, call.fields.u32()?);
        let fid = self.fids.get_mut(&number).ok_or(Errno::BADF)?;
        if fid.node.is_open() {
            return Err(Errno::BADF);
        }
        fid.node = self.tree.opened(&fid.node, flags)?;
        call.reply.qid(fid.node.qid());
        // The client may read as many bytes at a time as a message has.
        call.reply.u32(0);
        Ok(())
    }

    fn create(&mut self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, name) = (call.fields.u32()?, call.fields.name()?);
        let (flags, mode, group) = (call.fields.u32()?, call.fields.u32()?, call.fields.u32()?);
        let fid = self.fids.get_mut(&number).ok_or(Errno::BADF)?;
        if fid.node.is_open() {
            return Err(Errno::BADF);
        }
        let owner = Owner { user: fid.user, group };
        fid.node = self.tree.create(&fid.node, name, flags, mode, owner)?;
        call.reply.qid(fid.node.qid());
        call.reply.u32(0);
        Ok(())
    }

    /// Returns the bytes of data that a reply may carry.
    fn data_room(call: &mut Call<'_>) -> Result<usize, Errno> {
        let count = call.fields.u32()?;
        Ok((count as usize).min(call.room.saturating_sub(DATA)))
    }

    fn read(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, offset) = (call.fields.u32()?, call.fields.u64()?);
        let most = Self::data_room(call)?;
        let node = self.node(number)?;
        call.reply.data(most, |data| self.tree.read(node, data, offset))
    }

    fn write(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, offset, count) = (call.fields.u32()?, call.fields.u64()?, call.fields.u32()?);
        let data = call.fields.bytes(count as usize)?;
        let written = self.tree.write(self.node(number)?, data, offset)?;
        call.reply.u32(written as u32);
        Ok(())
    }

    fn entries(&mut self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, offset) = (call.fields.u32()?, call.fields.u64()?);
        let most = Self::data_room(call)?;
        let node = &self.fids.get(&number).ok_or(Errno::BADF)?.node;
        let tree = &mut self.tree;
        call.reply.data(most, |data| {
            let (mut used, mut full) = (0, false);
            tree.entries(node, offset, |qid, next, kind, name| {
                let Some(room) = data.get_mut(used..used + ENTRY + name.len()) else {
                    full = true;
                    return false;
                };
                let mut entry = Vec::with_capacity(room.len());
                entry.push(qid.kind);
                entry.extend([0; 4]);
                entry.extend(qid.path.to_le_bytes());
                entry.extend(next.to_le_bytes());
                entry.push(kind);
                entry.extend((name.len() as u16).to_le_bytes());
                entry.extend(name);
                room.copy_from_slice(&entry);
                used += entry.len();
                true
            })?;
            // An empty reply would mean the directory's end.
            if full && used == 0 { Err(Errno::INVAL) } else { Ok(used) }
        })
    }

    fn clunk(&mut self, call: &mut Call<'_>) -> Result<Fid, Errno> {
        let number = call.fields.u32()?;
        self.fids.remove(&number).ok_or(Errno::BADF)
    }

    fn attributes(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        // The request's wishes are ignored: the reply has room for all attributes, and says which ones it has.
        let (number, _wanted) = (call.fields.u32()?, call.fields.u64()?);
        let node = self.node(number)?;
        attributes::write(&mut call.reply, node.qid(), &self.tree.attributes(node)?);
        Ok(())
    }

    fn set_attributes(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let number = call.fields.u32()?;
        let changes = Changes::read(&mut call.fields)?;
        self.tree.change(self.node(number)?, &changes)
    }

    fn file_system(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let number = call.fields.u32()?;
        let found = self.tree.file_system(self.node(number)?)?;
        call.reply.u32(found.f_type as u32);
        call.reply.u32(found.f_bsize as u32);
        for word in [found.f_blocks, found.f_bfree, found.f_bavail, found.f_files, found.f_ffree] {
            call.reply.u64(word);
        }
        // The type of the host's file system is of no use for the guest.
        call.reply.u64(0);
        call.reply.u32(found.f_namelen as u32);
        Ok(())
    }

    fn link_target(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let number = call.fields.u32()?;
        let target = self.tree.link_target(self.node(number)?)?;
        call.reply.string(&target)
    }

    /// Makes a directory, a link or another file without opening it.
    fn make(&mut self, kind: u8, call: &mut Call<'_>) -> Result<(), Errno> {
        let Call { fields, reply, .. } = call;
        let (number, name) = (fields.u32()?, fields.name()?);
        let fid = self.fids.get(&number).ok_or(Errno::BADF)?;
        let owner = |group| Owner { user: fid.user, group };
        let made = match kind {
            request::SYMLINK => {
                let (target, group) = (fields.string()?, fields.u32()?);
                self.tree.make_symlink(&fid.node, name, target, owner(group))?
            }
            request::MKDIR => {
                let (mode, group) = (fields.u32()?, fields.u32()?);
                self.tree.make_directory(&fid.node, name, mode, owner(group))?
            }
            _ => {
                let (mode, _major, _minor) = (fields.u32()?, fields.u32()?, fields.u32()?);
                self.tree.make_special(&fid.node, name, mode, owner(fields.u32()?))?
            }
        };
        reply.qid(made.qid());
        Ok(())
    }

    fn link(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (directory, number, name) = (call.fields.u32()?, call.fields.u32()?, call.fields.name()?);
        self.tree.link(self.node(number)?, self.node(directory)?, name)
    }

    fn rename(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (from, old) = (call.fields.u32()?, call.fields.name()?);
        let (to, new) = (call.fields.u32()?, call.fields.name()?);
        self.tree.rename((self.node(from)?, old), (self.node(to)?, new))
    }

    fn unlink(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, name, flags) = (call.fields.u32()?, call.fields.name()?, call.fields.u32()?);
        self.tree.unlink(self.node(number)?, name, flags)
    }

    fn sync(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, data_only) = (call.fields.u32()?, call.fields.u32()?);
        self.tree.sync(self.node(number)?, data_only != 0)
    }

    /// Answers that the lock is taken: the guest's kernel has decided between the guest's programs before it asks.
    /// Programs of the host are not locked out, as with QEMU.
    fn lock(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let number = call.fields.u32()?;
        self.node(number)?;
        call.reply.u8(LOCKED);
        Ok(())
    }

    fn lock_holder(&self, call: &mut Call<'_>) -> Result<(), Errno> {
        let (number, _kind) = (call.fields.u32()?, call.fields.u8()?);
        let (start, length) = (call.fields.u64()?, call.fields.u64()?);
        let (process, client) = (call.fields.u32()?, call.fields.string()?);
        self.node(number)?;
        call.reply.u8(UNLOCKED);
        call.reply.u64(start);
        call.reply.u64(length);
        call.reply.u32(process);
        call.reply.string(client)
    }
}
