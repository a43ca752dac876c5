//! `man`: a page for each command, made from what clap knows.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::roff::{Roff, roman};

use super::parse::{Usage, command};

pub(super) const AFTER: &str = "\
Packages install these; after `cargo install`, do it yourself.

Examples:
  queenright man | man -l -                  read this program's page
  queenright man errors requeue | man -l -   that of a command
  queenright man --out ~/.local/share/man/man1";

#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub struct Man {
    /// The command whose page is printed [default: the program itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write all pages into this directory instead, and print their names
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub out: Option<PathBuf>,
}

/// One page, as roff(7).
#[derive(Debug)]
pub struct Page {
    /// As people type it, without the program's name.
    command: Vec<String>,
    pub file: String,
    pub text: String,
}

impl Man {
    /// The page that was asked for.
    pub fn page(&self) -> Result<Page, Usage> {
        let found = pages().into_iter().find(|page| page.command == self.command);
        found.ok_or_else(|| {
            Usage::new(format!(
                "there is no command {:?}; see queenright --help",
                self.command.join(" ")
            ))
        })
    }
}

/// All of them.
#[must_use]
pub fn pages() -> Vec<Page> {
    let mut whole = command().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    add(&whole, &[], &mut pages);
    pages
}

fn add(command: &Command, words: &[String], pages: &mut Vec<Page>) {
    let name = command.get_display_name().unwrap_or(command.get_name());
    pages.push(Page {
        command: words.to_vec(),
        file: format!("{name}.1"),
        text: text(command),
    });
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        let words: Vec<String> = words.iter().cloned().chain([sub.get_name().to_string()]).collect();
        add(sub, &words, pages);
    }
}

fn text(command: &Command) -> String {
    // clap_mangen would name every option once more in the synopsis.
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").to_string();
    let version = env!("CARGO_PKG_VERSION");
    let page = clap_mangen::Man::new(command.clone().override_usage(usage))
        .source(format!("queenright {version}"))
        .manual("queenright");
    let mut out = Vec::new();
    let mut write = || {
        page.render_title(&mut out)?;
        page.render_name_section(&mut out)?;
        page.render_synopsis_section(&mut out)?;
        page.render_description_section(&mut out)?;
        page.render_options_section(&mut out)?;
        if command.get_subcommands().any(|sub| !sub.is_hide_set()) {
            page.render_subcommands_section(&mut out)?;
        }
        notes(command).to_writer(&mut out)
    };
    write().expect("memory takes it all");
    let text = String::from_utf8(out).expect("roff is text");
    // Each section defines the apostrophe anew.
    let end = text.find(".TH").unwrap_or_default();
    let (definition, rest) = text.split_at(end);
    format!("{definition}{}", rest.replace(definition, ""))
}

/// What stands under the options in the help, line by line as it is there.
fn notes(command: &Command) -> Roff {
    let mut roff = Roff::new();
    if let Some(after) = command.get_after_help() {
        roff.control("SH", ["NOTES"]).control("nf", []);
        for line in after.to_string().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}
