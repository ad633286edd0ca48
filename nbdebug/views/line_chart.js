// @ts-check
/** Line chart with legend, log switch and readout. */
import { bulkRange, extent, isFlatAtFirst, lineSegments, logTicks, padRange, palette, prepareCanvas, scale, ticks } from "./axes.js";
import { MARK_ROW_HEIGHT, placeMarks } from "./chart_marks.js";
import { formatNumber, h, makeButton, redrawOnResize } from "./kit.js";

/** @import { Mark } from "./chart_marks.js" */

/** A line; `style` is the number of its color and dash, by default its index. */
/** @typedef {{name: string, x: number[], y: (number | null)[], bad: number, raw?: (number | null)[], style?: number}} Line */
/** @typedef {{lines: Line[], marks: Mark[], limits: Mark[], x_label: string, y_label: string, log: boolean, log_x: boolean, title: string, pin?: number} & Frame} Picture */
/**
 * What a view may add: values that the axes must include, the usual distance of points, that y starts at zero and stays
 * linear, the height, the space above the plot, and functions that draw below and above the lines.
 * @typedef {{wide?: number[], high?: (number | null)[], spacing?: number | null, fromZero?: boolean, height?: number, room?: (x: (v: number) => number, left: number, right: number) => number, under?: Draw, over?: Draw}} Frame
 * @typedef {(g: Context, f: Layout, colors: Colors) => void} Draw
 */
/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {ReturnType<typeof palette>} Colors */
/** @typedef {ReturnType<typeof layout>} Layout */

const HEIGHT = 230;
const DASHES = [[], [6, 3], [2, 3]];
const MAX_GAP_IN_SPACINGS = 6, MIN_GAP = 16; // pixels; points further apart are not joined

/** A line chart with legend, log switch and readout. Returns a function that draws a picture; `onPick` is called with the x of a click. @param {HTMLElement} host @param {(x: number) => void} [onPick] */
export function lineChart(host, onPick) {
  const node = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "img" }));
  const tip = h("div.tip"), liveRegion = h("div.unseen", { ariaLive: "polite" }), legend = h("div.legend"), note = h("span"), label = h("span");
  const logs = makeButton("toggle", "log", () => { logChoices.set(picture?.title, !log); draw(); }, { title: "logarithmic axis" });
  const plot = h("div.plot", {}, node, tip);
  host.append(h("div.bar", {}, legend, logs), plot, h("div.bar.note", {}, note, label), liveRegion);
  /** @type {Set<string>} */
  const hidden = new Set();
  /** The user's choice of the axis per title, or that of the data, which then stays. @type {Map<string | undefined, boolean>} */
  const logChoices = new Map();
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
    if (!logChoices.has(picture.title) && (picture.log || isBetterOnLogAxis(picture))) logChoices.set(picture.title, true);
    log = logChoices.get(picture.title) ?? false;
    const g = prepareCanvas(node, width, picture.height ?? HEIGHT), colors = palette(host);
    g.font = `11px ${getComputedStyle(host).fontFamily}`;
    const f = drawnLayout = layout(picture, hidden, width, log, (text) => g.measureText(text).width);
    plot.style.height = `${f.height}px`;
    drawChartAxes(g, f, colors);
    picture.under?.(g, f, colors);
    for (const line of f.lines) drawLine(g, f, line, colors);
    drawDots(g, f, colors);
    drawMarks(g, f, colors);
    picture.over?.(g, f, colors);
    if (picture.pin !== undefined) drawRule(g, f.x(picture.pin), f.top, f.x(picture.pin), f.bottom, colors.soft);
    tip.hidden = cursor === undefined;
    if (cursor !== undefined) readout(g, f, cursor, colors);
    updateLegend(f);
    updateLabels(f);
  }

  /** Update texts: omitted values, axis label and description. @param {Layout} f */
  function updateLabels({ picture, lines, marks: placed, clipped }) {
    const low = lines.flatMap((line) => line.y).filter((v) => log && v !== null && v <= 0).length;
    const bad = picture.lines.map((line) => line.bad && `${line.name}: ${line.bad} not finite`);
    const unplaced = placed.filter((mark) => mark.row < 0).map((mark) => `${mark.text} at ${formatNumber(mark.at)}`);
    note.textContent = [...bad, low && `${low} not positive, omitted`, clipped && "▲▼ beyond the axis", ...unplaced].filter(Boolean).join(" · ");
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
      g.fillStyle = colors.lines[styleOf(line, i) % 6];
      if (y !== null && (y > 0 || !log)) drawDot(g, x, Math.max(f.top, Math.min(f.bottom, f.y(y))), 4);
      tip.append(h("div", {}, legendSwatch(styleOf(line, i), isSparse(line, f)), `${line.name} `, h("b", {}, y === null ? "not finite" : formatNumber(y))));
    }
    tip.style.left = `${flip ? Math.max(0, x - 10 - tip.offsetWidth) : x + 10}px`;
    if (document.activeElement === node) liveRegion.textContent = tip.textContent;
  }

  /** Recreate the legend if the names or styles of the lines changed. @param {Layout} f */
  function updateLegend(f) {
    const { lines } = f.picture, swatches = lines.map((line, i) => legendSwatch(styleOf(line, i), isSparse(line, f)));
    if (legendKey === (legendKey = lines.map((line, i) => line.name + swatches[i].outerHTML).join("\n"))) return;
    legend.replaceChildren(...lines.map(({ name }, i) => {
      const entry = makeButton("entry", "", () => {
        if (!hidden.delete(name)) hidden.add(name);
        entry.ariaPressed = String(!hidden.has(name));
        draw();
      }, { ariaPressed: !hidden.has(name) });
      entry.append(swatches[i], name);
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
    picture = next;
    draw();
    return () => drawnLayout;
  };
}

/** Whether a line would be flattened by a few of its values, or before it diverges, on a linear axis, and none has to be left out on a logarithmic one. @param {Picture} picture */
function isBetterOnLogAxis({ lines, high, fromZero }) {
  if (high || fromZero) return false;
  const all = lines.flatMap(lineValues);
  return all.every((v) => v === null || v > 0) && (bulkRange(all) !== undefined || lines.some((line) => isFlatAtFirst(lineValues(line))));
}

/** All values of a line, raw if it is smoothed. @param {Line} line */
function lineValues(line) {
  return line.raw ?? line.y;
}

/**
 * The range of the y axis, and whether values lie beyond it: on a linear axis, when they would flatten all others.
 * @param {Picture} picture @param {Line[]} lines @param {boolean} log @returns {{range: [number, number], clipped: boolean}}
 */
function valueRange({ high, limits, fromZero }, lines, log) {
  const all = lines.flatMap(lineValues), bulk = high || log || fromZero ? undefined : bulkRange(all), added = limits.map((limit) => limit.at).concat(fromZero ? 0 : []);
  if (!bulk) return { range: padRange(extent((high ?? all).concat(added), log), log), clipped: false };
  const span = bulk[1] - bulk[0], [low, top] = extent(all);
  return { range: padRange(extent([Math.max(low, bulk[0] - span), Math.min(top, bulk[1] + span), ...added])), clipped: true };
}

/** The largest distance in pixels of points that are joined: a few times the usual one of the densest line. @param {Picture} picture @param {(v: number) => number} x */
function maxGap({ lines, spacing }, x) {
  const gaps = lines.map((line) => middleValue(line.x.slice(1).map((v, i) => x(v) - x(line.x[i])).filter((gap) => gap > 0))).filter((gap) => gap > 0);
  const usual = spacing ? x(spacing) - x(0) : Math.min(...gaps);
  return Math.max(MIN_GAP, MAX_GAP_IN_SPACINGS * usual);
}

/** @param {number[]} values */
function middleValue(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? NaN;
}

/** Compute the layout of a picture. @param {Picture} picture @param {Set<string>} hidden @param {number} width @param {boolean} log @param {(text: string) => number} measure */
function layout(picture, hidden, width, log, measure) {
  const lines = picture.lines.filter((line) => !hidden.has(line.name)), { range: high, clipped } = valueRange(picture, lines, log);
  const wide = extent((picture.wide ?? picture.lines.flatMap((line) => line.x)).concat(picture.marks.map((mark) => mark.at)), picture.log_x);
  const ys = (log ? logTicks : ticks)(high, 5), xs = (picture.log_x ? logTicks : ticks)(wide, Math.max(1, width / 90));
  const left = Math.max(30, ...ys.map((v) => measure(formatNumber(v)) + 14)), height = picture.height ?? HEIGHT, bottom = height - 22, right = width - 14;
  const x = scale(wide, [left, right], picture.log_x), marks = placeMarks(picture.marks, x, left, right, measure);
  const top = picture.room?.(x, left, right) ?? 18 + MARK_ROW_HEIGHT * Math.max(0, ...marks.map((mark) => mark.row + 1));
  return { picture, lines, log, width, height, left, right, top, bottom, xs, ys, x, y: scale(high, [bottom, top], log), marks, clipped, reach: maxGap(picture, x) };
}

/** The number of the color and dash of a line. @param {Line} line @param {number} index */
function styleOf(line, index) {
  return line.style ?? index;
}

/** Whether no two points of a line are close enough to be joined. @param {Line} line @param {Layout} f */
function isSparse(line, f) {
  return line.x.length > 1 && line.x.every((v, i) => i === 0 || f.x(v) - f.x(line.x[i - 1]) > f.reach);
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
  const style = styleOf(line, f.picture.lines.indexOf(line)), color = colors.lines[style % 6];
  g.save();
  Object.assign(g, { strokeStyle: color, lineWidth: 1.75, lineJoin: "round", globalAlpha: 0.3 });
  g.setLineDash(DASHES[Math.floor(style / 6) % 3]);
  clipToPlot(g, f);
  for (const points of lineSegments(line.x, line.raw ?? [], f.x, f.y, f.log, f.reach)) strokePath(g, points);
  g.globalAlpha = 1;
  for (const points of lineSegments(line.x, line.y, f.x, f.y, f.log, f.reach)) strokePath(g, points);
  g.restore();
  if (f.clipped) markClipped(g, f, line, color);
  g.textAlign = "center";
  g.fillStyle = colors.error;
  line.y.forEach((v, j) => { if (v === null) g.fillText("×", f.x(line.x[j]), f.top + 8); });
}

/** Draw the points of short lines and single points; one where another line has a point is a ring around that. @param {Context} g @param {Layout} f @param {Colors} colors */
function drawDots(g, f, colors) {
  const dots = /** @type {number[][]} */ ([]);
  g.save();
  g.lineWidth = 1.75;
  clipToPlot(g, f);
  for (const line of f.lines) {
    const style = styleOf(line, f.picture.lines.indexOf(line)), color = colors.lines[style % 6], hollow = Number(style >= 6), before = line.y.length < 30 ? [...dots] : [];
    Object.assign(g, { strokeStyle: color, fillStyle: hollow ? colors.paper : color });
    for (const points of lineSegments(line.x, line.y, f.x, f.y, f.log, f.reach)) {
      if (points.length < 2 || line.y.length < 30) for (const [x, y] of points) {
        const covered = before.filter(([u, v]) => Math.hypot(u - x, v - y) < 3).length;
        drawDot(g, x, y, 2.5 + 3 * covered + hollow, covered || hollow, !covered);
        dots.push([x, y]);
      }
    }
  }
  g.restore();
}

/** Mark the highest and the lowest value beyond the axis of each stretch of a line. @param {Context} g @param {Layout} f @param {Line} line @param {string} color */
function markClipped(g, f, line, color) {
  const values = lineValues(line), end = { right: -Infinity };
  g.fillStyle = color;
  values.forEach((v, j) => {
    if (v === null || (f.y(v) >= f.top && f.y(v) <= f.bottom)) return;
    const isHigh = f.y(v) < f.top, size = (/** @type {number} */ i) => (isHigh ? 1 : -1) * (values[i] ?? -Infinity), x = f.x(line.x[j]);
    const isPeak = !(size(j - 1) > size(j)) && !(size(j + 1) > size(j)), text = `${isHigh ? "▲" : "▼"} ${formatNumber(v)}`, wide = g.measureText(text).width;
    if (!isPeak || x < end.right) return;
    const atLeft = x + wide > f.right;
    g.textAlign = atLeft ? "right" : "left";
    g.fillText(text, x + (atLeft ? 4 : -4), isHigh ? f.top + 8 : f.bottom - 3);
    end.right = x + wide + 6;
  });
}

/** Draw only in the plot area and a small margin, if values lie beyond. @param {Context} g @param {Layout} f */
function clipToPlot(g, f) {
  if (!f.picture.high && !f.clipped) return;
  g.beginPath();
  g.rect(f.left - 4, f.top - 4, f.right - f.left + 8, f.bottom - f.top + 4);
  g.clip();
}

/** @param {Context} g @param {Layout} f @param {Colors} colors */
function drawMarks(g, f, colors) {
  g.fillStyle = colors.ink;
  g.textAlign = "left";
  for (const { at, text, start, row } of f.marks) {
    drawRule(g, f.x(at), f.top - MARK_ROW_HEIGHT * Math.max(0, row), f.x(at), f.bottom, colors.soft, [4, 3]);
    if (row < 0) continue;
    const y = f.top - 5 - MARK_ROW_HEIGHT * row;
    Object.assign(g, { lineWidth: 4, strokeStyle: colors.paper });
    g.strokeText(text, start, y);
    g.fillText(text, start, y);
    g.lineWidth = 1;
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

/** The swatch of a style in the legend: a line, or a point. @param {number} style @param {boolean} asPoint */
function legendSwatch(style, asPoint) {
  const color = `var(--nb-line${style % 6})`, dash = "solid dashed dotted".split(" ")[Math.floor(style / 6) % 3];
  return asPoint ? h(`i.swatch.point`, { style: `border-color:${color};background:${style >= 6 ? "none" : color}` }) : h("i.swatch", { style: `border-top:3px ${dash} ${color}` });
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

/** @param {Context} g @param {number} x @param {number} y @param {number} r @param {unknown} [outlined] @param {boolean} [filled] */
export function drawDot(g, x, y, r, outlined = false, filled = true) {
  g.beginPath();
  g.arc(x, y, r, 0, 7);
  if (filled) g.fill();
  if (outlined) g.stroke();
}

/** A line as text. @param {Line} line */
function describeLine({ name, y }) {
  const finite = y.filter((v) => v !== null), [lo, hi] = extent(finite).map(formatNumber);
  return `${name}: ${y.length} points, first ${formatNumber(finite[0])}, last ${formatNumber(finite.at(-1))}, from ${lo} to ${hi}.`;
}
