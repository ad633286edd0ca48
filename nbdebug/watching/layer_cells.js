// @ts-check
/** The small histograms and the update ratio in one row of the layer list. */
/** @import { Colors, Context } from "../views/line_chart.js" */
/** @import { Row } from "./layer_rows.js" */
/** @import { Store } from "./store.js" */
import { lineSegments } from "../views/axes.js";
import { formatNumber } from "../views/kit.js";
import { drawDot, strokePath } from "../views/line_chart.js";
import { FAMILIES } from "./layer_rows.js";
import { BINS, columnPoints, histogramAt, lastIndexUpTo, MIDDLE, valueAt } from "./store.js";

/** @typedef {[number, number]} Window the lowest and the highest bin of one side that an axis shows */

/** @type {Window} */
export const EMPTY_WINDOW = [MIDDLE - 30, MIDDLE - 10];
export const HUES = [0, 1, 3, 2],
  COLUMN_GAP = 12,
  COLUMN_SHARES = [0.19, 0.19, 0.19, 0.19, 0.24];
const RATIO_DECADES = [-6, 0],
  MAX_GAP = 16; // pixels

/** The magnitude at the outer edge of bin `j` of one side; bins are half octaves. @param {number} j */
export function magnitude(j) {
  return 2 ** ((j - (j % 2)) / 2 - 30) * (j % 2 ? 1.5 : 1);
}

/**
 * The range of bins that are worth displaying.
 * @param {Uint8Array | undefined} top @param {number} [minLevel] @returns {Window}
 */
export function visibleBins(top, minLevel = 32) {
  let lo = MIDDLE,
    hi = 1;
  for (let j = 1; top && j <= MIDDLE; j++) {
    if (top[j] < minLevel) continue;
    lo = Math.min(lo, j);
    hi = Math.max(hi, j);
  }
  if (lo > hi) return EMPTY_WINDOW;
  const padding = Math.max(0, 12 - (hi - lo)) >> 1;
  return [Math.max(1, lo - padding), Math.min(MIDDLE, hi + padding)];
}

/**
 * The bars of a range of bins, left to right: negative, near zero, positive. Values outside join the outermost bars.
 * @param {Uint8Array} bytes @param {Window} window
 */
export function barHeights(bytes, [lo, hi]) {
  const side = hi - lo + 1,
    out = new Float32Array(2 * side + 1);
  for (let i = 0; i < BINS; i++) {
    const size = Math.abs(i - MIDDLE),
      sign = i < MIDDLE ? -1 : 1;
    const at = size < lo ? side : side + sign * (Math.min(size, hi) - lo + 1);
    out[at] = Math.hypot(out[at], bytes[i]);
  }
  return out;
}

/**
 * A small histogram; the bar of zeros does not affect the scale.
 * @param {Context} g @param {Float32Array} list @param {number} x @param {number} y @param {number} w
 * @param {number} h @param {string} color
 */
export function drawHistogram(g, list, x, y, w, h, color) {
  const zero = list.length >> 1,
    barWidth = w / list.length;
  const top = Math.max(1, ...list.map((v, i) => (i === zero ? 0 : v)));
  g.fillStyle = color;
  g.beginPath();
  g.moveTo(x, y + h);
  list.forEach((v, i) => {
    const up = y + h - Math.min(1, v / top) * h;
    g.lineTo(x + i * barWidth, up);
    g.lineTo(x + (i + 1) * barWidth, up);
  });
  g.lineTo(x + w, y + h);
  g.fill();
}

/**
 * Draw the pictures of a row at a step.
 * @param {Context} g @param {Store} store @param {Row} row @param {number} step @param {number} width
 * @param {number} height @param {Colors} colors @param {Window[]} windows
 */
export function drawPictures(g, store, row, step, width, height, colors, windows) {
  let x = 0;
  FAMILIES.forEach((family, i) => {
    const w = width * COLUMN_SHARES[i] - COLUMN_GAP,
      at = row.at[family],
      bytes = at === undefined ? null : histogramAt(store, at, step);
    g.fillStyle = colors.faint;
    if (at !== undefined) g.fillRect(x, height - 1, w, 1);
    const mean = bytes ? constantValue(bytes, store, family, row, step) : NaN;
    if (bytes && Number.isFinite(mean)) drawConstant(g, mean, x, w, height, colors);
    else if (bytes) drawHistogram(g, barHeights(bytes, windows[i]), x, 2, w, height - 3, colors.lines[HUES[i]]);
    else drawMissing(g, row, family, x, height, colors);
    x += w + COLUMN_GAP;
  });
  if (row.params.length) drawRatio(g, store, `update.ratio|${row.params[0]}`, step, x, width - x, height, colors);
}

/**
 * The value that all values are about, else NaN: zero, or the mean of weights that have one sign and lie within about
 * an octave, as those of a normalization do.
 * @param {Uint8Array} bytes @param {Store} store @param {string} family @param {Row} row @param {number} step
 */
function constantValue(bytes, store, family, row, step) {
  const first = bytes.findIndex((v) => v > 0),
    last = bytes.reduce((latest, v, i) => (v > 0 ? i : latest), -1);
  if (first === MIDDLE && last === MIDDLE) return 0;
  const isNarrow = last - first <= 2 && (first > MIDDLE || last < MIDDLE);
  return family === "weight" && isNarrow ? valueAt(store.layers, `weight.mean|${row.params[0]}`, step) : NaN;
}

/** Say what all values are about: a single bar would look like a fault. @param {Context} g @param {number} mean @param {number} x @param {number} w @param {number} height @param {Colors} colors */
function drawConstant(g, mean, x, w, height, colors) {
  g.fillStyle = colors.soft;
  g.textAlign = "center";
  g.fillText(`all ≈ ${formatNumber(Number(mean.toPrecision(2)))}`, x + w / 2, height / 2 + 4, w);
  g.textAlign = "left";
}

/**
 * Draw the reason why there is no histogram.
 * @param {Context} g @param {Row} row @param {string} family @param {number} x @param {number} height
 * @param {any} colors
 */
function drawMissing(g, row, family, x, height, colors) {
  const hasParameters = row.params.length > 0,
    why = family === "activation" ? !row.called && "not called" : hasParameters && family !== "weight" && !row.trains && "frozen";
  g.fillStyle = colors.soft;
  g.textAlign = "left";
  if (why) g.fillText(why, x, height / 2 + 4);
}

/**
 * The update-to-weight ratio by step, on an axis that all rows share; the band is around 1e-3. Steps further apart than
 * `MAX_GAP` are points.
 * @param {Context} g @param {Store} store @param {string} name @param {number} step @param {number} x
 * @param {number} w @param {number} h @param {Colors} colors
 */
function drawRatio(g, store, name, step, x, w, h, colors) {
  const { x: xs, y: ys } = columnPoints(store.layers, name),
    { steps } = store.layers;
  if (!xs.length) return;
  const from = steps[0],
    to = steps[steps.length - 1],
    wide = w / (to - from || 1),
    atX = (/** @type {number} */ s) => x + (s - from) * wide;
  const atY = (/** @type {number} */ v) =>
    2 + (h - 4) * (1 - (Math.min(RATIO_DECADES[1], Math.max(RATIO_DECADES[0], Math.log10(v || 1e-9))) - RATIO_DECADES[0]) / (RATIO_DECADES[1] - RATIO_DECADES[0]));
  g.globalAlpha = 0.16;
  g.fillStyle = colors.lines[2];
  g.fillRect(x, atY(10 ** -2.5), w, atY(10 ** -3.5) - atY(10 ** -2.5));
  g.globalAlpha = 1;
  Object.assign(g, { strokeStyle: colors.ink, lineWidth: 1.25, lineJoin: "round" });
  g.fillStyle = colors.ink;
  for (const points of lineSegments(xs, ys, atX, atY, false, MAX_GAP)) {
    if (points.length > 1) strokePath(g, points);
    else drawDot(g, ...points[0], 1.5);
  }
  const i = Math.max(0, lastIndexUpTo(xs, step)),
    ratio = ys[i];
  g.fillStyle = colors.lines[1];
  if (ratio !== null) drawDot(g, atX(xs[i]), atY(ratio), 2.5);
}
