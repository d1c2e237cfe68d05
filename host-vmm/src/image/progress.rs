//! Progress of long steps: bars on a terminal, plain lines elsewhere; always on stderr.

use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where progress is shown.
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
            eprintln!("{text}");
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
        if self.plain && !self.silent {
            eprintln!("{title} ...");
        }
        Step { bar, plain: self.plain, silent: self.silent, title: title.to_owned() }
    }
}

impl Step {
    /// Sets how far the step is, in the unit it was started with.
    pub fn set(&self, position: u64) {
        self.bar.set_position(position);
    }

    /// Ends the step and leaves one line that says what came of it.
    pub fn done(self, outcome: &str) {
        let elapsed = self.bar.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        if self.silent {
            return;
        }
        let line = format!("{}: {outcome} ({elapsed:.1} s)", self.title);
        if self.plain {
            eprintln!("{line}");
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
