//! What a node knows of its store and its dashboard: commands do not inherit it, and what they print of it is not passed on.

use super::Workshop;
use crate::fleet::{Fleet, PATIENCE, Plan, within};
use crate::server::RedisServer;

const PASSWORD: &str = "correct \"horse\" battery";
const TOKEN: &str = "0123456789-token-of-the-dashboard";

/// A fleet of one, whose secrets are in the environment.
fn fleet(server: &RedisServer, messages: u32) -> Plan {
    Fleet::on(server)
        .args("--lease 30s --also-handle --interval 1ms --error-rate 0 --messages")
        .arg(&messages.to_string())
        .env("REDIS_PASS", PASSWORD)
        .env("REDIS_USER", "default")
        .env("REDIS_URL", "redis://of-someone-else")
        .env("REDISURL", "redis://of-someone-else")
        .env("REDISCLI_AUTH", PASSWORD)
        .env("QUEENRIGHT_TOKEN", TOKEN)
        .env("QUEENRIGHT_TOKEN_OLD", TOKEN)
        .env("MINE", "kept")
}

fn server() -> RedisServer {
    RedisServer::with_args(&["--requirepass", PASSWORD])
}

#[test]
fn commands_inherit_neither_address_nor_password_nor_token() {
    let (workshop, server) = (Workshop::new(), server());
    let script = "env > $HERE/new-$1; mv $HERE/new-$1 $HERE/$1; cat > /dev/null; echo made";
    let script = workshop.script("look.sh", script);
    let of = |role: &str, name: &str| fleet(&server, 1).args(role).arg(&format!("{script} {name}"));
    let plans = [
        ("each", of("--handle-each", "each")),
        ("child", of("--handle", "child")),
        ("lines", of("--generate", "lines")),
        ("made", of("--generate-each", "made")),
        (
            "passed",
            of("--pass-env REDIS_PASS --pass-env MINE --handle-each", "passed"),
        ),
    ];
    for (name, plan) in plans {
        let _fleet = plan.start_joined();
        let seen = within(PATIENCE, || Some(workshop.read(name)).filter(|seen| !seen.is_empty()));
        let seen = seen.expect("the command has run");
        let mut lines = seen.lines();
        assert!(lines.clone().any(|line| line == "MINE=kept"), "{name}: {seen}");
        assert!(
            lines.clone().any(|line| line.starts_with("QUEENRIGHT_QUEUE=")),
            "{name}: {seen}"
        );
        assert!(
            !seen.contains("someone-else") && !seen.contains(TOKEN),
            "{name}: {seen}"
        );
        let named = lines
            .find(|line| line.starts_with("REDIS"))
            .unwrap_or_default()
            .to_string();
        let wanted = if name == "passed" {
            format!("REDIS_PASS={PASSWORD}")
        } else {
            String::new()
        };
        assert_eq!(named, wanted, "{name}");
    }
}

#[test]
fn what_commands_print_is_logged_and_stored_without_secrets() {
    let (workshop, server) = (Workshop::new(), server());
    let each = r#"
printf 'cannot log in with %s' "$REDIS_PASS" >&2
printf '\ntoken %s, and no end' "$QUEENRIGHT_TOKEN" >&2
exit 1
"#;
    let child = r#"
read -r line; printf '{"error":"cannot log in with %s"}\n' "$QUEENRIGHT_TOKEN"
read -r line; printf '%0100d %s\n' 0 "$REDIS_PASS"
"#;
    let pass = "--pass-env REDIS_PASS --pass-env QUEENRIGHT_TOKEN";
    let each = workshop.script("each.sh", each);
    let child = workshop.script("child.sh", child);
    let each = fleet(&server, 1)
        .args(pass)
        .args("--handle-each")
        .arg(&each)
        .start_joined();
    let child = fleet(&server, 2).args(pass).args("--handle").arg(&child).start_joined();
    for (fleet, messages) in [(each, 1), (child, 2)] {
        assert_eq!(fleet.wait_through(messages).failed, messages);
        let errors = fleet.errors();
        let logged: Vec<_> = fleet.lines().into_iter().map(|line| line.fields).collect();
        for line in errors.iter().chain(&logged) {
            for text in line
                .as_object()
                .expect("fields")
                .values()
                .filter_map(|value| value.as_str())
            {
                for secret in [PASSWORD, TOKEN, "correct", "battery"] {
                    assert!(!text.contains(secret), "{line}");
                }
            }
        }
        let hidden = |line: &serde_json::Value| line["error"].as_str().is_some_and(|text| text.contains("***"));
        assert!(hidden(&errors[0]), "{errors:?}");
    }
}
