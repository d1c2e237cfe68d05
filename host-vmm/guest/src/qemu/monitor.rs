//! QEMU's monitor, in its machine protocol (QMP): asks if the machine sleeps, and wakes it up.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// Time limit of an answer of QEMU; its main loop does nothing that takes a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a monitor, which serves one connection at a time.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: BufReader<UnixStream>,
}

impl Monitor {
    /// Connects to the monitor whose socket is at `path`.
    ///
    /// # Errors
    ///
    /// No program that speaks QMP is at the path.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        Self::over(UnixStream::connect(path)?)
    }

    fn over(stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut monitor = Self { stream: BufReader::new(stream) };
        let greeting = monitor.receive()?;
        if greeting.get("QMP").is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, format!("no QMP: {greeting}")));
        }
        monitor.execute("qmp_capabilities")?;
        Ok(monitor)
    }

    /// Wakes the machine up if it sleeps (S3); returns true if it did.
    ///
    /// # Errors
    ///
    /// A monitor that is gone or refuses.
    pub(super) fn wake(&mut self) -> io::Result<bool> {
        let asleep = self.execute("query-status")?["status"] == "suspended";
        if asleep {
            self.execute("system_wakeup")?;
        }
        Ok(asleep)
    }

    fn execute(&mut self, command: &str) -> io::Result<Value> {
        let line = format!("{}\n", json!({ "execute": command }));
        self.stream.get_mut().write_all(line.as_bytes())?;
        loop {
            let mut answer = self.receive()?;
            if let Some(answer) = answer.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = answer.get("error") {
                return Err(io::Error::other(format!("{command}: {error}")));
            }
            // This is an event and no answer.
        }
    }

    fn receive(&mut self) -> io::Result<Value> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;
    const EVENT: &str = r#"{"timestamp": {}, "event": "SUSPEND"}"#;
    const DONE: &str = r#"{"return": {}}"#;

    /// Returns the result of [`Monitor::wake`] if QEMU says this in this order, and the requests that QEMU got.
    fn woken(says: &[&str]) -> (io::Result<bool>, Vec<String>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all((says.join("\n") + "\n").as_bytes()).unwrap();
        let woken = Monitor::over(ours).and_then(|mut monitor| monitor.wake());
        let asked = BufReader::new(theirs).lines().map(|line| {
            let asked: Value = serde_json::from_str(&line.unwrap()).unwrap();
            asked["execute"].as_str().unwrap().to_owned()
        });
        (woken, asked.collect())
    }

    #[test]
    fn machine_that_sleeps_is_woken_up() {
        let asleep = r#"{"return": {"status": "suspended", "running": false}}"#;
        let (woken, asked) = woken(&[GREETING, DONE, EVENT, asleep, EVENT, DONE]);
        assert!(woken.unwrap());
        assert_eq!(asked, ["qmp_capabilities", "query-status", "system_wakeup"]);
    }

    #[test]
    fn machine_that_runs_is_left_alone() {
        let (woken, asked) = woken(&[GREETING, DONE, r#"{"return": {"status": "running"}}"#]);
        assert!(!woken.unwrap());
        assert_eq!(asked, ["qmp_capabilities", "query-status"]);
    }

    #[test]
    fn refusals_are_told() {
        let refusal = r#"{"error": {"class": "GenericError", "desc": "not now"}}"#;
        let (woken, _) = woken(&[GREETING, DONE, refusal]);
        assert!(woken.unwrap_err().to_string().contains("not now"));
    }
}
