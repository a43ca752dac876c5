//! A message is started once in each delivery.

use super::*;

#[test]
fn a_message_that_is_started_twice_in_one_delivery() {
    for (number, deliveries) in [(1, 1), (4, 2)] {
        let mut run = Run::new();
        run.starts(HANDLER, number, deliveries);
        run.finds(&["started twice in one delivery"]);
    }
}

#[test]
fn a_message_whose_effects_found_no_room_is_started_again_in_the_same_delivery() {
    let started_again = || {
        let mut run = Run::new();
        run.does(HANDLER, 1, 1, What::Return, 150);
        run.starts(HANDLER, 1, 1);
        run
    };
    started_again().finds(&[]);
    // It excuses no other.
    let mut run = started_again();
    run.starts(HANDLER, 3, 1);
    run.finds(&["started twice in one delivery"]);
}
