// @ts-check
/** Flips panel: predictions that another model or epoch fixed or broke. */
/** @import { PanelGo } from "./kit.js" */
import { formatNumber, h, renderTabs } from "../../../views/kit.js";
import { formatCount, panelHeading, panelTable, samplesButton } from "./kit.js";

const FLIPS_TONES = /** @type {Record<string, string>} */ ({ fixed: "good", broken: "error" });

/** @param {any} state @param {PanelGo} go */
export function flipsPanel(state, go) {
  const others = (/** @type {number} */ at) => [...Array(state.total).keys()].filter((i) => i !== at).map((i) => [at, i]);
  const counts = Object.entries(state.counts).map(([name, n]) => h(`div.panelstat.${FLIPS_TONES[name] ?? "soft"}`, {}, h("span.label", {}, name),
    n ? samplesButton(formatCount(n), () => go({ values: { change: [name] } }, name), `Show the samples that are ${name}`) : h("b", {}, "0")));
  return h("div.panelbox", { "data-lm-suppress-shortcuts": "true" }, flipsGain(state), h("div.panelstats.panelbig", {}, ...counts),
    state.classes.length > 0 && panelHeading("By class"), state.classes.length > 0 && flipsClasses(state, go, others), ...flipsMoves(state, go));
}

/** The difference in accuracy and its significance. @param {any} state */
function flipsGain({ gain: [gain, low, high], p, rows }) {
  const points = (/** @type {number} */ v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Math.abs(100 * v).toFixed(1)}`, significant = p < 0.05;
  const summary = !significant ? "The difference in accuracy is not significant." : gain > 0 ? "Significantly better." : "Significantly worse.";
  return h("div.panelstats", {}, h("div.panelstat", {}, h("span.label", {}, "accuracy, percentage points"), h("b", {}, points(gain)), h("span.soft", {}, `${points(low)} to ${points(high)}, of ${formatCount(rows)}`)),
    h("div.panelstat", {}, h("span.label", {}, "McNemar's p"), h("b", {}, p < 1e-5 ? "<0.00001" : formatNumber(Number(p.toPrecision(2))))),
    h("div.panelsaid", { role: "status" }, h("span.sign", { ariaHidden: "true" }, !significant ? "●" : gain > 0 ? "✓" : "▲"), ` ${summary}`));
}

/** @param {any} state @param {PanelGo} go @param {(at: number) => number[][]} others */
function flipsClasses({ classes, total }, go, others) {
  const largest = Math.max(...classes.flatMap((/** @type {any} */ row) => [row.fixed, row.broken]), 1);
  const countButton = (/** @type {number} */ n, /** @type {string} */ label, /** @type {object} */ query) => [n ? samplesButton(formatCount(n), () => go(query, label)) : h("span.soft", {}, "0")];
  const table = panelTable("Flips by class", [
    { name: "class", by: (row) => row.name, cell: (row) => [h("b", {}, row.name)] },
    { name: "broken", kind: "number", by: (row) => row.broken, cell: (row) => countButton(row.broken, `${row.name}, broken`, { values: { change: ["broken"] }, cells: others(row.at) }) },
    { name: "", cell: (row) => [h("span.panelnet", { ariaHidden: "true", style: `--nb-broken: ${row.broken / largest}; --nb-fixed: ${row.fixed / largest}` }, h("i"), h("i"))] },
    { name: "fixed", kind: "number", by: (row) => row.fixed, cell: (row) => countButton(row.fixed, `${row.name}, fixed`, { values: { change: ["fixed"] }, cells: [[row.at, row.at]] }) },
    { name: "net", kind: "number", by: (row) => row.fixed - row.broken, cell: (row) => [`${row.fixed > row.broken ? "+" : ""}${formatNumber(row.fixed - row.broken)}`] },
    { name: "samples", kind: "number", by: (row) => row.support, cell: (row) => [formatCount(row.support)] },
  ], classes);
  return h("div", {}, table, classes.length === 50 && total > 50 && h("div.note", {}, `The 50 of ${formatCount(total)} classes with the most flips.`));
}

/** Changes from one predicted class to another, as a matrix of the most affected classes and as a list. @param {any} state @param {PanelGo} go */
function flipsMoves({ matrix, pairs, total }, go) {
  if (!pairs.length) return [];
  const tabs = h("div.tabs", { role: "group", ariaLabel: "displayed changes" }), grid = h("div.panelscroll", { tabIndex: 0, role: "region", ariaLabel: "Matrix of flips" });
  const move = (/** @type {string} */ from, /** @type {string} */ to, /** @type {number} */ at, /** @type {boolean} */ wrong) => go(
    { values: { before: [from] }, cells: [...Array(total).keys()].map((t) => [t, at]), ...(wrong && { right: false }) }, `${from} before, ${to} now${wrong ? ", wrong" : ""}`);
  const draw = (/** @type {string} */ kind) => {
    renderTabs(tabs, { moves: "all changes", wrong: "wrong now" }, kind, draw);
    grid.replaceChildren(flipsMatrix(matrix, kind, (from, to) => move(matrix.names[from], matrix.names[to], matrix.at[to], kind === "wrong")));
  };
  draw("moves");
  const list = panelTable("Changes", [
    { name: "from, to", by: (row) => row.names.join(" "), cell: (row) => [samplesButton(row.names.join(" → "), () => move(row.names[0], row.names[1], row.at[1], false))] },
    { name: "samples", kind: "number", by: (row) => row.count, cell: (row) => [formatCount(row.count)] },
    { name: "wrong now", kind: "number", by: (row) => row.wrong, cell: (row) => [row.wrong ? samplesButton(formatCount(row.wrong), () => move(row.names[0], row.names[1], row.at[1], true)) : h("span.soft", {}, "0")] },
  ], pairs);
  return [panelHeading("Changed predictions", tabs), grid, h("details.fold", {}, h("summary", {}, `The ${pairs.length} most frequent changes`), list)];
}

/** @param {any} matrix @param {string} kind @param {(from: number, to: number) => void} click */
function flipsMatrix(matrix, kind, click) {
  const { names } = matrix, counts = /** @type {number[][]} */ (matrix[kind]), largest = Math.max(1, ...counts.flatMap((row, i) => row.filter((_, j) => i !== j)));
  const cell = (/** @type {number} */ n, /** @type {number} */ i, /** @type {number} */ j) => {
    const label = `${names[i]} before, ${names[j]} now: ${formatCount(n)}`, button = h("button", { type: "button", ariaLabel: label, title: label, onclick: () => click(i, j) }, formatCount(n));
    button.setAttribute("style", `--nb-part: ${i === j ? 0 : n / largest}; --nb-tone: var(${i === j ? "--nb-soft" : kind === "wrong" ? "--nb-error" : "--nb-focus"})`);
    return h("td", {}, n ? button : h("span", {}, "·"));
  };
  return h("table.panelmoves", {}, h("thead", {}, h("tr", {}, h("th", {}, "before ↓ now →"), ...names.map((/** @type {string} */ name) => h("th", { scope: "col", title: name }, name)))),
    h("tbody", {}, ...counts.map((row, i) => h("tr", {}, h("th", { scope: "row", title: names[i] }, names[i]), ...row.map((n, j) => cell(n, i, j))))));
}
