//! Packets of the HIQ and run lists, valid ones and ones with changed dwords, against which queues listen afterwards.

use arbitrary::Arbitrary;
use belfry_abi::pm4::Opcode;

use crate::change::{Change, Word};
use crate::driver::{Driver, LISTS, QUEUES, kernel, packet};
use crate::rig::Rig;

/// Packets of an input.
const PACKETS: usize = 32;
/// UNMAP_QUEUES of all, static or not.
const ALL: u32 = 2 << 4;

/// A packet, or something beside it.
#[derive(Arbitrary, Debug)]
pub struct Step {
    what: What,
    changes: Vec<Change>,
}

#[derive(Arbitrary, Debug)]
enum What {
    /// A list of these queues, which may begin before its process, or ask for itself at its end.
    List {
        queues: u8,
        headless: bool,
        chain: bool,
    },
    /// RUN_LIST of the packets that are in memory.
    Again {
        dwords: u16,
        valid: bool,
    },
    Unmap {
        control: u8,
        queues: [u8; 4],
    },
    Fence,
    Resources {
        vmids: u16,
        queues: u16,
        of_hiq: bool,
    },
    /// Any packet of a length that is its own.
    Packet {
        opcode: u8,
        body: Vec<Word>,
    },
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

struct Hiq<'a> {
    driver: Driver<'a>,
    /// Set once something was written that may be any: nothing is known any more.
    wild: bool,
}

/// Runs an input on a rig that was reset.
pub fn run(rig: &Rig, steps: &[Step]) {
    let mut hiq = Hiq { driver: Driver::new(rig), wild: false };
    for nth in 0..QUEUES {
        hiq.driver.prepare_queue(nth);
    }
    for step in steps.iter().take(PACKETS) {
        hiq.step(step);
        if !hiq.wild {
            assert!(hiq.driver.mes_works(), "the HIQ goes on after {step:?}");
        }
    }
    let wild = hiq.wild;
    if !wild {
        hiq.finish();
    }
    rig.check();
    if wild {
        Driver::verify_anew(rig);
    }
}

impl Hiq<'_> {
    fn step(&mut self, step: &Step) {
        match &step.what {
            What::List { queues, headless, chain } => self.list(*queues, (*headless, *chain), &step.changes),
            What::Again { dwords, valid } => {
                let at = kernel(LISTS);
                let size = u32::from(*dwords) | u32::from(*valid) << 23;
                self.send(Opcode::RUN_LIST, &[at as u32, (at >> 32) as u32, size], &step.changes);
            }
            What::Unmap { control, queues } => {
                let bell = |nth: &u8| Driver::doorbell(usize::from(*nth) % QUEUES).dwords() << 2;
                let [a, b, c, d] = queues.each_ref().map(bell);
                // Action, selection, and number.
                let bits = u32::from(control & 3) | u32::from(control >> 2 & 3) << 4;
                let control = bits | u32::from(control >> 4 & 7) << 29;
                self.send(Opcode::UNMAP_QUEUES, &[control, a, b, c, d], &step.changes);
            }
            // Elsewhere it is any write to the kernel's memory.
            What::Fence => assert!(self.wild || self.driver.mes_works(), "a fence is written"),
            What::Resources { vmids, queues, of_hiq } => {
                let control = u32::from(*of_hiq) << 29 | u32::from(*vmids);
                let body = [control, u32::from(*queues), 0, 0, 0, 0, 0];
                self.send(Opcode::SET_RESOURCES, &body, &step.changes);
            }
            What::Packet { opcode, body } => {
                self.wild = true;
                let body: Vec<u32> = body.iter().take(16).map(|word| word.value(0)).collect();
                let body = if body.is_empty() { &[0] } else { &body[..] };
                self.driver.mes_dwords(&packet(Opcode(*opcode), body));
            }
            What::Barrier { queue, waits } => {
                let signal = self.driver.signal(1, 1);
                let mut barrier = Driver::barrier(0);
                if *waits {
                    barrier[8..16].copy_from_slice(&signal.to_le_bytes());
                }
                self.driver.packet(usize::from(*queue) % QUEUES, &barrier);
            }
            What::Signal { value } => _ = self.driver.signal(1, (*value).into()),
            What::Work(turns) => _ = self.driver.rig.settle((*turns).into()),
        }
    }

    /// A list, whose dwords may be changed; one that is well formed is there as it says.
    fn list(&mut self, queues: u8, (headless, chain): (bool, bool), changes: &[Change]) {
        let chosen = || (0..QUEUES).filter(|nth| queues >> nth & 1 != 0);
        let mut list = if headless { Vec::new() } else { self.driver.map_process() };
        chosen().for_each(|nth| list.extend(self.driver.map_queue(nth)));
        if chain {
            list.extend(packet(Opcode::RUN_LIST, &[kernel(LISTS) as u32, 0, 1 << 20 | 1 << 23]));
        }
        if list.is_empty() {
            return;
        }
        let mut bytes: Vec<u8> = list.iter().flat_map(|dword| dword.to_le_bytes()).collect();
        changes.iter().take(8).for_each(|change| _ = change.apply(&mut bytes));
        let changed: Vec<u32> = bytes.as_chunks().0.iter().map(|dword| u32::from_le_bytes(*dword)).collect();
        let same = changed == list;
        self.driver.run_list(&changed);
        if self.wild || !same {
            return;
        }
        let listening = self.driver.listening();
        let bell = |nth: usize| Driver::doorbell(nth).offset().bytes();
        let refused = headless && queues != 0;
        for nth in chosen() {
            assert_eq!(listening.contains(&bell(nth)), !refused, "queue {nth} of a list");
        }
    }

    /// Sends a packet; all of it but the header may be changed.
    fn send(&mut self, opcode: Opcode, body: &[u32], changes: &[Change]) {
        let mut bytes: Vec<u8> = body.iter().flat_map(|dword| dword.to_le_bytes()).collect();
        changes.iter().take(4).for_each(|change| _ = change.apply(&mut bytes));
        let body: Vec<u32> = bytes.as_chunks().0.iter().map(|dword| u32::from_le_bytes(*dword)).collect();
        self.driver.mes_dwords(&packet(opcode, &body));
    }

    /// The driver cleans up, and begins anew.
    fn finish(&mut self) {
        assert!(self.driver.kiq_works(), "the KIQ goes on");
        self.driver.mes_dwords(&packet(Opcode::UNMAP_QUEUES, &[ALL, 0, 0, 0, 0]));
        assert!(self.driver.listening().is_empty(), "all queues are taken off");
        self.driver.set_resources();
        assert!(self.driver.add_queue(0), "a queue can be added");
        self.driver.verify(0);
        assert!(self.driver.remove_queue(0), "and removed");
    }
}
