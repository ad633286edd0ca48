// @ts-check
/** What several sweeps over the same values say together. */

/** @typedef {{x: number[], y: (number | null)[], raw: (number | null)[], ended: string}} Sweep */

const BROKEN = ["diverged", "not finite"];

/** The lowest and the highest smooth curve at each value that at least two sweeps came to. @param {Sweep[]} lines */
export function band(lines) {
  const out = [];
  for (let i = 0; ; i++) {
    const there = lines.filter((line) => i < line.x.length), ys = there.map((line) => Number(line.y[i]));
    if (there.length < 2) return out;
    out.push({ x: there[0].x[i], low: Math.min(...ys), high: Math.max(...ys) });
  }
}

/** Where sweeps broke off. @param {Sweep[]} lines */
export function ends(lines) {
  const out = lines.map(({ x, y, ended }, color) => ({ x: x[x.length - 1], y: Number(y[y.length - 1]), color, ended }));
  return out.filter((one) => one.x !== undefined && BROKEN.includes(one.ended));
}

/** Losses that an axis should hold: of a curve that blew up as much as tells that it did. @param {Sweep[]} lines */
export function tops(lines) {
  return lines.flatMap(({ y }) => {
    const known = y.filter((v) => v !== null), first = known[0], low = Math.min(...known);
    return known.length ? [low, Math.min(Math.max(...known), first + Math.max(first - low, Math.abs(first) / 10))] : [];
  });
}

/**
 * Loss and slope at a value: the median over the sweeps that came so far, and the lowest and highest loss.
 * @param {Sweep[]} lines @param {number} value @param {boolean} log whether the slope is that over a decade
 */
export function reading(lines, value, log) {
  const found = lines.map((line) => at(line, value, log)).filter((one) => one !== null);
  const losses = found.map((one) => one.loss), none = { loss: null, low: null, high: null, slope: null };
  const all = { low: Math.min(...losses), high: Math.max(...losses), loss: middle(losses), slope: middle(found.map((one) => one.slope)) };
  return { count: found.length, ...(found.length ? all : none) };
}

/** One sweep between two of its values. @param {Sweep} line @param {number} value @param {boolean} log */
function at({ x, y }, value, log) {
  const f = log ? Math.log10 : (/** @type {number} */ v) => v, next = x.findIndex((one, i) => i > 0 && one >= value), last = next - 1;
  if (next < 0 || value < x[0] * (1 - 1e-9)) return null;
  const slope = (Number(y[next]) - Number(y[last])) / (f(x[next]) - f(x[last]));
  return { loss: Number(y[last]) + slope * (f(value) - f(x[last])), slope };
}

/** @param {number[]} values */
function middle(values) {
  const sorted = [...values].sort((a, b) => a - b), half = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
