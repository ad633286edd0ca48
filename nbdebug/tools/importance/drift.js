// @ts-check
/** Drift of feature importance between models or data sets. */
/** @import { Props } from "../../views/kit.js" */
import { formatRounded, h, intervalText, makeButton, mountView, renderTabs } from "../../views/kit.js";
import { extentWithZero } from "../../views/axes.js";
import { svgElement } from "../../views/plots.js";

/** @typedef {{points: (number | null)[][][], change: (number | null)[][], told: boolean[], ranks: number | null}} DriftMeasure */

const MEASURE_TITLES = /** @type {Record<string, string>} */ ({ share: "Share of attribution", size: "Mean |SHAP|", drop: "Permutation" });
const ROWS_SHOWN = 20, PLOT_WIDTH = 260, DOTS_HEIGHT = 30, LINE_HEIGHT = 44;

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), tabs = h("div.tabs.m-tabs", { role: "group", ariaLabel: "measures" }), content = h("div"), names = Object.fromEntries(Object.entries(MEASURE_TITLES).filter(([name]) => state.measures[name]));
  const head = h("div.m-head", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline));
  let all = false;

  /** @param {string} by */
  function open(by) {
    renderTabs(tabs, names, by, open);
    content.replaceChildren(driftTable(state, state.measures[by], all, () => { all = true; open(by); }));
  }

  const notes = state.notes.length > 0 && h("ul.m-notes", {}, ...state.notes.map((/** @type {string} */ note) => h("li", {}, note)));
  mountView(el, head, ...(Object.keys(names).length > 1 ? [tabs] : []), content, ...(notes ? [notes] : []));
  open(state.by);
}

/** One row per feature, significant changes first. @param {any} state @param {DriftMeasure} measure @param {boolean} all @param {() => void} more */
function driftTable(state, measure, all, more) {
  const isPair = state.names.length === 2, span = extentWithZero(measure.points.flat(2)), size = (/** @type {number} */ j) => Math.abs(measure.change[j][0] ?? 0);
  const order = measure.points.map((_, j) => j).sort((a, b) => Number(measure.told[b]) - Number(measure.told[a]) || size(b) - size(a));
  const rows = order.slice(0, all ? order.length : ROWS_SHOWN).map((j) => {
    const [change] = measure.change[j], description = measure.points[j].map(([v], i) => `${state.names[i]} ${formatRounded(v)}`).join(", ");
    const mark = measure.told[j] && h("span.m-told", { title: "significant change" }, " *");
    return h("tr", {}, h("th", { scope: "row" }, state.features[j]), h("td", { title: description }, isPair ? driftDots(measure.points[j], span, description, measure.told[j]) : driftLine(measure.points[j], span, description, measure.told[j])),
      h("td.m-number", {}, `${(change ?? 0) > 0 ? "+" : ""}${formatRounded(change)}`, h("span.soft", {}, intervalText(measure.change[j])), mark));
  });
  const key = isPair ? h("span.note", {}, "○ ", state.names[0], "  ● ", state.names[1]) : h("span.note", {}, state.names.join(" → "));
  const table = h("table.m-table.m-drift", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "feature"), h("th", { scope: "col" }, key), h("th", { scope: "col" }, "change"))), h("tbody", {}, ...rows));
  const foot = h("div.note", {}, `* significant change, with a false discovery rate of at most 5%.${measure.ranks === null ? "" : ` Ranks agree by ${formatRounded(measure.ranks, 2)}.`}`);
  return h("div.m-bars", {}, table, ...(order.length > rows.length ? [makeButton("more", `Show all ${order.length}`, more)] : []), foot);
}

/** Two dots on an axis that all features share. @param {(number | null)[][]} points @param {[number, number]} span @param {string} description @param {boolean} significant */
function driftDots(points, [from, to], description, significant) {
  const x = (/** @type {number} */ v) => 8 + (v - from) / (to - from) * (PLOT_WIDTH - 16), middle = DOTS_HEIGHT / 2, tone = significant ? "var(--nb-line0)" : "var(--nb-soft)";
  const svg = svgElement("svg", { viewBox: `0 0 ${PLOT_WIDTH} ${DOTS_HEIGHT}`, role: "img", "aria-label": description });
  svg.append(svgElement("line", { x1: x(0), x2: x(0), y1: 0, y2: DOTS_HEIGHT, style: "stroke: var(--nb-faint)" }));
  const [first, last] = points;
  if (first[0] === null || last[0] === null) return svg;
  points.forEach(([, low, high], i) => {
    const y = middle + (i ? 5 : -5);
    if (low !== null && high !== null) svg.append(svgElement("line", { x1: x(low), x2: x(high), y1: y, y2: y, style: "stroke: var(--nb-soft); opacity: .6" }));
  });
  svg.append(svgElement("line", { x1: x(first[0]), x2: x(last[0]), y1: middle, y2: middle, style: `stroke: ${tone}; stroke-width: 2` }));
  svg.append(svgElement("circle", { cx: x(first[0]), cy: middle, r: 4.5, style: `fill: var(--nb-paper); stroke: ${tone}; stroke-width: 2` }));
  svg.append(svgElement("circle", { cx: x(last[0]), cy: middle, r: 5, style: `fill: ${tone}` }));
  return svg;
}

/** A line through the points, with intervals. @param {(number | null)[][]} points @param {[number, number]} span @param {string} description @param {boolean} significant */
function driftLine(points, [from, to], description, significant) {
  const x = (/** @type {number} */ i) => 8 + i / (points.length - 1) * (PLOT_WIDTH - 16), y = (/** @type {number} */ v) => LINE_HEIGHT - 5 - (v - from) / (to - from) * (LINE_HEIGHT - 10), tone = significant ? "var(--nb-line0)" : "var(--nb-soft)";
  const svg = svgElement("svg", { viewBox: `0 0 ${PLOT_WIDTH} ${LINE_HEIGHT}`, role: "img", "aria-label": description }), finite = points.map(([v], i) => ({ v, i })).filter(({ v }) => v !== null);
  svg.append(svgElement("line", { x1: 0, x2: PLOT_WIDTH, y1: y(0), y2: y(0), style: "stroke: var(--nb-faint)" }));
  points.forEach(([, low, high], i) => {
    if (low !== null && high !== null) svg.append(svgElement("line", { x1: x(i), x2: x(i), y1: y(low), y2: y(high), style: "stroke: var(--nb-soft); opacity: .6" }));
  });
  svg.append(svgElement("polyline", { points: finite.map(({ v, i }) => `${x(i).toFixed(1)},${y(v ?? 0).toFixed(1)}`).join(" "), style: `fill: none; stroke: ${tone}; stroke-width: 2` }));
  finite.forEach(({ v, i }) => svg.append(svgElement("circle", { cx: x(i), cy: y(v ?? 0), r: 3, style: `fill: ${tone}` })));
  return svg;
}

export default { initialize() {}, render };
