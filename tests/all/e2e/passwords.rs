//! Passwords that do not last: from a file or a command, at each connect.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::fleet::{Fleet, PATIENCE, program, said, within};
use crate::server::RedisServer;

fn write(path: &Path, text: &str) {
    // As a secret is renewed: never half of it.
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).expect("written");
    std::fs::set_permissions(&beside, Permissions::from_mode(0o600)).expect("ours");
    std::fs::rename(&beside, path).expect("in its place");
}

/// Every server here speaks to us, too, so the password is that of a user of the nodes.
fn admit(server: &RedisServer, password: &str) {
    let rule = format!(">{password}");
    server
        .command(&["ACL", "SETUSER", "nodes", "reset", "on", &rule, "~*", "&*", "+@all"])
        .expect("admitted");
}

#[test]
fn a_password_that_changes_under_a_running_node_is_asked_for_anew() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let (secret, runs) = (directory.path().join("secret"), directory.path().join("runs"));
    admit(&server, "first-password");
    write(&secret, "first-password\n");
    let command = format!("sh -c 'echo run >> {}; cat {}'", runs.display(), secret.display());
    for way in [
        ["--password-file".to_string(), secret.display().to_string()],
        ["--password-command".to_string(), command],
    ] {
        admit(&server, "first-password");
        write(&secret, "first-password\n");
        let mut fleet = Fleet::on(&server)
            .copies(2)
            .args("--user nodes --interval 10ms --work 0")
            .arg(&way[0])
            .arg(&way[1])
            .start();
        fleet.wait_for_more("done", 3);
        // The server changes it first, and cuts everybody off; the secret follows a moment later.
        admit(&server, "second-password");
        server.command(&["CLIENT", "KILL", "USER", "nodes"]).expect("cut off");
        fleet.wait_for_more("away", 1);
        write(&secret, "second-password\n");
        fleet.wait_for_more("done", 3);
        fleet.nobody_exited_but(&[]);
    }
    let runs = std::fs::read_to_string(&runs).expect("it ran").lines().count();
    assert!(runs >= 4, "once for two copies before and after: {runs}");
}

#[test]
fn what_gives_no_password_is_said_in_one_line() {
    let server = RedisServer::start();
    admit(&server, "right-password");
    let directory = tempfile::tempdir().expect("a directory");
    let secret = directory.path().join("secret");
    write(&secret, "wrong-password");
    let file = secret.to_str().expect("a path");
    let open = directory.path().join("open");
    std::fs::write(&open, "right-password").expect("written");
    std::fs::set_permissions(&open, Permissions::from_mode(0o644)).expect("ours");
    let open = open.to_str().expect("a path");
    for (arguments, code, words) in [
        (vec!["--password-file", "/nonexistent"], 2, "--password-file"),
        (vec!["--password-file", open], 2, "chmod 600"),
        (
            vec!["--password-command", "no-such-program-here"],
            2,
            "no-such-program-here",
        ),
        (vec!["--password-command", "false"], 69, "--password-command"),
        (
            vec!["--password-command", "sh -c 'echo no token today >&2; exit 3'"],
            69,
            "no token today",
        ),
        (vec!["--password-command", "printf 'a\nb'"], 69, "one line"),
        (vec!["--password-file", file], 1, "check the user and password"),
        (
            vec!["--password-file", file, "--password-command", "true"],
            2,
            "--password-command",
        ),
        (vec!["--password-file", file, "--pass", "x"], 2, "--password-file"),
    ] {
        let mut command = program();
        command
            .args(["status", "--url", &server.url(), "--user", "nodes"])
            .args(&arguments);
        let output = command.output().expect("the program starts");
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(
            line.contains(words) && line.lines().count() == 1,
            "{arguments:?}: {line}"
        );
        assert!(!line.contains("-password\""), "{line}");
    }
    let found = within(PATIENCE, || {
        write(&secret, "right-password");
        let mut command = program();
        command.args([
            "push",
            "--url",
            &server.url(),
            "--user",
            "nodes",
            "--password-file",
            file,
            "x",
        ]);
        let output = command.output().expect("the program starts");
        output.status.success().then_some(())
    });
    assert!(found.is_some());
}
