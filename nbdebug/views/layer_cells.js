// @ts-check
/** @import { Colors, Context } from "./chart.js" */
/** @import { Store } from "./layer_store.js" */
/** @import { Row } from "./layer_rows.js" */
import { BINS, MIDDLE, points, shapeAt, upto } from "./layer_store.js";
import { FAMILIES } from "./layer_rows.js";

/** @typedef {[number, number]} Window the lowest and the highest bin of one side that an axis shows */

export const HUES = [0, 1, 3, 2],
  GAP = 12,
  FIFTHS = [0.19, 0.19, 0.19, 0.19, 0.24];
const SPAN = [-6, 0];

/** The magnitude at the outer edge of bin `j` of one side: half octaves. @param {number} j */
export function magnitude(j) {
  return 2 ** ((j - (j % 2)) / 2 - 30) * (j % 2 ? 1.5 : 1);
}

/**
 * The bins that hold something worth a bar.
 * @param {Uint8Array | undefined} top @param {number} [least] @returns {Window}
 */
export function windowOf(top, least = 32) {
  let lo = MIDDLE,
    hi = 1;
  for (let j = 1; top && j <= MIDDLE; j++) {
    if (top[j] < least) continue;
    lo = Math.min(lo, j);
    hi = Math.max(hi, j);
  }
  if (lo > hi) return [MIDDLE - 30, MIDDLE - 10];
  const air = Math.max(0, 12 - (hi - lo)) >> 1;
  return [Math.max(1, lo - air), Math.min(MIDDLE, hi + air)];
}

/**
 * The bars of a window, left to right: negative, near zero, positive; what lies outside joins the outer ones.
 * @param {Uint8Array} bytes @param {Window} window
 */
export function bars(bytes, [lo, hi]) {
  const side = hi - lo + 1,
    out = new Float32Array(2 * side + 1);
  for (let i = 0; i < BINS; i++) {
    const size = Math.abs(i - MIDDLE),
      way = i < MIDDLE ? -1 : 1;
    const at = size < lo ? side : side + way * (Math.min(size, hi) - lo + 1);
    out[at] = Math.hypot(out[at], bytes[i]);
  }
  return out;
}

/**
 * A little histogram; zeros do not lower the others.
 * @param {Context} g @param {Float32Array} list @param {number} x @param {number} y @param {number} w
 * @param {number} h @param {string} color
 */
export function histogram(g, list, x, y, w, h, color) {
  const zero = list.length >> 1,
    one = w / list.length;
  const top = Math.max(1, ...list.map((v, i) => (i === zero ? 0 : v)));
  g.fillStyle = color;
  g.beginPath();
  g.moveTo(x, y + h);
  list.forEach((v, i) => {
    const up = y + h - Math.min(1, v / top) * h;
    g.lineTo(x + i * one, up);
    g.lineTo(x + (i + 1) * one, up);
  });
  g.lineTo(x + w, y + h);
  g.fill();
}

/**
 * The pictures of a row at a step.
 * @param {Context} g @param {Store} store @param {Row} row @param {number} step @param {number} width
 * @param {number} height @param {Colors} colors @param {Window[]} windows
 */
export function pictures(g, store, row, step, width, height, colors, windows) {
  let x = 0;
  FAMILIES.forEach((family, i) => {
    const w = width * FIFTHS[i] - GAP,
      at = row.at[family],
      bytes = at === undefined ? null : shapeAt(store, at, step);
    g.fillStyle = colors.faint;
    if (at !== undefined) g.fillRect(x, height - 1, w, 1);
    if (bytes) histogram(g, bars(bytes, windows[i]), x, 2, w, height - 3, colors.lines[HUES[i]]);
    else missing(g, row, family, x, height, colors);
    x += w + GAP;
  });
  if (row.params.length) ratio(g, store, `update.ratio|${row.params[0]}`, step, x, width - x, height, colors);
}

/**
 * Why there is no picture.
 * @param {Context} g @param {Row} row @param {string} family @param {number} x @param {number} height
 * @param {any} colors
 */
function missing(g, row, family, x, height, colors) {
  const own = row.params.length > 0,
    why = family === "activation" ? !row.seen && "not seen" : own && family !== "weight" && !row.trains && "frozen";
  g.fillStyle = colors.soft;
  g.textAlign = "left";
  if (why) g.fillText(why, x, height / 2 + 4);
}

/**
 * The update-to-weight ratio over the steps on an axis that all rows share; the band is around 1e-3.
 * @param {Context} g @param {Store} store @param {string} name @param {number} step @param {number} x
 * @param {number} w @param {number} h @param {Colors} colors
 */
function ratio(g, store, name, step, x, w, h, colors) {
  const { x: xs, y: ys } = points(store.layers, name),
    { steps } = store.layers;
  if (!xs.length) return;
  const from = steps[0],
    to = steps[steps.length - 1],
    wide = w / (to - from || 1),
    atX = (/** @type {number} */ s) => x + (s - from) * wide;
  const atY = (/** @type {number} */ v) =>
    2 + (h - 4) * (1 - (Math.min(SPAN[1], Math.max(SPAN[0], Math.log10(v || 1e-9))) - SPAN[0]) / (SPAN[1] - SPAN[0]));
  g.globalAlpha = 0.16;
  g.fillStyle = colors.lines[2];
  g.fillRect(x, atY(10 ** -2.5), w, atY(10 ** -3.5) - atY(10 ** -2.5));
  g.globalAlpha = 1;
  Object.assign(g, { strokeStyle: colors.ink, lineWidth: 1.25, lineJoin: "round" });
  const every = Math.ceil(xs.length / w);
  g.beginPath();
  for (let i = 0; i < xs.length; i += every) g.lineTo(atX(xs[i]), atY(ys[i] ?? 1));
  g.stroke();
  const i = Math.max(0, upto(xs, step));
  g.fillStyle = colors.lines[1];
  g.beginPath();
  g.arc(atX(xs[i]), atY(ys[i] ?? 1), 2.5, 0, 7);
  g.fill();
}
