//! What packages carry beside the program: completions for shells, and man pages.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::fleet::{Fleet, PATIENCE, PROGRAM, bare, left_out, program, said, within};
use crate::server::RedisServer;

fn printed(args: &[&str]) -> String {
    let output = program().args(args).output().expect("the program starts");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok()
}

/// A shell that finds the program by its name.
fn shell(name: &str) -> Command {
    let mut path = Path::new(PROGRAM).parent().expect("a directory").as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut command = bare(Command::new(name));
    command.env("PATH", path);
    command
}

/// What a real bash offers when Tab is pressed after these words, of which the last is the one to be completed.
fn offered(words: &[&str]) -> Vec<String> {
    let (last, before) = words.split_last().expect("the program's name at least");
    let script = r#"
        source <("$0" completions bash)
        [[ "$(complete -p queenright)" =~ -F\ (_queenright[a-z_]*) ]] || exit 3
        last=$1 before=$2; shift 2
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=$((${#COMP_LINE}))
        ${BASH_REMATCH[1]} queenright "$last" "$before"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = shell("bash")
        .args(["--norc", "-c", script, PROGRAM, last, before.last().expect("two words")])
        .args(words)
        .output()
        .expect("bash runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    text.split_whitespace().map(String::from).collect()
}

#[test]
fn bash_completes_commands_flags_and_choices() {
    let commands = offered(&["queenright", ""]);
    for command in ["start", "status", "errors", "get-errors", "completions"] {
        assert!(commands.iter().any(|word| word == command), "{command}: {commands:?}");
    }
    for hidden in ["watch-children", "bench-node", "bench-hot", "offer"] {
        assert!(!commands.iter().any(|word| word == hidden), "{hidden} is hidden");
    }
    assert_eq!(offered(&["queenright", "hand"]), ["handover"]);
    assert_eq!(offered(&["queenright", "errors", "req"]), ["requeue"]);
    assert_eq!(offered(&["queenright", "start", "--max-b"]), ["--max-backlog"]);
    assert_eq!(offered(&["queenright", "status", "--que"]), ["--queue"]);
    assert_eq!(offered(&["queenright", "--log", "j"]), ["json"]);
    assert_eq!(
        offered(&["queenright", "start", "--prefer", ""]),
        ["generator", "either", "handler", "never"]
    );
    assert_eq!(offered(&["queenright", "completions", "z"]), ["zsh"]);
}

/// What a real fish offers for this line.
fn offered_by_fish(line: &str) -> Vec<String> {
    let script = "queenright completions fish | source; complete -C $argv[1]";
    let mut fish = shell("fish");
    let output = fish.args(["-c", script, line]).output().expect("fish runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(String::from).collect()
}

#[test]
fn names_of_queues_and_nodes_are_completed() {
    let server = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let fleet = Fleet::on(&server).queue("jobs").copies(2).start_led();
    let directory = tempfile::tempdir().expect("a directory");
    let trap = directory.path().join("trap");
    for queue in ["mails", "two words", &format!("$(touch {})", trap.display())] {
        let pushed = program().args(["push", "x", "--url", &url, "-q", queue]).output();
        assert!(pushed.expect("starts").status.success(), "{queue}");
    }
    // A busy machine may need longer than the time that a Tab has: press it again.
    let until = |want: &[&str], look: &dyn Fn() -> Vec<String>| {
        let mut seen = Vec::new();
        let same = within(PATIENCE, || {
            seen = look();
            (seen == want).then_some(())
        });
        assert!(same.is_some(), "{seen:?} instead of {want:?}");
    };
    let other = fleet.node(1);
    let at = ["queenright", "--url", &url];
    let bash = |rest: &[&str]| offered(&[&at, rest].concat());
    until(&["jobs", "mails"], &|| bash(&["status", "-q", ""]));
    until(&["jobs", "mails"], &|| bash(&["errors", "--queue", ""]));
    until(&["mails"], &|| bash(&["errors", "requeue", "--queue", "m"]));
    until(&[&other], &|| bash(&["-q", "jobs", "handover", ""]));
    assert!(!trap.exists(), "the name of a queue was run");
    let marks = format!("touch {}", trap.display());
    let line = ["--url", &url, "--password-command", &marks, "status", "-q", ""];
    assert_eq!(printed(&[&["offer", "--"][..], &line].concat()), "");
    assert!(!trap.exists(), "a command was run for a line that nobody has sent off");
    let nowhere = "redis://127.0.0.1:1";
    assert!(offered(&["queenright", "--url", nowhere, "status", "-q", ""]).is_empty());
    if is_there("fish") {
        until(&["jobs", "mails"], &|| {
            offered_by_fish(&format!("queenright --url {url} status -q "))
        });
        until(&[&other], &|| {
            offered_by_fish(&format!("queenright --url {url} -q jobs handover "))
        });
        assert!(offered_by_fish(&format!("queenright --url {nowhere} status -q ")).is_empty());
    } else {
        left_out("names that fish completes", "there is no fish");
    }
}

/// What is wrong here, `zsh -n` does not see: zsh finds it when somebody presses Tab.
#[test]
fn zsh_is_told_what_completes_names_and_of_no_value_that_ends_its_quotes() {
    let script = printed(&["completions", "zsh"]);
    for begin in ["'-q+[", "'--queue=[", "'::node -- "] {
        let mut lines = script.lines().filter(|line| line.starts_with(begin)).peekable();
        assert!(lines.peek().is_some(), "{begin}");
        assert!(lines.all(|line| line.contains(":_queenright_name'")), "{begin}");
    }
    assert!(
        script.contains("queenright_words=("),
        "the words before the command are lost"
    );
    for line in script.lines().filter(|line| line.starts_with("'--")) {
        let quotes = line.replace("'\\''", "").matches('\'').count();
        assert_eq!(quotes, 2, "{line}");
    }
}

#[test]
fn every_shell_gets_its_completions_and_can_read_them() {
    for (shell, says) in [
        ("bash", "complete -F _queenright"),
        ("zsh", "#compdef queenright"),
        ("fish", "complete -c queenright"),
        ("elvish", "edit:completion:arg-completer[queenright]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = printed(&["completions", shell]);
        assert!(script.contains(says), "{shell}: {says:?} is missing");
        assert!(!script.contains("watch-children"), "{shell} is told of what is hidden");
        let reads = match shell {
            "fish" => "--no-execute",
            "bash" | "zsh" => "-n",
            _ => continue,
        };
        if !is_there(shell) {
            left_out("completions", &format!("there is no {shell}"));
            continue;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("completions");
        std::fs::write(&path, script).expect("written");
        let output = Command::new(shell).arg(reads).arg(&path).output().expect("it runs");
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{shell}: {}",
            said(&output)
        );
    }
}

/// As lintian asks: not a word from groff.
fn is_clean(page: &Path) {
    let output = Command::new("man")
        .args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
        .arg(page)
        .env("LC_ALL", "C.UTF-8")
        .env("MANROFFSEQ", "")
        .env("MANWIDTH", "80")
        .output()
        .expect("man runs");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}: {}",
        page.display(),
        { String::from_utf8_lossy(&output.stderr) }
    );
}

#[test]
fn there_is_a_man_page_for_every_command_and_groff_has_nothing_to_say() {
    let directory = tempfile::tempdir().expect("a directory");
    let to = directory.path().join("man1");
    let names = printed(&["man", "--out", to.to_str().expect("text")]);
    let names: Vec<&Path> = names.lines().map(Path::new).collect();
    assert!(names.len() > 20, "{names:?}");
    for page in ["queenright.1", "queenright-start.1", "queenright-errors-requeue.1"] {
        assert!(names.contains(&to.join(page).as_path()), "{page}: {names:?}");
    }
    let can_be_read = is_there("man");
    for page in &names {
        let text = std::fs::read_to_string(page).expect("a page");
        assert!(
            text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"),
            "{}",
            page.display()
        );
        if can_be_read {
            is_clean(page);
        }
    }
    if !can_be_read {
        left_out("reading the manual pages", "there is no man");
    }
    let start = printed(&["man", "start"]);
    for word in [
        "QUEENRIGHT_MAX_BACKLOG",
        "\\-\\-concurrency",
        "SH GENERATING",
        "SH NOTES",
    ] {
        assert!(start.contains(word), "{word} is missing: {start}");
    }
    assert_eq!(
        start,
        std::fs::read_to_string(to.join("queenright-start.1")).expect("a page")
    );
    assert!(!printed(&["man"]).contains("watch\\-children"), "what is hidden");
}

#[test]
fn completions_and_man_pages_need_no_store_and_no_sound_environment() {
    for args in [["completions", "bash"], ["man", "status"]] {
        let output = program().args(args).env("QUEENRIGHT_LEASE", "soon").output();
        let output = output.expect("the program starts");
        assert!(output.status.success(), "{}", said(&output));
    }
    let output = program().args(["man", "no-such-command"]).output().expect("starts");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
}
