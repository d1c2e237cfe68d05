//! The buffers of one request: a descriptor chain, walked once and checked.

use std::collections::VecDeque;

use virtio_queue::DescriptorChain;
use vm_memory::{Bytes as _, GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use crate::broken::Broken;
use crate::saved::{SavedChain, StateError, broken};

/// Largest number of descriptors of one chain, indirect ones too; QEMU has this limit as well.
const LONGEST: usize = 1024;

/// Guest memory in pieces, one after the other; all of them are RAM.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Buffers {
    pub(super) pieces: VecDeque<(GuestAddress, u32)>,
    length: u64,
}

impl Buffers {
    pub(super) fn push(&mut self, address: GuestAddress, length: u32) {
        if length > 0 {
            self.pieces.push_back((address, length));
            self.length += u64::from(length);
        }
    }

    /// Returns the number of bytes left.
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// Takes the last byte away.
    pub(super) fn take_last(&mut self) -> Option<GuestAddress> {
        let (address, length) = self.pieces.back_mut()?;
        *length -= 1;
        let last = GuestAddress(address.0 + u64::from(*length));
        if *length == 0 {
            self.pieces.pop_back();
        }
        self.length -= 1;
        Some(last)
    }

    /// Goes through the first `length` bytes, or all if there are fewer, and takes them away; returns their number.
    fn consume(
        &mut self,
        length: usize,
        mut each: impl FnMut(GuestAddress, std::ops::Range<usize>) -> Result<(), Broken>,
    ) -> Result<usize, Broken> {
        let mut done = 0;
        while done < length {
            let Some((address, left)) = self.pieces.front_mut() else { break };
            let step = (length - done).min(*left as usize);
            each(*address, done..done + step)?;
            *address = GuestAddress(address.0 + step as u64);
            *left -= step as u32;
            self.length -= step as u64;
            if *left == 0 {
                self.pieces.pop_front();
            }
            done += step;
        }
        Ok(done)
    }

    /// Reads the next bytes into `data`; returns their number.
    pub(super) fn read(&mut self, memory: &GuestMemoryMmap, data: &mut [u8]) -> Result<usize, Broken> {
        self.consume(data.len(), |address, range| {
            memory.read_slice(&mut data[range], address).map_err(|error| vanished(&error))
        })
    }

    /// Writes `data` to the next bytes; returns the number of bytes that there was room for.
    pub(super) fn write(&mut self, memory: &GuestMemoryMmap, data: &[u8]) -> Result<usize, Broken> {
        self.consume(data.len(), |address, range| {
            memory.write_slice(&data[range], address).map_err(|error| vanished(&error))
        })
    }
}

/// Makes the error for RAM that has gone, which cannot happen: it was checked, and stays.
fn vanished(error: &vm_memory::GuestMemoryError) -> Broken {
    Broken(format!("a buffer cannot be reached: {error}"))
}

/// One request.
#[derive(Debug)]
pub(super) struct Chain {
    /// Number of the chain in the used ring.
    pub(super) head: u16,
    /// Buffers that the driver wrote.
    pub(super) readable: Buffers,
    /// Buffers that the device writes.
    pub(super) writable: Buffers,
}

impl Chain {
    /// Walks a chain to its end.
    pub(super) fn walk(
        memory: &GuestMemoryMmap,
        mut descriptors: DescriptorChain<&GuestMemoryMmap>,
    ) -> Result<Self, Broken> {
        let head = descriptors.head_index();
        let mut chain = Self { head, readable: Buffers::default(), writable: Buffers::default() };
        let mut last = false;
        for _ in 0..LONGEST {
            // `None` although the chain should go on: its next index is outside of the table, it has come back to
            // itself, or an indirect table is nested, not in memory, or of a bad length.
            let Some(descriptor) = descriptors.next() else { break };
            let (address, length) = (descriptor.addr(), descriptor.len());
            let (access, buffers) = if descriptor.is_write_only() {
                (Permissions::Write, &mut chain.writable)
            } else if chain.writable.len() > 0 {
                return Err(Broken(format!(
                    "the chain at descriptor {head} has a readable buffer behind a writable one"
                )));
            } else {
                (Permissions::Read, &mut chain.readable)
            };
            if !GuestMemory::check_range(memory, address, length as usize, access) {
                return Err(Broken(format!(
                    "the chain at descriptor {head} has a buffer of {length:#x} bytes at {:#x}, which is not memory",
                    address.0
                )));
            }
            buffers.push(address, length);
            last = !descriptor.has_next();
            if last {
                break;
            }
        }
        if last { Ok(chain) } else { Err(Broken(format!("the chain at descriptor {head} does not end"))) }
    }
}

impl Buffers {
    fn save(&self) -> Vec<(u64, u32)> {
        self.pieces.iter().map(|(address, length)| (address.0, *length)).collect()
    }

    fn restored(
        saved: &[(u64, u32)],
        access: Permissions,
        memory: &GuestMemoryMmap,
    ) -> Result<Self, StateError> {
        let mut buffers = Self::default();
        for &(address, length) in saved {
            if !GuestMemory::check_range(memory, GuestAddress(address), length as usize, access) {
                return broken("address of a request's buffer", address);
            }
            buffers.push(GuestAddress(address), length);
        }
        Ok(buffers)
    }
}

impl Chain {
    pub(super) fn save(&self) -> SavedChain {
        SavedChain { head: self.head, readable: self.readable.save(), writable: self.writable.save() }
    }

    pub(super) fn restored(saved: &SavedChain, memory: &GuestMemoryMmap) -> Result<Self, StateError> {
        Ok(Self {
            head: saved.head,
            readable: Buffers::restored(&saved.readable, Permissions::Read, memory)?,
            writable: Buffers::restored(&saved.writable, Permissions::Write, memory)?,
        })
    }
}
