//! Findings of trials, and the key that those of one cause share.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Event that no fault may cause.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Finding {
    /// The program did not end.
    Hang,
    /// The child died, with the end of what it wrote to its standard error.
    Died(String),
    /// A thread panicked.
    Panic(String),
    /// The guest's kernel panicked, or complained of a mistake in it or in a driver.
    Kernel(String),
    /// The program's result is wrong, and no fault explains that.
    WrongResult(String),
    /// The program ended with an error, although all faults that have struck are harmless to programs.
    Unexplained(String),
    /// Something was not given back.
    Leak(String),
    /// This device and this driver do not work afterwards.
    Broken(String),
}

impl Finding {
    /// Returns its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Hang => "hang",
            Self::Died(_) => "died",
            Self::Panic(_) => "panic",
            Self::Kernel(_) => "kernel",
            Self::WrongResult(_) => "wrong result",
            Self::Unexplained(_) => "error without a reason",
            Self::Leak(_) => "leak",
            Self::Broken(_) => "does not work afterwards",
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Hang => "",
            Self::Died(text)
            | Self::Panic(text)
            | Self::Kernel(text)
            | Self::WrongResult(text)
            | Self::Unexplained(text)
            | Self::Leak(text)
            | Self::Broken(text) => text,
        }
    }

    /// Returns a key that is equal for all findings of one cause: numbers in their texts make no difference.
    #[must_use]
    pub fn signature(&self) -> String {
        format!("{}: {}", self.kind(), without_numbers(self.text()))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            "" => f.write_str(self.kind()),
            text => write!(f, "{}: {text}", self.kind()),
        }
    }
}

/// Returns a text in which each number is `N`, cut to a bounded length.
pub(crate) fn without_numbers(text: &str) -> String {
    const MOST: usize = 160;
    let mut short = String::new();
    let mut inside = false;
    for c in text.lines().next().unwrap_or("").chars() {
        let number = c.is_ascii_digit() || (inside && (c.is_ascii_hexdigit() || c == 'x' || c == '.'));
        if number && !inside {
            short.push('N');
        }
        if !number {
            short.push(c);
        }
        inside = number;
        if short.len() >= MOST {
            break;
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_leave_numbers_out() {
        let finding = |text: &str| Finding::Leak(text.to_owned()).signature();
        assert_eq!(finding("4096 bytes at 0x7f00a: x"), finding("8192 bytes at 0x8: x"));
        assert_ne!(finding("4096 bytes"), finding("4096 threads"));
        assert_ne!(Finding::Hang.signature(), finding(""));
    }
}
