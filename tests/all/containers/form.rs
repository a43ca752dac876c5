//! What the files for containers say, as far as that can be told without Docker.

use std::path::Path;
use std::process::Command;

use crate::fleet::said;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_dockerfile_needs_nothing_of_buildkit_and_knows_every_target() {
    let text = read("Dockerfile");
    for word in ["--mount", "--chmod", "--link", "<<", "# syntax"] {
        assert!(!text.contains(word), "{word} needs BuildKit");
    }
    // Cargo wants a file for each target that Cargo.toml names, also for those that are not built: the names are read from there.
    let manifest = read("Cargo.toml");
    let script = text.split("$(sed -n '").nth(1).and_then(|rest| rest.split('\'').next());
    let found = Command::new("sed")
        .args(["-n", script.expect("a script for sed"), "Cargo.toml"])
        .current_dir(ROOT)
        .output()
        .expect("sed");
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    for kind in ["bench", "example"] {
        for part in manifest.split(&format!("[[{kind}]]\nname = \"")).skip(1) {
            let name = part.split('"').next().expect("a name");
            assert!(
                found.lines().any(|line| line == name),
                "Dockerfile does not stand in for {name}: {found}"
            );
        }
    }
    let version = format!("image.version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{version}");
    let compiler = text
        .split("FROM rust:")
        .nth(1)
        .and_then(|rest| rest.split('-').next())
        .expect("a compiler");
    let ci = read(".github/workflows/ci.yml");
    assert!(
        ci.contains(&format!("RUST: {compiler}.")),
        "another compiler than that of the workflows: {compiler}"
    );
}

#[test]
fn what_compose_mounts_is_there() {
    let text = read("compose.monitoring.yaml");
    let mounted: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- ./")?.split(':').next())
        .collect();
    assert!(mounted.len() >= 5, "{mounted:?}");
    for path in mounted {
        assert!(Path::new(ROOT).join(path).is_file(), "{path}");
    }
    // Where Grafana is told to look is where the file is put.
    let folder = "/var/lib/grafana/dashboards";
    assert!(
        read("contrib/grafana/dashboards.yml").contains(folder) && text.contains(&format!("grafana.json:{folder}/"))
    );
    assert!(read("contrib/grafana/datasources.yml").contains("http://prometheus:9090"));
    assert!(
        read("contrib/prometheus.yml").contains("/etc/prometheus/alerts.yml")
            && text.contains(":/etc/prometheus/alerts.yml:ro")
    );
    let metrics = text
        .split("QUEENRIGHT_METRICS: 0.0.0.0:")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let port = metrics.expect("a port");
    assert!(
        read("contrib/prometheus.yml").contains(&format!("port: {port}")),
        "{port}"
    );
}

/// What stands below such a line, up to the next line that is indented no further.
fn below<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(start));
    let deep = indent(lines.next().unwrap_or_else(|| panic!("{start} is not there")));
    lines
        .take_while(|line| line.trim().is_empty() || indent(line) > deep)
        .collect()
}

/// A service, and what it has in common with others.
fn service(text: &str, name: &str) -> String {
    let mut found = below(text, &format!("  {name}:"));
    let common = found.iter().find_map(|line| line.trim().strip_prefix("<<: *"));
    if let Some(common) = common {
        found.extend(below(text, &format!("x-{common}:")));
    }
    found.join("\n")
}

#[test]
fn every_service_of_compose_gains_no_rights_and_fills_no_disk_with_its_log() {
    for (file, names) in [
        ("compose.yaml", &["redis", "queenright", "dashboard"][..]),
        ("compose.monitoring.yaml", &["prometheus", "grafana"]),
    ] {
        let text = read(file);
        for name in names {
            let service = service(&text, name);
            assert!(service.contains("no-new-privileges:true"), "{name}: {service}");
            // The image of Redis starts as root, and becomes a user of its own.
            assert!(
                service.contains("cap_drop: [ALL]") || *name == "redis",
                "{name}: {service}"
            );
            let is_bounded = service.contains("max-size:") || service.contains("logging: *logging");
            assert!(is_bounded, "{name}: {service}");
        }
    }
}

#[test]
fn compose_understands_its_files() {
    for (program, first) in [("docker-compose", None), ("docker", Some("compose"))] {
        let compose = |words: &[&str]| {
            let mut command = Command::new(program);
            command.args(first).args(words).current_dir(ROOT);
            command
                .env("QUEENRIGHT_TOKEN", "a-token-for-the-tests")
                .env("GRAFANA_PASSWORD", "secret");
            command.output()
        };
        if !compose(&["version"]).is_ok_and(|output| output.status.success()) {
            continue;
        }
        for files in [
            &["-f", "compose.yaml"][..],
            &["-f", "compose.yaml", "-f", "compose.monitoring.yaml"],
        ] {
            let output = compose(&[files, &["config"]].concat()).expect("it ran before");
            assert!(
                output.status.success() && output.stderr.is_empty(),
                "{program}: {}",
                said(&output)
            );
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(text.contains("grafana"), files.len() > 2, "{text}");
        }
    }
}
