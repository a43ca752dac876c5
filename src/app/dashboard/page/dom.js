// Elements, figures and calls. Data becomes text nodes, never HTML, and nothing unseen is in them.

export const $ = (id) => document.getElementById(id);

/** An element: properties, then children. A text is a text node. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value === true ? "" : seen(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined).map(seen));
  return element;
}

export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.map(seen));
  return element;
}

/** Sets a text only if it changed: screen readers and selections are left alone. */
export function say(element, text) {
  const shown = seen(text);
  if (element.textContent !== shown) element.textContent = shown;
}

const whole = new Intl.NumberFormat("en");
export const number = (n) => whole.format(n);

/** 12,345 and 1.23 M: what fits into a tile. */
export function short(n) {
  if (n < 100000) return number(Math.round(n));
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (n >= size) return (n / size).toPrecision(3) + unit;
  }
  return number(n);
}

export function rate(n) {
  if (n === null || n === undefined) return "–";
  if (n >= 1000) return short(n);
  return String(Number(n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)));
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 s";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  const s = Math.floor(ms / 1000);
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
}

export function bytes(n) {
  for (const [size, unit] of [[2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "KB"]]) {
    if (n >= size) return `${(n / size).toPrecision(3)} ${unit}`;
  }
  return `${n} B`;
}

export const clock = (ms, seconds = true) =>
  new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined, hourCycle: "h23" });

export const date = (ms) => new Date(ms).toLocaleString([], { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });

/** What cannot be seen, or would turn the text around, is shown as its code. */
export function visible(text) {
  return text.replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const seen = (child) => (typeof child === "string" ? visible(child) : child);

export class Refused extends Error {
  constructor(status, code, text) {
    super(text);
    this.status = status;
    this.code = code;
  }
}

/** Asks the API. A refusal is thrown with the line that the server says. */
export async function api(path, { method = "GET", body, signal } = {}) {
  const init = { method, signal, headers: { accept: "application/json" } };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers["content-type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(`api/v1/${path}`, init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "gone", "The dashboard does not answer.");
  }
  const text = await answer.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    value = { error: text.slice(0, 200), code: "unknown" };
  }
  if (answer.ok) return value;
  if (answer.status === 401 && path !== "session") dispatchEvent(new Event("token-needed"));
  throw new Refused(answer.status, value.code, value.error || `HTTP ${answer.status}`);
}

export function toast(text, bad = false) {
  const note = h("p", { class: bad ? "toast bad" : "toast" }, text);
  $("toasts").append(note);
  setTimeout(() => note.remove(), bad ? 10000 : 5000);
}

/** Runs what a button does: once at a time, and says what went wrong. */
export async function attempt(button, run) {
  if (button) button.disabled = true;
  try {
    return await run();
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, true);
    return undefined;
  } finally {
    if (button) button.disabled = false;
  }
}

/** A dialog; `fill(close)` makes its content. Resolves with what close was given. */
export function dialog(title, fill) {
  const box = $("dialog");
  return new Promise((resolve) => {
    const close = (value) => {
      box.close();
      resolve(value);
    };
    const exit = h("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => close() }, "×");
    box.replaceChildren(h("div", { class: "dialog-head" }, h("h2", { id: "dialog-title" }, title), exit), ...fill(close));
    // The event of a dialog before this one may come late.
    box.onclose = () => box.open || resolve();
    box.showModal();
    (box.querySelector("[autofocus]") || exit).focus();
  });
}

export function confirm(title, text, verb, danger = false) {
  return dialog(title, (close) => [
    h("p", {}, text),
    h("div", { class: "row end" },
      h("button", { type: "button", autofocus: "", onclick: () => close(false) }, "Cancel"),
      h("button", { type: "button", class: danger ? "danger solid" : "primary", id: "confirm", onclick: () => close(true) }, verb)),
  ]);
}
