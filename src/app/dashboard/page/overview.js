// The first view: the crown, the numbers of now, the charts, the nodes, the store.

import { Chart, timeline } from "./chart.js";
import { $, api, bytes, duration, h, number, rate, say, short } from "./dom.js";

const SPAN = { "5m": 300e3, "1h": 3600e3, "24h": 86400e3 };
const EVERY = { "5m": 2500, "1h": 15e3, "24h": 60e3 };

let range = "5m";
let history = null;
let epoch = null;
let due = 0;
let asking = false;

const TILES = [
  ["queued", "Queued", "wait to be taken"],
  ["in_hand", "In hand", "are being handled"],
  ["later", "Later", "are put off"],
  ["errors", "Errors", "failed and are kept"],
  ["published", "Published / s", ""],
  ["done", "Done / s", ""],
  ["failed", "Failed / s", ""],
];
const tiles = {};
for (const [key, name, what] of TILES) {
  const big = h("b", {}, "–");
  const small = h("small", {}, what);
  tiles[key] = { big, small, box: h("div", { class: `tile ${key}` }, h("span", { class: "label" }, name), big, small) };
  $("tiles").append(tiles[key].box);
}

const quiet = "nothing yet: nodes report every few seconds";
const charts = [
  new Chart("Backlog", [
    { name: "queued", key: "queued", kind: "queued" },
    { name: "in hand", key: "in_hand", kind: "hand" },
    { name: "later", key: "later", kind: "later" },
  ], short, quiet),
  new Chart("Errors kept", [{ name: "errors", key: "errors", kind: "failed" }], short, quiet),
  new Chart("Messages / s", [
    { name: "published", key: "published", kind: "published" },
    { name: "done", key: "done", kind: "done" },
    { name: "failed", key: "failed", kind: "failed" },
  ], rate, quiet),
  new Chart("Handling time", [
    { name: "p99", key: "handle_p99_ms", kind: "p99" },
    { name: "p50", key: "handle_p50_ms", kind: "p50" },
  ], duration, quiet),
  new Chart("Waiting time", [
    { name: "p99", key: "wait_p99_ms", kind: "p99" },
    { name: "p50", key: "wait_p50_ms", kind: "p50" },
  ], duration, quiet),
];
$("charts").append(...charts.map((chart) => chart.figure));

for (const button of $("ranges").children) {
  button.addEventListener("click", () => {
    range = button.dataset.range;
    for (const other of $("ranges").children) other.setAttribute("aria-pressed", String(other === button));
    due = 0;
    look();
  });
}

async function look() {
  if (asking) return;
  asking = true;
  try {
    const asked = range;
    const told = await api(`history?range=${asked}`);
    due = Date.now() + EVERY[asked];
    if (asked === range) {
      history = told;
      // The store's clock may differ from ours.
      history.ahead = told.now_ms - Date.now();
      draw();
    } else due = 0;
  } catch {
    due = Date.now() + 2000;
  } finally {
    asking = false;
  }
}

function draw() {
  if (!history) return;
  const to = history.now_ms;
  const from = to - SPAN[range];
  for (const chart of charts) chart.set(history.points, from, to, history.step_ms);
}

/** Shows a sample. */
export function show(sample) {
  const status = sample.status;
  if (!status) return;
  if (Date.now() >= due || (epoch !== null && epoch !== status.epoch)) look();
  epoch = status.epoch;
  crown(status, sample.now_ms);
  for (const key of ["queued", "in_hand", "later", "errors"]) say(tiles[key].big, short(status[key]));
  for (const key of ["published", "done", "failed"]) {
    say(tiles[key].big, rate(status.rates?.[key]));
    say(tiles[key].small, `${short(status[key])} in all`);
  }
  const { waiting, longest } = status.groups;
  const groups = `in ${short(waiting)} ${waiting === 1 ? "group" : "groups"}, longest ${longest[0]?.group} (${short(longest[0]?.messages)})`;
  say(tiles.queued.small, waiting ? groups : "wait to be taken");
  say(tiles.errors.small, status.trimmed ? `${short(status.trimmed)} more were trimmed` : "failed and are kept");
  tiles.errors.box.classList.toggle("alarm", status.errors > 0);
  nodes(status);
  shards(status.shards);
  if (sample.facts) facts(sample.facts);
}

/** How many nodes were heard of within their leases. */
export function alive(status) {
  return status.nodes.filter((node) => !node.silent_ms).length;
}

function crown(status, now) {
  const who = status.nodes.find((node) => node.generates);
  say($("crown-node"), status.generator || "nobody");
  say($("crown-host"), who ? `${who.host} · pid ${who.pid}` : alive(status) ? "an election is under way" : "no node is alive");
  $("crown-node").closest(".crown").classList.toggle("vacant", !status.generator);
  say($("crown-epoch"), number(status.epoch));
  const reigns = history?.reigns ?? [];
  const last = reigns.at(-1);
  const current = last && last.epoch === status.epoch && status.generator;
  say($("crown-since"), current ? duration(Math.max(now - last.began_ms, 0)) : "–");
  const before = reigns.findLast((reign) => reign.gap_ms !== null);
  say($("crown-gap"), before ? duration(before.gap_ms) : "–");
  if (history) timeline($("reigns"), reigns, now - SPAN[range], now, status.generator);
  for (const part of ["generator", "handlers"]) {
    const button = $(`do-pause-${part}`);
    const what = part === "generator" ? "generating" : "handling";
    say(button, `${status.paused[part] ? "Resume" : "Pause"} ${what}`);
    button.setAttribute("aria-pressed", String(status.paused[part]));
  }
}

const rows = new Map();

/** Rows are kept, and only what changed is written: no flicker, and a selection stays. */
function nodes(status) {
  say($("count-nodes"), number(alive(status)));
  const sorted = [...status.nodes].sort((a, b) => b.generates - a.generates || b.age_ms - a.age_ms || (a.node < b.node ? -1 : 1)).slice(0, 500);
  const seen = new Set();
  for (const [at, node] of sorted.entries()) {
    seen.add(node.node);
    if (!rows.has(node.node)) {
      const cells = Array.from({ length: 11 }, (_, i) => h(i ? "td" : "th", { scope: i ? undefined : "row", class: i > 3 ? "num" : i ? "" : "mono" }));
      rows.set(node.node, { cells, row: h("tr", {}, cells) });
    }
    const { cells, row } = rows.get(node.node);
    row.classList.toggle("queen", node.generates);
    const texts = [node.node, node.silent_ms ? "silent" : node.generates ? "generator" : "handler", `${node.host} · ${node.pid}`, node.version,
      number(node.concurrency), number(node.in_hand), node.rate === null ? "–" : `${rate(node.rate)}/s`, number(node.done),
      number(node.failed), duration(node.age_ms), node.beat_ms === null || node.beat_ms === undefined ? "–" : `${(node.beat_ms / 1000).toFixed(1)} s ago`];
    texts.forEach((text, i) => say(cells[i], text));
    cells[10].classList.toggle("late", node.silent_ms > 0);
    const body = $("nodes").tBodies[0];
    if (body.children[at] !== row) body.insertBefore(row, body.children[at] ?? null);
  }
  for (const [id, { row }] of rows) {
    if (!seen.has(id)) {
      row.remove();
      rows.delete(id);
    }
  }
}

/** Which server has what: only where the queue is spread over several. */
function shards(all) {
  $("shards-part").hidden = all.length === 0;
  say($("count-shards"), number(all.length));
  const body = $("shards").tBodies[0];
  while (body.children.length > all.length) body.lastChild.remove();
  all.forEach((shard, at) => {
    if (!body.children[at]) body.append(h("tr", {}, Array.from({ length: 8 }, (_, i) => h(i ? "td" : "th", { scope: i ? undefined : "row", class: i > 2 ? "num" : "" }))));
    const away = shard.away !== null;
    const row = body.children[at];
    const texts = [number(at), shard.place ?? "–", away ? `away: ${shard.away}` : shard.hot ? "hot: more messages wait here than in the others" : "answers",
      ...[shard.published, shard.queued, shard.in_hand].map((count) => (away ? "–" : number(count))),
      shard.rate === null ? "–" : `${rate(shard.rate)}/s`, away ? "–" : number(shard.errors)];
    texts.forEach((text, i) => say(row.children[i], text));
    row.children[2].classList.toggle("late", away || shard.hot);
  });
}

function facts(told) {
  say($("store-title"), told.kind);
  const memory = told.memory_bytes === null ? null : bytes(told.memory_bytes) + (told.memory_max_bytes ? ` of ${bytes(told.memory_max_bytes)}` : "");
  const all = [
    ["Version", told.version],
    ["Memory", memory],
    ["When memory is full", told.policy],
    ["Persistence", told.persistence],
    ["Replicas", told.replicas === null ? null : number(told.replicas)],
    ["Round trip", told.round_trip_us === null ? null : duration(told.round_trip_us / 1000)],
    ["Up for", told.uptime_ms === null ? null : duration(told.uptime_ms)],
  ].filter(([, value]) => value !== null);
  const box = $("facts");
  if (box.children.length !== all.length) {
    box.replaceChildren(...all.map(([name]) => h("div", {}, h("dt", {}, name), h("dd", {}, ""))));
  }
  all.forEach(([, value], i) => say(box.children[i].lastChild, value));
}
