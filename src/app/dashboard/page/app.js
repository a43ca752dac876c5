// The whole page: logs in, listens, and shows one view.

import { $, Refused, api, attempt, duration, h, number, say, visible } from "./dom.js";
import * as overview from "./overview.js";
import * as errors from "./errors.js";
import * as actions from "./actions.js";

/** Without a sample for so long, what is shown may not be true any more. */
const STALE = 3000;
const views = {
  overview: { open() {}, close() {} },
  errors,
  hand: { open: actions.openHand, close: actions.closeHand },
};

let session = null;
let source = null;
let view = null;
let last = null;
let came = 0;
let ahead = 0;

/** The store's time. */
const now = () => Date.now() + ahead;

async function boot() {
  try {
    session = await api("session");
  } catch {
    state("bad", "no answer");
    setTimeout(boot, 2000);
    return;
  }
  say($("version"), `queenright ${session.version}`);
  if (!session.admitted) return login();
  $("view-login").hidden = true;
  actions.begin(session, now);
  errors.begin(session, now);
  listen();
  go();
  queues();
  return undefined;
}

/** With --all-queues, each queue has a page of its own below the first. */
async function queues() {
  let told;
  try {
    told = await api("queues");
  } catch {
    return;
  }
  const own = location.pathname.match(/\/q\/([^/]+)\/$/);
  const root = own ? "../../" : "./";
  const names = told.queues;
  $("queues").hidden = names.length < 2;
  $("queues").replaceChildren(
    h("option", { value: "" }, "switch…"),
    ...names.map((name) => h("option", { value: name }, name)));
  $("queues").onchange = () => {
    const name = $("queues").value;
    if (name) location.assign(`${root}q/${encodeURIComponent(name)}/${location.hash}`);
  };
}

function login() {
  source?.close();
  source = null;
  for (const each of document.querySelectorAll(".view")) each.hidden = each.id !== "view-login";
  $("actions").hidden = true;
  state("bad", "logged out");
  $("token").focus();
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt($("login").querySelector("button"), async () => {
    try {
      await api("session", { method: "POST", body: { token: $("token").value } });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      say($("login-error"), error.status === 401 ? "This is not the token." : error.message);
      $("token").select();
      return;
    }
    $("token").value = "";
    say($("login-error"), "");
    boot();
  });
});
addEventListener("token-needed", login);

/** One view at a time, named by the address. */
function go() {
  if (!session?.admitted) return;
  const asked = location.hash.slice(1);
  const name = Object.hasOwn(views, asked) ? asked : "overview";
  if (view === name) return;
  if (view) views[view].close();
  view = name;
  for (const each of Object.keys(views)) {
    $(`view-${each}`).hidden = each !== name;
    if (each === name) $(`tab-${each}`).setAttribute("aria-current", "page");
    else $(`tab-${each}`).removeAttribute("aria-current");
  }
  views[name].open();
  if (last) show(last);
}
addEventListener("hashchange", go);

/** Browsers connect again by themselves, unless they were refused. */
function listen() {
  source?.close();
  source = new EventSource("api/v1/events");
  source.addEventListener("sample", (event) => {
    came = Date.now();
    last = JSON.parse(event.data);
    ahead = last.now_ms - came;
    show(last);
  });
  source.addEventListener("error", () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    setTimeout(async () => {
      try {
        session = await api("session");
        if (session.admitted) listen();
        else login();
      } catch {
        listen();
      }
    }, 2000);
  });
}

/** Who does not look is not told. */
document.addEventListener("visibilitychange", () => {
  if (!session?.admitted) return;
  if (document.hidden) {
    source?.close();
    source = null;
  } else listen();
});

function state(kind, text) {
  if ($("live").className !== `live ${kind}`) $("live").className = `live ${kind}`;
  say($("live-text"), text);
}

function tick() {
  if (!source) return;
  const age = Date.now() - came;
  const stale = came > 0 && age > STALE;
  document.body.classList.toggle("stale", stale || Boolean(last?.problem));
  if (!came) state("wait", "connecting…");
  else if (stale) state("bad", `stale: ${duration(age)} old`);
  else if (last.problem) state("bad", last.problem.code === "no_queue" ? "no queue" : "no store");
  else state("good", "live");
}
setInterval(tick, 500);

function show(sample) {
  banners(sample);
  const { status, problem } = sample;
  const absent = problem?.code === "no_queue";
  $("empty").hidden = !absent;
  $("overview-body").hidden = absent;
  if (absent) empty();
  if (status) {
    document.title = `${visible(status.queue)} · queenright`;
    say($("queue"), status.queue);
    say($("store"), status.store);
    say($("count-errors"), status.errors ? number(status.errors) : "");
    say($("count-hand"), status.in_hand ? number(status.in_hand) : "");
    actions.sample(status);
    errors.sample(status);
    if (view === "overview") overview.show(sample);
  }
  tick();
}

function empty() {
  if ($("empty").children.length) return;
  $("empty").append(
    h("h2", {}, "There is no queue yet"),
    h("p", {}, "It is created when the first copy starts, or with the first message that is pushed. On the same Redis and with the same --queue as this dashboard:"),
    h("pre", {}, "queenright start\nqueenright push hello"));
}

function banners({ status, problem }) {
  const all = [];
  if (problem && problem.code !== "no_queue") all.push(["bad", `${problem.error}. What is shown is the last that was seen; the dashboard keeps trying.`]);
  if (status && !overview.alive(status)) all.push(["warn", "No node is alive: nothing is generated or handled. Start one with: queenright start"]);
  else if (status?.nobody_handles) all.push(["warn", "Messages wait, and the only copy generates: start another, or give it --also-handle."]);
  if (status?.paused.generator) all.push(["warn", "Generating is paused: nothing is published but what is pushed."]);
  if (status?.paused.handlers) all.push(["warn", "Handling is paused: nothing is taken."]);
  const { rate, group } = status?.limits ?? {};
  if (status?.cancels) all.push(["note", `Cancels that are pending: ${status.cancels}. More: queenright cancel`]);
  if (rate || group) all.push(["note", `Messages are taken no faster than ${[rate, group && `${group} of each group`].filter(Boolean).join(", ")}. To change it: queenright limit`]);
  const held = status?.groups.paused ?? [];
  if (held.length) all.push(["warn", `${held.length === 1 ? "A group is" : `${number(held.length)} groups are`} paused: ${held.slice(0, 3).join(", ")}${held.length > 3 ? ", …" : ""}. To let it go on: queenright resume --group`]);
  const away = (status?.shards ?? []).flatMap((shard, at) => (shard.away === null ? [] : [at]));
  if (away.length) all.push(["bad", `${away.length === 1 ? "Shard" : "Shards"} ${away.slice(0, 5).join(", ")}${away.length > 5 ? ", …" : ""} ${away.length === 1 ? "does" : "do"} not answer: those messages wait, and are not in the figures. The others go on.`]);
  if (status?.rewinds) all.push(["warn", `The store went back in time ${number(status.rewinds)} times: it lost writes that it had acknowledged.`]);
  const key = JSON.stringify(all);
  if ($("banners").dataset.shown === key) return;
  $("banners").dataset.shown = key;
  $("banners").replaceChildren(...all.map(([kind, text]) => h("p", { class: `banner ${kind}` }, text)));
}

boot();
