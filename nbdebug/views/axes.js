// @ts-check
/** Ticks, scales, theme colors and canvas helpers for all charts. */

/** @typedef {[number, number]} Pair */

const MIN_VALUES_FOR_BULK = 20, MAX_FLAT_SHARE = 0.1, MAX_FLAT_START = 0.02;

/** Return about `n` round numbers inside a range. @param {Pair} range @param {number} [n] @returns {number[]} */
export function ticks([lo, hi], n = 5) {
  const raw = (hi - lo) / n;
  if (!(raw > 0)) return [lo];
  const mag = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * mag).find((s) => s >= raw * 0.999) ?? raw;
  const out = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9 && out.length < 50; i++) out.push(Number((i * step).toPrecision(12)));
  return out;
}

/** Return powers of ten inside a range, and their multiples by 2 and 5 if the range is narrow. @param {Pair} range @param {number} [n] @returns {number[]} */
export function logTicks([lo, hi], n = 5) {
  const decades = Math.log10(hi / lo), every = Math.max(1, Math.ceil(decades / n));
  if (decades < 1) return ticks([lo, hi], n);
  const folds = decades * 3 <= n + 2 ? [1, 2, 5] : [1], out = [];
  for (let e = Math.floor(Math.log10(lo)); e <= Math.log10(hi); e++) {
    if (e % every === 0) out.push(...folds.map((f) => Number(`${f}e${e}`)));
  }
  return out.filter((v) => v >= lo && v <= hi);
}

/** Return a function that maps a data range to pixels, linearly or logarithmically. @param {Pair} from @param {Pair} to @param {boolean} [log] */
export function scale(from, to, log = false) {
  const f = log ? Math.log10 : (/** @type {number} */ v) => v;
  const [a, b] = from.map(f), [c, d] = to, k = (d - c) / (b - a || 1);
  const at = (/** @type {number} */ v) => c + (f(v) - a) * k;
  at.invert = (/** @type {number} */ px) => (log ? 10 ** (a + (px - c) / k) : a + (px - c) / k);
  return at;
}

/** Return the range of the finite (on a log scale: positive) values; never empty. @param {Iterable<number | null>} values @param {boolean} [log] @returns {Pair} */
export function extent(values, log = false) {
  let lo = Infinity, hi = -Infinity;
  for (const v of values) {
    if (v === null || (log && v <= 0)) continue;
    if (v < lo) lo = v;
    if (v > hi) hi = v;
  }
  if (lo > hi) return log ? [0.1, 1] : [0, 1];
  const padding = lo < hi ? 0 : Math.abs(lo) / 10 || 1;
  return [lo - padding, hi + padding];
}

/** Return the range of the values and zero; never empty. @param {(number | null)[]} values @returns {Pair} */
export function extentWithZero(values) {
  const finite = values.filter((v) => v !== null), low = Math.min(0, ...finite), high = Math.max(0, ...finite);
  return [low, high > low ? high : low + 1];
}

/**
 * Return the range of the bulk of the values if a few of them would flatten the others on a linear axis, or undefined.
 * That is so if 90% of the values would have less than a tenth of its height.
 * @param {(number | null)[]} values @returns {Pair | undefined}
 */
export function bulkRange(values) {
  const sorted = values.filter((v) => v !== null).sort((a, b) => a - b), n = sorted.length;
  if (n < MIN_VALUES_FOR_BULK) return undefined;
  const low = sorted[Math.floor(0.05 * n)], high = sorted[Math.ceil(0.95 * n) - 1];
  return high > low && high - low < MAX_FLAT_SHARE * (sorted[n - 1] - sorted[0]) ? [low, high] : undefined;
}

/** Whether the first half of the values would have less than 2% of the height of a linear axis, as before a divergence. @param {(number | null)[]} values */
export function isFlatAtFirst(values) {
  if (values.length < MIN_VALUES_FOR_BULK) return false;
  const [[low, high], [bottom, top]] = [values.slice(0, values.length / 2), values].map((part) => extent(part));
  return high - low < MAX_FLAT_START * (top - bottom);
}

/** Pad a range; include zero if it is close. @param {Pair} range @param {boolean} [log] @returns {Pair} */
export function padRange([lo, hi], log = false) {
  const padding = (hi - lo) * 0.06, fold = (hi / lo) ** 0.05;
  if (log) return [lo / fold, hi * fold];
  return [lo >= 0 && lo < 0.4 * hi ? 0 : lo - padding, hi + padding];
}

/** Resize a canvas for the device pixel ratio and clear it. @param {HTMLCanvasElement} node @param {number} width @param {number} height */
export function prepareCanvas(node, width, height) {
  const dpr = devicePixelRatio || 1, g = /** @type {CanvasRenderingContext2D} */ (node.getContext("2d"));
  Object.assign(node, { width: Math.round(width * dpr), height: Math.round(height * dpr) });
  Object.assign(node.style, { width: `${width}px`, height: `${height}px` });
  g.scale(dpr, dpr);
  return g;
}

/** Return red, green and blue of a resolved color, from 0 to 255. @param {string} color @returns {[number, number, number]} */
export function parseRgb(color) {
  const [r, g, b] = (color.match(/[\d.]+/g) ?? []).map((v) => (color.startsWith("color(") ? 255 : 1) * Number(v));
  return [r, g, b];
}

/** Read the theme's colors as the browser resolves them. @param {HTMLElement} el */
export function palette(el) {
  const probe = document.createElement("i");
  el.append(probe);
  const [ink, soft, faint, paper, error, good, ...lines] = "ink soft faint paper error good line0 line1 line2 line3 line4 line5".split(" ").map((name) => {
    probe.style.color = `var(--nb-${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return { ink, soft, faint, paper, error, good, lines };
}

/**
 * Split a line at missing values, and at gaps wider than `reach`, into segments in pixels; drop points within an already
 * drawn pixel column.
 * @param {number[]} xs @param {(number | null)[]} ys @param {(x: number) => number} atX @param {(y: number) => number} atY @param {boolean} [log] @param {number} [reach]
 */
export function lineSegments(xs, ys, atX, atY, log = false, reach = Infinity) {
  /** @type {Pair[][]} */
  const out = [];
  /** @type {Pair[] | null} */
  let open = null;
  let column = NaN, top = 0, bottom = 0;
  for (let i = 0; i < ys.length; i++) {
    const x = xs[i], y = ys[i];
    if (y === null || (log && y <= 0)) { open = null; column = NaN; continue; }
    const px = atX(x), py = atY(y);
    if (open && px - open[open.length - 1][0] > reach) { open = null; column = NaN; }
    if (Math.round(px) !== column) [column, top, bottom] = [Math.round(px), Infinity, -Infinity];
    if (py >= top && py <= bottom) continue;
    [top, bottom] = [Math.min(top, py), Math.max(bottom, py)];
    if (!open) out.push(open = []);
    open.push([px, py]);
  }
  return out;
}
