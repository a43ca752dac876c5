// Charts, drawn by hand: lines over time, and the timeline of reigns.

import { clock, duration, h, s } from "./dom.js";

const PAD = { left: 46, right: 10, top: 8, bottom: 20 };

/** Steps that people count in: about `count` of them up to `max`. */
function ticks(max, count) {
  const rough = max / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * size).find((n) => n >= rough);
  const all = [];
  for (let at = 0; at <= max + step * 0.999; at += step) all.push(at);
  return all;
}

/** Round times within a range. */
function times(from, to) {
  const steps = [60e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 10800e3, 21600e3];
  const step = steps.find((size) => (to - from) / size <= 6) || steps.at(-1);
  const zone = new Date(from).getTimezoneOffset() * 60e3;
  const all = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) all.push(at);
  return all;
}

/** A chart of several lines. `series`: [{name, key, kind}]; `show` writes a value. */
export class Chart {
  constructor(title, series, show, empty) {
    Object.assign(this, { title, series, show, empty, points: [], at: null });
    this.plot = s("svg", { class: "plot", role: "img", tabindex: "0", "aria-label": title });
    this.tip = h("div", { class: "tip", hidden: true });
    this.legend = h("ul", { class: "legend" });
    this.figure = h("figure", { class: "card chart" }, h("figcaption", {}, h("h3", {}, title), this.legend), h("div", { class: "plot-box" }, this.plot, this.tip));
    this.plot.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.plot.addEventListener("pointerleave", () => this.point(null));
    this.plot.addEventListener("blur", () => this.point(null));
    this.plot.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  set(points, from, to, gap) {
    Object.assign(this, { points, from, to, gap });
    this.draw();
  }

  key(event) {
    const last = this.points.length - 1;
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last }[event.key];
    if (!move || last < 0) return;
    event.preventDefault();
    this.at = Math.min(Math.max((this.at ?? last) + move, 0), last);
    this.mark();
  }

  point(x) {
    if (x === null || !this.points.length) this.at = null;
    else {
      const time = this.from + ((x - PAD.left) / this.width) * (this.to - this.from);
      const far = (i) => Math.abs(this.points[i].t - time);
      this.at = this.points.reduce((best, _, i) => (far(i) < far(best) ? i : best), 0);
    }
    this.mark();
  }

  x(t) {
    return PAD.left + ((t - this.from) / (this.to - this.from)) * this.width;
  }

  y(value) {
    return PAD.top + (1 - value / this.max) * this.height;
  }

  draw() {
    const { clientWidth: w, clientHeight: t } = this.plot;
    if (!w || !this.to) return;
    this.width = w - PAD.left - PAD.right;
    this.height = t - PAD.top - PAD.bottom;
    const values = this.points.flatMap((p) => this.series.map((line) => p[line.key] ?? 0));
    const marks = ticks(Math.max(...values, 1e-9) || 1, 3);
    const any = values.some((value) => value > 0);
    this.max = any ? marks.at(-1) : 1;
    const parts = [];
    let before = null;
    for (const mark of any ? marks : [0]) {
      const y = this.y(mark);
      parts.push(s("line", { x1: PAD.left, x2: w - PAD.right, y1: y, y2: y, class: mark ? "grid" : "axis" }));
      // What is written with few digits may be the same for two marks.
      const label = this.show(mark);
      if (label !== before) parts.push(s("text", { x: PAD.left - 6, y: y + 4, class: "tick end" }, label));
      before = label;
    }
    for (const time of times(this.from, this.to)) {
      parts.push(s("text", { x: this.x(time), y: t - 4, class: "tick middle" }, clock(time, false)));
    }
    for (const line of this.series) parts.push(...this.line(line));
    if (!this.points.length) parts.push(s("text", { x: PAD.left + this.width / 2, y: t / 2, class: "tick middle" }, this.empty));
    this.cross = s("g", { class: "cross" });
    this.plot.setAttribute("viewBox", `0 0 ${w} ${t}`);
    this.plot.replaceChildren(...parts, this.cross);
    this.tell();
    this.mark();
  }

  /** Where nothing was told, the line is broken. */
  line({ key, kind }) {
    const runs = [[]];
    let before = null;
    for (const p of this.points) {
      const hole = p[key] === null || p[key] === undefined || (before !== null && p.t - before > this.gap * 2.5);
      if (hole && runs.at(-1).length) runs.push([]);
      if (p[key] !== null && p[key] !== undefined) runs.at(-1).push(`${this.x(p.t).toFixed(1)},${this.y(p[key]).toFixed(1)}`);
      before = p.t;
    }
    return runs.filter((run) => run.length).flatMap((run) => {
      const first = run[0].split(",")[0];
      const last = run.at(-1).split(",")[0];
      const floor = this.y(0).toFixed(1);
      const dot = run.length === 1 ? [s("circle", { cx: first, cy: run[0].split(",")[1], r: 2.5, class: `dot ${kind}` })] : [];
      return [
        s("path", { d: `M${first},${floor}L${run.join("L")}L${last},${floor}Z`, class: `area ${kind}` }),
        s("path", { d: `M${run.join("L")}`, class: `line ${kind}` }),
        ...dot,
      ];
    });
  }

  /** The last values, in the legend and for those who do not see the lines. */
  tell() {
    const value = (line) => {
      const last = this.points.findLast((p) => p[line.key] !== null && p[line.key] !== undefined);
      return last ? this.show(last[line.key]) : "–";
    };
    const entry = (line) => h("li", { class: line.kind }, `${line.name} `, h("b", {}, value(line)));
    this.legend.replaceChildren(...this.series.map(entry));
    const spoken = this.series.map((line) => `${line.name} ${value(line)}`).join(", ");
    this.plot.setAttribute("aria-label", `${this.title}: ${spoken}. Arrow keys read other times.`);
  }

  mark() {
    if (!this.cross) return;
    const p = this.at === null ? undefined : this.points[this.at];
    this.tip.hidden = !p;
    if (!p) return this.cross.replaceChildren();
    const x = this.x(p.t);
    const dots = this.series.filter((line) => p[line.key] !== null && p[line.key] !== undefined);
    this.cross.replaceChildren(
      s("line", { x1: x, x2: x, y1: PAD.top, y2: PAD.top + this.height }),
      ...dots.map((line) => s("circle", { cx: x, cy: this.y(p[line.key]), r: 3, class: `dot ${line.kind}` })));
    this.tip.replaceChildren(h("b", {}, clock(p.t)), ...dots.map((line) => h("span", { class: line.kind }, `${line.name} ${this.show(p[line.key])}`)));
    this.tip.style.left = `${Math.min(Math.max(x, 70), this.plot.clientWidth - 70)}px`;
    this.tip.setAttribute("role", "status");
    return undefined;
  }
}

/** Reigns as bars, and the gaps between them. */
export function timeline(box, reigns, from, to, generator) {
  const w = box.clientWidth;
  if (!w || !(to > from)) return;
  const x = (t) => Math.min(Math.max(((t - from) / (to - from)) * w, 0), w);
  const parts = [];
  const shown = reigns.filter((reign, i) => (reigns[i + 1]?.began_ms ?? to) >= from && reign.began_ms <= to);
  for (const reign of shown) {
    const now = reign === reigns.at(-1) && generator;
    const end = now ? to : reign.last_ms;
    const left = x(reign.began_ms);
    const width = Math.max(x(end) - left, 1.5);
    const bar = s("rect", { x: left, y: 6, width, height: 22, rx: 3, class: `reign ${reign.epoch % 2 ? "odd" : "even"}${now ? " now" : ""}` });
    bar.append(s("title", {}, `epoch ${reign.epoch}: ${reign.node}, from ${clock(reign.began_ms)}, ${duration(end - reign.began_ms)}`));
    parts.push(bar);
    if (width > 60) parts.push(s("text", { x: left + 7, y: 21, class: "reign-name" }, width > 110 ? `${reign.node} · ${reign.epoch}` : `epoch ${reign.epoch}`));
    if (reign.gap_ms !== null) {
      const middle = x(reign.last_ms);
      const hole = s("rect", { x: middle, y: 2, width: Math.max(x(reign.last_ms + reign.gap_ms) - middle, 2), height: 30, class: "gap" });
      hole.append(s("title", {}, `gap of ${duration(reign.gap_ms)} at ${clock(reign.last_ms)}`));
      parts.push(hole);
    }
  }
  if (!generator && shown.length) {
    const left = x(reigns.at(-1).last_ms);
    parts.push(s("rect", { x: left, y: 2, width: Math.max(w - left, 2), height: 30, class: "gap" }));
  }
  const gaps = shown.filter((reign) => reign.gap_ms !== null);
  const widest = gaps.reduce((most, reign) => Math.max(most, reign.gap_ms), 0);
  const label = shown.length
    ? `${shown.length} ${shown.length === 1 ? "reign" : "reigns"}${gaps.length ? `, the widest gap ${duration(widest)}` : ""}`
    : "no reign in this range";
  const picture = s("svg", { viewBox: `0 0 ${w} 34`, class: "reign-plot", role: "img", "aria-label": `Timeline: ${label}` }, ...parts);
  const scale = h("div", { class: "scale" }, h("span", {}, clock(from)), h("span", { class: "reign-label" }, label), h("span", {}, "now"));
  box.replaceChildren(picture, scale);
}
