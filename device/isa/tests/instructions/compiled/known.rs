//! Scalar loads at the beginning that a launch's waves share: the values that they find, with addresses that differ,
//! with loads that fail, and after writes that waves have to look for.

use belfry_isa::exec::{Lds, Stop, Touched};
use belfry_isa::inst::WaveSize;
use belfry_isa::wave::{Start, Wave, WaveInit};

use super::super::Bench;
use super::super::succession::OneByOne;
use super::tiers;

/// s_load_b64 s[4:5], s[0:1], null; s_load_b32 s6, s[0:1], 0x8; s_load_b32 s7, s[2:3], 0x10; s_load_b128 s[8:11], s[0:1], 0x10.
const LOADS: [u32; 8] =
    [0xf404_0100, 0xf800_0000, 0xf400_0180, 0xf800_0008, 0xf400_01c1, 0xf800_0010, 0xf408_0200, 0xf800_0010];
/// s_load_b64 s[2:3], s[2:3], null; s_load_b32 s13, s[2:3], 0x14: not from where the wave began.
const FURTHER: [u32; 4] = [0xf404_0081, 0xf800_0000, 0xf400_0341, 0xf800_0014];
/// s_add_u32 s6, s6, s4; s_add_u32 s6, s6, s7; s_add_u32 s8, s8, s11; s_add_u32 s6, s6, s8; s_add_u32 s6, s6, s13.
const SUM: [u32; 5] = [0x8006_0406, 0x8006_0706, 0x8008_0b08, 0x8006_0806, 0x8006_0d06];
/// s_load_b32 s6, s[0:1], 0x8.
const LOAD: [u32; 2] = [0xf400_0180, 0xf800_0008];
/// s_add_u32 s0, s0, 4; s_add_u32 s12, s12, 1; s_cmp_lt_u32 s12, 3.
const NEXT: [u32; 3] = [0x8000_8400, 0x800c_810c, 0xbf0a_830c];
/// s_cbranch_scc1 back by `dwords` dwords from the instruction after it.
const fn back(dwords: u32) -> u32 {
    0xbfa2_0000 | (0x1_0000 - dwords)
}
/// s_cbranch_scc1 over two dwords.
const OVER_TWO: u32 = 0xbfa2_0002;
/// v_mov_b32_e32 v2, 8; v_mov_b32_e32 v1, s6; v_add_nc_u32_e32 v1, 1, v1; global_store_b32 v2, v1, s[0:1].
const COUNT: [u32; 5] = [0x7e04_0288, 0x7e02_0206, 0x4a02_0281, 0xdc6a_0000, 0x0000_0102];
/// s_dcache_inv.
const INVALIDATE: [u32; 2] = [0xf484_0000, 0];
const END: u32 = 0xbfb0_0000;

/// Scalar registers of waves that follow each other in one storage, the first four of them as `begin` says for each, when they have ended; and their
/// instructions.
fn follow(bench: &mut Bench, waves: usize, begin: impl Fn(usize) -> [u32; 4]) -> (Stop, Vec<[u32; 17]>) {
    let init = WaveInit {
        pc: bench.pc,
        exec: 1,
        wave_size: WaveSize::Wave32,
        vgpr_count: 8,
        sgprs: &[0; 16],
        ..WaveInit::default()
    };
    let mut start = Start::default();
    start.set(&init);
    let set = |wave: &mut Wave, number: usize| {
        (0..).zip(begin(number)).for_each(|(register, value)| wave.set_general_sgpr(register, value));
    };
    let mut wave = Wave::new(&init);
    let v0 = [0; 64];
    wave.start_as(&start, None, &v0);
    set(&mut wave, 0);
    let mut ended = Vec::new();
    let stop = bench.gpu.run_many(
        &mut wave,
        1000,
        &mut OneByOne(|wave: &mut Wave, _: &mut Lds, touched: Option<&Touched>| {
            ended.push(core::array::from_fn(|at| match at {
                16 => wave.instructions as u32,
                register => wave.sgpr(register as u8),
            }));
            if ended.len() == waves {
                return None;
            }
            match touched {
                Some(touched) => wave.start_behind(&start, None, &v0, touched),
                None => wave.start_as(&start, None, &v0),
            }
            set(wave, ended.len());
            Some(1000)
        }),
    );
    (stop, ended)
}

fn pair(va: u64) -> [u32; 2] {
    [va as u32, (va >> 32) as u32]
}

#[test]
fn waves_of_many_addresses_load_what_is_there() {
    let straight = [&LOADS[..], &FURTHER, &SUM, &[END]].concat();
    // The load is done three times, with an address that moves.
    let round = [&LOADS[2..4], &NEXT, &[back(6), END]].concat();
    // The last load is not reached.
    let twice = [&LOADS[..], &NEXT, &[OVER_TWO], &LOAD, &SUM, &[END]].concat();
    for words in [straight, round, twice] {
        for backends in tiers() {
            let [interpreted, compiled] = backends.map(|backend| {
                let mut bench = Bench::new(backend, &words);
                let arguments: Vec<u64> =
                    (0..4u32).map(|n| bench.gpu.buffer(&[n; 16].map(|word| word * 1000 + n + 3))).collect();
                let last = bench.gpu.buffer(&[77u32; 8]);
                let links = [1u32, 2].map(|n| {
                    let [low, high] = pair(last);
                    bench.gpu.buffer(&[low, high, 0, 0, n, 0, 0, 0])
                });
                // Mostly the same, as waves of a launch have them; sometimes others.
                follow(&mut bench, 40, |number| {
                    let one = arguments[if number % 7 == 5 { number % 4 } else { 1 }];
                    let other = links[usize::from(number % 11 == 8)];
                    let ([a, b], [c, d]) = (pair(one), pair(other));
                    [a, b, c, d]
                })
            });
            assert_eq!(compiled, interpreted, "{words:x?}");
            assert!(compiled.0 == Stop::EndProgram && compiled.1.len() == 40);
        }
    }
}

#[test]
fn what_a_launch_has_loaded_stays_until_the_next_one_or_a_look() {
    let counted = |words: &[u32], backend| {
        let mut bench = Bench::new(backend, words);
        let arguments = bench.gpu.buffer(&[100u32; 8]);
        let [low, high] = pair(arguments);
        let launch = |bench: &mut Bench| {
            bench.gpu.new_epoch();
            let (stop, ended) = follow(bench, 5, |_| [low, high, 0, 0]);
            assert_eq!(stop, Stop::EndProgram);
            ended.iter().map(|registers| registers[6]).collect::<Vec<_>>()
        };
        [launch(&mut bench), launch(&mut bench)]
    };
    for [interpreted, compiled] in tiers() {
        // Each wave counts in the memory that it has its argument from.
        let each = [vec![100, 101, 102, 103, 104], vec![105, 106, 107, 108, 109]];
        let words = [&LOAD[..], &COUNT, &[END]].concat();
        assert_eq!(counted(&words, interpreted), each);
        // The second wave of a launch finds out what all of them have.
        assert_eq!(counted(&words, compiled), [[100, 101, 101, 101, 101], [102, 103, 103, 103, 103]]);
        let words = [&INVALIDATE[..], &LOAD, &COUNT, &[END]].concat();
        assert_eq!(counted(&words, interpreted), each);
        assert_eq!(counted(&words, compiled), each);
    }
}

#[test]
fn load_that_no_wave_reaches_fails_for_none() {
    // s_cmp_lt_u32 s12, 3 is true, and the load behind it from address 0 is left out.
    let words = [&LOADS[..4], &NEXT[1..], &[OVER_TWO], &LOADS[4..6], &[END]].concat();
    // And here it is done, by all.
    let fails = [&LOADS[..6], &[END]].concat();
    for backends in tiers() {
        for words in [&words, &fails] {
            let [interpreted, compiled] = backends.map(|backend| {
                let mut bench = Bench::new(backend, words);
                let arguments = bench.gpu.buffer(&[5u32; 8]);
                let readable = bench.gpu.buffer(&[6u32; 8]);
                let ([low, high], [c, d]) = (pair(arguments), pair(readable));
                // In `fails`, waves behind the third one.
                let (_, begun) = (readable, words.len());
                follow(&mut bench, 9, |number| {
                    if begun == 7 && number < 3 { [low, high, c, d] } else { [low, high, 0, 0] }
                })
            });
            assert_eq!(compiled, interpreted);
            let ended = if words.len() == 7 { 3 } else { 9 };
            assert_eq!(compiled.1.len(), ended);
        }
    }
}
