// @ts-check
/** @import { Props } from "../kit.js" */
/** How importance changes: two dots a feature and a line between, or a line from point to point. */
import { brief, h, press, root } from "../kit.js";
import { pick } from "../tabs.js";
import { panelSvg } from "../errors/panel_plot.js";
import { importanceRange } from "./bars.js";

/** @typedef {{points: (number | null)[][][], change: (number | null)[][], told: boolean[], ranks: number | null}} DriftMeasure */

const DRIFT_NAMES = /** @type {Record<string, string>} */ ({ share: "Share of attribution", size: "Mean |SHAP|", drop: "Permutation" });
const DRIFT_FIRST = 20, DRIFT_WIDE = 260, DRIFT_HIGH = 30, DRIFT_TALL = 44;

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), tabs = h("div.tabs.m-tabs", { role: "group", ariaLabel: "measures" }), place = h("div"), names = Object.fromEntries(Object.entries(DRIFT_NAMES).filter(([name]) => state.measures[name]));
  const head = h("div.m-head", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline));
  let all = false;

  /** @param {string} by */
  function open(by) {
    pick(tabs, names, by, open);
    place.replaceChildren(driftTable(state, state.measures[by], all, () => { all = true; open(by); }));
  }

  const notes = state.notes.length > 0 && h("ul.m-notes", {}, ...state.notes.map((/** @type {string} */ one) => h("li", {}, one)));
  root(el, head, ...(Object.keys(names).length > 1 ? [tabs] : []), place, ...(notes ? [notes] : []));
  open(state.by);
}

/** A row a feature, what changed beyond chance first. @param {any} state @param {DriftMeasure} one @param {boolean} all @param {() => void} more */
function driftTable(state, one, all, more) {
  const few = state.names.length === 2, span = importanceRange(one.points.flat()), size = (/** @type {number} */ j) => Math.abs(one.change[j][0] ?? 0);
  const order = one.points.map((_, j) => j).sort((a, b) => Number(one.told[b]) - Number(one.told[a]) || size(b) - size(a));
  const rows = order.slice(0, all ? order.length : DRIFT_FIRST).map((j) => {
    const [change, low, high] = one.change[j], said = one.points[j].map(([v], i) => `${state.names[i]} ${brief(v)}`).join(", ");
    const ends = low === null || high === null ? "" : ` ${brief(low, 2)} to ${brief(high, 2)}`, told = one.told[j] && h("span.m-told", { title: "changed beyond chance" }, " *");
    return h("tr", {}, h("th", { scope: "row" }, state.features[j]), h("td", { title: said }, few ? driftDots(one.points[j], span, said, one.told[j]) : driftLine(one.points[j], span, said, one.told[j])),
      h("td.m-number", {}, `${(change ?? 0) > 0 ? "+" : ""}${brief(change)}`, h("span.soft", {}, ends), told));
  });
  const key = few ? h("span.note", {}, "○ ", state.names[0], "  ● ", state.names[1]) : h("span.note", {}, state.names.join(" → "));
  const table = h("table.m-table.m-drift", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "feature"), h("th", { scope: "col" }, key), h("th", { scope: "col" }, "change"))), h("tbody", {}, ...rows));
  const foot = h("div.note", {}, `* changed beyond chance: of all that are marked, at most one in twenty is expected to be so by chance.${one.ranks === null ? "" : ` Ranks agree by ${brief(one.ranks, 2)}.`}`);
  return h("div.m-bars", {}, table, ...(order.length > rows.length ? [press("more", `Show all ${order.length}`, more)] : []), foot);
}

/** Two dots on the axis that all features share. @param {(number | null)[][]} points @param {[number, number]} span @param {string} said @param {boolean} told */
function driftDots(points, [from, to], said, told) {
  const x = (/** @type {number} */ v) => 8 + (v - from) / (to - from) * (DRIFT_WIDE - 16), middle = DRIFT_HIGH / 2, tone = told ? "var(--nb-line0)" : "var(--nb-soft)";
  const svg = panelSvg("svg", { viewBox: `0 0 ${DRIFT_WIDE} ${DRIFT_HIGH}`, role: "img", "aria-label": said });
  svg.append(panelSvg("line", { x1: x(0), x2: x(0), y1: 0, y2: DRIFT_HIGH, style: "stroke: var(--nb-faint)" }));
  const [first, last] = points;
  if (first[0] === null || last[0] === null) return svg;
  points.forEach(([, low, high], i) => {
    const y = middle + (i ? 5 : -5);
    if (low !== null && high !== null) svg.append(panelSvg("line", { x1: x(low), x2: x(high), y1: y, y2: y, style: "stroke: var(--nb-soft); opacity: .6" }));
  });
  svg.append(panelSvg("line", { x1: x(first[0]), x2: x(last[0]), y1: middle, y2: middle, style: `stroke: ${tone}; stroke-width: 2` }));
  svg.append(panelSvg("circle", { cx: x(first[0]), cy: middle, r: 4.5, style: `fill: var(--nb-paper); stroke: ${tone}; stroke-width: 2` }));
  svg.append(panelSvg("circle", { cx: x(last[0]), cy: middle, r: 5, style: `fill: ${tone}` }));
  return svg;
}

/** A line from point to point, with the intervals. @param {(number | null)[][]} points @param {[number, number]} span @param {string} said @param {boolean} told */
function driftLine(points, [from, to], said, told) {
  const x = (/** @type {number} */ i) => 8 + i / (points.length - 1) * (DRIFT_WIDE - 16), y = (/** @type {number} */ v) => DRIFT_TALL - 5 - (v - from) / (to - from) * (DRIFT_TALL - 10), tone = told ? "var(--nb-line0)" : "var(--nb-soft)";
  const svg = panelSvg("svg", { viewBox: `0 0 ${DRIFT_WIDE} ${DRIFT_TALL}`, role: "img", "aria-label": said }), known = points.map(([v], i) => ({ v, i })).filter(({ v }) => v !== null);
  svg.append(panelSvg("line", { x1: 0, x2: DRIFT_WIDE, y1: y(0), y2: y(0), style: "stroke: var(--nb-faint)" }));
  points.forEach(([, low, high], i) => {
    if (low !== null && high !== null) svg.append(panelSvg("line", { x1: x(i), x2: x(i), y1: y(low), y2: y(high), style: "stroke: var(--nb-soft); opacity: .6" }));
  });
  svg.append(panelSvg("polyline", { points: known.map(({ v, i }) => `${x(i).toFixed(1)},${y(v ?? 0).toFixed(1)}`).join(" "), style: `fill: none; stroke: ${tone}; stroke-width: 2` }));
  known.forEach(({ v, i }) => svg.append(panelSvg("circle", { cx: x(i), cy: y(v ?? 0), r: 3, style: `fill: ${tone}` })));
  return svg;
}

export default { initialize() {}, render };
