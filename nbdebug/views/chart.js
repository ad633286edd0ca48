// @ts-check
import { extent, logTicks, palette, roomy, scale, sharp, stretches, ticks } from "./axes.js";
import { h, num, press, watch } from "./kit.js";

/** @typedef {{name: string, x: number[], y: (number | null)[], bad: number, raw?: (number | null)[]}} Line */
/** @typedef {{at: number, text: string}} Note */
/** @typedef {{lines: Line[], marks: Note[], limits: Note[], x_label: string, y_label: string, log: boolean, log_x: boolean, title: string, pin?: number} & Frame} Picture */
/**
 * What a view may add: the values that the axes hold, the height, the room over the plot, and what is drawn below and
 * above the lines, each time anew.
 * @typedef {{wide?: number[], high?: (number | null)[], height?: number, room?: (x: (v: number) => number, left: number, right: number) => number, under?: Draw, over?: Draw}} Frame
 * @typedef {(g: Context, f: Layout, colors: Colors) => void} Draw
 */
/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {ReturnType<typeof palette>} Colors */
/** @typedef {ReturnType<typeof layout>} Layout */

const HEIGHT = 230;
const DASHES = [[], [6, 3], [2, 3]];

/** A line chart with legend, log switch and read-out; `set` draws a picture, `pick` is told of an x that is pressed. @param {HTMLElement} host @param {(x: number) => void} [pick] */
export function chart(host, pick) {
  const node = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "img" }));
  const tip = h("div.tip"), said = h("div.unseen", { ariaLive: "polite" }), legend = h("div.legend"), note = h("span"), label = h("span");
  const logs = press("toggle", "log", () => { log = !log; draw(); }, { ariaLabel: "logarithmic axis" });
  const plot = h("div.plot", {}, node, tip);
  host.append(h("div.bar", {}, legend, logs), plot, h("div.bar.note", {}, note, label), said);
  /** @type {Set<string>} */
  const hidden = new Set();
  /** @type {Picture | undefined} */
  let picture;
  /** @type {number | undefined} */
  let cursor;
  /** @type {Layout | undefined} */
  let drawn;
  let log = false, listed = "";

  function draw() {
    const width = plot.clientWidth;
    if (!picture || !width) return;
    const f = drawn = layout(picture, hidden, width, log), g = sharp(node, width, f.height), colors = palette(host);
    plot.style.height = `${f.height}px`;
    g.font = `11px ${getComputedStyle(host).fontFamily}`;
    axes(g, f, colors);
    picture.under?.(g, f, colors);
    for (const line of f.lines) strokes(g, f, line, colors);
    notes(g, f, colors);
    picture.over?.(g, f, colors);
    if (picture.pin !== undefined) rule(g, f.x(picture.pin), f.top, f.x(picture.pin), f.bottom, colors.soft);
    tip.hidden = cursor === undefined;
    if (cursor !== undefined) readout(g, f, cursor, colors);
    list(picture);
    words(f);
  }

  /** What no picture tells. @param {Layout} f */
  function words({ picture, lines }) {
    const low = lines.flatMap((line) => line.y).filter((v) => log && v !== null && v <= 0).length;
    const bad = picture.lines.map((line) => line.bad && `${line.name}: ${line.bad} not finite`);
    note.textContent = [...bad, low && `${low} not positive, not drawn`].filter(Boolean).join(" · ");
    label.textContent = `${picture.x_label} →`;
    logs.ariaPressed = String(log);
    const marks = picture.marks.map(({ at, text }) => `${text} at ${num(at)}. `).join("");
    node.ariaLabel = `Line chart ${picture.title}. ${picture.lines.map(spoken).join(" ")} ${marks}Arrow keys read values.`;
  }

  /** @param {Context} g @param {Layout} f @param {number} cursor @param {Colors} colors */
  function readout(g, f, cursor, colors) {
    const x = f.x(cursor), flip = x > f.width / 2;
    rule(g, x, f.top, x, f.bottom, colors.soft);
    tip.replaceChildren(h("b", {}, `${f.picture.x_label} ${num(cursor)}`));
    for (const line of f.lines) {
      const j = closest(line.x, cursor), y = line.y[j], i = f.picture.lines.indexOf(line);
      if (!(Math.abs(f.x(line.x[j]) - x) < 8)) continue;
      g.fillStyle = colors.lines[i % 6];
      if (y !== null && (y > 0 || !log)) dot(g, x, f.y(y), 4);
      tip.append(h("div", {}, swatch(i), `${line.name} `, h("b", {}, y === null ? "not finite" : num(y))));
    }
    tip.style.left = `${flip ? Math.max(0, x - 10 - tip.offsetWidth) : x + 10}px`;
    if (document.activeElement === node) said.textContent = tip.textContent;
  }

  /** The legend, made anew only when the lines are others. @param {Picture} picture */
  function list({ lines }) {
    const names = lines.map((line) => line.name);
    if (listed === (listed = names.join("\n"))) return;
    legend.replaceChildren(...names.map((name, i) => {
      const entry = press("entry", "", () => {
        if (!hidden.delete(name)) hidden.add(name);
        entry.ariaPressed = String(!hidden.has(name));
        draw();
      }, { ariaPressed: !hidden.has(name) });
      entry.append(swatch(i), name);
      return entry;
    }));
  }

  /** Moves the cursor to the recorded x nearest to `want`, or `by` points on. @param {number} want @param {number} [by] */
  function go(want, by = 0) {
    const xs = [...new Set(drawn?.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    cursor = xs[Math.max(0, Math.min(xs.length - 1, closest(xs, want) + by))];
    draw();
  }

  function leave() {
    cursor = undefined;
    draw();
  }

  node.onpointermove = node.onpointerdown = (event) => { if (drawn) go(drawn.x.invert(event.offsetX)); };
  node.onclick = () => pick?.(cursor ?? 0);
  node.onpointerleave = node.onblur = leave;
  node.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    if (by) go(cursor ?? -Infinity, by);
    else leave();
  };
  watch(plot, draw);
  return (/** @type {Picture} */ next) => {
    if (!picture) log = next.log;
    picture = next;
    draw();
    return () => drawn;
  };
}

/** Where everything of a picture goes. @param {Picture} picture @param {Set<string>} hidden @param {number} width @param {boolean} log */
function layout(picture, hidden, width, log) {
  const lines = picture.lines.filter((line) => !hidden.has(line.name)), places = (/** @type {Note[]} */ notes) => notes.map((one) => one.at);
  const high = roomy(extent((picture.high ?? lines.flatMap((line) => line.raw ?? line.y)).concat(places(picture.limits)), log), log);
  const wide = extent((picture.wide ?? picture.lines.flatMap((line) => line.x)).concat(places(picture.marks)), picture.log_x);
  const ys = (log ? logTicks : ticks)(high, 5), xs = (picture.log_x ? logTicks : ticks)(wide, Math.max(1, width / 90));
  const left = Math.max(30, ...ys.map((v) => num(v).length * 6.6 + 14)), height = picture.height ?? HEIGHT, bottom = height - 22, right = width - 14;
  const x = scale(wide, [left, right], picture.log_x), top = picture.room?.(x, left, right) ?? (picture.marks.length ? 32 : 18);
  return { picture, lines, log, width, height, left, right, top, bottom, xs, ys, x, y: scale(high, [bottom, top], log) };
}

/** @param {Context} g @param {Layout} f @param {Colors} colors */
function axes(g, f, colors) {
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of f.ys) {
    rule(g, f.left, f.y(v), f.right, f.y(v), colors.faint);
    g.fillText(num(v), f.left - 7, f.y(v) + 4);
  }
  g.textAlign = "center";
  for (const v of f.xs) {
    g.fillText(num(v), Math.min(f.x(v), f.width - g.measureText(num(v)).width / 2), f.height - 6);
    rule(g, f.x(v), f.bottom, f.x(v), f.bottom + 4, colors.soft);
  }
  rule(g, f.left, f.bottom, f.right, f.bottom, colors.soft);
  g.textAlign = "left";
  g.fillText(f.picture.y_label, 0, 9);
}

/** @param {Context} g @param {Layout} f @param {Line} line @param {Colors} colors */
function strokes(g, f, line, colors) {
  const i = f.picture.lines.indexOf(line), color = colors.lines[i % 6];
  g.save();
  Object.assign(g, { strokeStyle: color, fillStyle: color, lineWidth: 1.75, lineJoin: "round", globalAlpha: 0.3 });
  g.setLineDash(DASHES[Math.floor(i / 6) % 3]);
  if (f.picture.high) g.clip(frame(f));
  for (const points of stretches(line.x, line.raw ?? [], f.x, f.y, f.log)) trace(g, points);
  g.globalAlpha = 1;
  for (const points of stretches(line.x, line.y, f.x, f.y, f.log)) {
    trace(g, points);
    if (line.y.length < 30 || points.length === 1) points.forEach(([x, y]) => dot(g, x, y, 2.5));
  }
  g.restore();
  g.textAlign = "center";
  g.fillStyle = colors.error;
  line.y.forEach((v, j) => { if (v === null) g.fillText("×", f.x(line.x[j]), f.top + 8); });
}

/** The plot without its axes, and a little more. @param {Layout} f */
function frame(f) {
  const path = new Path2D();
  path.rect(f.left - 4, f.top - 4, f.right - f.left + 8, f.bottom - f.top + 4);
  return path;
}

/** @param {Context} g @param {Layout} f @param {Colors} colors */
function notes(g, f, colors) {
  let free = 0;
  g.fillStyle = colors.ink;
  g.textAlign = "left";
  for (const { at, text } of [...f.picture.marks].sort((a, b) => a.at - b.at)) {
    const x = f.x(at), wide = g.measureText(text).width, start = Math.max(f.left, Math.min(x - wide / 2, f.right - wide));
    rule(g, x, f.top, x, f.bottom, colors.soft, [4, 3]);
    if (start < free) continue;
    g.fillText(text, start, f.top - 5);
    free = start + wide + 8;
  }
  g.textAlign = "right";
  for (const { at, text } of f.picture.limits.filter((one) => one.at > 0 || !f.log)) {
    const y = f.y(at), said = `${text} ${num(at)}`;
    rule(g, f.left, y, f.right, y, colors.error, [4, 3]);
    g.lineWidth = 4;
    g.strokeStyle = colors.paper;
    g.strokeText(said, f.right - 2, y - 5);
    g.fillText(said, f.right - 2, y - 5);
    g.lineWidth = 1;
  }
}

/** The sign of line `i` in a legend. @param {number} i */
function swatch(i) {
  return h("i.swatch", { style: `border-top:3px ${"solid dashed dotted".split(" ")[Math.floor(i / 6) % 3]} var(--nb-line${i % 6})` });
}

/** The index of the sorted value nearest to `want`. @param {number[]} xs @param {number} want */
function closest(xs, want) {
  const next = xs.findIndex((x) => x >= want), i = next < 0 ? xs.length - 1 : next;
  return i > 0 && want - xs[i - 1] <= xs[i] - want ? i - 1 : i;
}

/** @param {Context} g @param {number[][]} points */
export function trace(g, points) {
  g.beginPath();
  points.forEach(([x, y]) => g.lineTo(x, y));
  g.stroke();
}

/** @param {Context} g @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} color @param {number[]} [dash] */
export function rule(g, x0, y0, x1, y1, color, dash = []) {
  g.strokeStyle = color;
  g.setLineDash(dash);
  trace(g, [[x0, y0], [x1, y1]].map((point) => point.map((v) => Math.round(v) + 0.5)));
  g.setLineDash([]);
}

/** @param {Context} g @param {number} x @param {number} y @param {number} r */
export function dot(g, x, y, r) {
  g.beginPath();
  g.arc(x, y, r, 0, 7);
  g.fill();
}

/** One line in words. @param {Line} line */
function spoken({ name, y }) {
  const finite = y.filter((v) => v !== null), [lo, hi] = extent(finite).map(num);
  return `${name}: ${y.length} points, first ${num(finite[0])}, last ${num(finite.at(-1))}, from ${lo} to ${hi}.`;
}
