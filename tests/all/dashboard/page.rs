//! The page in a real browser. One browser for all scenes: it starts slowly.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::access::token_file;
use super::board::{Board, fail_all, hostile_host, new_queue, numbered, push_all};
use super::browser::Browser;
use super::client::get;
use crate::fleet::Fleet;
use crate::server::RedisServer;

#[test]
fn the_page_does_in_a_browser_what_it_promises() {
    let server = RedisServer::start();
    let browser = Browser::start();
    browser.look(1280, 900, false);
    an_absent_queue_is_told_with_what_to_do(&browser, &server);
    a_killed_generator_shows_as_a_failover(&browser, &server);
    errors_are_searched_requeued_and_deleted(&browser, &server);
    hostile_messages_are_shown_as_text(&browser, &server);
    hostile_names_and_addresses_are_shown_as_text(&browser, &server);
    a_message_is_pushed_and_work_is_paused(&browser, &server);
    the_token_is_asked_for_once(&browser, &server);
    a_page_of_another_origin_can_do_nothing(&browser, &server);
    who_only_looks_finds_no_buttons(&browser, &server);
    the_page_switches_between_queues(&browser, &server);
    no_axis_has_a_label_twice(&browser, &server);
    a_store_that_is_gone_is_told_and_its_return_too(&browser);
}

fn the_page_switches_between_queues(browser: &Browser, server: &RedisServer) {
    let (first, second) = (new_queue(), format!("{} & more", new_queue()));
    push_all(server, &first, &numbered(1));
    push_all(server, &second, &numbered(3));
    let board = Board::start(server, &first, &["--all-queues"]);
    browser.open(&board.url);
    let shows = |count: u64| format!("return document.querySelector('.tile.queued b').textContent === '{count}'");
    browser.wait_for("the first", &shows(1));
    browser.wait_for("the list", "return !document.getElementById('queues').hidden");
    let choose = |name: &str| {
        let name = serde_json::Value::from(name);
        browser.run(&format!(
            "const list = document.getElementById('queues'); list.value = {name}; list.dispatchEvent(new Event('change'));"
        ));
    };
    choose(&second);
    browser.wait_for("the second", &shows(3));
    assert_eq!(browser.text("#queue"), second);
    browser.wait_for("the list", "return !document.getElementById('queues').hidden");
    choose(&first);
    browser.wait_for("the first again", &shows(1));
}

fn no_axis_has_a_label_twice(browser: &Browser, server: &RedisServer) {
    // One message waits: an axis of whole numbers from 0 to 1.
    let fleet = Fleet::on(server)
        .queue(&new_queue())
        .args("--interval 10m --messages 1")
        .start_led();
    let board = Board::start(server, fleet.queue(), &[]);
    browser.open(&board.url);
    browser.wait_for(
        "charts",
        "return document.querySelectorAll('#charts path.line').length > 0",
    );
    let labels = browser.run(
        "return [...document.querySelectorAll('.plot')].map((plot) => [...plot.querySelectorAll('.tick.end')].map((tick) => tick.textContent))",
    );
    for axis in labels.as_array().expect("axes") {
        let labels: Vec<_> = axis
            .as_array()
            .expect("labels")
            .iter()
            .map(ToString::to_string)
            .collect();
        let once: std::collections::BTreeSet<_> = labels.iter().collect();
        assert_eq!(once.len(), labels.len(), "{labels:?}");
    }
}

fn an_absent_queue_is_told_with_what_to_do(browser: &Browser, server: &RedisServer) {
    let queue = new_queue();
    let board = Board::start(server, &queue, &[]);
    browser.open(&board.url);
    browser.wait_for("the empty state", "return !document.getElementById('empty').hidden");
    assert!(browser.text("#empty").contains("queenright start"));
    push_all(server, &queue, &[b"x".to_vec()]);
    browser.wait_for(
        "the queue",
        "return document.querySelector('.tile.queued b').textContent === '1'",
    );
    assert!(
        browser.text("#banners").contains("No node is alive"),
        "{}",
        browser.text("#banners")
    );
}

fn a_killed_generator_shows_as_a_failover(browser: &Browser, server: &RedisServer) {
    let mut fleet = Fleet::on(server)
        .queue(&new_queue())
        .copies(3)
        .args("--interval 20ms --work 0")
        .start_led();
    let board = Board::start(server, fleet.queue(), &[]);
    browser.open(&board.url);
    browser.wait_for(
        "the page is live",
        "return document.querySelector('#live.good') !== null",
    );
    let first = browser.wait_for(
        "a generator",
        "const who = document.getElementById('crown-node').textContent; return who !== '–' && who !== 'nobody' && who",
    );
    browser.wait_for(
        "all nodes",
        "return document.querySelectorAll('#nodes tbody tr').length >= 3",
    );
    browser.wait_for(
        "the numbers",
        "return document.querySelector('.tile.published b').textContent !== '–'",
    );
    browser.wait_for(
        "the timeline",
        "return document.querySelector('#reigns .reign') !== null",
    );
    browser.wait_for(
        "the store",
        "return /\\d/.test(document.getElementById('facts').textContent)",
    );
    let epoch = |browser: &Browser| browser.run("return Number(document.getElementById('crown-epoch').textContent)");
    let before = epoch(browser).as_u64().expect("an epoch");
    fleet.kill9(fleet.generator());
    browser.wait_for(
        "a failover",
        &format!("return Number(document.getElementById('crown-epoch').textContent) > {before}"),
    );
    browser.wait_for(
        "another generator",
        &format!(
            "const who = document.getElementById('crown-node').textContent; return who !== {first} && who !== 'nobody'"
        ),
    );
    browser.wait_for("the gap", "return document.querySelector('#reigns .gap') !== null && document.getElementById('crown-gap').textContent !== '–'");
    browser.wait_for(
        "charts",
        "return document.querySelectorAll('#charts path.line').length > 0",
    );
    keep(browser, "failover");
    browser.look(1280, 900, true);
    let dark = browser.run("return getComputedStyle(document.body).backgroundColor");
    keep(browser, "dark");
    browser.look(390, 844, false);
    assert_ne!(
        browser.run("return getComputedStyle(document.body).backgroundColor"),
        dark
    );
    let wide = browser.run("return document.documentElement.scrollWidth > innerWidth");
    assert_eq!(wide, false, "nothing sticks out of a narrow screen");
    keep(browser, "narrow");
    browser.look(1280, 900, false);

    // The crown is handed over by hand.
    let before = epoch(browser).as_u64().expect("an epoch");
    browser.click("#do-handover");
    browser.click("#confirm");
    browser.wait_for(
        "another reign",
        &format!("return Number(document.getElementById('crown-epoch').textContent) > {before}"),
    );
}

/// The numbers that the table shows.
fn listed(browser: &Browser) -> Value {
    browser.run("return [...document.querySelectorAll('#errors tbody .link')].map((link) => Number(link.textContent.replaceAll(',', '')))")
}

fn wait_listed(browser: &Browser, wanted: &[u64]) {
    let links = "[...document.querySelectorAll('#errors tbody .link')].map((link) => link.textContent).join()";
    let wanted: Vec<String> = wanted.iter().map(u64::to_string).collect();
    let wanted = wanted.join(",");
    browser.wait_for(&format!("{wanted} listed"), &format!("return {links} === '{wanted}'"));
}

fn errors_are_searched_requeued_and_deleted(browser: &Browser, server: &RedisServer) {
    let queue = new_queue();
    fail_all(server, &queue, &numbered(120), |message| {
        if message.number % 40 == 7 {
            "a rare timeout".into()
        } else {
            "it failed".into()
        }
    });
    let board = Board::start(server, &queue, &[]);
    browser.open(&format!("{}#errors", board.url));
    browser.wait_for(
        "a page",
        "return document.querySelectorAll('#errors tbody tr').length === 50",
    );
    assert_eq!(listed(browser)[0], 119, "the newest first");
    browser.click("#page-next");
    browser.wait_for(
        "the next page",
        "return document.querySelector('#errors tbody .link')?.textContent === '69'",
    );
    browser.click("#page-prev");
    browser.wait_for(
        "the page before",
        "return document.querySelector('#errors tbody .link')?.textContent === '119'",
    );

    browser.write("#filters [name=text]", "rare");
    browser.click("#filters [type=submit]");
    wait_listed(browser, &[87, 47, 7]);
    assert!(
        browser.text("#search-state").contains("looked at 120"),
        "{}",
        browser.text("#search-state")
    );
    // One of them, from its own page.
    browser.click("#error-47 .link");
    browser.wait_for(
        "the message",
        "return document.querySelector('dialog[open] .payload')?.textContent === '47'",
    );
    browser.click("dialog .primary");
    browser.click("#confirm");
    wait_listed(browser, &[87, 7]);
    // The selected.
    browser.click("#error-7 input");
    browser.click("#picked-delete");
    browser.click("#confirm");
    wait_listed(browser, &[87]);
    // All that match; a cancelled change changes nothing.
    browser.click("#all-delete");
    browser.click("dialog .row button");
    browser.click("#all-delete");
    browser.click("#confirm");
    browser.wait_for("no match", "return !document.getElementById('errors-empty').hidden");
    let status = board.ask(&get("/api/v1/status")).json();
    assert_eq!((&status["errors"], &status["queued"]), (&json!(117), &json!(1)));
    // All there are.
    browser.click("#filters [type=reset]");
    browser.wait_for(
        "all of them",
        "return document.querySelectorAll('#errors tbody tr').length === 50",
    );
    browser.click("#all-requeue");
    browser.click("#confirm");
    browser.wait_for("none", "return !document.getElementById('errors-empty').hidden && document.getElementById('errors-empty').textContent.startsWith('No errors')");
    let status = board.ask(&get("/api/v1/status")).json();
    assert_eq!((&status["errors"], &status["queued"]), (&json!(0), &json!(118)));
}

fn hostile_messages_are_shown_as_text(browser: &Browser, server: &RedisServer) {
    let queue = new_queue();
    let script = "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>";
    let payloads = [
        script.as_bytes(),
        b"\x1b[2J\x1b]0;title\x07 \xe2\x80\xaeright to left",
        b"\xff\xfe\x00bytes",
        br#"{"a":[1,"</pre><script>window.hurt = 3</script>"]}"#,
    ];
    fail_all(server, &queue, &payloads.map(<[u8]>::to_vec), |message| {
        format!(
            "<b onclick='window.hurt = 4'>bold</b> \u{1b}[31m {}",
            String::from_utf8_lossy(&message.payload)
        )
    });
    let board = Board::start(server, &queue, &[]);
    browser.open(&format!("{}#errors", board.url));
    browser.wait_for(
        "the errors",
        "return document.querySelectorAll('#errors tbody tr').length === 4",
    );
    let table = browser.text("#errors tbody");
    assert!(
        table.contains("<script>window.hurt = 1</script>") && table.contains("<b onclick"),
        "{table}"
    );
    assert!(
        table.contains("\\u001b[2J") && table.contains("\\u202e"),
        "control characters are shown as codes: {table}"
    );
    let raw =
        browser.run(r"return /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/.test(document.body.innerText)");
    assert_eq!(raw, false, "nothing unseen is left in the text");
    let shown = |number: u64, form: &str| {
        browser.click(&format!("#error-{number} .link"));
        browser.wait_for("the message", &format!("return document.querySelector('dialog[open] .payload') && document.getElementById('dialog-title').textContent === 'Message {number}'"));
        if !form.is_empty() {
            browser.run(&format!("[...document.querySelectorAll('dialog .segmented button')].find((button) => button.textContent === '{form}').click()"));
        }
        let text = browser.text("dialog .payload");
        browser.click("dialog .close");
        text
    };
    assert_eq!(shown(0, ""), script);
    assert!(shown(0, "Hex").contains("3c 73 63 72 69 70 74 3e"));
    let bytes = shown(2, "");
    assert!(
        bytes.contains("ff fe 00 62 79 74 65 73"),
        "no text: shown as bytes: {bytes}"
    );
    assert!(
        shown(3, "").contains("\"</pre><script>window.hurt = 3</script>\""),
        "JSON"
    );
    assert_eq!(browser.run("return window.hurt ?? null"), Value::Null);
    assert_eq!(
        browser.run(
            "return document.querySelectorAll('main script, main img[onerror], main b[onclick], dialog script').length"
        ),
        0
    );
}

fn hostile_names_and_addresses_are_shown_as_text(browser: &Browser, server: &RedisServer) {
    let queue = format!("{}\u{202e}\u{61c}evil", new_queue());
    push_all(server, &queue, &[b"x".to_vec()]);
    let board = Board::start(server, &queue, &[]);
    for hash in ["constructor", "__proto__", "toString", "hasOwnProperty"] {
        browser.open(&format!("{}#{hash}", board.url));
        browser.wait_for(
            "the overview",
            "return !document.getElementById('view-overview').hidden && document.querySelector('.tile.queued b').textContent === '1'",
        );
    }
    let name = browser.text("#queue");
    assert!(name.ends_with("\\u202e\\u061cevil"), "{name}");
    hostile_host(
        server,
        &queue,
        "<img src=x onerror='window.hurt = 5'>\u{202e}\u{61c}\u{1b}[2J",
    );
    browser.wait_for(
        "the stranger is listed",
        "return document.body.innerText.includes('<img src=x onerror')",
    );
    assert_eq!(browser.run("return window.hurt ?? null"), Value::Null);
    let unseen = r"return /[\u061c\u202a-\u202e]/.test(document.body.innerText + document.title)";
    assert_eq!(browser.run(unseen), false, "nothing unseen is left in the text");
}

fn a_message_is_pushed_and_work_is_paused(browser: &Browser, server: &RedisServer) {
    let queue = new_queue();
    push_all(server, &queue, &[b"first".to_vec()]);
    let board = Board::start(server, &queue, &[]);
    browser.open(&board.url);
    browser.click("#do-push");
    browser.write("#push-payload", "from the page <b>");
    browser.click("dialog .primary");
    browser.wait_for(
        "two queued",
        "return document.querySelector('.tile.queued b').textContent === '2'",
    );
    browser.click("#do-pause-handlers");
    browser.wait_for(
        "the pause",
        "return document.getElementById('banners').textContent.includes('Handling is paused')",
    );
    assert_eq!(
        board.ask(&get("/api/v1/status")).json()["paused"],
        json!({"generator": false, "handlers": true})
    );
    browser.click("#do-pause-handlers");
    browser.wait_for(
        "no pause",
        "return !document.getElementById('banners').textContent.includes('paused')",
    );
    // With the keyboard alone: everything that can be clicked can be reached.
    let unreachable = browser.run(
        "return [...document.querySelectorAll('main [onclick], .tile, td')].filter((each) => each.onclick && each.tabIndex < 0).length",
    );
    assert_eq!(unreachable, 0);
    let nameless = browser.run(
        "return [...document.querySelectorAll('button, a, input, select, svg[role=img]')].filter((each) => \
         !(each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length)).map((each) => each.outerHTML)",
    );
    assert_eq!(nameless, json!([]), "everything has a name for who does not see");
}

fn the_token_is_asked_for_once(browser: &Browser, server: &RedisServer) {
    let queue = new_queue();
    push_all(server, &queue, &[b"x".to_vec()]);
    let directory = tempfile::tempdir().expect("a directory");
    let board = Board::start(server, &queue, &["--token-file", &token_file(directory.path())]);
    browser.open(&board.url);
    browser.wait_for("the question", "return !document.getElementById('view-login').hidden");
    assert!(!browser.text("main").contains("Queued"));
    browser.write("#token", "wrong-horse-battery");
    browser.click("#login button");
    browser.wait_for(
        "the refusal",
        "return document.getElementById('login-error').textContent.includes('not the token')",
    );
    browser.write("#token", "correct-horse-battery");
    browser.click("#login button");
    browser.wait_for(
        "the page",
        "return document.querySelector('.tile.queued b').textContent === '1'",
    );
    assert_eq!(
        browser.run("return document.cookie"),
        "",
        "no script can read the cookie"
    );
    browser.open(&board.url);
    browser.wait_for(
        "the page again",
        "return document.querySelector('.tile.queued b').textContent === '1'",
    );
    browser.click("#do-logout");
    browser.wait_for(
        "the question again",
        "return !document.getElementById('view-login').hidden",
    );
}

fn a_page_of_another_origin_can_do_nothing(browser: &Browser, server: &RedisServer) {
    let queue = new_queue();
    fail_all(server, &queue, &numbered(3), |_| "it failed".into());
    let (victim, other) = (
        Board::start(server, &queue, &[]),
        Board::start(server, &new_queue(), &[]),
    );
    browser.open(&format!("{}api/v1/session", other.url));
    // The policy of that page would stop it before it is sent: a page of an attacker has none.
    browser.cdp("Page.setBypassCSP", &json!({"enabled": true}));
    browser.open(&format!("{}api/v1/session", other.url));
    let tries = format!(
        "const url = '{}api/v1/errors/delete'; const told = []; \
         for (const type of ['application/json', 'text/plain']) {{ \
           for (const mode of ['cors', 'no-cors']) {{ \
             try {{ told.push((await fetch(url, {{method: 'POST', mode, headers: {{'content-type': type}}, body: '{{\"select\":{{}}}}'}})).type); }} \
             catch (error) {{ told.push('refused'); }} }} }} \
         try {{ await (await fetch('{}api/v1/status')).text(); told.push('read'); }} catch (error) {{ told.push('refused'); }} \
         return told",
        victim.url, victim.url
    );
    let told = browser.run(&tries);
    assert_eq!(told, json!(["refused", "refused", "refused", "refused", "refused"]));
    assert_eq!(victim.ask(&get("/api/v1/status")).json()["errors"], 3);
    browser.cdp("Page.setBypassCSP", &json!({"enabled": false}));
}

fn who_only_looks_finds_no_buttons(browser: &Browser, server: &RedisServer) {
    let queue = new_queue();
    fail_all(server, &queue, &numbered(1), |_| "it failed".into());
    let board = Board::start(server, &queue, &["--read-only"]);
    browser.open(&format!("{}#errors", board.url));
    browser.wait_for(
        "the error",
        "return document.querySelectorAll('#errors tbody tr').length === 1",
    );
    let seen = browser.run(
        "return ['do-push', 'do-handover', 'switches', 'all-requeue', 'all-delete', 'picked'].filter((id) => document.getElementById(id).checkVisibility())",
    );
    assert_eq!(seen, json!([]));
}

fn a_store_that_is_gone_is_told_and_its_return_too(browser: &Browser) {
    let mut server = RedisServer::durable();
    let queue = new_queue();
    push_all(&server, &queue, &[b"x".to_vec()]);
    let board = Board::start(&server, &queue, &[]);
    browser.open(&board.url);
    browser.wait_for(
        "the page",
        "return document.querySelector('.tile.queued b').textContent === '1'",
    );
    server.kill();
    browser.wait_for(
        "the trouble",
        "return document.querySelector('#live.bad') !== null && document.body.classList.contains('stale')",
    );
    browser.wait_for(
        "what it is",
        "return document.getElementById('banners').textContent.includes('is away')",
    );
    server.restart();
    browser.wait_for(
        "its return",
        "return document.querySelector('#live.good') !== null && !document.body.classList.contains('stale')",
    );
    // The dashboard itself goes: the page says that it is stale, and goes on when there is one again.
    let address = board.address.clone();
    drop(board);
    browser.wait_for(
        "stale",
        "return document.getElementById('live-text').textContent.startsWith('stale')",
    );
    let again = Board::start(&server, &queue, &["--listen", &address]);
    browser.wait_for("live again", "return document.querySelector('#live.good') !== null");
    drop(again);
}

/// Keeps the screen if somebody wants to look at it.
pub fn keep(browser: &Browser, name: &str) {
    let picture = browser.picture();
    assert!(
        picture.starts_with(b"\x89PNG") && picture.len() > 10_000,
        "an empty screen"
    );
    if let Some(directory) = std::env::var_os("QUEENRIGHT_SCREENS") {
        std::fs::write(PathBuf::from(directory).join(format!("{name}.png")), picture).expect("written");
    }
}
