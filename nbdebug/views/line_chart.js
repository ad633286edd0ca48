// @ts-check
/** Line chart with legend, log switch and readout. */
import { extent, lineSegments, logTicks, padRange, palette, prepareCanvas, scale, ticks } from "./axes.js";
import { formatNumber, h, makeButton, redrawOnResize } from "./kit.js";

/** @typedef {{name: string, x: number[], y: (number | null)[], bad: number, raw?: (number | null)[]}} Line */
/** @typedef {{at: number, text: string}} Mark */
/** @typedef {{lines: Line[], marks: Mark[], limits: Mark[], x_label: string, y_label: string, log: boolean, log_x: boolean, title: string, pin?: number} & Frame} Picture */
/**
 * What a view may add: values that the axes must include, the height, the space above the plot, and functions that
 * draw below and above the lines.
 * @typedef {{wide?: number[], high?: (number | null)[], height?: number, room?: (x: (v: number) => number, left: number, right: number) => number, under?: Draw, over?: Draw}} Frame
 * @typedef {(g: Context, f: Layout, colors: Colors) => void} Draw
 */
/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {ReturnType<typeof palette>} Colors */
/** @typedef {ReturnType<typeof layout>} Layout */

const HEIGHT = 230;
const DASHES = [[], [6, 3], [2, 3]];

/** A line chart with legend, log switch and readout. Returns a function that draws a picture; `onPick` is called with the x of a click. @param {HTMLElement} host @param {(x: number) => void} [onPick] */
export function lineChart(host, onPick) {
  const node = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "img" }));
  const tip = h("div.tip"), liveRegion = h("div.unseen", { ariaLive: "polite" }), legend = h("div.legend"), note = h("span"), label = h("span");
  const logs = makeButton("toggle", "log", () => { log = !log; draw(); }, { ariaLabel: "logarithmic axis" });
  const plot = h("div.plot", {}, node, tip);
  host.append(h("div.bar", {}, legend, logs), plot, h("div.bar.note", {}, note, label), liveRegion);
  /** @type {Set<string>} */
  const hidden = new Set();
  /** @type {Picture | undefined} */
  let picture;
  /** @type {number | undefined} */
  let cursor;
  /** @type {Layout | undefined} */
  let drawnLayout;
  let log = false, legendKey = "";

  function draw() {
    const width = plot.clientWidth;
    if (!picture || !width) return;
    const f = drawnLayout = layout(picture, hidden, width, log), g = prepareCanvas(node, width, f.height), colors = palette(host);
    plot.style.height = `${f.height}px`;
    g.font = `11px ${getComputedStyle(host).fontFamily}`;
    drawChartAxes(g, f, colors);
    picture.under?.(g, f, colors);
    for (const line of f.lines) drawLine(g, f, line, colors);
    drawMarks(g, f, colors);
    picture.over?.(g, f, colors);
    if (picture.pin !== undefined) drawRule(g, f.x(picture.pin), f.top, f.x(picture.pin), f.bottom, colors.soft);
    tip.hidden = cursor === undefined;
    if (cursor !== undefined) readout(g, f, cursor, colors);
    updateLegend(picture);
    updateLabels(f);
  }

  /** Update texts: omitted values, axis label and description. @param {Layout} f */
  function updateLabels({ picture, lines }) {
    const low = lines.flatMap((line) => line.y).filter((v) => log && v !== null && v <= 0).length;
    const bad = picture.lines.map((line) => line.bad && `${line.name}: ${line.bad} not finite`);
    note.textContent = [...bad, low && `${low} not positive, omitted`].filter(Boolean).join(" · ");
    label.textContent = `${picture.x_label} →`;
    logs.ariaPressed = String(log);
    const marks = picture.marks.map(({ at, text }) => `${text} at ${formatNumber(at)}. `).join("");
    node.ariaLabel = `Line chart ${picture.title}. ${picture.lines.map(describeLine).join(" ")} ${marks}Arrow keys read values.`;
  }

  /** @param {Context} g @param {Layout} f @param {number} cursor @param {Colors} colors */
  function readout(g, f, cursor, colors) {
    const x = f.x(cursor), flip = x > f.width / 2;
    drawRule(g, x, f.top, x, f.bottom, colors.soft);
    tip.replaceChildren(h("b", {}, `${f.picture.x_label} ${formatNumber(cursor)}`));
    for (const line of f.lines) {
      const j = closestIndex(line.x, cursor), y = line.y[j], i = f.picture.lines.indexOf(line);
      if (!(Math.abs(f.x(line.x[j]) - x) < 8)) continue;
      g.fillStyle = colors.lines[i % 6];
      if (y !== null && (y > 0 || !log)) drawDot(g, x, f.y(y), 4);
      tip.append(h("div", {}, legendSwatch(i), `${line.name} `, h("b", {}, y === null ? "not finite" : formatNumber(y))));
    }
    tip.style.left = `${flip ? Math.max(0, x - 10 - tip.offsetWidth) : x + 10}px`;
    if (document.activeElement === node) liveRegion.textContent = tip.textContent;
  }

  /** Recreate the legend if the names of the lines changed. @param {Picture} picture */
  function updateLegend({ lines }) {
    const names = lines.map((line) => line.name);
    if (legendKey === (legendKey = names.join("\n"))) return;
    legend.replaceChildren(...names.map((name, i) => {
      const entry = makeButton("entry", "", () => {
        if (!hidden.delete(name)) hidden.add(name);
        entry.ariaPressed = String(!hidden.has(name));
        draw();
      }, { ariaPressed: !hidden.has(name) });
      entry.append(legendSwatch(i), name);
      return entry;
    }));
  }

  /** Move the cursor to the recorded x nearest to `target`, or `by` points further. @param {number} target @param {number} [by] */
  function moveCursor(target, by = 0) {
    const xs = [...new Set(drawnLayout?.lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    cursor = xs[Math.max(0, Math.min(xs.length - 1, closestIndex(xs, target) + by))];
    draw();
  }

  function clearCursor() {
    cursor = undefined;
    draw();
  }

  node.onpointermove = node.onpointerdown = (event) => { if (drawnLayout) moveCursor(drawnLayout.x.invert(event.offsetX)); };
  node.onclick = () => onPick?.(cursor ?? 0);
  node.onpointerleave = node.onblur = clearCursor;
  node.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    if (by) moveCursor(cursor ?? -Infinity, by);
    else clearCursor();
  };
  redrawOnResize(plot, draw);
  return (/** @type {Picture} */ next) => {
    if (!picture) log = next.log;
    picture = next;
    draw();
    return () => drawnLayout;
  };
}

/** Compute the layout of a picture. @param {Picture} picture @param {Set<string>} hidden @param {number} width @param {boolean} log */
function layout(picture, hidden, width, log) {
  const lines = picture.lines.filter((line) => !hidden.has(line.name)), positions = (/** @type {Mark[]} */ notes) => notes.map((note) => note.at);
  const high = padRange(extent((picture.high ?? lines.flatMap((line) => line.raw ?? line.y)).concat(positions(picture.limits)), log), log);
  const wide = extent((picture.wide ?? picture.lines.flatMap((line) => line.x)).concat(positions(picture.marks)), picture.log_x);
  const ys = (log ? logTicks : ticks)(high, 5), xs = (picture.log_x ? logTicks : ticks)(wide, Math.max(1, width / 90));
  const left = Math.max(30, ...ys.map((v) => formatNumber(v).length * 6.6 + 14)), height = picture.height ?? HEIGHT, bottom = height - 22, right = width - 14;
  const x = scale(wide, [left, right], picture.log_x), top = picture.room?.(x, left, right) ?? (picture.marks.length ? 32 : 18);
  return { picture, lines, log, width, height, left, right, top, bottom, xs, ys, x, y: scale(high, [bottom, top], log) };
}

/** @param {Context} g @param {Layout} f @param {Colors} colors */
function drawChartAxes(g, f, colors) {
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of f.ys) {
    drawRule(g, f.left, f.y(v), f.right, f.y(v), colors.faint);
    g.fillText(formatNumber(v), f.left - 7, f.y(v) + 4);
  }
  g.textAlign = "center";
  for (const v of f.xs) {
    g.fillText(formatNumber(v), Math.min(f.x(v), f.width - g.measureText(formatNumber(v)).width / 2), f.height - 6);
    drawRule(g, f.x(v), f.bottom, f.x(v), f.bottom + 4, colors.soft);
  }
  drawRule(g, f.left, f.bottom, f.right, f.bottom, colors.soft);
  g.textAlign = "left";
  g.fillText(f.picture.y_label, 0, 9);
}

/** @param {Context} g @param {Layout} f @param {Line} line @param {Colors} colors */
function drawLine(g, f, line, colors) {
  const i = f.picture.lines.indexOf(line), color = colors.lines[i % 6];
  g.save();
  Object.assign(g, { strokeStyle: color, fillStyle: color, lineWidth: 1.75, lineJoin: "round", globalAlpha: 0.3 });
  g.setLineDash(DASHES[Math.floor(i / 6) % 3]);
  if (f.picture.high) g.clip(plotClip(f));
  for (const points of lineSegments(line.x, line.raw ?? [], f.x, f.y, f.log)) strokePath(g, points);
  g.globalAlpha = 1;
  for (const points of lineSegments(line.x, line.y, f.x, f.y, f.log)) {
    strokePath(g, points);
    if (line.y.length < 30 || points.length === 1) points.forEach(([x, y]) => drawDot(g, x, y, 2.5));
  }
  g.restore();
  g.textAlign = "center";
  g.fillStyle = colors.error;
  line.y.forEach((v, j) => { if (v === null) g.fillText("×", f.x(line.x[j]), f.top + 8); });
}

/** The plot area with a small margin. @param {Layout} f */
function plotClip(f) {
  const path = new Path2D();
  path.rect(f.left - 4, f.top - 4, f.right - f.left + 8, f.bottom - f.top + 4);
  return path;
}

/** @param {Context} g @param {Layout} f @param {Colors} colors */
function drawMarks(g, f, colors) {
  let free = 0;
  g.fillStyle = colors.ink;
  g.textAlign = "left";
  for (const { at, text } of [...f.picture.marks].sort((a, b) => a.at - b.at)) {
    const x = f.x(at), wide = g.measureText(text).width, start = Math.max(f.left, Math.min(x - wide / 2, f.right - wide));
    drawRule(g, x, f.top, x, f.bottom, colors.soft, [4, 3]);
    if (start < free) continue;
    g.fillText(text, start, f.top - 5);
    free = start + wide + 8;
  }
  g.textAlign = "right";
  for (const { at, text } of f.picture.limits.filter((limit) => limit.at > 0 || !f.log)) {
    const y = f.y(at), label = `${text} ${formatNumber(at)}`;
    drawRule(g, f.left, y, f.right, y, colors.error, [4, 3]);
    g.lineWidth = 4;
    g.strokeStyle = colors.paper;
    g.strokeText(label, f.right - 2, y - 5);
    g.fillText(label, f.right - 2, y - 5);
    g.lineWidth = 1;
  }
}

/** The swatch of line `i` in the legend. @param {number} i */
function legendSwatch(i) {
  return h("i.swatch", { style: `border-top:3px ${"solid dashed dotted".split(" ")[Math.floor(i / 6) % 3]} var(--nb-line${i % 6})` });
}

/** The index of the sorted value nearest to `target`. @param {number[]} xs @param {number} target */
function closestIndex(xs, target) {
  const next = xs.findIndex((x) => x >= target), i = next < 0 ? xs.length - 1 : next;
  return i > 0 && target - xs[i - 1] <= xs[i] - target ? i - 1 : i;
}

/** @param {Context} g @param {number[][]} points */
export function strokePath(g, points) {
  g.beginPath();
  points.forEach(([x, y]) => g.lineTo(x, y));
  g.stroke();
}

/** @param {Context} g @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} color @param {number[]} [dash] */
export function drawRule(g, x0, y0, x1, y1, color, dash = []) {
  g.strokeStyle = color;
  g.setLineDash(dash);
  strokePath(g, [[x0, y0], [x1, y1]].map((point) => point.map((v) => Math.round(v) + 0.5)));
  g.setLineDash([]);
}

/** @param {Context} g @param {number} x @param {number} y @param {number} r */
export function drawDot(g, x, y, r) {
  g.beginPath();
  g.arc(x, y, r, 0, 7);
  g.fill();
}

/** A line as text. @param {Line} line */
function describeLine({ name, y }) {
  const finite = y.filter((v) => v !== null), [lo, hi] = extent(finite).map(formatNumber);
  return `${name}: ${y.length} points, first ${formatNumber(finite[0])}, last ${formatNumber(finite.at(-1))}, from ${lo} to ${hi}.`;
}
