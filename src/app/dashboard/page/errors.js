// The failed messages: search in bounded steps, page by page, look at one, requeue or delete.

import { $, api, attempt, bytes, confirm, date, dialog, duration, h, number, say, toast, visible } from "./dom.js";

const PAGE = 50;
let now = () => Date.now();
let readOnly = true;
let total = 0;
let filter = {};
let order = "newest";
/** Where the pages before this one began. */
let before = [];
let cursor = null;
let next = null;
let rows = [];
let search = null;
let opened = false;

const picked = new Set();

export function begin(session, clock) {
  readOnly = session.read_only;
  now = clock;
  for (const id of ["all-requeue", "all-delete", "picked-requeue", "picked-delete"]) $(id).hidden = readOnly;
}

export function sample(status) {
  if (total === 0 && status.errors > 0 && opened && !search && !rows.length) restart();
  total = status.errors;
}

/** Called when the view is shown. */
export function open() {
  opened = true;
  if (!search) fetchPage();
}

export function close() {
  opened = false;
  search?.abort();
}

$("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  restart();
});
$("filters").addEventListener("reset", () => setTimeout(restart));
$("filters").elements.order.addEventListener("change", restart);
$("filters").elements.age.addEventListener("change", restart);
$("search-stop").addEventListener("click", () => search?.abort());
$("page-next").addEventListener("click", () => {
  before.push(cursor);
  cursor = next;
  fetchPage();
});
$("page-prev").addEventListener("click", () => {
  cursor = before.pop();
  fetchPage();
});
$("pick-all").addEventListener("change", (event) => {
  for (const row of rows) event.target.checked ? picked.add(row.number) : picked.delete(row.number);
  draw();
});
$("picked-requeue").addEventListener("click", (event) => change("requeue", [...picked], event.target));
$("picked-delete").addEventListener("click", (event) => change("delete", [...picked], event.target));
$("all-requeue").addEventListener("click", (event) => changeAll("requeue", event.target));
$("all-delete").addEventListener("click", (event) => changeAll("delete", event.target));

function restart() {
  const form = $("filters").elements;
  filter = {};
  for (const name of ["from", "to"]) if (/^[0-9]{1,15}$/.test(form[name].value.trim())) filter[name] = Number(form[name].value);
  if (form.text.value) filter.text = form.text.value;
  const [which, age] = form.age.value.split(" ");
  if (which === "new") filter.since_ms = Math.round(now() - Number(age));
  if (which === "old") filter.before_ms = Math.round(now() - Number(age));
  order = form.order.value;
  $("all-export").href = `api/v1/errors/export?${new URLSearchParams(filter)}`;
  before = [];
  cursor = null;
  picked.clear();
  fetchPage();
}

/** Asks until the page is full: each answer covers a bounded number of errors, and tells how far it is. */
async function fetchPage() {
  search?.abort();
  const mine = new AbortController();
  search = mine;
  rows = [];
  next = cursor;
  let looked = 0;
  progress(0);
  try {
    do {
      const query = new URLSearchParams({ ...filter, order, limit: PAGE - rows.length });
      if (next !== null) query.set("cursor", next);
      const page = await api(`errors?${query}`, { signal: mine.signal });
      rows.push(...page.errors);
      looked += page.looked;
      next = page.next;
      progress(looked);
      draw();
    } while (next !== null && rows.length < PAGE);
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, true);
  }
  if (search === mine) {
    search = null;
    const stopped = mine.signal.aborted && next !== null;
    progress(looked, true, stopped);
    draw();
  }
}

function progress(looked, ended = false, stopped = false) {
  const searching = Object.keys(filter).length > 0;
  $("search-stop").hidden = ended;
  const bar = $("search-progress");
  bar.hidden = ended || !searching;
  bar.max = Math.max(total, looked, 1);
  bar.value = looked;
  const found = `${number(rows.length)} shown`;
  const of = `looked at ${number(looked)} of ${number(Math.max(total, looked))}`;
  say($("search-state"), !searching ? found : stopped ? `${found}, stopped: ${of}` : `${found}, ${of}`);
}

function draw() {
  const body = $("errors").tBodies[0];
  body.replaceChildren(...rows.map(line));
  $("errors-empty").hidden = rows.length > 0 || search !== null;
  if (!rows.length) {
    const searching = Object.keys(filter).length > 0;
    say($("errors-empty"), searching ? "No error matches. Clear the filters to see all." : "No errors. Messages that fail are kept here until somebody takes care of them.");
  }
  $("page-prev").disabled = before.length === 0;
  $("page-next").disabled = next === null;
  say($("page-text"), `page ${number(before.length + 1)}`);
  $("pick-all").checked = rows.length > 0 && rows.every((row) => picked.has(row.number));
  $("picked").hidden = picked.size === 0 || readOnly;
  say($("picked-text"), `${number(picked.size)} selected`);
}

function line(row) {
  const toggle = (event) => {
    event.target.checked ? picked.add(row.number) : picked.delete(row.number);
    draw();
  };
  return h("tr", { id: `error-${row.number}` },
    h("td", {}, h("input", { type: "checkbox", "aria-label": `Select ${row.number}`, checked: picked.has(row.number), onchange: toggle })),
    h("td", { class: "num" }, h("button", { type: "button", class: "link", "aria-label": `Show ${row.number}`, onclick: () => details(row.number) }, number(row.number))),
    h("td", { class: "text" }, visible(row.error)),
    h("td", { class: "text mono" }, visible(row.start) + (row.payload_bytes > 160 ? "…" : "")),
    h("td", { title: date(row.failed_ms) }, `${duration(Math.max(now() - row.failed_ms, 0))} ago`),
    h("td", { class: "mono" }, row.node),
    h("td", { class: "num" }, number(row.failures + 1)));
}

async function change(verb, numbers, button) {
  const many = numbers.length === 1 ? `message ${number(numbers[0])}` : `${number(numbers.length)} messages`;
  const text = verb === "requeue"
    ? `${many} will leave the errors and be handled again, as if never tried.`
    : `${many} will be removed for good. This cannot be undone.`;
  if (!(await confirm(`${verb === "requeue" ? "Requeue" : "Delete"} ${many}?`, text, verb === "requeue" ? "Requeue" : "Delete", verb === "delete"))) return;
  await attempt(button, async () => {
    let changed = 0;
    for (let at = 0; at < numbers.length; at += 500) {
      const told = await api(`errors/${verb}`, { method: "POST", body: { numbers: numbers.slice(at, at + 500) } });
      changed += told.numbers.length;
    }
    for (const each of numbers) picked.delete(each);
    toast(`${number(changed)} ${verb === "requeue" ? "requeued" : "deleted"}`);
    await fetchPage();
  });
}

async function changeAll(verb, button) {
  const chosen = { ...filter, before_ms: Math.min(filter.before_ms ?? Infinity, Math.round(now())) };
  const which = Object.keys(filter).length ? "all errors that match the filters" : `all ${number(total)} errors`;
  const text = verb === "requeue"
    ? `They leave the errors and are handled again, as if never tried. What fails from now on stays.`
    : `They are removed for good. This cannot be undone.`;
  const name = verb === "requeue" ? "Requeue" : "Delete";
  if (!(await confirm(`${name} ${which}?`, text, name, verb === "delete"))) return;
  await attempt(button, () => walk(verb, chosen));
}

/** Step by step, so that it can be watched and stopped. */
async function walk(verb, select) {
  search?.abort();
  const stop = new AbortController();
  const done = verb === "requeue" ? "requeued" : "deleted";
  let [at, looked, changed] = [null, 0, 0];
  const work = dialog(`${verb === "requeue" ? "Requeueing" : "Deleting"}…`, (close) => [
    h("p", { id: "walk-state", role: "status" }, "…"),
    h("progress", { id: "walk-progress", max: Math.max(total, 1), value: 0 }),
    h("div", { class: "row end" }, h("button", { type: "button", autofocus: "", onclick: () => close() }, "Stop")),
  ]).then(() => stop.abort());
  try {
    do {
      const told = await api(`errors/${verb}`, { method: "POST", body: { select, cursor: at ?? undefined } });
      looked += told.looked;
      changed += told.numbers.length;
      at = told.next;
      say($("walk-state"), `${number(changed)} ${done}, looked at ${number(looked)}`);
      $("walk-progress").value = looked;
    } while (at !== null && !stop.signal.aborted);
    toast(`${number(changed)} ${done}${at === null ? "" : ", then stopped"}`);
  } finally {
    $("dialog").close();
    await work;
    picked.clear();
    before = [];
    cursor = null;
    await fetchPage();
  }
}

function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length && at < 65536; at += 16) {
    const part = [...data.slice(at, at + 16)];
    const codes = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${codes.padEnd(47)}  ${text}`);
  }
  if (data.length > 65536) lines.push(`… ${number(data.length - 65536)} bytes more`);
  return lines.join("\n");
}

/** One message with all that is known of it. */
async function details(which) {
  const told = await attempt(null, () => api(`errors/${which}`));
  if (!told) return;
  const data = Uint8Array.from(atob(told.payload_base64), (c) => c.charCodeAt(0));
  let pretty = null;
  try {
    pretty = told.payload === undefined ? null : JSON.stringify(JSON.parse(told.payload), null, 2);
  } catch {
    // Not every text is JSON.
  }
  const forms = [["Text", told.payload === undefined ? new TextDecoder().decode(data) : told.payload], ["JSON", pretty], ["Hex", null]];
  const box = h("pre", { class: "payload", tabindex: "0", "aria-label": "Payload" });
  const show = (name) => {
    const text = name === "Hex" ? hex(data) : forms.find(([form]) => form === name)[1];
    box.textContent = text.length > 200000 ? `${visible(text.slice(0, 200000))}…` : visible(text);
    for (const button of tabs.children) button.setAttribute("aria-pressed", String(button.textContent === name));
  };
  const tab = ([name, text]) => h("button", { type: "button", "aria-pressed": "false", disabled: name === "JSON" && text === null, onclick: () => show(name) }, name);
  const tabs = h("div", { class: "segmented", role: "group", "aria-label": "Show the payload as" }, forms.map(tab));
  const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
  const act = (verb, close) => {
    close();
    change(verb, [told.number]);
  };
  await dialog(`Message ${number(told.number)}`, (close) => [
    h("p", { class: "error-text" }, visible(told.error)),
    h("dl", { class: "facts" },
      fact("Failed", date(told.failed_ms)), fact("Published", date(told.published_ms)), fact("Node", told.node),
      fact("Epoch", number(told.epoch)), fact("Deliveries", number(told.deliveries)), fact("Failures before", number(told.failures))),
    h("div", { class: "section-head" }, h("h3", {}, `Payload, ${bytes(data.length)}`), tabs),
    box,
    readOnly ? null : h("div", { class: "row end" },
      h("button", { type: "button", class: "danger", onclick: () => act("delete", close) }, "Delete…"),
      h("button", { type: "button", class: "primary", onclick: () => act("requeue", close) }, "Requeue…")),
  ].filter(Boolean).map((part) => {
    if (part === box) show(told.payload === undefined ? "Hex" : pretty !== null && /^\s*[[{]/.test(told.payload) ? "JSON" : "Text");
    return part;
  }));
}
