//! Waves of one workgroup that read LDS and write there without a barrier in between.

use belfry_isa::exec::Stop;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;

/// Loads, then stores over what others load; a barrier; stores without a load before.
const PROGRAM: [u32; 9] = [
    // ds_load_b32 v1, v0
    0xd8d8_0000,
    0x0100_0000,
    // ds_store_b32 v0, v2
    0xd834_0000,
    0x0000_0200,
    // ds_store_b32 v0, v2
    0xd834_0000,
    0x0000_0200,
    // s_barrier
    0xbfbd_0000,
    // s_nop 0
    0xbf80_0000,
    // s_endpgm
    0xbfb0_0000,
];

#[test]
fn wave_stops_once_between_barriers_before_it_stores_behind_a_load() {
    for backend in Backend::all() {
        let mut gpu = Gpu::new(backend, 1 << 20);
        let pc = gpu.buffer(&PROGRAM);
        let run = |gpu: &mut Gpu, turns: bool| {
            gpu.lds.reset(256);
            let mut waves = [0u32, 1].map(|number| {
                let mut wave = Wave::new(&WaveInit { pc, ..WaveInit::default() });
                wave.take_turns(turns);
                for lane in 0..32 {
                    wave.set_vgpr(2, lane, 7 + number);
                }
                wave
            });
            let stops: Vec<(Stop, u64)> = (0..3)
                .flat_map(|_| [0, 1])
                .map(|number| {
                    let wave: &mut Wave = &mut waves[number];
                    let stop = gpu.step(wave, 1000);
                    (stop, (wave.pc() - pc) / 4)
                })
                .collect();
            let seen = waves.each_ref().map(|wave| wave.vgpr(1, 0));
            (stops, seen, waves.map(|wave| wave.instructions))
        };
        let (stops, seen, instructions) = run(&mut gpu, true);
        let expected = [(Stop::Turn, 2), (Stop::Barrier, 8), (Stop::EndProgram, 9)];
        assert_eq!(stops, expected.into_iter().flat_map(|stop| [stop.clone(), stop]).collect::<Vec<_>>());
        assert_eq!(seen, [0, 0], "both have loaded before one stores");
        // The only wave of a workgroup does not stop.
        let (stops, seen, alone) = run(&mut gpu, false);
        assert_eq!(stops[..2], [(Stop::Barrier, 8), (Stop::Barrier, 8)]);
        assert_eq!(seen, [0, 7]);
        assert_eq!(instructions, alone, "nothing is counted twice");
    }
}

/// Loads and stores; a barrier; loads and stores again.
const AGAIN: [u32; 10] = [
    // ds_load_b32 v1, v0; ds_store_b32 v0, v2
    0xd8d8_0000,
    0x0100_0000,
    0xd834_0000,
    0x0000_0200,
    // s_barrier
    0xbfbd_0000,
    // ds_load_b32 v1, v0; ds_store_b32 v0, v2
    0xd8d8_0000,
    0x0100_0000,
    0xd834_0000,
    0x0000_0200,
    // s_endpgm
    0xbfb0_0000,
];

#[test]
fn behind_a_barrier_a_wave_stops_once_more_and_it_knows_where_it_has_waited() {
    for (backend, goes_back) in Backend::all().flat_map(|backend| [(backend, false), (backend, true)]) {
        let mut gpu = Gpu::new(backend, 1 << 20);
        let pc = gpu.buffer(&AGAIN);
        gpu.lds.reset(256);
        let mut wave = Wave::new(&WaveInit { pc, ..WaveInit::default() });
        wave.take_turns(true);
        let mut step = |wave: &mut Wave| (gpu.step(wave, 1000), (wave.pc() - pc) / 4);
        assert_eq!([step(&mut wave), step(&mut wave)], [(Stop::Turn, 2), (Stop::Barrier, 5)], "{backend:?}");
        if goes_back {
            wave.back_to_barrier();
            assert_eq!(wave.pc(), pc + 4 * 4, "{backend:?}");
            assert_eq!(step(&mut wave), (Stop::Barrier, 5), "{backend:?}");
        }
        assert_eq!(
            [step(&mut wave), step(&mut wave)],
            [(Stop::Turn, 7), (Stop::EndProgram, 10)],
            "{backend:?}"
        );
        assert_eq!(wave.instructions, 6 + u64::from(goes_back), "{backend:?}");
    }
}
