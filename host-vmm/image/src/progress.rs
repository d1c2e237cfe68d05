//! Progress of long steps: bars on a terminal, plain lines elsewhere; always on stderr.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Display of progress.
#[derive(Debug, Clone)]
pub struct Progress {
    bars: MultiProgress,
    plain: bool,
    silent: bool,
}

/// One step under way; dropping it without [`Step::done`] removes its bar.
#[derive(Debug)]
pub struct Step {
    bar: ProgressBar,
    plain: bool,
    silent: bool,
    title: String,
    /// Announces the step once it has taken a second, if there are no bars.
    announcement: Option<Sender<()>>,
}

/// Steps shorter than this are not worth a line.
const NOTABLE: Duration = Duration::from_secs(1);

/// Writes a line to standard error; where that cannot be written, progress is not shown.
fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Bars when stderr is a terminal, lines otherwise.
    #[must_use]
    pub fn new() -> Self {
        use std::io::IsTerminal as _;
        Self { bars: MultiProgress::new(), plain: !std::io::stderr().is_terminal(), silent: false }
    }

    /// Shows nothing; for tests.
    #[must_use]
    pub fn silent() -> Self {
        Self {
            bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()),
            plain: true,
            silent: true,
        }
    }

    /// Says one line above the bars.
    pub fn line(&self, text: &str) {
        if self.silent {
            return;
        }
        if self.plain || self.bars.println(text).is_err() {
            note(text);
        }
    }

    /// Starts a step without a known length.
    #[must_use]
    pub fn spinner(&self, title: &str) -> Step {
        let bar = self.bars.add(ProgressBar::new_spinner());
        bar.set_style(
            ProgressStyle::with_template("{spinner} {msg} [{elapsed}]")
                .unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        bar.enable_steady_tick(Duration::from_millis(120));
        self.start(bar, title)
    }

    /// Starts a step that counts `total` bytes.
    #[must_use]
    pub fn bytes(&self, title: &str, total: u64) -> Step {
        let bar = self.bars.add(ProgressBar::new(total));
        bar.set_style(
            ProgressStyle::with_template(
                "{spinner} {msg} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} eta {eta}",
            )
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        self.start(bar, title)
    }

    /// Starts a step that counts `total` things.
    #[must_use]
    pub fn count(&self, title: &str, total: u64) -> Step {
        let bar = self.bars.add(ProgressBar::new(total));
        bar.set_style(
            ProgressStyle::with_template("{spinner} {msg} {bar:30} {pos}/{len}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        self.start(bar, title)
    }

    fn start(&self, bar: ProgressBar, title: &str) -> Step {
        bar.set_message(title.to_owned());
        let announcement = (self.plain && !self.silent).then(|| {
            let (sender, receiver) = channel();
            let title = title.to_owned();
            std::thread::spawn(move || {
                if receiver.recv_timeout(NOTABLE) == Err(RecvTimeoutError::Timeout) {
                    note(&format!("{title} ..."));
                }
            });
            sender
        });
        Step { bar, plain: self.plain, silent: self.silent, title: title.to_owned(), announcement }
    }
}

impl Step {
    /// Sets the position of the step, in the unit it was started with.
    pub fn set(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Ends the step; one that took long leaves a line with its outcome.
    pub fn done(mut self, outcome: &str) {
        drop(self.announcement.take());
        let elapsed = self.bar.elapsed();
        self.bar.finish_and_clear();
        if self.silent || elapsed < NOTABLE {
            return;
        }
        let line = format!("{}: {outcome} ({:.1} s)", self.title, elapsed.as_secs_f64());
        if self.plain {
            note(&line);
        } else {
            self.bar.println(line);
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
