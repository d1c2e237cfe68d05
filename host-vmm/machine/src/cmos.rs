//! The clock of a PC, an MC146818: the host's time of day in UTC, and 114 bytes of memory.
//!
//! Motorola MC146818 data sheet; as in Linux `include/linux/mc146818rtc.h`. It has no interrupts.

use belfry_snapshot::SavedCmos;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Index and data.
pub(super) const INDEX: u16 = 0x70;
pub(super) const DATA: u16 = 0x71;
/// Register of the century, as on the PC/AT's successors.
pub(super) const CENTURY: u8 = 0x32;

const SECONDS: u8 = 0;
const MINUTES: u8 = 2;
const HOURS: u8 = 4;
const WEEKDAY: u8 = 6;
const DAY: u8 = 7;
const MONTH: u8 = 8;
const YEAR: u8 = 9;
const STATUS_A: u8 = 0xa;
const STATUS_B: u8 = 0xb;
const STATUS_C: u8 = 0xc;
const STATUS_D: u8 = 0xd;

/// A: the registers are about to change. B: they stand still; they hold binary numbers; they count 24 hours. D: the
/// battery is good.
const UPDATE_IN_PROGRESS: u8 = 1 << 7;
const SET: u8 = 1 << 7;
const BINARY: u8 = 1 << 2;
const HOURS_24: u8 = 1 << 1;
const VALID: u8 = 1 << 7;
const PM: u8 = 1 << 7;
/// Nanoseconds before the second for which UPDATE_IN_PROGRESS is set.
const UPDATE_NS: i32 = 244_000;

/// The clock.
#[derive(Debug)]
pub(super) struct Cmos {
    index: u8,
    memory: [u8; 128],
    /// Difference of the guest's time from the host's; positive if the guest is ahead.
    ahead: SignedDuration,
    /// The time at which the clock stands, if it is stopped.
    still: Option<DateTime>,
}

impl Cmos {
    pub(super) fn new() -> Self {
        let mut memory = [0; 128];
        // 32.768 kHz, and the rate that a BIOS sets.
        memory[usize::from(STATUS_A)] = 0x26;
        memory[usize::from(STATUS_B)] = HOURS_24;
        Self { index: 0, memory, ahead: SignedDuration::ZERO, still: None }
    }

    /// Returns the state of the clock, as [`Self::restored`] takes it.
    pub(super) fn save(&self) -> SavedCmos {
        let standing = self.still.and_then(|still| still.to_zoned(TimeZone::UTC).ok());
        SavedCmos {
            index: self.index,
            memory: self.memory.to_vec(),
            ahead: self.ahead.as_nanos(),
            still: standing.map(|time| time.timestamp().as_nanosecond()),
        }
    }

    /// Makes a clock from its saved state, as far ahead of the host's as it was; times that do not exist are replaced
    /// by the host's.
    pub(super) fn restored(saved: &SavedCmos) -> Self {
        let mut clock = Self::new();
        clock.index = saved.index & 0x7f;
        for (byte, &saved) in clock.memory.iter_mut().zip(&saved.memory) {
            *byte = saved;
        }
        clock.memory[usize::from(STATUS_A)] &= !UPDATE_IN_PROGRESS;
        let nanoseconds = |ahead: i128| {
            let seconds = i64::try_from(ahead.div_euclid(1_000_000_000)).ok()?;
            Some(SignedDuration::new(seconds, ahead.rem_euclid(1_000_000_000) as i32))
        };
        clock.ahead = nanoseconds(saved.ahead).unwrap_or(SignedDuration::ZERO);
        let still = saved.still.and_then(|at| Timestamp::from_nanosecond(at).ok());
        clock.still = still.map(|at| at.to_zoned(TimeZone::UTC).datetime());
        clock
    }

    pub(super) fn read(&self, port: u16) -> u8 {
        self.read_at(port, Timestamp::now())
    }

    pub(super) fn write(&mut self, port: u16, value: u8) {
        self.write_at(port, value, Timestamp::now());
    }

    fn time(&self, now: Timestamp) -> DateTime {
        let running = || now.saturating_add(self.ahead).unwrap_or(now).to_zoned(TimeZone::UTC).datetime();
        self.still.unwrap_or_else(running)
    }

    fn read_at(&self, port: u16, now: Timestamp) -> u8 {
        if port == INDEX {
            return 0xff; // It is write-only.
        }
        let time = self.time(now);
        let number = |value: i8| self.encode(value as u8);
        match self.index {
            SECONDS => number(time.second()),
            MINUTES => number(time.minute()),
            HOURS => self.encode_hour(time.hour() as u8),
            WEEKDAY => number(time.weekday().to_sunday_one_offset()),
            DAY => number(time.day()),
            MONTH => number(time.month()),
            YEAR => self.encode((time.year() % 100) as u8),
            CENTURY => self.encode((time.year() / 100) as u8),
            STATUS_A => {
                let soon = self.still.is_none() && time.subsec_nanosecond() >= 1_000_000_000 - UPDATE_NS;
                self.memory[usize::from(STATUS_A)] | if soon { UPDATE_IN_PROGRESS } else { 0 }
            }
            STATUS_C => 0,
            STATUS_D => VALID,
            index => self.memory[usize::from(index)],
        }
    }

    fn write_at(&mut self, port: u16, value: u8, now: Timestamp) {
        if port == INDEX {
            // Bit 7 masks the NMI, which has no source here.
            self.index = value & 0x7f;
            return;
        }
        match self.index {
            SECONDS | MINUTES | HOURS | DAY | MONTH | YEAR | CENTURY => self.set(value, now),
            STATUS_A => self.memory[usize::from(STATUS_A)] = value & !UPDATE_IN_PROGRESS,
            STATUS_B => {
                let time = self.time(now);
                self.memory[usize::from(STATUS_B)] = value;
                if value & SET != 0 {
                    self.still = Some(time);
                } else if self.still.take().is_some() {
                    self.go_on(time, now);
                }
            }
            // The weekday follows from the date.
            WEEKDAY | STATUS_C | STATUS_D => {}
            index => self.memory[usize::from(index)] = value,
        }
    }

    /// Sets a part of the time, if the resulting time exists.
    fn set(&mut self, value: u8, now: Timestamp) {
        let time = self.time(now);
        let Ok(number) = i8::try_from(self.decode(value)) else { return };
        let with = time.with();
        let year = i16::from(number);
        let changed = match self.index {
            SECONDS => with.second(number),
            MINUTES => with.minute(number),
            HOURS => with.hour(self.decode_hour(value)),
            DAY => with.day(number),
            MONTH => with.month(number),
            YEAR => with.year(time.year() / 100 * 100 + year),
            _ => with.year(time.year() % 100 + year * 100),
        };
        match changed.build() {
            Ok(changed) if self.still.is_some() => self.still = Some(changed),
            Ok(changed) => self.go_on(changed, now),
            Err(error) => log::debug!(target: "kvm", "the clock is not set: {error}"),
        }
    }

    fn go_on(&mut self, from: DateTime, now: Timestamp) {
        if let Ok(from) = from.to_zoned(TimeZone::UTC) {
            self.ahead = from.timestamp().duration_since(now);
        }
    }

    fn mode(&self, bit: u8) -> bool {
        self.memory[usize::from(STATUS_B)] & bit != 0
    }

    fn encode(&self, value: u8) -> u8 {
        if self.mode(BINARY) { value } else { (value / 10) << 4 | (value % 10) }
    }

    fn decode(&self, value: u8) -> u8 {
        if self.mode(BINARY) { value } else { (value >> 4) * 10 + (value & 0xf) }
    }

    fn encode_hour(&self, hour: u8) -> u8 {
        if self.mode(HOURS_24) {
            return self.encode(hour);
        }
        let half = if hour >= 12 { PM } else { 0 };
        self.encode((hour + 11) % 12 + 1) | half
    }

    fn decode_hour(&self, value: u8) -> i8 {
        let hour = if self.mode(HOURS_24) {
            self.decode(value)
        } else {
            self.decode(value & !PM) % 12 + if value & PM != 0 { 12 } else { 0 }
        };
        i8::try_from(hour).unwrap_or(i8::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn get(cmos: &mut Cmos, index: u8, now: Timestamp) -> u8 {
        cmos.write_at(INDEX, index, now);
        cmos.read_at(DATA, now)
    }

    fn put(cmos: &mut Cmos, index: u8, value: u8, now: Timestamp) {
        cmos.write_at(INDEX, index, now);
        cmos.write_at(DATA, value, now);
    }

    fn all(cmos: &mut Cmos, now: Timestamp) -> [u8; 8] {
        [CENTURY, YEAR, MONTH, DAY, HOURS, MINUTES, SECONDS, WEEKDAY].map(|index| get(cmos, index, now))
    }

    #[test]
    fn time_is_told_in_every_format() {
        let (mut cmos, now) = (Cmos::new(), at("2026-11-21T13:04:59Z"));
        assert_eq!(all(&mut cmos, now), [0x20, 0x26, 0x11, 0x21, 0x13, 0x04, 0x59, 0x07]);
        put(&mut cmos, STATUS_B, BINARY | HOURS_24, now);
        assert_eq!(all(&mut cmos, now), [20, 26, 11, 21, 13, 4, 59, 7]);
        put(&mut cmos, STATUS_B, 0, now);
        assert_eq!(get(&mut cmos, HOURS, now), 0x81);
        for (time, hour) in [("00", 0x12), ("01", 0x01), ("11", 0x11), ("12", 0x92), ("23", 0x91)] {
            let now = at(&format!("2026-11-21T{time}:00:00Z"));
            assert_eq!(get(&mut cmos, HOURS, now), hour, "{time}");
        }
    }

    #[test]
    fn update_is_announced_right_before_the_second_only() {
        let mut cmos = Cmos::new();
        for (time, soon) in [("59.0", false), ("59.999", false), ("59.9998", true), ("59.999999999", true)] {
            let now = at(&format!("2026-11-21T13:04:{time}Z"));
            assert_eq!(get(&mut cmos, STATUS_A, now) & UPDATE_IN_PROGRESS != 0, soon, "{time}");
        }
    }

    #[test]
    fn clock_that_was_saved_tells_the_same_time() {
        let (mut cmos, now) = (Cmos::new(), at("2026-11-21T13:04:59Z"));
        put(&mut cmos, 0x40, 7, now);
        put(&mut cmos, YEAR, 0x31, now);
        let mut again = Cmos::restored(&cmos.save());
        assert_eq!((all(&mut again, now), get(&mut again, 0x40, now)), (all(&mut cmos, now), 7));
        put(&mut cmos, STATUS_B, SET | HOURS_24, now);
        let later = now.saturating_add(SignedDuration::from_secs(100)).unwrap();
        let mut again = Cmos::restored(&cmos.save());
        assert_eq!(all(&mut again, later), all(&mut cmos, later), "it stands still");
        // Times that do not exist.
        let odd = SavedCmos { ahead: i128::MAX, still: Some(i128::MIN), ..cmos.save() };
        all(&mut Cmos::restored(&odd), now);
    }

    #[test]
    fn time_that_is_set_goes_on_from_there() {
        let (mut cmos, now) = (Cmos::new(), at("2026-11-21T13:04:59Z"));
        put(&mut cmos, STATUS_B, SET | HOURS_24, now);
        for (index, value) in [(CENTURY, 0x19), (YEAR, 0x99), (MONTH, 0x12), (DAY, 0x31), (HOURS, 0x23)] {
            put(&mut cmos, index, value, now);
        }
        let later = now.saturating_add(SignedDuration::from_secs(100)).unwrap();
        assert_eq!(all(&mut cmos, later)[..5], [0x19, 0x99, 0x12, 0x31, 0x23], "it stands still");
        put(&mut cmos, STATUS_B, HOURS_24, later);
        let more = later.saturating_add(SignedDuration::from_secs(3600)).unwrap();
        assert_eq!(all(&mut cmos, more)[..6], [0x20, 0x00, 0x01, 0x01, 0x00, 0x04]);
    }

    #[test]
    fn times_that_are_none_are_not_set() {
        let (mut cmos, now) = (Cmos::new(), at("2026-02-21T13:04:59Z"));
        let before = all(&mut cmos, now);
        for (index, value) in
            [(SECONDS, 0x60), (HOURS, 0x24), (DAY, 0x30), (DAY, 0), (MONTH, 0x13), (YEAR, 0xff)]
        {
            put(&mut cmos, index, value, now);
        }
        put(&mut cmos, WEEKDAY, 3, now);
        assert_eq!(all(&mut cmos, now), before);
    }

    #[test]
    fn memory_is_kept_and_status_is_not_writable() {
        let (mut cmos, now) = (Cmos::new(), at("2026-11-21T13:04:59Z"));
        for index in 0..=u8::MAX {
            put(&mut cmos, index, 0xa5, now);
        }
        assert_eq!(get(&mut cmos, 0x0f, now), 0xa5);
        assert_eq!(get(&mut cmos, STATUS_C, now), 0);
        assert_eq!(get(&mut cmos, STATUS_D, now), VALID);
        assert_eq!(get(&mut cmos, STATUS_A, now) & UPDATE_IN_PROGRESS, 0);
    }
}
