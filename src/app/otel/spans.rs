//! Which spans there are: a message that is published, the time that it waited, and each time that it is handled.

use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};

use super::export::{exporter, is_wanted};
use super::ids::{Ids, of_try, with_id};
use crate::engine::{Item, Receipt};
use crate::message::{Effect, Headers, Message, Sealed};
use crate::node::handle::{Failure, Handled};

/// How long the end of a process may wait for the last spans to arrive.
const END_MAX: Duration = Duration::from_secs(2);
const SERVICE: &str = "queenright";

/// Makes spans of the messages of one queue.
#[derive(Clone)]
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    queue: String,
}

impl Traces {
    /// None: the environment names no collector. `note` is told, once, that it cannot be reached.
    pub fn of_environment(queue: &str, note: impl Fn(&str) + Send + Sync + 'static) -> Option<Self> {
        if !is_wanted(|name| std::env::var(name).ok()) {
            return None;
        }
        let note = std::sync::Arc::new(note);
        let telling = note.clone();
        let exporter = match exporter(move |line: &str| telling(line)) {
            Ok(exporter) => exporter,
            Err(error) => {
                note(&format!("there are no traces: {error}"));
                return None;
            }
        };
        let resource = Resource::builder();
        let named = std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|text| text.contains("service.name="));
        let resource = if named || std::env::var("OTEL_SERVICE_NAME").is_ok() {
            resource
        } else {
            resource.with_service_name(SERVICE)
        };
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_id_generator(Ids::default())
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer(SERVICE);
        let queue = queue.to_string();
        Some(Self {
            provider,
            tracer,
            queue,
        })
    }

    /// What is about to be pushed: each belongs to the span of its publication from now on.
    pub fn publish(&self, items: &mut [Item]) -> Published {
        let spans = items.iter_mut().map(|item| {
            let parent = context_of(&item.headers);
            let span = self.start("publish", SpanKind::Producer, &parent, None);
            set_context(&mut item.headers, span.span_context());
            span
        });
        Published {
            spans: spans.collect(),
            told: 0,
        }
    }

    /// The same for the messages of another queue.
    #[must_use]
    pub fn of_queue(&self, queue: &str) -> Self {
        Self {
            queue: queue.to_string(),
            ..self.clone()
        }
    }

    /// What a generator has made: if it belongs to a trace, its publication is a span.
    pub fn made(&self, headers: &mut Headers) {
        if headers.get(Headers::TRACE[0]).is_some() {
            let mut span = self.start("publish", SpanKind::Producer, &context_of(headers), None);
            set_context(headers, span.span_context());
            span.end();
        }
    }

    /// Whether there are spans of this message: it carries a trace context.
    #[must_use]
    pub fn follows(message: &Message) -> bool {
        message.headers().get(Headers::TRACE[0]).is_some()
    }

    /// Handles a message within a span, which the handler is told of, and so is what the message publishes.
    pub async fn handle<F: Future<Output = Handled>>(
        &self,
        message: Message,
        work: impl FnOnce(Message) -> F,
    ) -> Handled {
        let (parent, number) = (context_of(message.headers()), message.number);
        let publisher = parent.span().span_context().clone();
        let (deliveries, failures) = (message.deliveries, message.failures);
        let tries = u64::from(deliveries) + u64::from(failures);
        if tries == 1 {
            // Later ones did not wait since the publication.
            let since = UNIX_EPOCH + Duration::from_millis(message.published_ms);
            let mut waits = self.builder("wait", SpanKind::Internal, Some(number));
            waits.start_time = Some(since.min(SystemTime::now()));
            waits.start_with_context(&self.tracer, &parent).end();
        }
        let id = |tries| of_try(publisher.span_id(), &self.queue, number, tries);
        let mut builder = self.builder("handle", SpanKind::Consumer, Some(number));
        if tries > 1 {
            let before = SpanContext::new(
                publisher.trace_id(),
                id(tries - 1),
                publisher.trace_flags(),
                true,
                publisher.trace_state().clone(),
            );
            builder = builder.with_links(vec![Link::with_context(before)]);
        }
        let mut span = with_id(id(tries), || builder.start_with_context(&self.tracer, &parent));
        span.set_attribute(KeyValue::new("queenright.deliveries", i64::from(deliveries)));
        span.set_attribute(KeyValue::new("queenright.failures", i64::from(failures)));
        let own = span.span_context().clone();
        let mut handled = work(within(message, &own)).await;
        match &mut handled {
            Ok(effects) => self.publish_next(effects, &own),
            Err(Failure::Error(error) | Failure::Retry { error, .. }) => span.set_status(Status::error(error.clone())),
        }
        span.end();
        handled
    }

    /// What a message publishes is a child of the span in which it was handled, unless it names a trace of its own.
    fn publish_next(&self, effects: &mut [Effect], handling: &SpanContext) {
        let parent = Context::new().with_remote_span_context(handling.clone());
        for effect in effects {
            if let Effect::Publish { headers, .. } = effect
                && headers.get(Headers::TRACE[0]).is_none()
            {
                let mut span = self.start("publish", SpanKind::Producer, &parent, None);
                set_context(headers, span.span_context());
                span.end();
            }
        }
    }

    fn start(&self, what: &str, kind: SpanKind, parent: &Context, number: Option<u64>) -> Span {
        self.builder(what, kind, number)
            .start_with_context(&self.tracer, parent)
    }

    /// As the conventions for messaging have it.
    fn builder(&self, what: &str, kind: SpanKind, number: Option<u64>) -> SpanBuilder {
        let operation = match kind {
            SpanKind::Producer => "send",
            SpanKind::Consumer => "process",
            _ => "wait",
        };
        let attributes = [
            KeyValue::new("messaging.system", SERVICE),
            KeyValue::new("messaging.destination.name", self.queue.clone()),
            KeyValue::new("messaging.operation.name", what.to_string()),
            KeyValue::new("messaging.operation.type", operation),
        ];
        let number = number.map(|number| KeyValue::new("messaging.message.id", number.to_string()));
        self.tracer
            .span_builder(format!("{what} {}", self.queue))
            .with_kind(kind)
            .with_attributes(attributes.into_iter().chain(number))
    }

    /// Lets the last spans go, for a moment at most.
    pub fn end(&self) {
        // Whether they arrived was said.
        let _ = self.provider.shutdown_with_timeout(END_MAX);
    }
}

/// Spans of messages that are being pushed. They end when it is known that they are in, or never will be.
pub struct Published {
    spans: Vec<Span>,
    told: usize,
}

impl Published {
    /// The next ones are in.
    pub fn told(&mut self, receipts: &[Receipt]) {
        for (span, receipt) in self.spans[self.told..].iter_mut().zip(receipts) {
            span.set_attribute(KeyValue::new("messaging.message.id", receipt.number.to_string()));
            if receipt.repeated {
                span.set_attribute(KeyValue::new("queenright.repeated", true));
            }
            span.end();
        }
        self.told = self.spans.len().min(self.told + receipts.len());
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        for span in &mut self.spans[self.told..] {
            span.set_status(Status::error("it was not pushed"));
            span.end();
        }
    }
}

struct Reading<'a>(&'a Headers);

impl Extractor for Reading<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.iter().map(|(name, _)| name).collect()
    }
}

struct Writing<'a>(&'a mut Headers);

impl Injector for Writing<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty state is none.
        if !value.is_empty() {
            self.0.insert(key, value);
        }
    }
}

/// The trace that headers name; of none, and of one that cannot be read, an empty one.
fn context_of(headers: &Headers) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &Reading(headers))
}

fn set_context(headers: &mut Headers, span: &SpanContext) {
    let context = Context::new().with_remote_span_context(span.clone());
    let mut with = headers.clone();
    TraceContextPropagator::new().inject_context(&context, &mut Writing(&mut with));
    // Nobody loses a message because there is no room for another header.
    if with.wrong().is_none() {
        *headers = with;
    }
}

/// The message as its handler sees it within a span.
fn within(mut message: Message, span: &SpanContext) -> Message {
    if let Some(envelope) = message.envelope.open() {
        let mut envelope = envelope.clone();
        set_context(&mut envelope.headers, span);
        message.envelope = Sealed::from(envelope);
    }
    message
}
