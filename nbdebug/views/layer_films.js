// @ts-check
/** @import { Colors, Context } from "./chart.js" */
/** @import { Store } from "./layer_store.js" */
import { extent, palette, rgbOf, roomy, scale, sharp, ticks } from "./axes.js";
import { rule, trace } from "./chart.js";
import { num } from "./kit.js";
import { BINS, MIDDLE, upto } from "./layer_store.js";
import { FAMILIES } from "./layer_rows.js";
import { HUES, bars, magnitude, windowOf } from "./layer_cells.js";

/** @typedef {{steps: number[], rows: Uint8Array[], lists: Float32Array[], window: [number, number], hue: number}} Film */

const HIGH = 240,
  LEFT = 52,
  FOOT = 20,
  RIDGES = 16,
  PEAK = 58;

/**
 * Draws the histograms of one place over the steps, and tells their steps.
 * @param {HTMLCanvasElement} canvas @param {Store} store @param {string} signal @param {string} mode @param {number} step
 */
export function film(canvas, store, signal, mode, step) {
  const width = canvas.parentElement?.clientWidth ?? 0,
    shown = filmOf(store, store.words.drawn.indexOf(signal), signal);
  if (!width) return shown.steps;
  const g = sharp(canvas, width, HIGH),
    colors = palette(canvas.parentElement ?? canvas);
  g.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  g.fillStyle = colors.soft;
  if (!shown.steps.length) g.fillText("No histogram was drawn.", LEFT, 40);
  else {
    (mode === "strip" ? heat : mode === "bands" ? bands : ridge)(g, shown, width, colors);
    if (mode !== "ridge") moments(g, shown, width, step, colors, mode === "strip");
  }
  return shown.steps;
}

/**
 * The histograms of one place over the steps.
 * @param {Store} store @param {number} at @param {string} signal @returns {Film}
 */
function filmOf({ shapes }, at, signal) {
  const rows = shapes.rows.map((row) => row.subarray(at * BINS, (at + 1) * BINS)),
    seen = rows.map((row) => row.some((v) => v > 0));
  const top = new Uint8Array(MIDDLE + 1);
  for (const row of rows)
    for (let j = 1; j <= MIDDLE; j++) top[j] = Math.max(top[j], row[MIDDLE + j] ?? 0, row[MIDDLE - j] ?? 0);
  const window = windowOf(top, 12),
    kept = rows.filter((_, i) => seen[i]);
  return {
    window,
    steps: shapes.steps.filter((_, i) => seen[i]),
    rows: kept,
    lists: kept.map((row) => bars(row, window)),
    hue: HUES[FAMILIES.indexOf(signal.split("|")[0])],
  };
}

/**
 * Left edge of each histogram, and the right one of the last.
 * @param {number[]} steps @param {number} width
 */
function edgesOf(steps, width) {
  const from = steps[0],
    span = steps[steps.length - 1] - from || 1,
    right = width - 4;
  const at = steps.map((step) => LEFT + ((step - from) / span) * (right - LEFT));
  return [LEFT, ...at.slice(1).map((x, i) => (x + at[i]) / 2), right];
}

/**
 * Share as color: fastai's colorful dimension.
 * @param {Context} g @param {Film} film @param {number} width @param {Colors} colors
 */
function heat(g, film, width, colors) {
  const { steps, lists, hue } = film,
    map = ramp(colors, hue),
    x = edgesOf(steps, width),
    high = (HIGH - FOOT) / lists[0].length,
    full = 255 / highest(lists);
  lists.forEach((list, i) =>
    list.forEach((v, j) => {
      if (v < 1) return;
      g.fillStyle = map[Math.min(255, Math.round(v * full))];
      g.fillRect(x[i], HIGH - FOOT - (j + 1) * high, Math.ceil(x[i + 1] - x[i] + 0.3), Math.ceil(high + 0.3));
    }),
  );
  magnitudes(g, film, colors);
}

/** The highest bar but those of zero, which do not lower the others. @param {Float32Array[]} lists */
function highest(lists) {
  const zero = lists[0].length >> 1;
  return Math.max(1, ...lists.map((list) => list.reduce((top, v, i) => (i === zero ? top : Math.max(top, v)), 0)));
}

/** 256 colors from paper through a hue to ink. @param {Colors} colors @param {number} hue */
function ramp(colors, hue) {
  const [paper, middle, ink] = [colors.paper, colors.lines[hue], colors.ink].map(rgbOf);
  return Array.from({ length: 256 }, (_, i) => {
    const t = i / 255,
      [a, b, part] = t < 0.6 ? [paper, middle, t / 0.6] : [middle, ink, (t - 0.6) / 0.8];
    return `rgb(${[0, 1, 2].map((k) => Math.round(a[k] + (b[k] - a[k]) * part)).join(" ")})`;
  });
}

/**
 * The value under which the given share of a histogram lies.
 * @param {Uint8Array} bytes @param {number} share
 */
function quantile(bytes, share) {
  let rest = bytes.reduce((sum, v) => sum + v * v, 0) * share,
    i = 0;
  while (i < BINS - 1 && rest > bytes[i] ** 2) rest -= bytes[i++] ** 2;
  const part = bytes[i] ? Math.min(1, rest / bytes[i] ** 2) : 0,
    size = Math.abs(i - MIDDLE);
  if (!size) return 0;
  const [a, b] = [magnitude(size - 1), magnitude(size)];
  return i > MIDDLE ? a + part * (b - a) : part * (b - a) - b;
}

/**
 * The signature of a place: its median, and what 50 and 90 percent lie in.
 * @param {Context} g @param {Film} film @param {number} width @param {Colors} colors
 */
function bands(g, { steps, rows, hue }, width, colors) {
  const lines = [0.05, 0.25, 0.5, 0.75, 0.95].map((share) => rows.map((row) => quantile(row, share)));
  const range = roomy(extent(lines.flat().concat(0))),
    x = scale(extent(steps), [LEFT, width - 4]),
    y = scale(range, [HIGH - FOOT, 6]);
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of ticks(range, 4)) {
    g.fillText(num(v), LEFT - 6, y(v) + 4);
    rule(g, LEFT, y(v), width - 4, y(v), colors.faint);
  }
  Object.assign(g, { fillStyle: colors.lines[hue], strokeStyle: colors.lines[hue], lineWidth: 2 });
  for (const [low, up, alpha] of [
    [0, 4, 0.2],
    [1, 3, 0.35],
  ]) {
    g.globalAlpha = alpha;
    g.beginPath();
    lines[up].forEach((v, i) => g.lineTo(x(steps[i]), y(v)));
    for (let i = steps.length - 1; i >= 0; i--) g.lineTo(x(steps[i]), y(lines[low][i]));
    g.fill();
  }
  g.globalAlpha = 1;
  trace(
    g,
    lines[2].map((v, i) => [x(steps[i]), y(v)]),
  );
}

/** Magnitudes at the left. @param {Context} g @param {Film} film @param {Colors} colors */
function magnitudes(g, film, colors) {
  const high = (HIGH - FOOT) / film.lists[0].length;
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const [text, place] of decades(film)) {
    const y = HIGH - FOOT - place * high;
    g.fillText(text, LEFT - 6, Math.max(9, y + 4));
    g.fillRect(LEFT - 4, y, 4, 1);
  }
}

/**
 * Steps below, and where the slider is.
 * @param {Context} g @param {Film} film @param {number} width @param {number} step @param {Colors} colors
 * @param {boolean} columns
 */
function moments(g, { steps }, width, step, colors, columns) {
  const x = edgesOf(steps, width),
    at = Math.max(0, upto(steps, step)),
    right = columns ? x[at + 1] : scale(extent(steps), [LEFT, width - 4])(steps[at]);
  g.fillStyle = colors.soft;
  g.textAlign = "left";
  g.fillText(`step ${num(steps[0])}`, LEFT, HIGH - 5);
  g.textAlign = "right";
  g.fillText(num(steps.at(-1)), width - 4, HIGH - 5);
  if (!columns) return rule(g, right, 4, right, HIGH - FOOT, colors.soft);
  Object.assign(g, { strokeStyle: colors.ink, lineWidth: 1 });
  g.strokeRect(Math.round(x[at]) - 0.5, 0.5, Math.max(3, Math.round(right - x[at])), HIGH - FOOT - 1);
}

/**
 * Powers of ten with their places in bars, far enough apart to be labeled.
 * @param {Film} film @returns {[string, number][]}
 */
function decades({ window: [lo, hi], lists }) {
  const every = Math.ceil((hi - lo) / 33) || 1,
    zero = lists[0].length / 2;
  /** @type {[string, number][]} */
  const out = [["0", zero]];
  for (let e = -9; e <= 4; e++) {
    const j = 2 * (e * Math.log2(10) + 30),
      at = j - lo + 1.5,
      text = num(Number(`1e${e}`));
    if (j > lo && j <= hi && e % every === 0) out.push([text, zero + at], [`−${text}`, zero - at]);
  }
  return out;
}

/**
 * Histograms one before the other, the last in front.
 * @param {Context} g @param {Film} film @param {number} width @param {Colors} colors
 */
function ridge(g, film, width, colors) {
  const { steps, lists, hue } = film,
    count = Math.min(RIDGES, steps.length),
    top = highest(lists),
    one = (width - LEFT - 8) / lists[0].length;
  const room = HIGH - FOOT - PEAK - 4,
    color = colors.lines[hue];
  for (let k = 0; k < count; k++) {
    const i = Math.round((k * (steps.length - 1)) / Math.max(1, count - 1)),
      base = PEAK + 2 + (room * k) / Math.max(1, count - 1);
    g.beginPath();
    g.moveTo(LEFT, base);
    lists[i].forEach((v, j) => g.lineTo(LEFT + (j + 0.5) * one, base - Math.min(1, v / top) * PEAK));
    g.lineTo(width - 8, base);
    g.fillStyle = colors.paper;
    g.fill();
    g.globalAlpha = 0.15 + (0.5 * k) / count;
    g.fillStyle = color;
    g.fill();
    g.globalAlpha = 1;
    Object.assign(g, { strokeStyle: color, lineWidth: 1, fillStyle: colors.soft, textAlign: "right" });
    g.stroke();
    if (k % 3 === 0) g.fillText(num(steps[i]), LEFT - 6, base + 3);
  }
  g.textAlign = "center";
  for (const [text, place] of decades(film)) g.fillText(text, LEFT + place * one, HIGH - 5);
}
