// @ts-check
/** Labels of the vertical marks of a chart, in rows above the plot. */

/** @typedef {{at: number, text: string}} Mark */
/** @typedef {Mark & {start: number, row: number}} PlacedMark a mark with the left edge and the row of its label; row -1 if there is no room */

const MAX_MARK_ROWS = 3, MAX_MARK_LENGTH = 40, MARK_LABEL_GAP = 8;
export const MARK_ROW_HEIGHT = 14;

/** Place the label of each mark in the lowest row where it overlaps no other; marks at one place share a label. @param {Mark[]} marks @param {(v: number) => number} x @param {number} left @param {number} right @param {(text: string) => number} measure @returns {PlacedMark[]} */
export function placeMarks(marks, x, left, right, measure) {
  const free = Array(MAX_MARK_ROWS).fill(-Infinity);
  return mergeMarks(marks).map((mark) => {
    const wide = measure(mark.text), start = Math.max(left, Math.min(x(mark.at) - wide / 2, right - wide));
    const row = mark.text.length > MAX_MARK_LENGTH || wide > right - left ? -1 : free.findIndex((end) => start >= end);
    if (row >= 0) free[row] = start + wide + MARK_LABEL_GAP;
    return { ...mark, start, row };
  });
}

/** @param {Mark[]} marks */
function mergeMarks(marks) {
  /** @type {Map<number, string[]>} */
  const texts = new Map();
  for (const { at, text } of [...marks].sort((a, b) => a.at - b.at)) texts.set(at, [...(texts.get(at) ?? []), text]);
  return [...texts].map(([at, all]) => ({ at, text: [...new Set(all)].join(", ") }));
}
