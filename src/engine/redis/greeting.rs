//! What a server says of itself when a connection is made, as far as it wants to.

use redis::Value;

use super::place::HostPort;

#[derive(Default)]
pub(super) struct Greeting {
    pub(super) is_replica: bool,
    /// The id that the server drew when it started; empty, if it does not tell.
    pub(super) run: String,
    /// The id of the history of writes that it goes on with; empty, if it does not tell.
    pub(super) history: String,
    pub(super) mode: Mode,
    /// All servers of its cluster.
    pub(super) members: Vec<HostPort>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Or it does not tell.
    #[default]
    Plain,
    Cluster,
    Sentinel,
}

/// From `ROLE`.
pub(super) fn is_replica(role: &Value) -> bool {
    let Value::Array(role) = role else { return false };
    role.first().and_then(text).as_deref() == Some("slave")
}

fn info(told: Option<Value>) -> String {
    match told {
        Some(Value::BulkString(text)) => String::from_utf8_lossy(&text).into_owned(),
        Some(Value::VerbatimString { text, .. }) => text,
        _ => String::new(),
    }
}

/// From `INFO replication`: the id of its history, which is another one whenever it has become a primary.
pub(super) fn history(told: Option<Value>) -> String {
    let told = info(told);
    let field = told.lines().find_map(|line| line.strip_prefix("master_replid:"));
    field.unwrap_or_default().trim().to_string()
}

/// From `INFO server`: which run it is, and how it runs.
pub(super) fn server(told: Option<Value>) -> (String, Mode) {
    let told = info(told);
    let field = |name: &str| told.lines().find_map(|line| line.strip_prefix(name));
    let run = field("run_id:").unwrap_or_default().trim().to_string();
    // Valkey names it after itself.
    let mode = field("redis_mode:").or_else(|| field("server_mode:"));
    let mode = match mode.unwrap_or_default().trim() {
        "cluster" => Mode::Cluster,
        "sentinel" => Mode::Sentinel,
        _ => Mode::Plain,
    };
    (run, mode)
}

/// From `CLUSTER SLOTS`: all servers.
pub(super) fn members(asked: &str, told: &Value) -> Vec<HostPort> {
    servers(asked, told, usize::MAX)
}

/// From `CLUSTER SLOTS`: those that take writes.
#[cfg(feature = "cli")]
pub(super) fn primaries(asked: &str, told: &Value) -> Vec<HostPort> {
    servers(asked, told, 1)
}

/// Ranges, each with the servers that have it, the primary first. One without a host is where the one is that was asked.
fn servers(asked: &str, told: &Value, of_each: usize) -> Vec<HostPort> {
    let Value::Array(ranges) = told else { return Vec::new() };
    let mut members = Vec::new();
    for range in ranges {
        let Value::Array(range) = range else { continue };
        for server in range.iter().skip(2).take(of_each) {
            let Value::Array(server) = server else { continue };
            let (Some(host), Some(Value::Int(port))) = (server.first(), server.get(1)) else {
                continue;
            };
            let host = text(host)
                .filter(|host| !host.is_empty())
                .unwrap_or_else(|| asked.into());
            let Ok(port) = u16::try_from(*port) else { continue };
            let member = (host, port);
            // Where it is, it does not know itself yet.
            if member.0 != "?" && !members.contains(&member) {
                members.push(member);
            }
        }
    }
    members
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(text) => Some(String::from_utf8_lossy(text).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_server_tells_what_it_wants_to() {
        let told = |text: &str| server(Some(bulk(text)));
        assert_eq!(
            told("run_id:abc\r\nredis_mode:cluster\r\n"),
            ("abc".into(), Mode::Cluster)
        );
        assert_eq!(told("server_mode:sentinel\r\n"), (String::new(), Mode::Sentinel));
        assert_eq!(server(Some(Value::Nil)), (String::new(), Mode::Plain));
        assert_eq!(server(None).1, Mode::Plain);
        assert!(is_replica(&Value::Array(vec![bulk("slave"), bulk("h")])));
        for role in [Value::Nil, Value::Array(vec![]), Value::Array(vec![bulk("master")])] {
            assert!(!is_replica(&role), "{role:?}");
        }
    }

    #[test]
    fn members_are_read_whoever_tells_of_them() {
        let server = |host: Value, port: i64| Value::Array(vec![host, Value::Int(port), bulk("id")]);
        let range = vec![
            Value::Int(0),
            Value::Int(5460),
            server(bulk("10.0.0.1"), 7000),
            server(Value::Nil, 7001),
            server(bulk("?"), 7002),
            server(bulk("10.0.0.1"), 7000),
            server(bulk("h"), 70_000),
        ];
        let told = Value::Array(vec![Value::Array(range), Value::Nil]);
        let expected: Vec<HostPort> = vec![("10.0.0.1".into(), 7000), ("seed".into(), 7001)];
        assert_eq!(members("seed", &told), expected);
        assert!(members("seed", &Value::Nil).is_empty());
    }
}
