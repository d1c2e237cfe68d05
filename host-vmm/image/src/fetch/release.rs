//! The releases packages are taken from, each with the archive and the keys it belongs to.

use std::path::Path;

/// The suite of newer packages rebuilt for [`TRIXIE`].
pub const BACKPORTS: &str = "trixie-backports";
/// Path at which the package `debian-archive-keyring` installs Debian's archive keys.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Publisher of an archive of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Debian.
    Debian,
    /// Ubuntu.
    Ubuntu,
}

impl Distribution {
    /// The name, as the archive's `Origin` field has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debian => "Debian",
            Self::Ubuntu => "Ubuntu",
        }
    }

    /// The environment variable that names the archive on a machine whose apt does not.
    #[must_use]
    pub const fn mirror_variable(self) -> &'static str {
        match self {
            Self::Debian => "BELFRY_DEBIAN_MIRROR",
            Self::Ubuntu => "BELFRY_UBUNTU_MIRROR",
        }
    }

    /// Path at which the archive's keys are installed.
    #[must_use]
    pub fn keyring(self) -> &'static Path {
        Path::new(match self {
            Self::Debian => KEYRING,
            Self::Ubuntu => "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
        })
    }

    /// The package that installs [`Self::keyring`], in Debian and in Ubuntu alike.
    #[must_use]
    pub const fn keyring_package(self) -> &'static str {
        match self {
            Self::Debian => "debian-archive-keyring",
            Self::Ubuntu => "ubuntu-keyring",
        }
    }

    /// Suites by which the archive is known before its `Origin` is.
    pub(super) const fn suites(self) -> &'static [&'static str] {
        match self {
            Self::Debian => &[
                "bookworm",
                "trixie",
                "forky",
                "bullseye",
                "stable",
                "testing",
                "unstable",
                "sid",
                "oldstable",
            ],
            Self::Ubuntu => &["jammy", "noble", "plucky", "questing", "resolute"],
        }
    }
}

/// One release: its archive and its suites.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// Code name, which is the name of its main suite.
    pub codename: &'static str,
    /// Distribution whose release it is.
    pub distribution: Distribution,
    /// Text that is appended to the code name for each suite.
    pockets: &'static [&'static str],
    /// The release that it is an addition to. Packages of the addition are taken where they are pinned, or where nothing else will do.
    adds_to: Option<&'static str>,
}

/// Debian 13, the release every guest artifact comes from.
pub static TRIXIE: Release = Release {
    codename: "trixie",
    distribution: Distribution::Debian,
    pockets: &["", "-updates", "-backports"],
    adds_to: None,
};

const fn debian(
    codename: &'static str,
    pockets: &'static [&'static str],
    adds_to: Option<&'static str>,
) -> Release {
    Release { codename, distribution: Distribution::Debian, pockets, adds_to }
}

static RELEASES: [&Release; 5] = [
    &TRIXIE,
    &debian("bookworm", &["", "-updates"], None),
    &debian("sid", &[""], None),
    &debian("experimental", &[""], Some("sid")),
    &Release {
        codename: "noble",
        distribution: Distribution::Ubuntu,
        pockets: &["", "-updates"],
        adds_to: None,
    },
];

impl Release {
    /// The release with that code name, when it is one of those known here.
    #[must_use]
    pub fn named(codename: &str) -> Option<&'static Self> {
        RELEASES.iter().copied().find(|release| release.codename == codename)
    }

    /// Says whether it is an addition to another release, so that packages are taken from it by pins.
    #[must_use]
    pub const fn is_addition(&self) -> bool {
        self.adds_to.is_some()
    }

    /// Preferences of the private apt, as `apt_preferences(5)` has them: the pinned packages from this release, and all
    /// others from the release that it adds to. A pin is a package's name, or `src:` and its source's name.
    pub(super) fn preferences(&self, pins: &[String]) -> String {
        let entry = |packages: &str, priority: u32| {
            format!("Package: {packages}\nPin: release a={}\nPin-Priority: {priority}\n\n", self.codename)
        };
        let pinned = if pins.is_empty() { String::new() } else { entry(&pins.join(" "), 990) };
        pinned + &entry("*", 1)
    }

    /// The name of the private apt state and of its lock.
    #[must_use]
    pub fn state(&self) -> String {
        // The only release there once was has the bare name.
        if self.codename == TRIXIE.codename { "apt".to_owned() } else { format!("apt-{}", self.codename) }
    }

    /// The private apt's `sources.list`.
    pub(super) fn sources(&self, mirror: &str, keyring: &Path) -> String {
        let keyring = keyring.display();
        let own = self.pockets.iter().map(|pocket| format!("{}{pocket}", self.codename));
        own.chain(self.adds_to.map(str::to_owned))
            .map(|suite| format!("deb [signed-by={keyring} target=Packages] {mirror} {suite} main\n"))
            .collect()
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.distribution.name(), self.codename)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_name_every_suite_and_the_keys() {
        let sources = TRIXIE.sources("http://m.example/debian/", Path::new("/k.gpg"));
        let lines: Vec<&str> = sources.lines().collect();
        assert_eq!(lines[0], "deb [signed-by=/k.gpg target=Packages] http://m.example/debian/ trixie main");
        assert_eq!(lines.len(), 3);
        assert!(lines[2].ends_with(&format!(" {BACKPORTS} main")));
    }

    #[test]
    fn an_addition_has_the_suite_below_it_and_prefers_what_is_pinned() {
        let release = Release::named("experimental").unwrap();
        let sources = release.sources("http://m.example/debian/", Path::new("/k.gpg"));
        let suites: Vec<&str> =
            sources.lines().map(|line| line.split(' ').rev().nth(1).unwrap_or_default()).collect();
        assert_eq!(suites, ["experimental", "sid"]);
        let preferences = release.preferences(&["src:x".to_owned(), "y".to_owned()]);
        assert!(
            preferences.starts_with("Package: src:x y\nPin: release a=experimental\nPin-Priority: 990\n\n"),
            "{preferences}"
        );
        assert!(preferences.ends_with("Package: *\nPin: release a=experimental\nPin-Priority: 1\n\n"));
        assert!(!release.preferences(&[]).contains("990"));
    }

    #[test]
    fn states_of_releases_are_apart() {
        let states: std::collections::BTreeSet<String> =
            RELEASES.iter().map(|release| release.state()).collect();
        assert_eq!(states.len(), RELEASES.len());
        assert_eq!(Release::named("trixie"), Some(&TRIXIE));
        assert_eq!(Release::named("warty"), None);
    }
}
