// @ts-check
/** Labels over a plot, each beside the pole that stands on its place. */

/** @typedef {{at: number, wide: number}} Flag in pixels */
/** @typedef {Flag & {start: number, row: number}} Placed */

const GAP = 6;
const ROWS = 9;

/**
 * Where each label goes, from right to left: the lowest row in which it lies on no other, and, where that can be, on no
 * pole and under none.
 * @template {Flag} T
 * @param {T[]} flags @param {number} left @param {number} right
 * @returns {(T & Placed)[]}
 */
export function placed(flags, left, right) {
  /** @type {(T & Placed)[]} */
  const out = [];
  for (const flag of [...flags].sort((a, b) => b.at - a.at)) {
    const start = Math.max(left, Math.min(flag.at + 3, right - flag.wide)), all = [...Array(ROWS).keys()].map((row) => ({ ...flag, start, row }));
    const free = all.filter((one) => !out.some((other) => overlaps(one, other)));
    out.push(free.find((one) => !out.some((other) => crosses(one, other) || crosses(other, one))) ?? free[0] ?? all[0]);
  }
  return out;
}

/** Whether two labels meet. @param {Placed} a @param {Placed} b */
function overlaps(a, b) {
  return a.row === b.row && a.start < b.start + b.wide + GAP && b.start < a.start + a.wide + GAP;
}

/** Whether the label of `a` is crossed by the pole of `b`. @param {Placed} a @param {Placed} b */
function crosses(a, b) {
  return a.row <= b.row && b.at > a.start - 2 && b.at < a.start + a.wide + 2;
}
