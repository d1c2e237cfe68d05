//! A vfio-user client that breaks rules, against a model of its mappings and connected interrupts.
//!
//! Messages with real descriptors go to a real server over its socket. Every reply is well formed and as the model
//! says; the server publishes the memory that the model has; and when all is over, the next client is served.

#![no_main]

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use belfry_abi::pci;
use belfry_fuzz::vfio::{Client, MAX_FDS, Reply, SIZES, Service};
use belfry_fuzz::vfio_steps::{
    Descriptor, Input, Memory, Odd, Offset, PAGE, Place, Step, event, memory, tag,
};
use belfry_vfio_user::protocol::command;
use libfuzzer_sys::fuzz_target;
use vm_memory::{
    Bytes as _, GuestAddress, GuestAddressSpace as _, GuestMemoryBackend as _, GuestMemoryRegion as _,
};

const NO_REPLY: u32 = 1 << 4;
const MSIX: u32 = 2;
const VECTORS: usize = pci::MSIX_VECTORS as usize;
const VERSION: &[u8] = b"\0\0\x01\0{\"capabilities\":{\"max_msg_fds\":8}}\0";
/// Steps of an input; each of them is a few system calls.
const STEPS: usize = 40;

/// A mapped range: its bytes, and the page of its file that it begins with, if it is published.
struct Mapped {
    size: u64,
    file: Option<Option<u64>>,
}

/// The client, and the state that the server has to have of it.
struct Guest {
    client: Client,
    table: BTreeMap<u64, Mapped>,
    vectors: [Option<usize>; VECTORS],
    /// Eventfds that were ever connected, and the number of signals each should have had since it was looked
    /// at.
    events: Vec<(OwnedFd, u64)>,
    regions: [Vec<u8>; 8],
}

static SERVICE: LazyLock<Service> = LazyLock::new(Service::new);

fuzz_target!(|input: Input| {
    let mut guest = Guest::new();
    for step in input.steps.iter().take(STEPS) {
        guest.step(step);
    }
    drop(guest);
    good_client();
});

/// A client that keeps to the rules, after one that did not.
fn good_client() {
    let mut guest = Guest::new();
    guest.check();
    guest.step(&Step::Map {
        place: Place::Pages { first: 1, count: 3 },
        file: Memory::File { pages: 4, extra: 0, seals: 0 },
        offset: 1,
        flags: 3,
        quiet: false,
        odd: Odd::Nothing,
    });
    assert_eq!(guest.table.len(), 1, "a good client's memory");
    guest.step(&Step::DeviceInfo);
    guest.step(&Step::Read { region: 7, offset: Offset::Low(0), count: 64 });
    guest.step(&Step::Irqs { flags: 0x24, index: 2, start: 0, count: 1, events: vec![1], data: [0; 4] });
    guest.step(&Step::Irqs { flags: 0x21, index: 2, start: 0, count: 1, events: vec![], data: [0; 4] });
    assert!(guest.vectors[0].is_some(), "a good client's vector");
    guest.step(&Step::Unmap { place: Place::Pages { first: 1, count: 3 }, flags: 0, odd: Odd::Nothing });
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn word(payload: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*payload[at * 4..].first_chunk().expect("a word"))
}

fn size(region: u32) -> u64 {
    SIZES.get(region as usize).copied().unwrap_or(0)
}

/// Returns true if there is anything behind a region; empty reads of the other BARs are good.
fn readable(region: u32) -> bool {
    region < 6 || region == 7
}

/// Returns true if a message of that kind may change the model's state.
fn changes(number: u16) -> bool {
    use command::*;
    matches!(number, DMA_MAP | DMA_UNMAP | DEVICE_SET_IRQS | REGION_WRITE | REGION_WRITE_MULTI | DEVICE_RESET)
}

fn offset(region: u32, offset: Offset) -> u64 {
    match offset {
        Offset::Low(at) => at.into(),
        Offset::End(back) => size(region).wrapping_sub(back.into()),
        Offset::Any(at) => at,
    }
}

impl Guest {
    fn new() -> Self {
        let mut client = SERVICE.connect();
        let reply = client.call(command::VERSION, VERSION, &[]).expect("a greeting");
        assert_eq!(reply.error, 0, "a good greeting");
        Self {
            client,
            table: BTreeMap::new(),
            vectors: [None; VECTORS],
            events: Vec::new(),
            regions: SIZES.map(|size| vec![0; size as usize]),
        }
    }

    /// The server hangs up, or the client does: all is forgotten.
    fn again(&mut self) {
        // One client at a time: the next one waits until this one is gone.
        self.client.hang_up();
        *self = Self::new();
        self.check();
    }

    fn call(&mut self, command: u16, payload: &[u8], fds: &[OwnedFd]) -> Reply {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
        self.client.call(command, payload, &fds).expect("the server stays for its client")
    }

    /// Sends a command whose reply may be renounced: the error, if it is known.
    fn tell(&mut self, command: u16, payload: &[u8], fds: &[OwnedFd], quiet: bool) -> Option<i32> {
        if quiet {
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
            assert!(self.client.command(command, NO_REPLY, payload, &fds), "the server stays for its client");
            return None;
        }
        let reply = self.call(command, payload, fds);
        let expected = match command {
            command::DMA_UNMAP => 24,
            command::REGION_WRITE => 16,
            _ => 0,
        };
        assert!(reply.error != 0 || reply.payload == payload[..expected], "reply to {command}");
        Some(reply.error)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Map { place, file, offset, flags, quiet, odd } => {
                self.map(place.range(), memory(*file), *offset, u32::from(*flags), *quiet, *odd);
            }
            Step::Unmap { place, flags, odd } => self.unmap(place.range(), u32::from(*flags & 3), *odd),
            Step::DeviceInfo => {
                let reply = self.call(command::DEVICE_GET_INFO, &words(&[16, 0, 0, 0]), &[]);
                assert_eq!((reply.error, reply.payload), (0, words(&[16, 3, 9, 5])), "device information");
            }
            Step::RegionInfo { argsz, index } => self.region_info((*argsz).into(), u32::from(*index % 12)),
            Step::IrqInfo { index } => {
                let index = u32::from(*index % 8);
                let reply = self.call(command::DEVICE_GET_IRQ_INFO, &words(&[16, 0, index, 0]), &[]);
                let count = if index == MSIX { VECTORS as u32 } else { 0 };
                assert_eq!(reply.error == 0, index < 5, "interrupts of kind {index}");
                if reply.error == 0 {
                    assert_eq!(reply.payload[8..], words(&[index, count]), "interrupts of kind {index}");
                }
            }
            Step::Irqs { flags, index, start, count, events, data } => {
                self.irqs(
                    (*flags).into(),
                    u32::from(*index % 6),
                    (u32::from(*start), u32::from(*count)),
                    events,
                    data,
                );
            }
            Step::Read { region, offset: at, count } => {
                self.read(u32::from(*region % 10), *at, (*count).into())
            }
            Step::Write { region, offset: at, data, count, quiet } => {
                self.write(u32::from(*region % 10), *at, &data[..usize::from(*count % 9)], *quiet);
            }
            Step::WriteMany { writes, claimed } => self.write_many(writes, *claimed),
            Step::Reset => {
                assert_eq!(self.call(command::DEVICE_RESET, &[], &[]).error, 0, "a reset");
                self.regions[7].fill(0);
            }
            Step::Version { major, minor, text } => self.version(*major, *minor, text),
            Step::Raw { command, flags, payload, fds } => {
                self.raw(u16::from(*command), (*flags).into(), payload, *fds)
            }
            Step::Broken { size, sent } => self.broken(*size, sent),
            Step::Hang => self.again(),
        }
        if !matches!(step, Step::Map { quiet: true, .. } | Step::Write { quiet: true, .. }) {
            self.check();
        }
    }

    fn map(
        &mut self,
        (start, size): (u64, u64),
        memory: Descriptor,
        page: u8,
        flags: u32,
        quiet: bool,
        odd: Odd,
    ) {
        let offset = u64::from(page % 64) * PAGE + u64::from(page >> 6 == 3);
        let mut payload = words(&[32, flags]);
        for value in [offset, start, size] {
            payload.extend_from_slice(&value.to_le_bytes());
        }
        let whole = odd.apply(&mut payload);
        let error = self.tell(command::DMA_MAP, &payload, &memory.fds, quiet);
        let end = start.checked_add(size);
        let overlaps = |end: u64| self.table.iter().any(|(&at, mapped)| at < end && at + mapped.size > start);
        let shared = flags & 3 == 3 && memory.fds.len() == 1;
        let fits = memory.mappable.is_some_and(|bytes| {
            offset.is_multiple_of(PAGE) && offset.checked_add(size).is_some_and(|end| end <= bytes)
        });
        let good = whole
            && size > 0
            && (start | size).is_multiple_of(PAGE)
            && end.is_some_and(|end| !overlaps(end))
            && memory.fds.len() < 2
            && (!shared || fits);
        if let Some(error) = error {
            assert_eq!(error == 0, good, "mapping {size:#x} bytes at {start:#x}: error {error}");
        }
        if good {
            let file = shared.then(|| memory.tagged.then_some(offset / PAGE));
            self.table.insert(start, Mapped { size, file });
        }
    }

    fn unmap(&mut self, (start, size): (u64, u64), flags: u32, odd: Odd) {
        let mut payload = words(&[24, flags]);
        payload.extend_from_slice(&start.to_le_bytes());
        payload.extend_from_slice(&size.to_le_bytes());
        let whole = odd.apply(&mut payload);
        let error = self.tell(command::DMA_UNMAP, &payload, &[], false);
        let end = start.checked_add(size);
        let (mut within, mut cut) = (Vec::new(), false);
        for (&at, mapped) in &self.table {
            let last = at + (mapped.size - 1);
            if end.is_some_and(|end| start <= at && last < end) {
                within.push(at);
            } else {
                cut |= end.is_some_and(|end| at < end && start <= last && (size > 0 || start > at));
            }
        }
        let all = flags & 2 != 0;
        let good = whole && flags & 1 == 0 && (all || !cut && !within.is_empty());
        assert_eq!(error == Some(0), good, "unmapping {size:#x} bytes at {start:#x} with {flags:#x}");
        if good {
            self.table.retain(|at, _| !all && !within.contains(at));
        }
    }

    fn region_info(&mut self, argsz: u32, index: u32) {
        let reply =
            self.call(command::DEVICE_GET_REGION_INFO, &words(&[argsz, 0, index, 0, 0, 0, 0, 0]), &[]);
        assert_eq!(reply.error == 0, index < 9 && argsz >= 32, "region {index} in {argsz} bytes");
        if reply.error != 0 {
            return;
        }
        let mappable = index == 0 && argsz >= 64;
        assert_eq!(reply.fds.len(), usize::from(mappable), "descriptors of region {index}");
        assert_eq!(reply.payload.len(), if mappable { 64 } else { 32 }, "information on region {index}");
        let said = u64::from(word(&reply.payload, 5)) << 32 | u64::from(word(&reply.payload, 4));
        assert_eq!((word(&reply.payload, 2), said), (index, size(index)), "region {index}");
    }

    fn irqs(&mut self, flags: u32, index: u32, (start, count): (u32, u32), events: &[u8], data: &[u8]) {
        let made: Vec<OwnedFd> = events.iter().take(MAX_FDS - 1).map(|_| event()).collect();
        let kept: Vec<OwnedFd> = made.iter().map(|fd| fd.try_clone().expect("a descriptor")).collect();
        let mut payload = words(&[20, flags, index, start, count]);
        payload.extend_from_slice(data);
        let reply = self.call(command::DEVICE_SET_IRQS, &payload, &made);
        let in_range = start.checked_add(count).is_some_and(|end| end as usize <= VECTORS);
        let (kind, trigger) = (flags & 7, flags & 0x38 == 0x20);
        let good = match index {
            MSIX => {
                trigger
                    && in_range
                    && match kind {
                        1 => true,
                        2 => count as usize <= data.len(),
                        4 => made.len() <= count as usize,
                        _ => false,
                    }
            }
            0..5 => count == 0,
            _ => false,
        };
        assert_eq!(reply.error == 0, good, "interrupts {flags:#x} {index} {start} {count}");
        if !good || index != MSIX {
            return;
        }
        let range = start as usize..(start + count) as usize;
        match kind {
            1 if count == 0 => self.vectors = [None; VECTORS],
            4 => {
                let first = self.events.len();
                let given = kept.len();
                self.events.extend(kept.into_iter().map(|fd| (fd, 0)));
                for (nth, vector) in range.enumerate() {
                    self.vectors[vector] = (nth < given).then_some(first + nth);
                }
            }
            _ => {
                for (nth, vector) in range.enumerate() {
                    if (kind == 1 || data[nth] != 0)
                        && let Some(event) = self.vectors[vector]
                    {
                        self.events[event].1 += 1;
                    }
                }
            }
        }
        for (nth, (fd, expected)) in self.events.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            let count = rustix::io::read(&*fd, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes));
            assert_eq!(count, std::mem::take(expected), "signals of descriptor {nth}");
        }
    }

    fn read(&mut self, region: u32, at: Offset, count: u32) {
        let at = offset(region, at);
        let mut payload = at.to_le_bytes().to_vec();
        payload.extend_from_slice(&words(&[region, count]));
        let reply = self.call(command::REGION_READ, &payload, &[]);
        let inside = at.checked_add(count.into()).is_some_and(|end| end <= size(region)) && readable(region);
        assert_eq!(reply.error == 0, inside, "reading {count} bytes of region {region} at {at:#x}");
        if inside {
            assert_eq!(reply.payload[..16], payload, "what was read");
            let expected = &self.regions[region as usize][at as usize..][..count as usize];
            assert!(reply.payload[16..] == *expected, "{count} bytes of region {region} at {at:#x}");
        }
    }

    fn write(&mut self, region: u32, at: Offset, data: &[u8], quiet: bool) {
        let at = offset(region, at);
        let mut payload = at.to_le_bytes().to_vec();
        payload.extend_from_slice(&words(&[region, data.len() as u32]));
        payload.extend_from_slice(data);
        let error = self.tell(command::REGION_WRITE, &payload, &[], quiet);
        let good = self.put(region, at, data);
        assert!(
            error.is_none_or(|error| (error == 0) == good),
            "writing {data:x?} to region {region} at {at:#x}"
        );
    }

    /// Writes to the model. Returns true if the write is good.
    fn put(&mut self, region: u32, at: u64, data: &[u8]) -> bool {
        let inside =
            at.checked_add(data.len() as u64).is_some_and(|end| end <= size(region)) && readable(region);
        let good = inside && (region != 5 || data.len() == 4);
        if good {
            self.regions[region as usize][at as usize..][..data.len()].copy_from_slice(data);
        }
        good
    }

    fn write_many(&mut self, writes: &[(u8, Offset, u8)], claimed: Option<u64>) {
        let claimed = claimed.unwrap_or(writes.len() as u64);
        let mut payload = claimed.to_le_bytes().to_vec();
        let mut good = claimed <= writes.len() as u64;
        let mut goes_on = true;
        for (nth, &(region, at, count)) in (0u64..).zip(writes) {
            let (region, count) = (u32::from(region % 8), u32::from(count % 10));
            let at = offset(region, at);
            payload.extend_from_slice(&at.to_le_bytes());
            payload.extend_from_slice(&words(&[region, count]));
            payload.extend_from_slice(&[0x11; 8]);
            // Up to the first that is not good.
            if nth < claimed && goes_on {
                goes_on = count <= 8 && self.put(region, at, &[0x11; 8][..count as usize]);
                good &= goes_on;
            }
        }
        let reply = self.call(command::REGION_WRITE_MULTI, &payload, &[]);
        assert_eq!(reply.error == 0, good, "{claimed} writes of {writes:x?}");
        assert!(!good || reply.payload == payload[..8], "reply to many writes");
    }

    fn version(&mut self, major: u16, minor: u16, text: &[u8]) {
        let mut payload = major.to_le_bytes().to_vec();
        payload.extend_from_slice(&minor.to_le_bytes());
        payload.extend_from_slice(text);
        let reply = self.call(command::VERSION, &payload, &[]);
        assert!(major == 0 || reply.error != 0, "version {major}.{minor}");
        if reply.error == 0 {
            assert_eq!(
                reply.payload[..4],
                [0, 0, minor.min(1) as u8, 0],
                "no more than the client's {minor}"
            );
            assert_eq!(reply.payload.last(), Some(&0), "text that ends");
        }
    }

    /// A message of any content; its effects on memory or interrupts are undone.
    fn raw(&mut self, number: u16, flags: u32, payload: &[u8], fds: u8) {
        let fds: Vec<OwnedFd> = (0..usize::from(fds) % (MAX_FDS + 1)).map(|_| event()).collect();
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(|fd| fd.as_fd()).collect();
        // Bit 4 would be one for which nothing comes back, and the lowest ones a reply to nothing.
        let alive = self.client.command(number, flags & !0x1f, payload, &borrowed);
        let reply = alive.then(|| self.client.reply(number)).flatten();
        assert!(reply.is_some() || fds.len() == MAX_FDS, "the server stays for its client");
        if let Some(reply) = &reply {
            let known = matches!(number, 1..=5 | 7..=10 | 13 | 15);
            assert!(known || reply.error != 0, "command {number} does not exist");
        }
        if reply.is_none() || changes(number) {
            self.again();
        }
    }

    /// A header whose size is impossible, or larger than the bytes that follow.
    fn broken(&mut self, size: u32, sent: &[u8]) {
        let mut bytes = [1, 0, 9, 0].to_vec();
        bytes.extend_from_slice(&size.to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(sent);
        self.client.send(&bytes, &[]);
        self.again();
    }

    /// The server publishes exactly the memory that was mapped.
    fn check(&self) {
        let memory = SERVICE.memory.memory();
        let published: Vec<_> = memory.iter().map(|region| (region.start_addr().0, region.len())).collect();
        let expected = self.table.iter().filter(|(_, mapped)| mapped.file.is_some());
        let ranges: Vec<_> = expected.clone().map(|(&at, mapped)| (at, mapped.size)).collect();
        assert_eq!(published, ranges, "memory as published");
        assert!(published.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "ranges that overlap");
        for (&at, mapped) in expected {
            let Some(Some(first)) = mapped.file else { continue };
            for page in [0, mapped.size / PAGE - 1] {
                let found: u64 = memory.read_obj(GuestAddress(at + page * PAGE)).expect("memory");
                assert_eq!(found, tag(first + page), "page {page} of the range at {at:#x}");
            }
        }
    }
}
