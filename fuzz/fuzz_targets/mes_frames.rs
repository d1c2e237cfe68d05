//! Frames of every kind on the scheduler's ring, valid ones and ones with changed fields, and a model of the
//! queues.
//!
//! Chips with run lists have packets of the HIQ instead ([`belfry_fuzz::hiq`]). Each frame is counted once,
//! and answered exactly if it is counted as done. After any frame, the scheduler answers the next one. A
//! queue listens to a doorbell from the frame that adds it to the one that removes it.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use belfry_abi::mes::{
    self, AddQueue, AddQueueFlags, FRAME_SIZE, Header, Misc, MiscOpcode, Opcode, QueryStatus, Resume,
    SetHwResources, Suspend,
};
use belfry_abi::regs::gc;
use belfry_fuzz::change::{Change, Word};
use belfry_fuzz::chips::Choice;
use belfry_fuzz::driver::{CONTEXT, DATA, Driver, QUEUES, kernel};
use belfry_fuzz::hiq;
use belfry_fuzz::rig::RIG;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;
use zerocopy::{FromBytes as _, FromZeros as _, IntoBytes as _};

/// Frames of an input: each is a few passes of the scheduler.
const FRAMES: usize = 32;

#[derive(Arbitrary, Debug)]
struct Step {
    what: What,
    changes: Vec<Change>,
}

#[derive(Arbitrary, Debug)]
enum What {
    Add(u8),
    Remove(u8),
    Suspend {
        queue: u8,
        all: bool,
    },
    Resume {
        queue: u8,
        all: bool,
    },
    Misc {
        opcode: u8,
        data: [Word; 5],
    },
    Resources {
        vmids: u16,
        masks: [u8; 4],
    },
    Query,
    Other {
        opcode: u8,
    },
    /// Less than a frame.
    Cut(u8),
    /// A packet on a queue's ring.
    Barrier {
        queue: u8,
        waits: bool,
    },
    Signal {
        value: i8,
    },
    Work(u8),
}

/// The scheduler, and the model's knowledge of it.
struct Scheduler<'a> {
    driver: Driver<'a>,
    /// Doorbells of queues.
    listens: BTreeSet<u64>,
    /// Set once a register was written that may be any: nothing is known any more.
    wild: bool,
}

/// Input of the chip's scheduler.
#[derive(Debug)]
enum Input {
    Frames(Vec<Step>),
    Lists(Vec<hiq::Step>),
}

/// An input with its chip.
#[derive(Debug)]
struct Chosen(Choice, Input);

impl<'a> Arbitrary<'a> for Chosen {
    fn arbitrary(input: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let chip = Choice::arbitrary(input)?;
        let lists = chip.has_run_lists();
        Ok(Self(
            chip,
            if lists { Input::Lists(input.arbitrary()?) } else { Input::Frames(input.arbitrary()?) },
        ))
    }

    fn arbitrary_take_rest(mut input: Unstructured<'a>) -> arbitrary::Result<Self> {
        let chip = Choice::arbitrary(&mut input)?;
        let rest = if chip.has_run_lists() {
            Input::Lists(Vec::arbitrary_take_rest(input)?)
        } else {
            Input::Frames(Vec::arbitrary_take_rest(input)?)
        };
        Ok(Self(chip, rest))
    }
}

fuzz_target!(|chosen: Chosen| {
    let Chosen(chip, input) = chosen;
    RIG.choose(chip);
    match input {
        Input::Frames(steps) => frames(&steps),
        Input::Lists(steps) => hiq::run(&RIG, &steps),
    }
});

fn frames(steps: &[Step]) {
    let mut scheduler = Scheduler { driver: Driver::new(&RIG), listens: BTreeSet::new(), wild: false };
    for nth in 0..QUEUES {
        scheduler.driver.prepare_queue(nth);
    }
    for step in steps.iter().take(FRAMES) {
        scheduler.step(step);
        scheduler.check();
    }
    let wild = scheduler.wild;
    if !wild {
        scheduler.finish();
    }
    RIG.check();
    if wild {
        Driver::verify_anew(&RIG);
    }
}

fn bytes(frame: &[u8]) -> [u8; FRAME_SIZE] {
    *frame.first_chunk().expect("a frame")
}

fn gang(queue: u8) -> u64 {
    CONTEXT + 0x1000 + u64::from(queue) % QUEUES as u64
}

impl Scheduler<'_> {
    fn step(&mut self, step: &Step) {
        let (opcode, frame) = match step.what {
            What::Add(nth) => {
                (Opcode::ADD_QUEUE, bytes(self.driver.add_frame(usize::from(nth) % QUEUES).as_bytes()))
            }
            What::Remove(nth) => {
                (Opcode::REMOVE_QUEUE, bytes(Driver::remove_frame(usize::from(nth) % QUEUES).as_bytes()))
            }
            What::Suspend { queue, all } => {
                let mut frame = Suspend::new_zeroed();
                frame.header = Header::new(Opcode::SUSPEND);
                frame.suspend_all_gangs = all.into();
                frame.gang_context_addr = gang(queue).into();
                (Opcode::SUSPEND, bytes(frame.as_bytes()))
            }
            What::Resume { queue, all } => {
                let mut frame = Resume::new_zeroed();
                frame.header = Header::new(Opcode::RESUME);
                frame.resume_all_gangs = all.into();
                frame.gang_context_addr = gang(queue).into();
                (Opcode::RESUME, bytes(frame.as_bytes()))
            }
            What::Misc { opcode, data } => (Opcode::MISC, self.misc(opcode, &data)),
            What::Resources { vmids, masks } => {
                let mut frame = SetHwResources::new_zeroed();
                frame.header = Header::new(Opcode::SET_HW_RSRC);
                frame.vmid_mask_gfxhub = vmids.into();
                for (mask, given) in frame.compute_hqd_mask.iter_mut().zip(masks) {
                    *mask = given.into();
                }
                (Opcode::SET_HW_RSRC, bytes(frame.as_bytes()))
            }
            What::Query => {
                let mut frame = QueryStatus::new_zeroed();
                frame.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
                (Opcode::QUERY_SCHEDULER_STATUS, bytes(frame.as_bytes()))
            }
            What::Other { opcode } => {
                let mut frame = [0; FRAME_SIZE];
                frame[..4].copy_from_slice(Header::new(Opcode(opcode.into())).0.as_bytes());
                (Opcode(opcode.into()), frame)
            }
            _ => return self.beside(&step.what),
        };
        self.send(opcode, frame, &step.changes);
    }

    /// Sends dwords that are no frame.
    fn beside(&mut self, what: &What) {
        match *what {
            What::Cut(dwords) => {
                let dwords = 1 + dwords % 63;
                let counts = self.counts();
                self.driver.mes_dwords(&vec![0x21; dwords.into()]);
                assert!(self.wild || self.counts() == counts, "{dwords} dwords are no frame");
            }
            What::Barrier { queue, waits } => {
                let signal = self.driver.signal(1, 1);
                let mut packet = Driver::barrier(0);
                if waits {
                    packet[8..16].copy_from_slice(&signal.to_le_bytes());
                }
                self.driver.packet(usize::from(queue) % QUEUES, &packet);
            }
            What::Signal { value } => {
                self.driver.signal(1, value.into());
            }
            What::Work(turns) => {
                self.driver.rig.settle(turns.into());
            }
            _ => {}
        }
    }

    fn misc(&mut self, opcode: u8, data: &[Word; 5]) -> [u8; FRAME_SIZE] {
        let mut frame = Misc::new_zeroed();
        frame.header = Header::new(Opcode::MISC);
        frame.opcode = u32::from(opcode % 11);
        for (target, word) in frame.data.iter_mut().zip(data) {
            *target = word.value(0);
        }
        match MiscOpcode(frame.opcode) {
            // Any register, one time out of four.
            MiscOpcode::WRITE_REG if opcode < 0xc0 => frame.data[0] = RIG.dword::<gc::SCRATCH_REG0>(),
            MiscOpcode::WRITE_REG => self.wild = true,
            MiscOpcode::WAIT_REG_MEM if opcode < 0xc0 => {
                (frame.data[3], frame.data[4]) =
                    (RIG.dword::<gc::SCRATCH_REG0>(), RIG.dword::<gc::SCRATCH_REG0>());
            }
            MiscOpcode::WAIT_REG_MEM => self.wild = true,
            MiscOpcode::READ_REG => {
                let address = kernel(DATA) + u64::from(frame.data[1] & 0xfff0);
                (frame.data[1], frame.data[2]) = (address as u32, (address >> 32) as u32);
            }
            _ => {}
        }
        bytes(frame.as_bytes())
    }

    fn counts(&self) -> (u64, u64) {
        let stats = self.driver.rig.gpu.stats();
        (stats.mes_frames, stats.mes_refused)
    }

    fn send(&mut self, opcode: Opcode, mut frame: [u8; FRAME_SIZE], changes: &[Change]) {
        let (fence, status) = self.driver.fence();
        let at = mes::api_status_offset(opcode);
        if let Some(at) = at {
            frame[at..at + 16].copy_from_slice(status.as_bytes());
        }
        let original = frame;
        let mut touched: BTreeSet<usize> =
            changes.iter().take(8).map(|change| change.apply(&mut frame)).collect();
        touched.retain(|&dword| frame[dword * 4..][..4] != original[dword * 4..][..4]);
        // A changed header or fence decides which fence is written; a frame of another kind may be anything.
        let known = at.is_some_and(|at| (at / 4..at / 4 + 4).all(|dword| !touched.contains(&dword)));
        let same = !touched.contains(&0);
        self.wild |= !touched.is_empty() && (opcode == Opcode::MISC || !same);
        let (done, refused) = self.counts();
        self.driver.frame(&frame);
        if self.wild {
            return;
        }
        let (now_done, now_refused) = self.counts();
        assert_eq!(now_done + now_refused, done + refused + 1, "{opcode:?} is done or refused, once");
        let done = now_done > done;
        if known && same {
            let answered = self.driver.rig.take::<u64>(fence) == status.api_completion_fence_value.get();
            assert_eq!(answered, done, "{opcode:?} is answered if it is done");
        }
        let doorbell =
            |at: usize| u64::from(u32::from_le_bytes(*frame[at..].first_chunk().expect("a word"))) * 4;
        // A queue of the kernel's may replace the one in its place.
        let legacy = opcode == Opcode::ADD_QUEUE
            && AddQueue::read_from_prefix(&frame)
                .is_ok_and(|(add, _)| add.flags.contains(AddQueueFlags::MAP_LEGACY_KQ));
        match opcode {
            // Refused for its fence alone, it was executed.
            Opcode::ADD_QUEUE | Opcode::REMOVE_QUEUE if !known || legacy => {
                self.listens = self.driver.listening()
            }
            Opcode::ADD_QUEUE if done => {
                assert!(self.listens.insert(doorbell(0x48)), "a doorbell is added twice");
            }
            Opcode::REMOVE_QUEUE if done => {
                assert!(self.listens.remove(&doorbell(4)), "a queue is removed twice");
            }
            _ => {}
        }
    }

    fn check(&self) {
        if !self.wild {
            assert_eq!(self.driver.listening(), self.listens, "doorbells that queues listen to");
        }
    }

    /// The driver cleans up, and begins anew.
    fn finish(&mut self) {
        assert!(self.driver.mes_works(), "the scheduler answers");
        assert!(self.driver.kiq_works(), "the KIQ goes on");
        for doorbell in std::mem::take(&mut self.listens) {
            assert!(self.driver.remove_doorbell(doorbell), "doorbell {doorbell:#x} can be removed");
        }
        self.check();
        self.driver.set_resources();
        assert!(self.driver.add_queue(0), "a queue can be added");
        self.driver.verify(0);
        assert!(self.driver.remove_queue(0), "and removed");
    }
}
