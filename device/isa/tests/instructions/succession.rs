//! Waves that compiled code starts after others: each gives the results that it gives alone, and everything is
//! counted.

use belfry_isa::exec::{Followed, Follower, Following, Lds, Next, Stop, Touched};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::{Backend, Tier};
use belfry_isa::wave::{Own, Start, Wave, WaveInit};

use super::common::{BASE, Gpu};
use super::{Bench, lanes};

/// Waves of which none may be started without asking for it.
pub(super) struct OneByOne<F>(pub(super) F);

impl<F: FnMut(&mut Wave, &mut Lds, Option<&Touched>) -> Option<u64>> Next for OneByOne<F> {
    fn next(&mut self, wave: &mut Wave, lds: &mut Lds, touched: Option<&Touched>) -> Option<u64> {
        (self.0)(wave, lds, touched)
    }
}

/// v_lshlrev_b32 v1, 2, v0; s_lshl_b32 s5, s3, 10; v_add_nc_u32 v1, s5, v1: where the wave stores.
const PLACE: [u32; 3] = [0x3002_0082, 0x8405_8a03, 0x4a02_0205];
/// v_add_nc_u32 v9, v9, v0; s_add_u32 s20, s20, s3; v_mov_b32 v3, s20; v_add_nc_u32 v9, s4, v9: what a wave finds there is added to.
const SUMS: [u32; 4] = [0x4a12_0109, 0x8014_0314, 0x7e06_0214, 0x4a12_1204];
/// global_store_b32 v1, v9, s[0:1]; global_store_b32 v1, v3, s[0:1] offset:2048.
const STORES: [u32; 4] = [0xdc6a_0000, 0x0000_0901, 0xdc6a_0800, 0x0000_0301];
/// s_cmp_gt_u32 s3, 20; s_cbranch_scc1 2; global_load_b32 v11, v1, s[0:1] glc: most waves look for what others write.
const LOOK: [u32; 4] = [0xbf08_9403, 0xbfa2_0002, 0xdc52_4000, 0x0b00_0001];
/// s_cmp_eq_u32 s3, s6; s_cbranch_scc1 1; s_endpgm; s_load_b32 s8, s[10:11], null; s_endpgm: fails in one workgroup.
const END_OR_FAIL: [u32; 6] = [0xbf06_0603, 0xbfa2_0001, 0xbfb0_0000, 0xf400_0205, 0xf800_0000, 0xbfb0_0000];
/// s_cmp_eq_u32 s3, s6; s_cbranch_scc1 -1 (to itself); s_endpgm: goes on for ever in one workgroup.
const END_OR_STAY: [u32; 3] = [0xbf06_0603, 0xbfa2_ffff, 0xbfb0_0000];

const WAVES: u32 = 4;
const WORKGROUPS: u32 = 40;
/// Bytes that a workgroup stores to, twice.
const BYTES: u32 = 1024;
const BUDGET: u64 = 10_000_000;
const WAVE_COST: u64 = 7;
const WORKGROUP_COST: u64 = 3;

/// Waves of a launch, in workgroups of as many as there are followers.
pub(super) struct Launch<'a> {
    pub(super) init: WaveInit<'a>,
    pub(super) followers: Vec<Follower>,
    /// Scalar register that X is in, if it is in one.
    pub(super) x_sgpr: Option<usize>,
    pub(super) workgroups: u32,
    /// The wave at hand.
    x: u32,
    number: usize,
    start: Start,
    budget: u64,
    /// Budget that has to be left for code to go on.
    floor: u64,
    pub(super) instructions: u64,
    /// Waves that have been made here.
    pub(super) asked: u32,
    pub(super) ended: u32,
}

impl<'a> Launch<'a> {
    pub(super) fn new(
        init: WaveInit<'a>,
        followers: Vec<Follower>,
        (x_sgpr, workgroups): (Option<usize>, u32),
    ) -> Launch<'a> {
        let mut start = Start::default();
        start.set(&init);
        Launch {
            init,
            followers,
            x_sgpr,
            workgroups,
            start,
            x: 0,
            number: 0,
            budget: BUDGET,
            floor: 0,
            instructions: 0,
            asked: 0,
            ended: 0,
        }
    }

    fn own(&self) -> Own {
        let Follower { exec, hw_ids, .. } = self.followers[self.number];
        let first = self.init.sgprs.len().max(20);
        Own { exec, sgprs: (first, [0; 4]), hw_ids, scratch_base: 0 }
    }

    fn finish(&self, wave: &mut Wave) {
        if let Some(register) = self.x_sgpr {
            wave.set_general_sgpr(register, self.x);
        }
        wave.set_ttmp(9, self.x);
        wave.set_ttmp(7, self.followers[self.number].ttmp);
    }

    /// The wave at hand, in a storage of its own.
    fn alone(&self) -> Wave {
        let Follower { v0, exec, hw_ids, .. } = self.followers[self.number];
        let [hw_id1, hw_id2] = hw_ids;
        let mut wave = Wave::new(&WaveInit { vgprs: &[v0], exec, hw_id1, hw_id2, ..self.init });
        self.finish(&mut wave);
        wave
    }

    /// The next wave and workgroup, if there is one.
    fn step(&mut self) -> bool {
        self.number += 1;
        if self.number == self.followers.len() {
            (self.number, self.x) = (0, self.x + 1);
            self.budget -= WORKGROUP_COST;
        }
        self.x < self.workgroups
    }

    /// Runs the waves one by one, each in a storage of its own. Returns the last one's stop, and that wave.
    pub(super) fn run_alone(mut self, gpu: &mut Gpu) -> (Stop, Wave, Self) {
        loop {
            let mut wave = self.alone();
            let stop = gpu.step(&mut wave, 1000);
            if stop != Stop::EndProgram {
                return (stop, wave, self);
            }
            self.ended += 1;
            self.instructions += wave.instructions;
            if !self.step() {
                return (stop, wave, self);
            }
        }
    }

    /// Runs the waves one after the other, in one storage.
    pub(super) fn run(mut self, gpu: &mut Gpu) -> (Stop, Wave, Self) {
        let mut wave = self.alone();
        wave.start_as(&self.start, Some(&self.own()), &self.followers[0].v0);
        self.finish(&mut wave);
        let stop = gpu.run_many(&mut wave, 1000, &mut self);
        (stop, wave, self)
    }

    /// Checks that two runs, the second one by one, have equal results; memory is not compared.
    pub(super) fn check(
        &self,
        (stop, wave): (&Stop, &Wave),
        (expected, last, alone): (&Stop, &Wave, &Self),
        backend: Backend,
    ) {
        let kind = backend.kind();
        assert_eq!(stop, expected, "{kind:?}");
        assert_eq!((self.ended, self.instructions), (alone.ended, alone.instructions), "{kind:?}");
        if *stop == Stop::EndProgram {
            assert_eq!(self.ended, self.followers.len() as u32 * self.workgroups);
        } else {
            // Registers of a wave that has not ended are all there.
            assert!(wave.save() == last.save(), "{kind:?}");
        }
        let workgroups = u64::from(self.ended / self.followers.len() as u32);
        let cost = u64::from(self.ended) * WAVE_COST + workgroups * WORKGROUP_COST;
        assert_eq!(BUDGET - self.budget, self.instructions + cost);
    }

    /// Checks that code has started most waves.
    pub(super) fn follows(&self, backend: Backend) {
        let most = if backend.tier() == Tier::One { self.ended / 4 + 4 } else { u32::MAX };
        assert!(self.asked <= most, "{} of {}, {:?}", self.asked, self.ended, backend.kind());
    }
}

impl Next for Launch<'_> {
    fn next(&mut self, wave: &mut Wave, _: &mut Lds, touched: Option<&Touched>) -> Option<u64> {
        self.instructions += wave.instructions;
        self.budget -= wave.instructions + WAVE_COST;
        self.asked += 1;
        self.ended += 1;
        if !self.step() {
            return None;
        }
        let own = self.own();
        let v0 = self.followers[self.number].v0;
        match touched {
            Some(touched) => wave.start_behind(&self.start, Some(&own), &v0, touched),
            None => wave.start_as(&self.start, Some(&own), &v0),
        }
        self.finish(wave);
        // Code is asked to come back behind some of the waves.
        self.floor = self.budget - 400;
        Some(1000)
    }

    fn follow(&mut self) -> Option<Following<'_>> {
        Some(Following {
            followers: &self.followers,
            number: self.number,
            x: self.x,
            // Not all of them at once.
            end: self.workgroups.min(self.x / 8 * 8 + 8),
            x_sgpr: self.x_sgpr,
            x_ttmp: Some(9),
            wave_ttmp: Some(7),
            budget: self.budget,
            floor: self.floor,
            workgroup_floor: 5,
            wave_cost: WAVE_COST,
            workgroup_cost: WORKGROUP_COST,
            quantum: 1000,
        })
    }

    fn followed(&mut self, _: &mut Lds, Followed { number, x, budget, instructions }: Followed) {
        let count = self.followers.len() as u32;
        self.ended += (x - self.x) * count + number as u32 - self.number as u32;
        (self.number, self.x, self.budget) = (number, x, budget);
        self.instructions += instructions;
    }
}

fn check(words: &[u32], (size, waves): (WaveSize, u32), fails_at: u32) {
    let width = if size == WaveSize::Wave32 { 32 } else { 64 };
    let follower = |number: u32| {
        // The last wave of a workgroup is not full.
        let exec = if number + 1 == waves && waves > 1 { 0x5ff } else { u64::MAX };
        Follower::new((exec, lanes(|lane| number * width + lane)), [number, 77], number + 100)
    };
    for backend in Backend::all() {
        let mut bench = Bench::new(backend, words);
        let bytes = (WORKGROUPS * BYTES) as usize + 4096;
        let base = bench.gpu.alloc(bytes);
        let mut sgprs = [0; 20];
        (sgprs[0], sgprs[1], sgprs[4], sgprs[6]) = (base as u32, (base >> 32) as u32, 1000, fails_at);
        let init = WaveInit {
            pc: bench.pc,
            wave_size: size,
            vgpr_count: 32,
            sgprs: &sgprs,
            exec: 0,
            ..WaveInit::default()
        };
        let launch = || Launch::new(init, (0..waves).map(follower).collect(), (Some(3), WORKGROUPS));
        let (expected, last, alone) = launch().run_alone(&mut bench.gpu);
        let stored = bench.gpu.fetch::<u8>(base, bytes);
        bench.gpu.memory.write(base, &vec![0; bytes]);
        let (stop, wave, launch) = launch().run(&mut bench.gpu);
        assert!(bench.gpu.fetch::<u8>(base, bytes) == stored, "{:?} {size:?} {waves}", backend.kind());
        launch.check((&stop, &wave), (&expected, &last, &alone), backend);
        launch.follows(backend);
    }
}

#[test]
fn waves_that_code_starts_do_what_they_do_alone() {
    for size in [WaveSize::Wave32, WaveSize::Wave64] {
        for waves in [1, if size == WaveSize::Wave32 { WAVES } else { WAVES / 2 }] {
            for look in [&LOOK[..0], &LOOK] {
                let all = [&PLACE[..], &SUMS, &STORES, look, &END_OR_FAIL].concat();
                check(&all, (size, waves), u32::MAX);
                check(&all, (size, waves), 29);
            }
            check(&[&PLACE[..], &SUMS, &STORES, &END_OR_STAY].concat(), (size, waves), 21);
        }
    }
}

#[test]
fn waves_whose_arguments_are_elsewhere_load_their_own() {
    // s_load_b32 s8, s[2:3], null; v_lshlrev_b32 v1, 2, v0; v_mov_b32 v3, s8; global_store_b32 v1, v3, s[0:1]; s_endpgm: X is in the address.
    let words = [0xf400_0201, 0xf800_0000, 0x3002_0082, 0x7e06_0208, 0xdc6a_0000, 0x0000_0301, 0xbfb0_0000];
    for backend in Backend::all() {
        let mut bench = Bench::new(backend, &words);
        let content: Vec<u8> = (0..=255).collect();
        bench.gpu.memory.write(BASE, &content);
        let to = bench.gpu.alloc(4096);
        let sgprs = [to as u32, (to >> 32) as u32, 0, (BASE >> 32) as u32];
        let init = WaveInit { pc: bench.pc, vgpr_count: 32, sgprs: &sgprs, exec: 0, ..WaveInit::default() };
        // What the waves of a workgroup store stays for the next one to overwrite but for one word.
        let follower =
            |number: u32| Follower::new((u64::MAX, lanes(|lane| number * 33 + lane)), [number, 0], 0);
        let launch = |x: u32| Launch::new(init, (0..2).map(follower).collect(), (Some(2), x));
        for workgroups in [5, 30, WORKGROUPS] {
            let (expected, last, alone) = launch(workgroups).run_alone(&mut bench.gpu);
            let stored = bench.gpu.fetch::<u32>(to, 70);
            bench.gpu.memory.write(to, &[0; 280]);
            let (stop, wave, launch) = launch(workgroups).run(&mut bench.gpu);
            assert_eq!(bench.gpu.fetch::<u32>(to, 70), stored, "{:?} {workgroups}", backend.kind());
            launch.check((&stop, &wave), (&expected, &last, &alone), backend);
        }
    }
}
