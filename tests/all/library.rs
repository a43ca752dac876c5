//! The library as its users see it: on the engine that lives in memory, and on a file that a URL names.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use queenright::builder::Builder;
use queenright::engine::any::AnyEngine;
use queenright::engine::memory::Local;
use queenright::engine::{Engine, Item};
use queenright::generate::Generate;
use queenright::handle::Handle;
use queenright::message::PAYLOAD_BYTES_MAX;
use queenright::{Effect, Error, Failure, Json, Message, Next, Settings, push};
use serde::{Deserialize, Serialize};

use crate::fleet::PATIENCE;

/// Runs a fleet of one until so many messages have their outcome. Returns the errors, by number.
fn run<G: Generate, H: Handle>(
    messages: u64,
    build: impl FnOnce(Builder<Arc<Local>, (), ()>) -> Builder<Arc<Local>, G, H>,
) -> Vec<(u64, String)> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let engine = Arc::new(Local::new("library"));
        let watched = engine.clone();
        let settled = async move {
            let all = async {
                while watched.status().await.map_or(0, |status| status.done + status.failed) < messages {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            };
            tokio::time::timeout(PATIENCE, all).await.expect("all are settled");
        };
        let builder = build(queenright::on(engine.clone()).queue("library").also_handle());
        builder.run_until(settled).await.expect("it ends well");
        let status = engine.status().await.expect("a queue");
        assert_eq!(status.published, messages, "{status:?}");
        assert!(status.nodes.is_empty(), "it has left: {status:?}");
        let errors = engine.failed(0, 100).await.expect("the errors");
        let text = |error: Vec<u8>| String::from_utf8(error).expect("text");
        errors
            .into_iter()
            .map(|failed| (failed.number, text(failed.error)))
            .collect()
    })
}

async fn done(_: Message) -> Result<(), Failure> {
    Ok(())
}

/// A stream of what is there, which is never ready at once.
struct Items(VecDeque<&'static str>, bool);

impl futures_core::Stream for Items {
    type Item = &'static str;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<&'static str>> {
        self.1 = !self.1;
        if self.1 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.0.pop_front())
    }
}

#[test]
fn a_generator_may_be_an_async_function_that_takes_its_time() {
    let errors = run(5, |builder| {
        builder
            .generate(|next: Next| async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                next.number.to_string()
            })
            .handle(|message: Message| async move {
                let right = message.payload == message.number.to_string();
                if right {
                    Ok(())
                } else {
                    Err(Failure::from("another number"))
                }
            })
            .settings(|settings| settings.messages = Some(5))
    });
    assert_eq!(errors, []);
}

#[test]
fn a_slow_generator_does_not_hold_back_what_it_has_made() {
    // The second message never comes; the first one is handled all the same.
    let errors = run(1, |builder| {
        builder
            .generate(|next: Next| async move {
                if next.number > 0 {
                    std::future::pending::<()>().await;
                }
                "one"
            })
            .handle(done)
    });
    assert_eq!(errors, []);
}

#[test]
fn a_generator_may_be_a_stream_and_ends_with_it() {
    let items = Items(["a", "b", "c"].into(), false);
    let errors = run(3, |builder| {
        builder
            .stream(items)
            .handle(|message: Message| async move { Err::<(), _>(format!("{:?}", message.payload)) })
    });
    let wanted = [(0, "b\"a\""), (1, "b\"b\""), (2, "b\"c\"")];
    assert_eq!(errors, wanted.map(|(number, text)| (number, text.to_string())));
}

#[derive(Serialize, Deserialize)]
struct Invoice {
    cents: u64,
}

#[test]
fn payloads_may_be_values_and_handlers_share_state() {
    let total = Arc::new(AtomicU64::new(0));
    let shared = total.clone();
    let errors = run(4, |builder| {
        builder
            .generate(|next: Next| async move {
                if next.number == 2 {
                    return b"{\"cents\":\"many\"}".to_vec();
                }
                Json(Invoice { cents: next.number }).into()
            })
            .handle_json(move |invoice: Invoice, _: Message| {
                let total = shared.clone();
                async move {
                    total.fetch_add(invoice.cents, Ordering::Relaxed);
                    Ok::<_, Failure>(Effect::add("invoices", 1))
                }
            })
            .settings(|settings| settings.messages = Some(4))
    });
    assert_eq!(total.load(Ordering::Relaxed), 1 + 3);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].0 == 2 && errors[0].1.contains("not what is expected"),
        "{errors:?}"
    );
}

#[test]
fn panics_and_handlers_that_take_too_long_are_errors() {
    let errors = run(3, |builder| {
        builder
            .generate(|next: Next| async move { next.number.to_string() })
            .handle(|message: Message| async move {
                match message.number {
                    0 => panic!("out of honey"),
                    1 => std::future::pending().await,
                    _ => Ok::<(), Failure>(()),
                }
            })
            .timeout(Duration::from_secs(2))
            .concurrency(3)
            .settings(|settings| settings.messages = Some(3))
    });
    assert!(errors.len() >= 2, "{errors:?}");
    assert!(errors[0].0 == 0 && errors[0].1.contains("out of honey"), "{errors:?}");
    assert!(
        errors[1].0 == 1 && errors[1].1.contains("timed out after 2s"),
        "{errors:?}"
    );
}

#[test]
fn a_node_without_a_generator_handles_what_others_push() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let engine = Arc::new(Local::new("library"));
        let watched = engine.clone();
        let stop = async move {
            let items = [Item::new("one"), Item::new("two")];
            let pushed = push::push(&*watched, &Settings::default(), push::KEEP, &items).await;
            assert_eq!(pushed.expect("they are put in").len(), 2);
            while watched.status().await.map_or(0, |status| status.done) < 2 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let running = queenright::on(engine.clone())
            .queue("library")
            .handle(done)
            .run_until(stop);
        tokio::time::timeout(PATIENCE, running)
            .await
            .expect("in time")
            .expect("it ends well");
        assert_eq!(engine.status().await.expect("a queue").epoch, 0, "it never reigned");
    });
}

#[test]
fn a_queue_may_be_named_by_a_url() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let handled = Arc::new(AtomicU64::new(0));
        let (counted, watched) = (handled.clone(), handled.clone());
        let all = async move {
            while watched.load(Ordering::Relaxed) < 3 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let running = queenright::on(url.clone())
            .queue("library")
            .also_handle()
            .generate(|next: Next| async move { next.number.to_string() })
            .handle(move |_: Message| {
                counted.fetch_add(1, Ordering::Relaxed);
                async { Ok::<(), Failure>(()) }
            })
            .settings(|settings| settings.messages = Some(3))
            .run_until(all);
        tokio::time::timeout(PATIENCE, running)
            .await
            .expect("in time")
            .expect("it ends well");
        let settings = Settings {
            queue: "library".into(),
            ..Settings::default()
        };
        let engine = AnyEngine::open(&url, &settings).expect("the file is there");
        let status = engine.status().await.expect("a queue");
        assert_eq!(
            (status.published, status.done, status.nodes.len()),
            (3, 3, 0),
            "{status:?}"
        );
    });
}

#[test]
fn a_url_of_nothing_known_is_refused_before_anything_runs() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let refused = runtime.block_on(
        queenright::on("http://localhost")
            .handle(done)
            .run_until(std::future::pending::<()>()),
    );
    let error = refused.expect_err("no such store");
    assert_eq!(error.setting(), Some("url"), "{error}");
}

#[test]
fn errors_say_what_to_do_and_name_settings_not_flags() {
    let full = Error::Full {
        queue: "jobs".into(),
        most: 5,
    };
    assert_eq!(full.setting(), Some("backlog_max"));
    let large = Error::TooLarge {
        what: "payload",
        number: Some(7),
        bytes: 20,
        most: 10,
    };
    let crashed = Error::Crashed {
        what: "the generator of this node".into(),
    };
    for (error, words) in [
        (full, "raise backlog_max"),
        (
            large,
            "the payload of message 7 has 20 bytes, and at most 10 are allowed",
        ),
        (crashed, "the generator of this node crashed"),
    ] {
        let text = error.to_string();
        assert!(text.contains(words) && !text.contains("--"), "{text}");
    }
}

#[test]
fn a_payload_that_is_too_large_ends_the_node_and_says_so() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ended = runtime.block_on(async {
        let running = queenright::on(Arc::new(Local::new("library")))
            .queue("library")
            .generate(|_: Next| async { vec![0; PAYLOAD_BYTES_MAX + 1] })
            .handle(done)
            .run_until(std::future::pending::<()>());
        tokio::time::timeout(PATIENCE, running).await.expect("in time")
    });
    let Err(Error::TooLarge {
        what,
        number,
        bytes,
        most,
    }) = ended
    else {
        panic!("{ended:?}");
    };
    assert_eq!(
        (what, number, bytes, most),
        ("payload", Some(0), PAYLOAD_BYTES_MAX + 1, PAYLOAD_BYTES_MAX)
    );
}

/// What `?` is tried on.
fn parse(text: &[u8]) -> Result<u64, std::num::ParseIntError> {
    String::from_utf8_lossy(text).parse()
}

async fn with_failure(message: Message) -> Result<(), Failure> {
    if message.number == 1 {
        return Err(Failure::retry_after("not now", Duration::from_millis(1)))
            .or_else(|failure| if message.failures == 0 { Err(failure) } else { Ok(()) });
    }
    let number = parse(&message.payload)?;
    let _: Vec<u8> = std::fs::read(format!("/no/such/file/{number}"))?;
    Ok(())
}

async fn with_anyhow(message: Message) -> anyhow::Result<Effect> {
    use anyhow::Context;
    let number = parse(&message.payload).context("cannot read the number")?;
    anyhow::ensure!(number != 1, "one is unlucky");
    Ok(Effect::add("sum", 1))
}

async fn with_any_error(message: Message) -> Result<Vec<Effect>, Box<dyn std::error::Error + Send + Sync>> {
    parse(&message.payload)?;
    Ok(vec![])
}

async fn without_result(_: Message) {}

#[test]
fn a_question_mark_works_in_handlers_with_any_error() {
    let payloads = || Items(["x", "1"].into(), false);
    let parsed = "invalid digit found in string";
    let errors = run(2, |builder| builder.stream(payloads()).handle(with_failure));
    assert_eq!(errors, [(0, parsed.to_string())]);
    let errors = run(2, |builder| builder.stream(payloads()).handle(with_anyhow));
    let wanted = [
        (0, format!("cannot read the number: {parsed}")),
        (1, "one is unlucky".into()),
    ];
    assert_eq!(errors, wanted);
    let errors = run(2, |builder| builder.stream(payloads()).handle(with_any_error));
    assert_eq!(errors, [(0, parsed.to_string())]);
    let errors = run(2, |builder| builder.stream(payloads()).handle(without_result));
    assert_eq!(errors, []);
}

#[test]
fn addresses_are_those_of_the_command_line() {
    let settings = Settings::default();
    for address in [
        "localhost:6379",
        "redis:6379",
        "127.0.0.1:7000",
        "rediss://db1",
        "sqlite:/tmp",
        "valkey://db1/2",
    ] {
        if address == "sqlite:/tmp" {
            // A directory is no file; what is said is what the command line says.
            let refused = AnyEngine::open(address, &settings).err().expect("a directory");
            assert!(refused.to_string().contains("the database /tmp"), "{refused}");
            continue;
        }
        assert!(AnyEngine::open(address, &settings).is_ok(), "{address}");
    }
    for address in [
        "localhost",
        "localhost:",
        "localhost:http",
        ":6379",
        "local host:6379",
        "ftp://localhost",
    ] {
        let refused = AnyEngine::open(address, &settings).err().expect("no address");
        assert_eq!(refused.setting(), Some("url"), "{address}");
    }
}

#[test]
fn a_node_without_a_generator_runs_until_a_shutdown_says_so_and_tells_figures() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let engine = Arc::new(Local::new("library"));
        push::push(&*engine, &Settings::default(), push::KEEP, &[Item::new(Json(["one"]))])
            .await
            .expect("it is put in");
        let (stopper, shutdown) = queenright::shutdown::channel();
        let node = queenright::on(engine.clone())
            .queue("library")
            .handle_json(async |value: Vec<String>, _| {
                assert_eq!(value, ["one"]);
            });
        let figures = node.metrics_text();
        let watching = async move {
            while !figures().contains("queenright_messages_done_total{queue=\"library\"} 1\n") {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            stopper.stop();
        };
        let both = async { tokio::join!(node.run(shutdown), watching) };
        let (ended, ()) = tokio::time::timeout(PATIENCE, both).await.expect("in time");
        ended.expect("it ends well");
    });
}
