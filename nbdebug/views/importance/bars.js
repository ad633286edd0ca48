// @ts-check
/** A row a feature: both measures as bars with their intervals. */
import { brief, h, press } from "../kit.js";

/** @typedef {(number | null)[]} ImportanceEnds value, low, high */
/** @typedef {{name: string, kind: string, size: ImportanceEnds, signed: ImportanceEnds, share: number | null, drop: ImportanceEnds, told: boolean}} ImportanceRow */

const IMPORTANCE_FIRST = 20;

/** The table. @param {any} state @param {(feature: number) => void} go */
export function importanceBars(state, go) {
  /** @type {ImportanceRow[]} */
  const rows = state.rows;
  const columns = [
    ...(state.attributed ? [{ key: "size", title: state.words, spans: importanceRange(rows.map((one) => one.size)) }] : []),
    ...(state.permuted ? [{ key: "drop", title: `${state.metric === "loss" ? "rise" : "fall"} of ${state.metric} when permuted`, spans: importanceRange(rows.map((one) => one.drop)) }] : []),
  ];
  const heads = h("tr"), body = h("tbody"), node = h("div.m-bars", {}, h("table.m-table", {}, h("thead", {}, heads), body));
  let by = columns[0]?.key, all = false;

  function draw() {
    const order = rows.map((_, i) => i).sort((a, b) => importanceOf(rows[b], by) - importanceOf(rows[a], by) || a - b);
    heads.replaceChildren(h("th", { scope: "col" }, "feature"), ...columns.map((one) => {
      const button = press("sort", one.title, () => { by = one.key; draw(); });
      return h("th", { scope: "col", ariaSort: by === one.key ? "descending" : "none" }, columns.length > 1 ? button : one.title, columns.length > 1 && by === one.key && h("span.arrow", { ariaHidden: "true" }, "▼"));
    }));
    body.replaceChildren(...order.slice(0, all ? rows.length : IMPORTANCE_FIRST).map((i) => line(i)));
  }

  /** @param {number} i */
  function line(i) {
    const one = rows[i], name = i < state.swarms.length ? press("way", one.name, () => go(i), { title: "How its attribution depends on its value" }) : one.name;
    return h("tr", {}, h("th", { scope: "row" }, name), ...columns.map(({ key, title, spans }) => {
      const ends = key === "size" ? one.size : one.drop, sign = key === "drop" && one.told && h("span.m-told", { title: "needed beyond chance" }, " *");
      return h("td", { "data-label": title }, importanceBar(ends, spans, key), h("span.m-number", {}, brief(ends[0]), h("span.soft", {}, importanceEnds(ends)), sign));
    }));
  }

  draw();
  if (rows.length > IMPORTANCE_FIRST) {
    const more = press("more", `Show all ${rows.length}${state.features > rows.length ? ` of ${state.features}` : ""}`, () => { all = true; more.remove(); draw(); });
    node.append(more);
  }
  if (rows.some((one) => one.told)) node.append(h("div.note", {}, "* needed beyond chance: of all that are marked, at most one in twenty is expected to be so by chance. Bars have 95 % intervals."));
  return node;
}

/** The number that rows are sorted by. @param {ImportanceRow} one @param {string} by */
function importanceOf(one, by) {
  return (by === "drop" ? one.drop[0] : one.size[0]) ?? -Infinity;
}

/** An interval in words. @param {ImportanceEnds} ends */
export function importanceEnds([, low, high]) {
  return low === null || high === null ? "" : ` ${brief(low, 2)} to ${brief(high, 2)}`;
}

/** From the lowest end, or zero, to the highest. @param {ImportanceEnds[]} every @returns {[number, number]} */
export function importanceRange(every) {
  const values = every.flat().filter((one) => one !== null);
  const low = Math.min(0, ...values), high = Math.max(0, ...values);
  return [low, high > low ? high : low + 1];
}

/** A bar from zero with its interval. @param {ImportanceEnds} ends @param {[number, number]} span @param {string} kind */
function importanceBar([value, low, high], [from, to], kind) {
  const at = (/** @type {number} */ v) => `${((v - from) / (to - from) * 100).toFixed(2)}%`, wide = (/** @type {number} */ v) => `${(Math.abs(v) / (to - from) * 100).toFixed(2)}%`;
  if (value === null) return h("div.m-bar");
  const bar = h(`i.m-${kind}`, { style: `left:${at(Math.min(0, value))};width:${wide(value)}` });
  const ends = low !== null && high !== null && h("i.m-ends", { style: `left:${at(low)};width:${wide(high - low)}` });
  return h("div.m-bar", { ariaHidden: "true" }, bar, ends, from < 0 && h("i.m-zero", { style: `left:${at(0)}` }));
}
