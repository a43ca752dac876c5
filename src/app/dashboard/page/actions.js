// Push a message, pause and resume, hand over the crown; and the list of what is in hand.

import { $, api, attempt, dialog, duration, h, number, say, toast, visible } from "./dom.js";

let status = null;
let now = () => Date.now();
let polling = null;

export function begin(session, clock) {
  now = clock;
  $("actions").hidden = session.read_only && !session.token;
  $("do-push").hidden = $("do-handover").hidden = session.read_only;
  $("switches").hidden = session.read_only;
  $("do-logout").hidden = !session.token;
}

export function sample(told) {
  status = told;
  $("do-handover").disabled = told.nodes.length < 2;
}

$("do-logout").addEventListener("click", (event) => attempt(event.target, async () => {
  await api("session", { method: "DELETE" });
  location.reload();
}));

for (const part of ["generator", "handlers"]) {
  $(`do-pause-${part}`).addEventListener("click", (event) => attempt(event.target, async () => {
    const paused = await api("pause", { method: "POST", body: { [part]: !status.paused[part] } });
    toast(`${part === "generator" ? "Generating" : "Handling"} ${paused[part] ? "is paused" : "goes on"}`);
  }));
}

$("do-push").addEventListener("click", () => {
  const payload = h("textarea", { id: "push-payload", rows: "6", spellcheck: "false", autofocus: "" });
  const key = h("input", { id: "push-key", autocomplete: "off", maxlength: "256" });
  const delay = h("input", { id: "push-delay", type: "number", min: "0", step: "any", placeholder: "0" });
  dialog("Push a message", (close) => {
    const send = (event) => {
      event.preventDefault();
      attempt(form.querySelector(".primary"), async () => {
        const body = { payload: payload.value };
        if (key.value) body.key = key.value;
        if (delay.value) body.delay_ms = Math.round(Number(delay.value) * 1000);
        const told = await api("messages", { method: "POST", body });
        toast(told.repeated ? `This key was pushed before, as number ${number(told.number)}` : `Pushed as number ${number(told.number)}`);
        close();
      });
    };
    const form = h("form", { class: "stack", onsubmit: send },
      h("label", {}, "Payload", payload),
      h("label", {}, "Key (a repeat within an hour is no new message)", key),
      h("label", {}, "Delay in seconds", delay),
      h("div", { class: "row end" },
        h("button", { type: "button", onclick: () => close() }, "Cancel"),
        h("button", { type: "submit", class: "primary" }, "Push")));
    return [form];
  });
});

$("do-handover").addEventListener("click", () => {
  const others = status.nodes.filter((node) => !node.generates).slice(0, 500);
  const choose = h("select", { id: "handover-node", autofocus: "" }, h("option", { value: "" }, "any other node"),
    others.map((node) => h("option", { value: node.node }, `${node.node} on ${node.host}, pid ${node.pid}`)));
  dialog("Hand over the crown", (close) => [
    h("p", {}, "The other node takes the crown with its next beat. No tick is missed."),
    h("label", {}, "To", choose),
    h("div", { class: "row end" },
      h("button", { type: "button", onclick: () => close() }, "Cancel"),
      h("button", { type: "button", class: "primary", id: "confirm", onclick: (event) => attempt(event.target, async () => {
        await api("handover", { method: "POST", body: choose.value ? { node: choose.value } : {} });
        toast("Asked for: the crown moves with the next beat");
        close();
      }) }, "Hand over")),
  ]);
});

export function openHand() {
  poll();
  polling = setInterval(poll, 1000);
}

export function closeHand() {
  clearInterval(polling);
}

/** It may have been there before it was seen, and not longer than it is published. */
function heldFor(piece) {
  const most = Math.max(now() - piece.published_ms, 0);
  return piece.seen_ms >= 1000 || most > 60000 ? `at least ${duration(Math.floor(piece.seen_ms / 1000) * 1000)}` : `at most ${duration(most)}`;
}

async function poll() {
  if (document.hidden) return;
  let told;
  try {
    told = await api("held");
  } catch (error) {
    say($("hand-state"), error.message);
    return;
  }
  const messages = told.pieces.reduce((sum, piece) => sum + piece.count, 0);
  say($("hand-state"), `${number(messages)} messages${told.more ? ", and more that are not listed" : ""}`);
  $("hand-empty").hidden = told.pieces.length > 0;
  say($("hand-empty"), "Nothing is in hand: handlers wait for messages, or there are none.");
  $("hand").tBodies[0].replaceChildren(...told.pieces.map((piece) => h("tr", {},
    h("td", { class: "mono" }, piece.node),
    h("td", {}, piece.count === 1 ? number(piece.first) : `${number(piece.first)} – ${number(piece.first + piece.count - 1)}`),
    h("td", { class: "num" }, heldFor(piece)),
    h("td", { class: "num" }, `${duration(Math.max(now() - piece.published_ms, 0))} ago`),
    h("td", { class: "num" }, number(piece.deliveries)),
    h("td", { class: "text mono" }, visible(piece.start)))));
}
