//! Facts about this computer that hold until it boots again.

use std::fs;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::cache::{Cache, write_atomically};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The file of one answer.
#[derive(Debug)]
pub struct BootRecord {
    path: PathBuf,
    boot: String,
    about: String,
}

#[derive(Deserialize, Serialize)]
struct Content<T> {
    boot: String,
    about: String,
    answer: T,
}

impl BootRecord {
    /// The record called `name`, whose answer is about one thing: a program and its version, for example.
    pub fn new(cache: &Cache, name: &str, about: &str) -> Self {
        let boot = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        Self { path: cache.root().join(format!("{name}.json")), boot, about: about.to_owned() }
    }

    /// The answer, if one was found during this boot.
    pub fn get<T: DeserializeOwned>(&self) -> Option<T> {
        let content: Content<T> = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        let holds = !self.boot.is_empty() && content.boot == self.boot && content.about == self.about;
        holds.then_some(content.answer)
    }

    /// Keeps an answer; one that cannot be kept is found again.
    pub fn set<T: Serialize>(&self, answer: T) {
        let content = Content { boot: self.boot.clone(), about: self.about.clone(), answer };
        let kept = serde_json::to_vec(&content).map_err(Into::into);
        if let Err(error) = kept.and_then(|content| write_atomically(&self.path, &content)) {
            log::debug!(target: "cache", "{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_hold_for_one_thing_and_one_boot() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path()).unwrap();
        let record = |about| BootRecord::new(&cache, "speed", about);
        assert_eq!(record("x 1").get::<f64>(), None);
        record("x 1").set(0.5);
        assert_eq!(record("x 1").get(), Some(0.5));
        assert_eq!(record("x 2").get::<f64>(), None, "of something else");
        assert_eq!(record("x 1").get::<String>(), None, "an answer of another kind");
        for boot in ["another", ""] {
            let other = BootRecord { boot: boot.into(), ..record("x 1") };
            assert_eq!(other.get::<f64>(), None, "in boot {boot:?}");
        }
        // Where a boot cannot be told from the next, nothing is kept.
        let nameless = BootRecord { boot: String::new(), ..record("x 1") };
        nameless.set(0.5);
        assert_eq!(nameless.get::<f64>(), None);
        fs::write(cache.root().join("speed.json"), b"{broken").unwrap();
        assert_eq!(record("x 1").get::<f64>(), None);
    }
}
