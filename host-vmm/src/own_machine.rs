//! Answers if Belfry's own machine is worth using here: KVM is there and complete, and runs a guest's kernel code
//! fast.

use belfry_image::{BootRecord, Cache};

use belfry_machine::KvmError;
use belfry_machine::probe::{self, SLOWEST, Speed};

/// The name of the answer's record.
const RECORD: &str = "kvm-speed";

/// Why KVM is not worth using.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// KVM does not make a machine.
    #[error(transparent)]
    NoMachine(#[from] KvmError),
    /// KVM emulates kernel code.
    #[error("{0} on this /dev/kvm, which has no hardware virtualisation under it")]
    Slow(Speed),
}

/// Measures the speed of KVM, once per boot of this computer; the error says why KVM is not worth using.
///
/// # Errors
///
/// No KVM, one that makes no machine, or a slow one.
pub fn usable(cache: &Cache) -> Result<Speed, Unusable> {
    probe::check()?;
    fast_enough(cache, probe::measure)
}

/// Returns the recorded speed, or the measured one, if it is not too slow.
fn fast_enough(cache: &Cache, measure: impl FnOnce() -> Result<Speed, KvmError>) -> Result<Speed, Unusable> {
    let record = BootRecord::new(cache, RECORD, "");
    let speed = match record.get() {
        Some(nanoseconds) => Speed { nanoseconds },
        None => {
            let speed = measure()?;
            record.set(speed.nanoseconds);
            speed
        }
    };
    if speed.nanoseconds <= SLOWEST { Ok(speed) } else { Err(Unusable::Slow(speed)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_measured_once_and_decides() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let fast = Speed { nanoseconds: 0.7 };
        let again = || panic!("measured again");
        assert_eq!(fast_enough(&cache, || Ok(fast)).unwrap(), fast);
        assert_eq!(fast_enough(&cache, again).unwrap(), fast);
        BootRecord::new(&cache, RECORD, "").set(562.0);
        let error = fast_enough(&cache, again).unwrap_err().to_string();
        assert!(error.contains("562.0 ns") && error.contains("no hardware virtualisation"), "{error}");
    }
}
