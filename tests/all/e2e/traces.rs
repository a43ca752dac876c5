//! Traces: what a collector is told by the real program, over the real protocol.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Output;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

use crate::fleet::{Fleet, Line, PATIENCE, Plan, said, within};
use crate::server::RedisServer;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";
const OTHER: &str = "11111111111111111111111111111111";

/// Fails once, then publishes the next one, which says what it was told.
const HANDLER: &str = r#"
while IFS= read -r line; do
  case $line in
    *'"payload":"first"'*'"failures":0'*|*'"failures":0'*'"payload":"first"'*) echo '{"retry":"busy","after":"10ms"}';;
    *'"payload":"first"'*) echo '{"ok":true,"effects":[{"publish":"second"}]}';;
    *) printf '%s\n' "$line" >> $HERE/told; echo '{"ok":true}';;
  esac
done
"#;

/// A small collector: it takes in what is posted to it, as OTLP over HTTP has it.
struct Collector {
    address: String,
    spans: Arc<Mutex<Vec<(String, Span)>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let spans: Arc<Mutex<Vec<(String, Span)>>> = Arc::default();
        let all = spans.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let all = all.clone();
                std::thread::spawn(move || while take(&stream, &all).is_some() {});
            }
        });
        Self { address, spans }
    }

    /// Waits for the spans of a trace: those with these names, and no others.
    fn wait(&self, trace: &str, names: &[&str]) -> Vec<Span> {
        let found = within(PATIENCE, || {
            let spans = self.of(trace);
            (spans.len() >= names.len()).then_some(spans)
        });
        let mut spans = found.unwrap_or_else(|| panic!("{:?}", self.of(trace)));
        spans.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
        let mut told: Vec<&str> = spans.iter().map(|span| &span.name[..]).collect();
        told.sort_unstable();
        let mut names = names.to_vec();
        names.sort_unstable();
        assert_eq!(told, names);
        spans
    }

    fn of(&self, trace: &str) -> Vec<Span> {
        let spans = self.spans.lock().expect("whole");
        let of = spans.iter().filter(|(_, span)| hex(&span.trace_id) == trace);
        of.map(|(_, span)| span.clone()).collect()
    }
}

fn take(mut stream: &TcpStream, all: &Mutex<Vec<(String, Span)>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    assert!(line.starts_with("POST /v1/traces "), "{line}");
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_string());
    }
    assert_eq!(headers["content-type"], "application/x-protobuf");
    assert_eq!(headers["x-key"], "secret", "OTEL_EXPORTER_OTLP_HEADERS");
    let mut body = vec![0; headers["content-length"].parse().expect("a length")];
    reader.read_exact(&mut body).ok()?;
    let request = ExportTraceServiceRequest::decode(&body[..]).expect("OTLP");
    for resource in request.resource_spans {
        let attributes = resource
            .resource
            .map(|resource| resource.attributes)
            .unwrap_or_default();
        let service = attribute(&attributes, "service.name");
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        let mut all = all.lock().expect("whole");
        all.extend(spans.map(|span| (service.clone(), span)));
    }
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(answer.as_bytes()).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<Vec<_>>()
        .concat()
}

fn attribute(attributes: &[KeyValue], name: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == name);
    match found.and_then(|attribute| attribute.value.clone()) {
        Some(AnyValue {
            value: Some(Value::StringValue(text)),
        }) => text,
        Some(AnyValue {
            value: Some(Value::IntValue(number)),
        }) => number.to_string(),
        other => format!("{other:?}"),
    }
}

struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        let workshop = Self(tempfile::tempdir().expect("a directory"));
        let here = workshop.0.path().display().to_string();
        let path = workshop.0.path().join("handler.sh");
        std::fs::write(path, HANDLER.replace("$HERE", &here)).expect("written");
        workshop
    }

    fn at_work(&self, plan: Plan, endpoint: &str) -> Fleet {
        let handler = format!("sh {}", self.0.path().join("handler.sh").display());
        plan.queue("shop")
            .copies(1)
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
            .env("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
            .env("OTEL_BSP_SCHEDULE_DELAY", "20")
            .env("OTEL_SERVICE_NAME", "worker")
            .args("-c 4 --lease 6s --handle")
            .arg(&handler)
            .start_joined()
    }
}

fn push(fleet: &Fleet, endpoint: &str, args: &[&str], context: Option<&str>) -> Output {
    let mut command = fleet.command(&[&["push"], args].concat());
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
        .env("OTEL_EXPORTER_OTLP_TIMEOUT", "300")
        .env_remove("OTEL_SERVICE_NAME");
    if let Some(context) = context {
        command.env("TRACEPARENT", context);
    }
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", said(&output));
    output
}

#[test]
fn a_message_is_followed_from_its_push_over_its_retry_to_what_it_publishes() {
    let (server, workshop, collector) = (RedisServer::start(), Workshop::new(), Collector::start());
    let fleet = workshop.at_work(Fleet::on(&server), &collector.address);
    let context = format!("traceparent=00-{TRACE}-{CALLER}-01");
    push(&fleet, &collector.address, &["--header", &context, "first"], None);
    let names = [
        "publish shop",
        "wait shop",
        "handle shop",
        "handle shop",
        "publish shop",
        "wait shop",
        "handle shop",
    ];
    let spans = collector.wait(TRACE, &names);
    let of = |name: &str, number: &str| -> Vec<&Span> {
        let is = |span: &&Span| span.name == name && attribute(&span.attributes, "messaging.message.id") == number;
        spans.iter().filter(is).collect()
    };
    let (pushed, tries) = (of("publish shop", "0")[0], of("handle shop", "0"));
    assert_eq!(hex(&pushed.parent_span_id), CALLER);
    assert_eq!(pushed.kind(), SpanKind::Producer);
    assert_eq!(of("wait shop", "0")[0].parent_span_id, pushed.span_id);
    for handled in &tries {
        assert_eq!(
            (&handled.parent_span_id, handled.kind()),
            (&pushed.span_id, SpanKind::Consumer)
        );
    }
    assert_ne!(tries[0].span_id, tries[1].span_id);
    let code = |span: &Span| span.status.clone().unwrap_or_default();
    assert_eq!(
        (code(tries[0]).code(), &code(tries[0]).message[..]),
        (StatusCode::Error, "busy")
    );
    assert_ne!(code(tries[1]).code(), StatusCode::Error);
    assert!(tries[0].links.is_empty());
    let links: Vec<_> = tries[1].links.iter().map(|link| &link.span_id).collect();
    assert_eq!(links, [&tries[0].span_id], "the second try links to the first");
    assert_eq!(attribute(&tries[1].attributes, "queenright.failures"), "1");
    let next = spans
        .iter()
        .find(|span| span.parent_span_id == tries[1].span_id)
        .expect("it publishes");
    assert_eq!(next.name, "publish shop");
    let last = of("handle shop", "1")[0];
    assert_eq!(last.parent_span_id, next.span_id);
    // The handler is told the span that it works in.
    let told = std::fs::read_to_string(workshop.0.path().join("told")).expect("it was handled");
    assert!(
        told.contains(&format!("00-{TRACE}-{}-01", hex(&last.span_id))),
        "{told}"
    );
    let services: Vec<String> = collector
        .spans
        .lock()
        .expect("whole")
        .iter()
        .map(|(service, _)| service.clone())
        .collect();
    assert!(
        services.contains(&"worker".into()) && services.contains(&"queenright".into()),
        "{services:?}"
    );
}

#[test]
fn the_environment_of_a_push_is_its_caller_and_what_is_not_sampled_passes_through_unseen() {
    let (server, workshop, collector) = (RedisServer::start(), Workshop::new(), Collector::start());
    let fleet = workshop.at_work(Fleet::on(&server), &collector.address);
    let unsampled = format!("00-{OTHER}-{CALLER}-00");
    push(&fleet, &collector.address, &["--wait", "unsampled"], Some(&unsampled));
    let sampled = format!("00-{TRACE}-{CALLER}-01");
    push(&fleet, &collector.address, &["--wait", "sampled"], Some(&sampled));
    collector.wait(TRACE, &["publish shop", "wait shop", "handle shop"]);
    assert!(collector.of(OTHER).is_empty());
    let told = std::fs::read_to_string(workshop.0.path().join("told")).expect("both were handled");
    assert!(
        told.contains(&format!("00-{OTHER}-")) && told.contains(&format!("00-{TRACE}-")),
        "{told}"
    );
    // Without a trace context there is nothing to follow, and a push begins a trace.
    push(&fleet, &collector.address, &["--wait", "new"], None);
    let all = || collector.spans.lock().expect("whole").clone();
    within(PATIENCE, || (all().len() == 6).then_some(())).expect("three more spans");
    assert!(all()[3..].iter().all(|(_, span)| hex(&span.trace_id) != TRACE));
}

#[test]
fn a_collector_that_is_away_or_silent_delays_no_message_and_is_one_line() {
    // One that refuses, and one that takes calls and never answers.
    let silent = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let silent = (format!("http://{}", silent.local_addr().expect("bound")), silent);
    for endpoint in ["http://127.0.0.1:1", &silent.0] {
        let (server, workshop) = (RedisServer::start(), Workshop::new());
        let fleet = workshop.at_work(Fleet::on(&server), endpoint);
        let context = format!("00-{TRACE}-{CALLER}-01");
        let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let output = push(&fleet, endpoint, &many, Some(&context));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.lines().count() <= 1, "{stderr}");
        fleet.wait_status("all are done", |status| status.done == 100);
        let is_it = |line: &&Line| {
            line.fields["message"]
                .as_str()
                .is_some_and(|text| text.contains("traces do not arrive"))
        };
        let said = |lines: &[Line]| lines.iter().filter(is_it).count();
        fleet.wait_for("it is said", |lines| said(lines) > 0);
        push(&fleet, endpoint, &["--wait", "another"], Some(&context));
        assert_eq!(said(&fleet.lines()), 1, "and not again");
    }
}
