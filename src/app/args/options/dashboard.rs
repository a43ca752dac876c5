//! The dashboard, of `start --dashboard` and of `dashboard`.

use std::path::PathBuf;

use super::{Effect, Group, Opt, Scope, Takes};
use crate::app::args::resolved::Resolved;
use crate::app::args::token::{Right, Token};
use crate::app::args::value::{self, LISTEN};

const GROUP: Group = Group::of("Dashboard", Scope::Start);

/// How the dashboard is served: the command `dashboard` takes it too.
const fn serving(name: &'static str, takes: Takes, effect: Effect) -> Opt {
    Opt::new(GROUP, name, takes, effect).also("dashboard")
}

/// A file that is read when the dashboard is served.
const fn file(name: &'static str, set: fn(&mut Resolved, PathBuf)) -> Opt {
    serving(name, Takes::Value("FILE"), Effect::Path(set))
}

/// A secret has no flag, since other users of the machine can see command lines.
const fn token(name: &'static str, read: fn(&mut Resolved, &str) -> Result<(), String>) -> Opt {
    Opt::text(GROUP, name, Takes::Value("TOKEN"), read).without_flag()
}

fn told(to: &mut Resolved, right: Right, text: &str) -> Result<(), String> {
    to.tokens.set(right, Token::new(text)?);
    Ok(())
}

options! {
    DASHBOARD = Opt::text(GROUP, "dashboard", Takes::Maybe("ADDRESS:PORT", LISTEN), set!(dashboard, value::dashboard))
        .default_words("off")
        .help("Serve the dashboard from this copy as well, at 127.0.0.1:8077 unless another address is named");
    TOKEN_FILE = file("token-file", |to, path| to.serving.token_files.push((Right::Rule, path)))
        .help("Ask for the token in this file; addresses other than loopback need one. QUEENRIGHT_TOKEN can hold the token itself");
    READ_TOKEN_FILE = file("read-token-file", |to, path| to.serving.token_files.push((Right::Read, path)))
        .help("Who has the token in this file may look and change nothing. QUEENRIGHT_READ_TOKEN can hold the token itself");
    PUSH_TOKEN_FILE = file("push-token-file", |to, path| to.serving.token_files.push((Right::Push, path)))
        .help("Who has the token in this file may push messages and do nothing else. QUEENRIGHT_PUSH_TOKEN can hold the token itself");
    TOKEN = token("token", |to, text| told(to, Right::Rule, text))
        .help("The token that the dashboard asks for");
    READ_TOKEN = token("read-token", |to, text| told(to, Right::Read, text))
        .help("A token to look, and to change nothing");
    PUSH_TOKEN = token("push-token", |to, text| told(to, Right::Push, text))
        .help("A token to push messages, and to do nothing else");
    READ_ONLY = serving("read-only", Takes::Nothing, Effect::Text(set!(serving.read_only, value::yes)))
        .help("Refuse all changes");
    ALLOW_HOST = serving("allow-host", Takes::Several("NAME"), Effect::Verbatim(|to, text| to.serving.allow_host.push(text.into())))
        .help("Answer also under this host name, which a proxy or a name server gives it, also for --metrics; may be repeated");
    TLS_CERT = file("tls-cert", |to, path| to.serving.tls_cert = Some(path))
        .requires("tls-key")
        .help("Serve over TLS: the certificate, and those that signed it, as PEM");
    TLS_KEY = file("tls-key", |to, path| to.serving.tls_key = Some(path))
        .requires("tls-cert")
        .help("Private key of the certificate, as PEM");
    BEHIND_TLS = serving("behind-tls", Takes::Nothing, Effect::Text(set!(serving.behind_tls, value::yes)))
        .help("A proxy in front of it speaks TLS: cookies are sent over TLS only");
}
