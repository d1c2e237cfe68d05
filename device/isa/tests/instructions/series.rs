//! Waves that follow each other in one storage: each leaves what it would leave if it were the first there. Vector registers of an ended
//! wave need not be in memory, so each wave stores them to LDS, and that is compared.

use belfry_isa::exec::{Lds, Stop, Touched};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Own, Start, Wave, WaveInit};

use super::succession::OneByOne;
use super::{Bench, lanes};

/// s_add_u32 s20, s20, s3; v_add_nc_u32_e32 v9, v9, v0: what a wave finds there is added to.
const ADD: [u32; 2] = [0x8014_0314, 0x4a12_0109];
/// s_mov_b32 exec_lo, s3; v_add_nc_u32_e32 v4, v4, v0.
const SOME_LANES: [u32; 2] = [0xbefe_0003, 0x4a08_0104];
/// v_sin_f32_e32 v7, v0: a handler does it.
const BY_HANDLER: [u32; 1] = [0x7e0e_6b00];
/// s_setpc_b64 s[10:11].
const AWAY: [u32; 1] = [0xbe80_480a];
/// v_lshlrev_b32_e32 v5, 2, v0; ds_store_b32 v5, v9; ds_store_b32 v5, v4 offset:2048; s_endpgm.
const STORE_AND_END: [u32; 6] = [0x300a_0082, 0xd834_0000, 0x0905, 0xd834_0800, 0x0405, 0xbfb0_0000];
/// s_endpgm.
const END: [u32; 1] = [0xbfb0_0000];
const LDS_BYTES: u32 = 4096;
const WAVES: u32 = 6;

/// `v0` and `s3`, which a wave starts with of its own; `v0` is the same for all waves if their lanes stay.
fn own(number: u32, lanes_stay: bool) -> ([u32; 64], u32) {
    let add = if lanes_stay { 0 } else { number };
    (lanes(|lane| lane * 7 + add), 0xff0f + number)
}

fn own_of(s3: u32) -> Own {
    // Registers that are not a wave's own are as all waves have them.
    Own { exec: u64::MAX, sgprs: (3, [s3, 1, 1, 1]), hw_ids: [0; 2], scratch_base: 0 }
}

fn common<'a>(bench: &Bench, sgprs: &'a [u32; 12], size: WaveSize) -> WaveInit<'a> {
    WaveInit { pc: bench.pc, wave_size: size, vgpr_count: 32, sgprs, ..WaveInit::default() }
}

/// Returns the state that a wave that has ended leaves.
fn left(wave: &Wave, lds: &mut Lds) -> (Vec<u32>, [u64; 2], Vec<u8>) {
    let scalars = (0..106).chain([106, 107, 126, 127]).map(|register| wave.sgpr(register)).collect();
    let stored = lds.bytes().to_vec();
    lds.bytes_mut().fill(0);
    (scalars, [wave.pc(), wave.instructions], stored)
}

fn check(words: &[u32], away: u64, size: WaveSize) {
    for (backend, lanes_stay) in Backend::all().flat_map(|backend| [(backend, false), (backend, true)]) {
        let mut bench = Bench::new(backend, words);
        bench.gpu.lds.reset(LDS_BYTES);
        let mut sgprs = [1; 12];
        let to = bench.pc + away * 4;
        (sgprs[10], sgprs[11]) = (to as u32, (to >> 32) as u32);
        let start_with = common(&bench, &sgprs, size);
        let alone: Vec<_> = (0..WAVES)
            .map(|number| {
                let (v0, s3) = own(number, lanes_stay);
                let mut sgprs = sgprs;
                sgprs[3] = s3;
                let mut wave = Wave::new(&WaveInit {
                    sgprs: &sgprs,
                    vgprs: &[v0],
                    exec: u64::MAX,
                    ..common(&bench, &sgprs, size)
                });
                assert_eq!(bench.run(&mut wave), Stop::EndProgram);
                left(&wave, &mut bench.gpu.lds)
            })
            .collect();
        let mut start = Start::default();
        start.set(&start_with);
        let mut wave = Wave::new(&start_with);
        let (v0, s3) = own(0, lanes_stay);
        // Where all waves have the same `v0`, they start with everything else in common as well; `s3` is set after each start.
        if lanes_stay {
            start.include(&own_of(s3));
        }
        let starts = own_of(s3);
        wave.start_as(&start, (!lanes_stay).then_some(&starts), &v0);
        let (mut ended, mut quick) = (Vec::new(), 0);
        let stop = bench.gpu.run_many(
            &mut wave,
            1000,
            &mut OneByOne(|wave: &mut Wave, lds: &mut Lds, touched: Option<&Touched>| {
                ended.push(left(wave, lds));
                let number = ended.len() as u32;
                if number == WAVES {
                    return None;
                }
                let (v0, s3) = own(number, lanes_stay);
                let starts = own_of(s3);
                let own = (!lanes_stay).then_some(&starts);
                match touched {
                    Some(touched) => wave.start_behind(&start, own, &v0, touched),
                    None => wave.start_as(&start, own, &v0),
                }
                wave.set_general_sgpr(3, s3);
                quick += u32::from(touched.is_some());
                Some(1000)
            }),
        );
        assert_eq!(stop, Stop::EndProgram);
        assert!(ended.len() == alone.len() && ended == alone, "{:?} {:?}", backend.kind(), backend.tier());
        let compiles = backend.tier() == belfry_isa::lanes::Tier::One;
        let known = compiles && away == 0 && !words.contains(&BY_HANDLER[0]);
        assert_eq!(quick, if known { WAVES - 1 } else { 0 }, "{:?}", backend.tier());
    }
}

#[test]
fn waves_in_one_storage_end_as_they_do_alone() {
    for size in [WaveSize::Wave32, WaveSize::Wave64] {
        check(&[&ADD[..], &STORE_AND_END].concat(), 0, size);
        check(&[&ADD[..], &SOME_LANES, &STORE_AND_END].concat(), 0, size);
        check(&[&SOME_LANES[..], &ADD, &STORE_AND_END].concat(), 0, size);
        check(&[&ADD[..], &BY_HANDLER, &STORE_AND_END].concat(), 0, size);
        check(&END, 0, size);
    }
}

#[test]
fn waves_that_go_elsewhere_leave_nothing_behind() {
    let words = [&ADD[..], &AWAY, &END, &SOME_LANES, &STORE_AND_END].concat();
    check(&words, 4, WaveSize::Wave32);
}
