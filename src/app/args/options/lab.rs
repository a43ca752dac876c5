//! What `demo`, `verify` and `bench` tell the copies that they start. Not in the help.

use super::{Effect, Group, Opt, Scope, Takes};
use crate::app::args::value;

const GROUP: Group = Group::of("Lab", Scope::Hidden);

options! {
    LEDGER = Opt::new(GROUP, "ledger", Takes::Value("FILE"), Effect::Path(|to, path| to.ledger = Some(path)))
        .help("Write down here what this copy is about to do and what the store confirmed: for whoever checks the queue from outside. In a directory, under a name of its own");
    EFFECTS = Opt::new(GROUP, "effects", Takes::Value("PREFIX"), Effect::Verbatim(|to, text| to.effects = Some(text.into())))
        .help("Every message that is done adds its number to a counter with this prefix, and some publish the next one of a chain");
    UNTIL_STDIN_CLOSES = Opt::new(GROUP, "until-stdin-closes", Takes::Nothing, Effect::Text(set!(until_stdin_closes, value::yes)))
        .help("Stop when stdin ends: a parent that holds the other end takes its copies with it, however it dies");
}
