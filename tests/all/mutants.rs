//! Every guard is taken out once, and a check must notice: a guard that nobody misses is no guard.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use queenright::engine::redis::Scripts;

use crate::conformance::{Bench, Check, RedisBench, all_of_redis, verdict};
use crate::sources::guards;

/// Each guard, and the check that fails without it.
const CATCHES: &[(&str, &str)] = &[
    ("again-one", "before_their_last_delivery_a_node_holds_a_few"),
    ("alone", "a_busy_node_empties_its_hand_for_a_last_delivery"),
    ("alone-empty", "a_busy_node_empties_its_hand_for_a_last_delivery"),
    ("beat-member", "a_beat_after_leaving_does_not_bring_a_node_back"),
    (
        "bodies-end",
        "a_body_that_is_stored_separately_goes_with_its_last_message",
    ),
    (
        "bodies-refused",
        "bytes_sent_with_a_forgotten_script_go_with_the_next_publish",
    ),
    ("bodies-there", "a_publish_whose_bytes_were_refused_is_not_applied"),
    ("call-ahead", "a_call_ahead_of_its_lane_is_refused"),
    ("call-repeat", "a_repeated_exchange_is_applied_once"),
    ("call-stale", "an_old_copy_of_an_exchange_writes_nothing"),
    ("cancel-beat", "a_beat_tells_what_is_cancelled"),
    ("cancel-bound", "a_group_is_cancelled_up_to_what_was_published_before"),
    (
        "cancel-ended",
        "whoever_takes_a_cancelled_message_is_told_until_it_has_ended",
    ),
    ("cancel-ending", "what_cannot_be_cancelled_is_told_so"),
    (
        "cancel-kept",
        "a_cancel_that_can_match_nothing_is_forgotten_after_an_hour",
    ),
    ("cancel-later", "a_cancel_outlasts_what_is_put_off"),
    ("cancel-max", "no_more_than_a_thousand_cancels_are_pending"),
    ("cancel-published", "what_cannot_be_cancelled_is_told_so"),
    ("cancel-reaped", "a_cancelled_message_delivered_too_often_has_ended"),
    ("cancel-requeue", "a_new_life_is_not_cancelled"),
    (
        "cancel-take",
        "whoever_takes_a_cancelled_message_is_told_until_it_has_ended",
    ),
    ("cancel-waits", "a_cancel_is_kept_while_its_message_may_wait"),
    (
        "chain-full",
        "where_the_queue_is_full_a_message_is_tried_again_and_nothing_has_failed",
    ),
    (
        "chain-group",
        "where_lines_are_full_a_message_is_tried_again_unless_its_own_group_waits_for_it",
    ),
    ("chain-never", "what_can_never_fit_is_an_error"),
    ("chain-turn", "whoever_finds_the_queue_full_makes_room_in_it"),
    (
        "chain-unheard",
        "a_settle_that_publishes_waits_until_all_members_have_spoken_to_another_server",
    ),
    (
        "claim-higher",
        "a_claim_that_is_not_higher_than_all_before_changes_nothing",
    ),
    (
        "claim-once",
        "a_member_that_has_lost_its_claim_does_not_claim_the_same_epoch_again",
    ),
    ("chosen", "the_crown_is_handed_to_whom_it_is_asked_for"),
    ("clock-back", "the_hive_clock_ignores_a_step_back"),
    ("clock-step", "a_pause_of_the_store_deposes_nobody"),
    ("crown-lease", "a_generator_whose_lease_has_run_out_cannot_publish"),
    (
        "cursor",
        "a_cursor_is_stored_with_its_message_and_told_to_the_next_generator",
    ),
    ("deliveries", "a_message_delivered_too_often_becomes_an_error"),
    ("depose-lanes", "a_node_that_left_cannot_settle_what_it_still_held"),
    ("digits", "numbers_beyond_ten_to_the_fourteen_stay_exact"),
    ("clearing", "a_busy_node_empties_its_hand_for_a_last_delivery"),
    ("collect-call", "a_late_collect_confirms_nothing"),
    ("filled", "what_a_failover_lost_is_published_again_under_its_numbers"),
    (
        "fills-again",
        "what_a_failover_lost_is_published_again_under_its_numbers",
    ),
    ("fills", "what_a_failover_lost_is_published_again_under_its_numbers"),
    ("hole-reign", "another_reign_does_not_fill_what_was_lost"),
    ("due", "a_message_that_is_put_off_comes_when_it_is_due"),
    ("effect-number", "only_whole_numbers_are_counted_on"),
    ("effect-own", "effects_on_a_queue_are_refused"),
    ("effect-rights", "a_right_that_effects_lack_costs_their_message_alone"),
    ("rights", "a_right_that_is_taken_away_shows_before_anything_is_written"),
    (
        "shortcut-rights",
        "a_right_that_is_taken_away_shows_before_anything_is_written",
    ),
    ("effect-type", "a_refused_effect_applies_none_and_makes_an_error"),
    ("ending-done", "an_outcome_is_kept_with_its_result_if_it_was_asked_for"),
    (
        "ending-keys",
        "an_outcome_that_is_asked_for_is_kept_however_late_it_is_settled",
    ),
    ("ending-later", "an_outcome_that_is_asked_for_is_that_of_the_last_try"),
    ("ending-pushed", "a_message_is_found_where_it_is"),
    (
        "ending-reaped",
        "a_message_delivered_too_often_has_ended_for_whoever_asked",
    ),
    (
        "ending-requeue",
        "a_requeued_error_has_no_outcome_until_its_next_life_ends",
    ),
    ("ending-until", "an_outcome_is_kept_for_an_hour"),
    (
        "found-all",
        "of_a_message_that_may_wait_behind_many_it_is_not_said_that_it_has_ended",
    ),
    ("endings-max", "of_outcomes_the_oldest_beyond_a_number_is_forgotten"),
    ("endings-until", "an_outcome_is_kept_for_an_hour"),
    ("failures", "failures_are_counted_apart_from_deliveries"),
    ("foreign", "a_key_of_another_type_shows_before_anything_is_written"),
    ("full", "a_full_backlog_waits_until_messages_are_taken"),
    ("gone", "a_generator_whose_connection_is_closed_is_followed_at_once"),
    (
        "gone-generator",
        "a_suspicion_against_the_generator_before_changes_nothing",
    ),
    (
        "gone-look",
        "a_suspicion_against_a_generator_that_is_connected_changes_nothing",
    ),
    (
        "reap-look",
        "a_suspicion_against_a_member_that_is_connected_changes_nothing",
    ),
    ("gap", "a_publish_that_builds_on_lost_messages_is_refused"),
    ("hole-front", "a_generator_keeps_the_numbers_of_what_it_publishes_again"),
    ("group-due", "a_delayed_message_gets_into_line_when_it_is_due"),
    ("group-ended", "a_group_is_handled_one_message_at_a_time_and_in_order"),
    ("group-keys", "a_group_is_handled_one_message_at_a_time_and_in_order"),
    (
        "group-left",
        "where_retries_are_skipped_the_group_goes_on_and_is_counted_right",
    ),
    ("group-once", "a_group_with_many_messages_does_not_delay_one_with_few"),
    ("group-paused", "a_paused_group_waits_until_it_is_resumed"),
    ("group-reaped", "a_message_delivered_too_often_lets_its_group_go_on"),
    ("group-requeue", "a_requeued_error_is_the_first_of_its_line"),
    ("group-returns", "a_message_that_is_given_back_is_the_next_of_its_group"),
    (
        "group-skips",
        "where_retries_are_skipped_the_group_goes_on_and_is_counted_right",
    ),
    ("group-turn", "a_group_is_handled_one_message_at_a_time_and_in_order"),
    ("hold-member", "a_reader_that_was_given_up_cannot_hold_on"),
    ("join-dead", "a_late_join_does_not_bring_back_a_node_that_was_given_up"),
    ("join-token", "an_id_that_another_node_has_is_refused"),
    ("key-types", "a_foreign_key_is_refused"),
    ("lane-record", "a_node_that_was_given_up_cannot_settle"),
    ("layout", "a_queue_of_a_newer_layout_is_refused"),
    ("layout-older", "members_of_an_older_layout_are_deposed"),
    (
        "reshard-note",
        "a_reshard_ends_the_reign_and_who_does_not_know_of_it_is_told_and_not_crowned",
    ),
    (
        "reshard-reign",
        "a_reshard_ends_the_reign_and_who_does_not_know_of_it_is_told_and_not_crowned",
    ),
    (
        "reshard-crown",
        "a_reshard_ends_the_reign_and_who_does_not_know_of_it_is_told_and_not_crowned",
    ),
    (
        "reshard-record",
        "the_generator_of_several_shards_finds_what_that_of_one_has_left",
    ),
    (
        "reshard-unheard",
        "a_reshard_waits_for_members_that_may_know_of_another",
    ),
    ("only-known", "a_push_for_those_that_have_to_be_here_leaves_the_others"),
    ("opener-reshard", "with_memory_full_a_queue_is_paused_and_handed_over"),
    (
        "shortcut-bytes",
        "one_by_one_a_take_brings_no_more_bytes_than_are_wanted",
    ),
    (
        "shortcut-alone",
        "a_lane_that_the_bell_woke_takes_nothing_beside_a_last_delivery",
    ),
    ("shortcut-only", "a_lane_that_the_bell_woke_takes_all_that_it_wants"),
    ("shortcut-call", "one_by_one_every_call_is_counted_as_ever"),
    ("shortcut-piece", "one_by_one_every_call_is_counted_as_ever"),
    ("limit", "a_fleet_takes_what_its_limit_allows_over_a_minute"),
    ("limit-again", "a_message_of_a_group_that_is_tried_again_counts_again"),
    (
        "limit-back",
        "a_clock_that_steps_back_shuts_the_gate_for_one_message_alone",
    ),
    ("limit-bell", "a_limit_that_is_set_wakes_who_waits"),
    (
        "limit-burst",
        "a_clock_that_jumps_forward_opens_the_gate_for_a_burst_alone",
    ),
    ("limit-group", "a_group_is_taken_no_faster_than_its_limit"),
    (
        "limit-quiet",
        "what_is_published_wakes_nobody_whom_the_limit_has_told_when_to_come",
    ),
    ("limit-returned", "what_is_given_back_unhandled_does_not_count"),
    ("made", "a_repeated_publish_is_applied_once"),
    ("made-before", "a_generator_learns_how_far_its_last_reign_came"),
    ("moved", "numbers_that_others_took_are_not_given_again"),
    ("named-once", "a_piece_that_is_named_twice_writes_nothing"),
    ("names", "other_key_names_are_refused"),
    ("once", "a_key_makes_a_repeat_a_no_op_for_its_time"),
    ("once-until", "a_key_makes_a_repeat_a_no_op_for_its_time"),
    ("opener-beat", "with_memory_full_nodes_join_beat_and_leave"),
    ("opener-collect", "with_memory_full_errors_are_collected"),
    ("opener-exchange", "with_memory_full_work_in_hand_is_settled"),
    ("opener-handover", "with_memory_full_a_queue_is_paused_and_handed_over"),
    ("opener-hold", "with_memory_full_errors_are_collected"),
    ("opener-join", "with_memory_full_nodes_join_beat_and_leave"),
    ("opener-pause", "with_memory_full_a_queue_is_paused_and_handed_over"),
    ("opener-release", "with_memory_full_errors_are_collected"),
    ("paused-generator", "while_generating_is_paused_nothing_is_published"),
    ("paused-handlers", "while_handling_is_paused_nothing_is_taken"),
    ("purge-alive", "a_queue_with_live_nodes_is_purged_only_by_force"),
    (
        "purged",
        "a_queue_that_was_removed_under_its_nodes_is_told_from_a_store_that_forgot",
    ),
    ("heard-anew", "the_server_before_last_is_another_one_again"),
    (
        "heard-beat",
        "a_publish_waits_until_all_members_have_spoken_to_another_server",
    ),
    (
        "publish-unheard",
        "a_publish_waits_until_all_members_have_spoken_to_another_server",
    ),
    (
        "push-creates",
        "a_push_that_is_to_make_no_queue_is_told_that_there_is_none",
    ),
    ("push-full", "a_push_into_a_full_queue_writes_nothing"),
    ("push-layout", "a_push_into_a_queue_of_a_newer_layout_is_refused"),
    ("push-names", "a_push_with_other_key_names_is_refused"),
    ("push-repeat", "a_repeated_push_is_applied_once"),
    (
        "push-unheard",
        "a_push_waits_until_all_members_have_spoken_to_another_server",
    ),
    ("push-types", "a_push_into_a_foreign_key_is_refused"),
    ("renew-member", "a_calm_member_that_left_stays_away"),
    ("rank", "a_node_that_would_rather_generate_takes_the_crown"),
    ("reader-lease", "what_a_live_reader_holds_stays"),
    ("reap-expired", "a_live_node_is_not_reaped"),
    ("report-member", "a_report_of_a_stranger_is_ignored"),
    ("report-once", "a_report_that_comes_twice_counts_once"),
    ("requeue-withdraws", "a_requeued_error_is_a_new_life_of_its_message"),
    ("resume-bell", "while_handling_is_paused_nothing_is_taken"),
    ("replays", "a_beat_raises_a_store_that_went_back"),
    ("rewind-beat", "a_beat_raises_a_store_that_went_back"),
    ("rewind-join", "a_join_raises_a_store_that_went_back"),
    ("rewind-made", "pushes_do_not_hide_that_a_store_went_back"),
    ("runs", "runs_that_overlap_or_overreach_write_nothing"),
    ("second-bell", "work_that_comes_or_waits_rings_the_bell"),
    ("step-crown", "a_pause_of_the_store_deposes_nobody"),
    ("step-join", "a_long_lease_lets_no_pause_depose_the_others"),
    ("step-leave", "a_short_lease_slows_nothing_down_once_it_is_gone"),
    (
        "step-vacant",
        "a_fleet_that_never_generates_gives_up_the_dead_within_its_lease",
    ),
    ("suspects", "before_their_last_delivery_a_node_holds_a_few"),
    ("trimmed", "the_oldest_errors_beyond_a_number_are_removed_and_counted"),
    ("token", "a_deposed_generator_cannot_publish"),
    (
        "unarrived",
        "a_repeat_that_wants_nothing_gives_back_what_did_not_arrive",
    ),
    ("vacant", "while_there_is_no_generator_any_member_keeps_house"),
    (
        "want-bytes",
        "a_take_brings_no_more_bytes_than_are_wanted_but_one_message",
    ),
];

/// What a file has no use for.
const OF_REPLICAS: [&str; 5] = ["fills", "fills-again", "filled", "hole-front", "hole-reign"];

/// Stores to try mutants on side by side.
const STORES: usize = 2;

#[test]
fn every_guard_of_the_scripts_is_missed_when_it_is_taken_out() {
    let marked: BTreeSet<String> = Scripts::guards().into_iter().collect();
    let listed: BTreeSet<String> = CATCHES.iter().map(|(guard, _)| (*guard).to_string()).collect();
    assert_eq!(marked, listed, "every guard, and nothing else, is listed");
    let guards: Vec<&str> = CATCHES.iter().map(|(guard, _)| *guard).collect();
    missed::<RedisBench>(&guards, &all_of_redis());
}

#[test]
fn every_guard_of_the_state_is_missed_when_it_is_taken_out() {
    missed::<crate::conformance::LocalBench>(&guards("engine"), &crate::conformance::all());
}

#[test]
fn every_guard_of_sqlite_is_missed_when_it_is_taken_out() {
    let mut guards = guards("engine");
    guards.retain(|guard| !OF_REPLICAS.contains(guard));
    missed::<crate::conformance::SqliteBench>(&guards, &crate::conformance::all());
}

/// Takes each guard out and expects its check to fail; names those that nobody misses.
fn missed<B: Bench>(guards: &[&str], checks: &[Check<B>])
where
    B::Store: Send,
{
    let next = AtomicUsize::new(0);
    let complaints: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let store = B::store();
            let mut complaints = Vec::new();
            while let Some(guard) = guards.get(next.fetch_add(1, Ordering::Relaxed)) {
                complaints.extend(complaint(&store, guard, checks));
            }
            complaints
        };
        let workers: Vec<_> = (0..STORES).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker"))
            .collect()
    });
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn complaint<B: Bench>(store: &B::Store, guard: &str, checks: &[Check<B>]) -> Option<String> {
    let Some((_, named)) = CATCHES.iter().find(|(listed, _)| *listed == guard) else {
        return Some(format!("guard {guard}: no check is listed"));
    };
    let Some(check) = checks.iter().find(|check| check.name == *named) else {
        return Some(format!("guard {guard}: there is no check {named}"));
    };
    if let Err(why) = verdict(store, None, check) {
        return Some(format!("guard {guard}: {named} fails even with it: {why}"));
    }
    if verdict(store, Some(guard), check).is_err() {
        return None;
    }
    let others: Vec<&str> = checks
        .iter()
        .filter(|check| verdict(store, Some(guard), check).is_err())
        .map(|check| check.name)
        .collect();
    Some(format!("guard {guard}: {named} does not miss it; these do: {others:?}"))
}
