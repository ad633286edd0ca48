// @ts-check
/** @import { ExplainBar } from "./bars.js" */
/** Rows of bars: each begins where the one before ended, or all begin at zero. */
import { brief, h } from "../kit.js";
import { explainNamed, explainOf, explainSigned } from "./numbers.js";

const BARS_MISSED = 0.01; // of the longest: less than that is not seen

/** @param {ExplainBar[]} bars @param {number} rest @param {number} count @param {any} found @param {boolean} steps */
export function barsWaterfall(bars, rest, count, found, steps) {
  /** @type {{name: string, value: string, from: number, to: number, error: number | null, kind: string}[]} */
  const rows = [];
  let at = steps ? found.base : 0;
  const push = (/** @type {string} */ name, /** @type {string} */ value, /** @type {number} */ weight, /** @type {number | null} */ error, kind = "") => {
    rows.push({ name, value, from: at, to: at + weight, error, kind });
    if (steps) at += weight;
  };
  for (const [name, value, weight, error] of bars) push(name, value, weight, error);
  if (count > 0) push(`${count} more`, "", rest, null, "rest");
  const missed = steps ? found.score - at : 0;
  const reach = Math.max(...rows.map((row) => Math.abs(row.to - row.from)), Math.abs(found.score - found.base));
  if (Math.abs(missed) > BARS_MISSED * reach) push("not explained", "", missed, null, "missed");
  const ends = [...rows.flatMap(({ from, to, error }) => [from, to - (error ?? 0), to + (error ?? 0)]), ...(steps ? [found.base, found.score] : [0])];
  const low = Math.min(...ends), wide = Math.max(...ends) - low || 1, place = (/** @type {number} */ v) => (v - low) / wide;
  const end = (/** @type {string} */ name, /** @type {number} */ v, /** @type {string} */ kind) => h(`div.x-row.x-${kind}`, { role: "listitem" }, h("span.x-name", {}, name), h("span.x-track", { ariaHidden: "true" }, h("i.x-at", { style: `--nb-from: ${place(v)}` })), h("span.x-number", {}, brief(v, 4)));
  const drawn = rows.map((row) => barsRow(row, place));
  const label = `attributions in ${explainOf(found) || "numbers"}`;
  if (!steps) return h("div.x-rows.x-plain", { role: "list", ariaLabel: label, style: `--nb-zero: ${place(0)}` }, ...drawn);
  return h("div.x-rows.x-steps", { role: "list", ariaLabel: label }, end("base (mean score)", found.base, "base"), ...drawn, end(explainNamed(found), found.score, "score"));
}

/** @param {{name: string, value: string, from: number, to: number, error: number | null, kind: string}} row @param {(v: number) => number} place */
function barsRow({ name, value, from, to, error, kind }, place) {
  const up = to >= from, [a, b] = [place(Math.min(from, to)), place(Math.max(from, to))], said = explainSigned(to - from) + (error ? ` ± ${brief(error, 2)}` : "");
  const bar = h(`i.x-fill.x-${kind || (up ? "up" : "down")}`, { style: `--nb-from: ${a}; --nb-wide: ${b - a}` });
  const whisker = error ? h("i.x-whisker", { style: `--nb-from: ${place(to - error)}; --nb-wide: ${place(to + error) - place(to - error)}` }) : null;
  const step = h("i.x-step", { style: `--nb-from: ${place(to)}` });
  return h("div.x-row", { role: "listitem", title: error ? `standard error ${brief(error, 2)}` : "" }, h("span.x-name", {}, name, value !== "" && h("span.soft", {}, ` = ${value}`)), h("span.x-track", { ariaHidden: "true" }, step, bar, whisker), h("span.x-number", {}, said));
}
