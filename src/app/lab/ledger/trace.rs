//! What the books say of one message: so a finding says by itself where to look.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::{Ledger, Record};
use crate::node::event::{Entry, What};

/// Of one book, so many lines at most.
const LINES_MAX: usize = 12;

impl Ledger {
    /// All that was written of this message, book by book. None: nothing.
    pub(super) fn trace(&self, number: u64) -> Option<String> {
        let of = |(index, book): (usize, &super::Book)| {
            let said = of_book(book.path(), number);
            (!said.is_empty()).then(|| format!("book-{index} {}", said.join(", ")))
        };
        let said: Vec<String> = self.books.iter().enumerate().filter_map(of).collect();
        (!said.is_empty()).then(|| format!("of message {number} is written: {}", said.join("; ")))
    }
}

fn of_book(path: &Path, number: u64) -> Vec<String> {
    let Ok(file) = File::open(path) else {
        return Vec::new();
    };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let said = lines.filter_map(|line| said(&Record::read(&line)?, number));
    said.take(LINES_MAX).collect()
}

fn said(record: &Record, number: u64) -> Option<String> {
    let of = |entry: &Entry| (entry.first..entry.first + entry.count).contains(&number);
    Some(match record {
        Record::Intends(entry) if of(entry) => format!("asks to be {}", word(entry.what)),
        Record::Confirmed(entry, ms) if of(entry) => format!("{} at {ms}", word(entry.what)),
        Record::Started {
            number: started,
            deliveries,
            ..
        } if *started == number => format!("started (delivery {deliveries})"),
        _ => return None,
    })
}

fn word(what: What) -> String {
    match what {
        What::Publish { epoch } => format!("published (epoch {epoch})"),
        What::Chain { cause } => format!("published by {cause}"),
        What::Take { deliveries, .. } => format!("taken (delivery {deliveries})"),
        What::Done => "done".into(),
        What::Error => "failed".into(),
        What::Return => "given back".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_message_comes_with_all_that_was_written_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::default();
        let books = [
            "joined a\n? p 0 9 4\n! p 0 9 4 100\n",
            "joined b\n! t 5 4 1 4 110\ns 7 1\n? d 7 1 0\n! r 7 2 0 120\n! t 7",
        ];
        for (name, text) in ["0", "1"].iter().zip(books) {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            ledger.add(&path);
        }
        let wanted = "of message 7 is written: book-0 asks to be published (epoch 4), published (epoch 4) at 100; book-1 taken (delivery 1) at \
                      110, started (delivery 1), asks to be done, given back at 120";
        assert_eq!(ledger.trace(7).as_deref(), Some(wanted));
        assert_eq!(ledger.trace(9), None);
    }
}
