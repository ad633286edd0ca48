// @ts-check
/** Panel frame, line chart over layers and canvas helpers for the panels. */
/** @import { ExplainChoice, ExplainStore } from "../store.js" */
import { palette, parseRgb, scale, ticks } from "../../../views/axes.js";
import { arrowStep, formatNumber, formatRounded, h, makeButton, redrawOnResize, renderTabs, replaceKeepingFocus } from "../../../views/kit.js";
import { pathData, svgElement } from "../../../views/plots.js";
import { errorText } from "../display.js";
import { sampleAddress, showProgress, slowWarning } from "../store.js";

/** @typedef {{name: string, values: (number | null)[], color: string, width?: number, dash?: string, dots?: boolean}} LayerLine */

const LAYER_CHART_MARGINS = { left: 40, right: 8, top: 20 };

/**
 * @param {{label: string, up: string, layers: {title: string}[], lines: LayerLine[], range: [number, number], band?: [number, number], faint?: boolean[], describe: (at: number) => string, rest: string}} options
 */
export function layerChart(options) {
  const { layers, lines, range } = options, note = h("div.note.i-reading", { ariaLive: "polite" }, options.rest), chartBox = h("div.i-chart", { tabIndex: 0, role: "img", ariaLabel: options.label });
  let now = -1, x = scale([0, 1], [0, 1]);

  function draw() {
    const wide = Math.max(200, chartBox.clientWidth || 600), room = (wide - LAYER_CHART_MARGINS.left - LAYER_CHART_MARGINS.right) / layers.length, every = Math.max(1, Math.ceil(14 / room));
    const longest = Math.min(18, Math.max(...layers.map((layer) => layer.title.length))), foot = 14 + 6.6 * longest, high = 190 + foot;
    const y = scale(range, [high - foot, LAYER_CHART_MARGINS.top]);
    x = scale([-0.5, layers.length - 0.5], [LAYER_CHART_MARGINS.left, wide - LAYER_CHART_MARGINS.right]);
    const svg = svgElement("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, "aria-hidden": "true" });
    const rule = (/** @type {number} */ x0, /** @type {number} */ y0, /** @type {number} */ x1, /** @type {number} */ y1, /** @type {string} */ color) => svg.append(svgElement("line", { x1: x0, y1: y0, x2: x1, y2: y1, style: `stroke: var(${color})` }));
    const write = (/** @type {string} */ text, /** @type {Record<string, any>} */ at) => { const node = svgElement("text", at); node.textContent = text; svg.append(node); };
    const box = (/** @type {number} */ left, /** @type {number} */ top, /** @type {number} */ right, /** @type {number} */ bottom, /** @type {string} */ style) => svg.append(svgElement("rect", { x: left, y: top, width: right - left, height: bottom - top, style }));
    if (options.band) box(x(-0.5), y(options.band[1]), x(layers.length - 0.5), y(options.band[0]), "fill: var(--nb-ink); opacity: .08");
    options.faint?.forEach((faint, at) => { if (faint) box(x(at - 0.5), LAYER_CHART_MARGINS.top, x(at + 0.5), high - foot, "fill: var(--nb-soft); opacity: .16"); });
    for (const v of ticks(range, 4)) {
      rule(x(-0.5), y(v), x(layers.length - 0.5), y(v), v === 0 ? "--nb-soft" : "--nb-faint");
      write(formatNumber(v), { x: LAYER_CHART_MARGINS.left - 5, y: y(v) + 4, "text-anchor": "end" });
    }
    write(`↑ ${options.up}`, { x: 0, y: 11 });
    layers.forEach(({ title }, at) => {
      if (at % every) return;
      const text = title.length > 18 ? `…${title.slice(-17)}` : title;
      write(text, { transform: `translate(${x(at) + 4} ${high - foot + 8}) rotate(-90)`, "text-anchor": "end" });
    });
    for (const line of lines) drawLayerLine(svg, line, x, y);
    if (now >= 0) rule(x(now), LAYER_CHART_MARGINS.top, x(now), high - foot, "--nb-ink");
    chartBox.replaceChildren(svg);
  }

  const show = (/** @type {number} */ at) => {
    now = at >= 0 && at < layers.length ? at : -1;
    note.textContent = now < 0 ? options.rest : options.describe(now);
    draw();
  };
  chartBox.onpointermove = (event) => { const at = Math.round(x.invert(event.clientX - chartBox.getBoundingClientRect().left)); if (at !== now) show(at); };
  chartBox.onpointerleave = chartBox.onblur = () => show(-1);
  chartBox.onkeydown = (event) => {
    const step = arrowStep(event, true);
    if (step) show(Math.max(0, Math.min(layers.length - 1, now + step[1])));
  };
  redrawOnResize(chartBox, draw);
  return h("div.i-block", {}, chartBox, layerLegend(lines), note);
}

/** @param {SVGElement} svg @param {LayerLine} line @param {(v: number) => number} x @param {(v: number) => number} y */
function drawLayerLine(svg, { values, color, width = 1.2, dash = "none", dots = false }, x, y) {
  svg.append(svgElement("path", { d: pathData(values, x, y), style: `fill: none; stroke: var(${color}); stroke-width: ${width}; stroke-dasharray: ${dash}; stroke-linejoin: round` }));
  if (dots) values.forEach((v, at) => { if (v !== null) svg.append(svgElement("circle", { cx: x(at), cy: y(v), r: 2.5, style: `fill: var(${color})` })); });
}

/** @param {LayerLine[]} lines */
function layerLegend(lines) {
  return h("div.i-legend", {}, ...lines.map(({ name, color, dash, width }) => h("span", {}, h("i", { ariaHidden: "true", style: `border-top: ${(width ?? 1.2) > 1.5 ? 3 : 2}px ${dash ? "dashed" : "solid"} var(${color})` }), name)));
}

/** @typedef {(state: any, ask: (options: object) => Promise<any>) => HTMLElement} ExplainPanel */

/** The available panels as tabs. @param {ExplainStore} store @param {Record<string, ExplainPanel>} table */
export function panelTabs(store, table) {
  const { state } = store, available = state.panels.filter((/** @type {any} */ panel) => Object.hasOwn(table, panel.name));
  const tabs = h("div.tabs.x-tabs", { role: "group", ariaLabel: "more about the sample" }), sampleTabs = h("div.tabs.x-whose", { role: "group", ariaLabel: "displayed sample" }), content = h("div.x-panel"), names = Object.fromEntries(available.map((/** @type {any} */ panel) => [panel.name, panel.title]));
  /** @type {Map<string, HTMLElement>} */
  const built = new Map();
  const first = store.choice;
  let name = available[0]?.name ?? "", at = 0;

  function draw() {
    if (!store.columns[at]) at = 0;
    const sample = store.columns[at].sample, panel = available.find((/** @type {any} */ panelItem) => panelItem.name === name), key = JSON.stringify([name, sample, followedChoice(panel, store.choice)]);
    renderTabs(tabs, names, name, (next) => { name = next; draw(); });
    sampleTabs.hidden = store.columns.length < 2;
    renderTabs(sampleTabs, Object.fromEntries(store.columns.map((column, i) => [i, state.samples[column.sample].name])), String(at), (index) => { at = Number(index); draw(); });
    const node = built.get(key) ?? samplePanel(store, table[name], panel, sample, first);
    built.set(key, node);
    if (content.firstChild !== node) content.replaceChildren(node);
  }

  if (!available.length) return null;
  store.subscribe(draw);
  draw();
  return h("section.x-panels", { ariaLabel: "more about the sample" }, h("div.x-bar", {}, tabs, sampleTabs), content);
}

/** The part of the choice that a panel follows. @param {any} panel @param {ExplainChoice} choice */
function followedChoice(panel, choice) {
  return Object.fromEntries(Object.entries(choice).filter(([name]) => panel.follows.includes(name)));
}

/**
 * One panel of one sample; a panel that Python must compute first waits for a click. A panel that follows the
 * controls is computed for the current choice.
 * @param {ExplainStore} store @param {ExplainPanel} view @param {any} panel @param {number} at @param {ExplainChoice} first what the page opened with
 */
function samplePanel(store, view, panel, at, first) {
  const sample = store.state.samples[at], statusText = h("div.note", { role: "status" }), followed = followedChoice(panel, store.choice);
  let confirmed = false;
  const ask = async (/** @type {object} */ options) => {
    const answer = await store.ask({ kind: "panel", name: panel.name, ...sampleAddress(sample), options: { ...followed, ...options }, sure: confirmed }, (progress) => showProgress(statusText, progress));
    confirmed ||= answer?.slow !== undefined;
    return answer?.state ?? { trouble: answer?.slow === undefined ? errorText(answer) : `${slowWarning(answer.slow)} Click again to compute it.` };
  };
  const isStored = at === 0 && panel.state !== null && JSON.stringify(followed) === JSON.stringify(followedChoice(panel, first));
  if (isStored) return h("div", {}, view(panel.state, ask));
  const compute = async () => {
    showProgress(statusText);
    const panelState = await ask({});
    if (panelState.trouble === undefined) {
      node.className = "";
      return replaceKeepingFocus(node, view(panelState, ask));
    }
    statusText.textContent = panelState.trouble || "Python is not available: run the cell again.";
  };
  const node = h("div.x-compute", { role: "group", ariaLabel: panel.title }, makeButton("use", "Compute", () => void compute(), { ariaLabel: `Compute ${panel.title.toLowerCase()}` }), statusText);
  if (panel.state !== null) void compute();
  return node;
}

/** @typedef {[number, number, number]} Rgb */

/** The colors of zero, positive and negative values. @param {HTMLElement} el */
export function mapColors(el) {
  const { paper, lines } = palette(el);
  return { none: parseRgb(paper), up: parseRgb(lines[1]), down: parseRgb(lines[0]) };
}

/**
 * Return the color of a value; `share` is relative to the largest absolute value.
 * @param {{none: Rgb, up: Rgb, down: Rgb}} colors @param {number} share
 * @returns {Rgb}
 */
export function mixColor({ none, up, down }, share) {
  const t = Math.min(1, Math.abs(share)) ** 0.8, full = share < 0 ? down : up;
  return [none[0] + t * (full[0] - none[0]), none[1] + t * (full[1] - none[1]), none[2] + t * (full[2] - none[2])];
}

/** Paint a map with one pixel per cell; CSS scales it. @param {HTMLCanvasElement} canvas @param {number} rows @param {number} columns @param {(i: number) => Rgb} color */
export function paintPixels(canvas, rows, columns, color) {
  Object.assign(canvas, { width: columns, height: rows });
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), image = g.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) image.data.set([...color(i), 255], 4 * i);
  g.putImageData(image, 0, 0);
}

/** A color scale with its end values. @param {number} low @param {number} high */
export function colorScale(low, high) {
  return h("div.i-scale", { role: "img", ariaLabel: `from ${formatRounded(low)} to ${formatRounded(high)}` }, h("span", {}, low < 0 ? formatRounded(low) : "0"), h(low < 0 ? "i.i-both" : "i.i-up", {}), h("span", {}, formatRounded(high)));
}

/**
 * Describe the cell under the pointer or the keyboard focus, in a line below the map.
 * @param {HTMLElement} map @param {() => [number, number]} size rows and columns
 * @param {(clientX: number, clientY: number) => [number, number]} at row and column
 * @param {(row: number, column: number) => string} describe @param {string} rest @param {(row: number, column: number) => void} [mark]
 */
export function mapReading(map, size, at, describe, rest, mark = () => {}) {
  const note = h("div.note.i-reading", { ariaLive: "polite" }, rest);
  let now = [-1, -1];
  const show = (/** @type {number} */ row, /** @type {number} */ column) => {
    const [rows, columns] = size(), isInside = row >= 0 && column >= 0 && row < rows && column < columns;
    now = isInside ? [row, column] : [-1, -1];
    note.textContent = isInside ? describe(row, column) : rest;
    mark(now[0], now[1]);
  };
  map.tabIndex = 0;
  map.onpointermove = (event) => show(...at(event.clientX, event.clientY));
  map.onpointerleave = map.onblur = () => show(-1, -1);
  map.onkeydown = (event) => {
    const step = arrowStep(event), [rows, columns] = size();
    if (!step) return;
    show(Math.max(0, Math.min(rows - 1, now[0] + step[0])), Math.max(0, Math.min(columns - 1, now[1] + step[1])));
  };
  return note;
}

/** A select element with its label. @param {string} label @param {string[]} names @param {number} at @param {(at: number) => void} change */
export function labeledSelect(label, names, at, change) {
  const select = /** @type {HTMLSelectElement} */ (h("select.find.i-select", { ariaLabel: label }, ...names.map((name, i) => h("option", { value: String(i), selected: i === at }, name))));
  select.onchange = () => change(Number(select.value));
  return h("label.i-pick", {}, h("span.label", {}, label), select);
}

/** Notes below a panel. @param {string[]} lines */
export function noteList(lines) {
  return h("div.i-notes", {}, ...lines.map((line) => h("div.note", {}, line)));
}
