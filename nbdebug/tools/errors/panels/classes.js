// @ts-check
/** Classes panel: metrics by class, ROC and precision-recall curves, thresholds and confused pairs. */
/** @import { PanelAsk, PanelGo, PanelShare } from "./kit.js" */
import { formatNumber, h, makeButton } from "../../../views/kit.js";
import { attachPlotReading, svgElement, svgLine, svgPlot, svgRule } from "../../../views/plots.js";
import { fallbackNote, formatCount, intervalGauge, panelHeading, panelPercent, panelTable, requestState, samplesButton } from "./kit.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function classesPanel(state, go, ask) {
  const table = h("div"), curves = h("div"), note = h("div"), count = h("span.note", { role: "status" });
  const find = /** @type {HTMLInputElement} */ (h("input.find", { type: "search", placeholder: "Find a class", ariaLabel: "Find a class", oninput: () => search() }));
  let due = 0;

  /** List the classes on the page whose name matches at once, and ask Python for the others. */
  function search() {
    list(state.classes.filter((/** @type {any} */ row) => row.name.toLowerCase().includes(find.value.toLowerCase())));
    clearTimeout(due);
    if (state.total > state.classes.length || state.find) due = setTimeout(() => refresh({ find: find.value, ...(state.curves && { of: state.curves.at }) }, "errors.per_class()"), 250);
  }

  /** @param {object} options @param {string} line */
  async function refresh(options, line) {
    const searchText = find.value, next = await requestState(ask, "classes", options);
    note.replaceChildren(...(next.trouble === undefined ? [] : [fallbackNote(next.trouble, line)]));
    if (next.trouble !== undefined || searchText !== find.value) return;
    state = next;
    list(state.classes);
    updateCurves();
  }

  /** @param {any[]} rows */
  function list(rows) {
    const all = state.find ? state.matching : state.total;
    count.textContent = rows.length < all ? `${formatCount(rows.length)} of ${formatCount(all)} classes, the lowest F1 first` : "";
    table.replaceChildren(panelTable("Classes", classesColumns(state, go, (row) => refresh({ of: row.at, find: find.value }, `errors.curves(${JSON.stringify(row.name)})`)), rows));
  }

  function updateCurves() {
    const classCurves = state.curves;
    curves.replaceChildren(...(classCurves ? [panelHeading(`Curves of ${classCurves.name}`), curvesView(classCurves), classCurves.sweep && thresholdView(classCurves, go)].filter(Boolean) : []));
    if (!classCurves && state.chances) curves.append(h("div.note", {}, "Click the name of a class to see its curves."));
  }

  list(state.classes);
  updateCurves();
  return h("div.panelbox", { "data-lm-suppress-shortcuts": "true" }, h("div.panelstats", {}, ...state.overall.map(classesStat)),
    h("div.panelways", {}, h("span.soft", {}, "Show samples that are"), ...state.ends.map((/** @type {any} */ end) => samplesButton(end.label, () => go(end.query, end.label)))),
    h("div.tools", {}, state.total > 8 && find, count), table, note, curves, ...classesPairs(state.pairs, go));
}

/** One metric over all classes. @param {any} metric */
function classesStat({ name, value: [v, low, high] }) {
  const share = !/corr|kappa|loss/.test(name), text = v === null ? "–" : share ? panelPercent(v) : v.toFixed(3);
  return h("div.panelstat", {}, h("span.label", {}, name), h("b", {}, text), low !== null && h("span.soft", {}, share ? `${panelPercent(low)} to ${panelPercent(high)}` : `${low.toFixed(3)} to ${high.toFixed(3)}`));
}

/** @param {any} state @param {PanelGo} go @param {(row: any) => void} pick @returns {import("./kit.js").PanelColumn[]} */
function classesColumns({ total, chances, apart }, go, pick) {
  const missed = (/** @type {any} */ row) => (apart ? [[row.at, 1]] : others(row.at).map((i) => [row.at, i])), taken = (/** @type {any} */ row) => (apart ? [[row.at, 2]] : others(row.at).map((i) => [i, row.at]));
  const others = (/** @type {number} */ at) => [...Array(total).keys()].filter((i) => i !== at);
  const share = (/** @type {string} */ name, /** @type {string} */ title, /** @type {string} */ hint) => ({ name: title, hint, kind: /** @type {const} */ ("number"), by: (/** @type {any} */ row) => row[name][0], cell: (/** @type {any} */ row) => [intervalGauge(row[name])] });
  const countButton = (/** @type {number} */ n, /** @type {() => void} */ click) => [n ? samplesButton(formatCount(n), click) : h("span.soft", {}, "0")];
  return [
    { name: "class", by: (row) => row.name, cell: (row) => [chances ? samplesButton(row.name, () => pick(row), "Curves of this class") : h("b", {}, row.name)] },
    share("precision", "precision", "Share of the samples predicted as the class that belong to it."),
    share("recall", "recall", "Share of the samples of the class that are predicted as it."),
    share("f1", "F1", "Harmonic mean of precision and recall."),
    { name: "samples", kind: "number", by: (row) => row.support, cell: (row) => [formatCount(row.support)] },
    { name: "missed", hint: "Samples of the class that are predicted as another (false negatives).", kind: "number", by: (row) => row.missed, cell: (row) => countButton(row.missed, () => go({ cells: missed(row) }, apart ? `${row.name}, missed` : `${row.name}, predicted as another`)) },
    { name: "false", hint: "Samples of other classes that are predicted as the class (false positives).", kind: "number", by: (row) => row.taken, cell: (row) => countButton(row.taken, () => go({ cells: taken(row) }, apart ? `${row.name}, false alarm` : `predicted as ${row.name}, but another class`)) },
  ];
}

/** @param {any[]} pairs @param {PanelGo} go */
function classesPairs(pairs, go) {
  if (!pairs.length) return [];
  const columns = /** @type {import("./kit.js").PanelColumn[]} */ ([
    { name: "pair", by: (row) => row.names.join(" "), cell: (row) => [samplesButton(`${row.names[0]} predicted as ${row.names[1]}`, () => go({ cells: [row.cell] }, `${row.names[0]} predicted as ${row.names[1]}`))] },
    { name: "samples", kind: "number", by: (row) => row.count, cell: (row) => [formatCount(row.count)] },
    { name: "share of its class", kind: "number", by: (row) => row.share[0], cell: (row) => [intervalGauge(row.share)] },
    { name: "reverse", kind: "number", by: (row) => row.back, cell: (row) => [row.back ? samplesButton(formatCount(row.back), () => go({ cells: [[...row.cell].reverse()] }, `${row.names[1]} predicted as ${row.names[0]}`)) : h("span.soft", {}, "0")] },
  ]);
  return [panelHeading("Most confused pairs"), panelTable("Most confused pairs", columns, pairs)];
}

/** @typedef {{x: number[], y: number[], at: (number | null)[], area: PanelShare}} PanelCurve */
/** @typedef {{at: number, name: string, of: number, others: number, roc: PanelCurve | null, pr: PanelCurve | null, sweep: any}} PanelCurves */

/** Both curves, next to each other if there is room. @param {PanelCurves} curves */
export function curvesView({ name, of, others, roc, pr }) {
  if (!roc || !pr) return h("div.note", {}, of ? `All ${formatCount(of)} samples belong to ${name}, so there is no curve.` : `No sample belongs to ${name}, so there is no curve.`);
  const share = of / (of + others), rocPlot = svgPlot({ label: `ROC curve of ${name}, ${areaText("area", roc.area)}`, across: "false positive rate", up: `true positive rate (${formatCount(of)} samples)` });
  const prPlot = svgPlot({ label: `Precision-recall curve of ${name}, ${areaText("average precision", pr.area)}`, across: "recall", up: "precision" });
  rocPlot.svg.append(svgRule(rocPlot.x(0), rocPlot.y(0), rocPlot.x(1), rocPlot.y(1), "--nb-soft", "4 3"), svgLine(rocPlot, roc.x, roc.y, "--nb-line0"));
  prPlot.svg.append(svgRule(prPlot.x(0), prPlot.y(share), prPlot.x(1), prPlot.y(share), "--nb-soft", "4 3"), svgLine(prPlot, pr.x, pr.y, "--nb-line1"));
  attachReading(rocPlot, roc, areaText("area", roc.area), (i) => `false positive rate ${formatNumber(roc.x[i])}, true positive rate ${formatNumber(roc.y[i])}`);
  attachReading(prPlot, pr, areaText("average precision", pr.area), (i) => `recall ${formatNumber(pr.x[i])}, precision ${formatNumber(pr.y[i])}`);
  return h("div.panelplots", {}, rocPlot.node, prPlot.node);
}

/** @param {import("../../../views/plots.js").SvgPlot} plot @param {PanelCurve} curve @param {string} rest @param {(i: number) => string} describe */
function attachReading(plot, curve, rest, describe) {
  const from = (/** @type {number} */ i) => (curve.at[i] === null ? "no sample is predicted as the class" : `at threshold ${formatNumber(curve.at[i])}`);
  attachPlotReading(plot, curve.x, (i) => `${describe(i)}: ${from(i)}`, `${rest}; dashed: random guessing`, (i) => curve.y[i]);
}

/** @param {string} name @param {PanelShare} area */
function areaText(name, [v, low, high]) {
  return `${name} ${formatNumber(v)} (${formatNumber(low)} to ${formatNumber(high)})`;
}

/** @typedef {{column: string, at: number[], below: (number | null)[], hits: number[], alarms: number[], usual: number}} PanelSweep */

/** @param {{name: string, of: number, others: number, sweep: PanelSweep}} curves @param {PanelGo} go */
export function thresholdView({ name, of, others, sweep }, go) {
  const last = sweep.at.length - 1;
  let now = sweep.usual, alarm = 1, miss = 1;
  const slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: "0", max: String(last), value: String(now), ariaLabel: `threshold on ${sweep.column}`, oninput: () => set(Number(slider.value)) }));
  const thresholdText = h("b"), words = h("div", { role: "status" }), links = h("div.panelways"), plot = svgPlot({ label: `Thresholds of ${name}`, across: "threshold", up: "share", wide: Math.max(280, Math.min(440, innerWidth - 40)), high: 210 });
  const hand = svgElement("line", { y1: plot.frame.top, y2: plot.frame.bottom, style: "stroke: var(--nb-ink); stroke-width: 1.5" }), costs = svgElement("g");
  const precision = sweep.hits.map((hits, i) => (hits + sweep.alarms[i] ? hits / (hits + sweep.alarms[i]) : null)), recall = sweep.hits.map((hits) => (of ? hits / of : null));
  const f1 = sweep.hits.map((hits, i) => (hits + sweep.alarms[i] + of ? (2 * hits) / (hits + sweep.alarms[i] + of) : null));
  const cost = (/** @type {number} */ i) => alarm * sweep.alarms[i] + miss * (of - sweep.hits[i]);
  const lowest = () => sweep.at.reduce((/** @type {number} */ best, _, i) => (cost(i) < cost(best) ? i : best), 0), best = f1.reduce((/** @type {number} */ top, v, i) => ((v ?? -1) > (f1[top] ?? -1) ? i : top), 0);

  /** @param {number} i */
  function set(i) {
    now = i;
    slider.value = String(i);
    slider.ariaValueText = formatNumber(sweep.at[i]);
    thresholdText.textContent = formatNumber(sweep.at[i]);
    const hits = sweep.hits[i], alarms = sweep.alarms[i], px = plot.x(Math.min(1, sweep.at[i]));
    hand.setAttribute("x1", String(px));
    hand.setAttribute("x2", String(px));
    words.textContent = `${formatCount(hits)} of ${formatCount(of)} found, ${formatCount(of - hits)} missed; ${formatCount(alarms)} false positives among ${formatCount(others)} other samples. Precision ${panelPercent(precision[i])}, recall ${panelPercent(recall[i])}, F1 ${panelPercent(f1[i])}, cost ${formatNumber(cost(i))}.`;
    links.replaceChildren(...sampleLinks(i));
  }

  /** The buttons that show samples near a threshold. @param {number} i */
  function sampleLinks(i) {
    const rows = (/** @type {number} */ at) => sweep.hits[at] + sweep.alarms[at], [low, high] = [Math.min(i, sweep.usual), Math.max(i, sweep.usual)], flips = rows(low) - rows(high);
    const flipped = i === sweep.usual ? h("span.note", {}, "Move the threshold to see which predictions change.")
      : samplesButton(`${formatCount(flips)} change compared with ${formatNumber(sweep.at[sweep.usual])}`, () => go({ ranges: { [sweep.column]: [sweep.at[low], sweep.below[high]] } }, `${sweep.column} from ${formatNumber(sweep.at[low])} to below ${formatNumber(sweep.at[high])}`));
    const nearestButton = (/** @type {string} */ text, /** @type {object} */ range, /** @type {boolean} */ descending) => samplesButton(text, () => go({ ranges: { [sweep.column]: range }, sort: sweep.column, descending }, text));
    return [flips > 0 || i === sweep.usual ? flipped : h("span.note", {}, "No prediction changes."), rows(i) > 0 && nearestButton("nearest above", [sweep.at[i], null], false), sweep.below[i] !== null && nearestButton("nearest below", [null, sweep.below[i]], true)].flatMap((node) => node || []);
  }

  function draw() {
    const all = sweep.at.map((_, i) => cost(i)), highest = Math.max(...all, 1);
    costs.replaceChildren(svgLine(plot, sweep.at, all.map((v) => v / highest), "--nb-line3", "5 3"));
    cheap.textContent = `lowest cost: ${formatNumber(sweep.at[lowest()])}`;
    set(now);
  }

  const cheap = makeButton("toggle", "", () => set(lowest())), fine = makeButton("toggle", `best F1: ${formatNumber(sweep.at[best])}`, () => set(best)), usual = makeButton("toggle", formatNumber(sweep.at[sweep.usual]), () => set(sweep.usual));
  const price = (/** @type {string} */ text, /** @type {(v: number) => void} */ put) => h("label.panelprice", {}, text, h("input.find", { type: "number", min: "0", step: "any", value: "1", oninput: (/** @type {any} */ event) => { put(Math.max(0, Number(event.target.value) || 0)); draw(); } }));
  plot.svg.append(svgRule(plot.x(sweep.at[sweep.usual]), plot.frame.top, plot.x(sweep.at[sweep.usual]), plot.frame.bottom, "--nb-soft", "2 3"),
    svgLine(plot, sweep.at, precision, "--nb-line0"), svgLine(plot, sweep.at, recall, "--nb-line1"), svgLine(plot, sweep.at, f1, "--nb-line2"), costs, hand);
  const key = [["precision", 0], ["recall", 1], ["F1", 2], ["cost (relative to the highest)", 3]].map(([text, i]) => h("span.panelkey", {}, h("i.swatch", { style: `border-top: 3px ${i === 3 ? "dashed" : "solid"} var(--nb-line${i})` }), String(text)));
  plot.svg.onclick = (event) => {
    const target = plot.invert(event.clientX);
    set(sweep.at.reduce((/** @type {number} */ best, v, i) => (Math.abs(v - target) < Math.abs(sweep.at[best] - target) ? i : best), 0));
  };
  draw();
  return h("div", {}, panelHeading(`Threshold on the probability of ${name}`), h("div.panelways", {}, ...key), plot.node,
    h("div.scrub.panelscrub", {}, slider, h("span", {}, "from ", thresholdText)), h("div.tools", {}, usual, fine, cheap, price("cost of a false positive", (v) => { alarm = v; }), price("cost of a false negative", (v) => { miss = v; })), words, links);
}
