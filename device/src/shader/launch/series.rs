//! The waves of many workgroups of a launch, started one after the other in one place.

use belfry_isa::exec::{Follower, Following, Touched};
use belfry_isa::wave::{Own, Start, Wave};

use super::{Launch, WaveSeat};
use crate::chip::Generation;

/// Initial state of the waves of a launch, worked out once for all workgroups that use one seat.
#[derive(Debug, Default)]
pub(in crate::shader) struct Series {
    start: Start,
    /// Each wave's own part of the state, by its number in the workgroup.
    parts: Vec<Part>,
    /// Identifiers below these belong to workgroups that are not partial.
    whole: [u32; 3],
    /// Identifier after the last workgroup's, in each dimension.
    end: [u32; 3],
    /// The SGPR for each part of the workgroup's identifier, if there is one.
    ids: [Option<usize>; 3],
    has_ttmps: bool,
    /// Initial values of the waves that compiled code starts; made when they are first asked for.
    followers: Vec<Follower>,
    /// True if the state is that of the launch and the seat at hand.
    is_ready: bool,
}

#[derive(Debug)]
struct Part {
    chip: &'static Generation,
    /// State of the wave of the workgroup with identifier 0.
    own: Own,
}

impl Series {
    /// Has the next [`make`](Series::make) work the state out anew.
    pub(in crate::shader) fn forget(&mut self) {
        self.is_ready = false;
    }

    /// Works out the initial state of a launch's waves, unless it is there already. `lanes` gives the waves' lanes, and
    /// `seat` each wave's part of the seat.
    pub(in crate::shader) fn make(
        &mut self,
        launch: &Launch,
        lanes: &[(u64, [u32; 64])],
        seat: impl Fn(u32) -> WaveSeat,
    ) {
        if self.is_ready {
            return;
        }
        let waves = lanes.len() as u32;
        self.followers.clear();
        self.parts.clear();
        self.parts.extend((0..waves).zip(lanes).map(|(wave, (exec, _))| {
            let seat = seat(wave);
            let (sgprs, _) = launch.own_sgprs(seat.chip, [0; 3], (wave, waves));
            let own = Own {
                exec: *exec,
                sgprs: (launch.users().len(), sgprs),
                hw_ids: [launch.queue_ids[0] | seat.hw_ids[0], launch.queue_ids[1] | seat.hw_ids[1]],
                scratch_base: launch.scratch_base(&seat),
            };
            Part { chip: seat.chip, own }
        }));
        if let Some(part) = self.parts.first() {
            self.end = core::array::from_fn(|dim| launch.end(dim));
            self.whole = core::array::from_fn(|dim| launch.grid[dim] / launch.workgroup[dim].max(1));
            self.has_ttmps = launch.has_ttmps(part.chip);
            let mut places = launch.users().len()..;
            self.ids = launch.workgroup_id_sgprs.map(|is_there| if is_there { places.next() } else { None });
            self.start.set(&launch.common(waves, &seat(0)));
            if waves == 1 {
                self.start.include(&part.own);
            }
            self.is_ready = true;
        }
    }

    /// Returns true if a workgroup is a whole one and its waves do not stop at each instruction.
    pub(in crate::shader) fn has(&self, [x, y, z]: [u32; 3]) -> bool {
        let [width, height, depth] = self.whole;
        self.is_ready && !self.start.wave().steps() && x < width && y < height && z < depth
    }

    /// Returns the identifier of the workgroup after another one.
    ///
    /// The three numbers stay in registers, here and in the caller: an array that a loop goes through lies in memory,
    /// and reading it as a whole right after it was written part by part would stall.
    #[inline(always)]
    pub(in crate::shader) fn next(&self, launch: &Launch, [x, y, z]: [u32; 3]) -> [u32; 3] {
        let (start, end) = (launch.start, self.end);
        let [next_x, next_y, next_z] = [x, y, z].map(|own| own.wrapping_add(1));
        if next_x < end[0] {
            [next_x, y, z]
        } else if next_y < end[1] {
            [start[0], next_y, z]
        } else if next_z < end[2] {
            [start[0], start[1], next_z]
        } else {
            start
        }
    }

    /// Starts a wave as [`Launch::start_wave`] does, with the parts of the seat. The storage may be that of any wave;
    /// with `touched`, it is that of a wave that this function has started and that has changed nothing else.
    #[inline(always)]
    pub(in crate::shader) fn start(
        &self,
        launch: &Launch,
        wave: &mut Wave,
        id: &[u32; 3],
        number: u32,
        lanes: &(u64, [u32; 64]),
        touched: Option<&Touched>,
    ) {
        let Some(part) = self.parts.get(number as usize) else { return };
        // The only wave of a workgroup has its own part in `start` already, which was written long before: reading it
        // does not stall.
        let own = (self.parts.len() > 1).then_some(&part.own);
        match touched {
            Some(touched) => wave.start_behind(&self.start, own, &lanes.1, touched),
            None => self.start_anew(wave, own, &lanes.1),
        }
        // The values that differ from workgroup to workgroup are written into their registers at once. Put together in
        // memory and read again as a whole, they would stall.
        for (id, place) in id.iter().zip(&self.ids) {
            if let Some(register) = place {
                wave.set_general_sgpr(*register, *id);
            }
        }
        if let Some(core) = launch.core_id(id) {
            wave.set_hw_id2(launch.queue_ids[1] | core);
        }
        if self.has_ttmps {
            let &[x, y, z] = id;
            (part.chip.shader.set_ttmps)(wave, x, (y, z), (number, launch.packet), launch.scratch.is_some());
        }
    }

    /// Returns the waves that may follow wave `number` of this workgroup in its storage, in one call of the engine: the
    /// others of the workgroup, and those of at most `more` workgroups after it that are whole and differ from it in X
    /// alone. Returns `None` if there are none, or if waves differ in more than [`Following`] holds. The caller fills
    /// in the budgets.
    pub(in crate::shader) fn following(
        &mut self,
        launch: &Launch,
        lanes: &[(u64, [u32; 64])],
        ([x, y, z], number): ([u32; 3], usize),
        more: u64,
    ) -> Option<Following<'_>> {
        let part = self.parts.first()?;
        // The number of the graphics core depends on the whole identifier.
        if !self.has([x, y, z]) || launch.core_id(&[x, y, z]).is_some() {
            return None;
        }
        let end = self.end[0]
            .min(self.whole[0])
            .min(x.saturating_add(1).saturating_add(more.min(u32::MAX.into()) as u32));
        if number + 1 == self.parts.len() && x + 1 >= end {
            return None;
        }
        let same = |other: &Part| {
            (other.own.sgprs, other.own.scratch_base) == (part.own.sgprs, part.own.scratch_base)
        };
        if !self.parts.iter().all(same) {
            return None;
        }
        let rules = &part.chip.shader;
        let [x_ttmp, wave_ttmp] = rules.ttmp_places.map(|place| self.has_ttmps.then_some(place));
        if self.followers.is_empty() {
            let parts = (0..).zip(&self.parts).zip(lanes);
            self.followers.extend(parts.map(|((number, part), lanes)| {
                let ttmp = (rules.wave_ttmp)((number, launch.packet), launch.scratch.is_some());
                Follower::new((part.own.exec, lanes.1), part.own.hw_ids, ttmp)
            }));
        }
        Some(Following {
            followers: &self.followers,
            number,
            x,
            end,
            x_sgpr: self.ids[0],
            x_ttmp,
            wave_ttmp,
            ..Following::default()
        })
    }

    #[inline(never)]
    fn start_anew(&self, wave: &mut Wave, own: Option<&Own>, v0: &[u32; 64]) {
        wave.start_as(&self.start, own, v0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::gfx1100::GENERATION;
    use crate::chip::{gfx942, gfx1201};
    use crate::shader::launch::tests::launch;

    #[test]
    fn workgroups_follow_each_other_as_they_are_counted() {
        let launch = Launch { start: [1, 0, 1], ..launch() };
        let mut series = Series::default();
        let seat = WaveSeat { chip: &GENERATION, scratch_slot: None, hw_ids: [0; 2] };
        assert!(!series.has([0; 3]), "nothing has been made");
        series.make(&launch, &[(1, [0; 64])], |_| seat);
        let count = launch.workgroup_count().unwrap();
        let mut id = launch.workgroup_id(0);
        for index in 0..count {
            assert_eq!(id, launch.workgroup_id(index));
            assert_eq!(series.has(id), launch.extent(id) == launch.workgroup, "{id:?}");
            id = series.next(&launch, id);
        }
    }

    #[test]
    fn waves_start_as_they_do_one_by_one() {
        let launch = launch();
        let seat = WaveSeat { chip: &GENERATION, scratch_slot: None, hw_ids: [5, 7] };
        let mut series = Series::default();
        let ids = launch.lane_ids([33, 2, 1]);
        series.make(&launch, &ids, |_| seat);
        let (mut waves, mut other) = (Vec::new(), Wave::new(&belfry_isa::wave::WaveInit::default()));
        for number in 0..3 {
            let lanes = &ids[number as usize];
            launch.start_wave(&mut waves, [9, 8, 7], (number, 3), lanes, seat);
            series.start(&launch, &mut other, &[9, 8, 7], number, lanes, None);
            assert_eq!(other.save(), waves[number as usize].save(), "{number}");
        }
    }

    #[test]
    fn followers_are_what_waves_start_with() {
        let traps = Some(belfry_isa::trap::TrapHandler::default());
        for (chip, trap) in [
            (&GENERATION, None),
            (&GENERATION, traps),
            (&gfx1201::GENERATION, None),
            (&gfx942::GENERATION, traps),
        ] {
            let (grid, workgroup) = ([70, 12, 4], [16, 4, 2]);
            let launch = Launch { trap, grid, workgroup, workgroup_info_sgpr: false, ..launch() };
            let seats = |wave| WaveSeat { chip, scratch_slot: None, hw_ids: [wave + 5, 7] };
            let mut series = Series::default();
            let id = [2, 1, 1];
            let lanes = launch.lane_ids(launch.workgroup);
            series.make(&launch, &lanes, seats);
            let mut wave = Wave::new(&belfry_isa::wave::WaveInit::default());
            for number in 0..lanes.len() {
                series.start(&launch, &mut wave, &id, number as u32, &lanes[number], None);
                let following = series.following(&launch, &lanes, (id, number), 100).unwrap();
                let Following { followers, x, end, x_sgpr, x_ttmp, wave_ttmp, .. } = following;
                let follower = &followers[number];
                assert_eq!((followers.len(), following.number, x), (lanes.len(), number, id[0]));
                assert_eq!(end, launch.end(0).min(launch.grid[0] / launch.workgroup[0]));
                assert_eq!((follower.v0, follower.exec), (lanes[number].1, wave.exec()));
                assert_eq!(
                    follower.hw_ids,
                    [launch.queue_ids[0] | (number as u32 + 5), launch.queue_ids[1] | 7]
                );
                let ttmp = |place: u8| wave.sgpr(108 + place);
                assert_eq!(wave_ttmp.map(ttmp), launch.has_ttmps(chip).then_some(follower.ttmp));
                assert!(x_ttmp.is_none_or(|place| ttmp(place) == x), "{x_ttmp:?}");
                assert!(x_sgpr.is_none_or(|place| wave.sgpr(place as u8) == x), "{x_sgpr:?}");
                assert!(x_sgpr.is_some() || x_ttmp.is_some());
            }
            // The last one has none behind it.
            let last = ([series.whole[0].min(series.end[0]) - 1, 0, 0], lanes.len() - 1);
            assert!(series.following(&launch, &lanes, last, 100).is_none());
            assert!(series.following(&launch, &lanes, (id, lanes.len() - 1), 0).is_none());
            // What waves are told of their workgroup differs.
            let told = Launch { workgroup_info_sgpr: true, ..launch };
            series.forget();
            series.make(&told, &lanes, seats);
            assert!(series.following(&told, &lanes, (id, 0), 100).is_none());
        }
    }
}
