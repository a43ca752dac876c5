//! What `--version` says, so that a report of a bug can name what ran.

use std::sync::LazyLock;

/// Set by whoever builds a release or a package: a build script could ask git, but there is none.
const COMMIT: Option<&str> = option_env!("QUEENRIGHT_COMMIT");

const FEATURES: [(&str, bool); 7] = [
    ("cli", cfg!(feature = "cli")),
    ("cron", cfg!(feature = "cron")),
    ("otel", cfg!(feature = "otel")),
    ("serde", cfg!(feature = "serde")),
    ("sqlite", cfg!(feature = "sqlite")),
    ("tls", cfg!(feature = "tls")),
    ("mutants", cfg!(feature = "mutants")),
];

/// The version, the commit if the build was told of one, the features, and the platform.
pub(super) static LONG: LazyLock<String> = LazyLock::new(|| long(COMMIT));

fn long(commit: Option<&str>) -> String {
    let commit = commit.filter(|commit| !commit.is_empty());
    let commit = commit.map_or(String::new(), |commit| format!(" (commit {commit})"));
    let features: Vec<&str> = FEATURES
        .iter()
        .filter(|(_, is_on)| *is_on)
        .map(|(name, _)| *name)
        .collect();
    format!(
        "{}{commit}\nfeatures: {}\nplatform: {} {}",
        env!("CARGO_PKG_VERSION"),
        features.join(" "),
        std::env::consts::OS,
        std::env::consts::ARCH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_is_told_if_the_build_knew_it() {
        let version = env!("CARGO_PKG_VERSION");
        assert!(long(Some("1234567")).starts_with(&format!("{version} (commit 1234567)\nfeatures: cli cron")));
        for unknown in [None, Some("")] {
            assert!(long(unknown).starts_with(&format!("{version}\nfeatures: ")));
        }
    }
}
