// @ts-check
/** Details of one layer: histograms over time and statistics. */
/** @import { Colors, Context } from "../views/line_chart.js" */
/** @import { Row } from "./layer_rows.js" */
/** @import { Store, ViewState } from "./store.js" */
import { extent, padRange, palette, parseRgb, prepareCanvas, scale, ticks } from "../views/axes.js";
import { formatNumber, formatPercent, h, makeButton, redrawOnResize, renderTabs } from "../views/kit.js";
import { drawRule, strokePath } from "../views/line_chart.js";
import { barHeights, HUES, magnitude, visibleBins } from "./layer_cells.js";
import { FAMILIES } from "./layer_rows.js";
import { BINS, lastIndexUpTo, MIDDLE, valueAt } from "./store.js";

/** @typedef {{steps: number[], rows: Uint8Array[], lists: Float32Array[], window: [number, number], hue: number}} HistogramSeries */

const PLOT_HEIGHT = 240,
  LEFT_MARGIN = 52,
  BOTTOM_MARGIN = 20,
  MAX_RIDGES = 16,
  RIDGE_HEIGHT = 58;

/**
 * Draw the histograms of one signal by step, and return their steps.
 * @param {HTMLCanvasElement} canvas @param {Store} store @param {string} signal @param {string} mode @param {number} step
 */
export function drawHistogramSeries(canvas, store, signal, mode, step) {
  const width = canvas.parentElement?.clientWidth ?? 0,
    series = histogramSeries(store, store.words.drawn.indexOf(signal), signal);
  if (!width) return series.steps;
  const g = prepareCanvas(canvas, width, PLOT_HEIGHT),
    colors = palette(canvas.parentElement ?? canvas);
  g.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  g.fillStyle = colors.soft;
  if (!series.steps.length) g.fillText("No histogram was recorded.", LEFT_MARGIN, 40);
  else {
    (mode === "strip" ? drawHeatStrip : mode === "bands" ? drawPercentiles : drawRidges)(g, series, width, colors);
    if (mode !== "ridge") drawStepAxis(g, series, width, step, colors, mode === "strip");
  }
  return series.steps;
}

/**
 * The histograms of one signal by step.
 * @param {Store} store @param {number} at @param {string} signal @returns {HistogramSeries}
 */
function histogramSeries({ shapes }, at, signal) {
  const rows = shapes.rows.map((row) => row.subarray(at * BINS, (at + 1) * BINS)),
    recorded = rows.map((row) => row.some((v) => v > 0));
  const top = new Uint8Array(MIDDLE + 1);
  for (const row of rows)
    for (let j = 1; j <= MIDDLE; j++) top[j] = Math.max(top[j], row[MIDDLE + j] ?? 0, row[MIDDLE - j] ?? 0);
  const window = visibleBins(top, 12),
    recordedRows = rows.filter((_, i) => recorded[i]);
  return {
    window,
    steps: shapes.steps.filter((_, i) => recorded[i]),
    rows: recordedRows,
    lists: recordedRows.map((row) => barHeights(row, window)),
    hue: HUES[FAMILIES.indexOf(signal.split("|")[0])],
  };
}

/**
 * The left edge of each histogram, and the right edge of the last one.
 * @param {number[]} steps @param {number} width
 */
function columnEdges(steps, width) {
  const from = steps[0],
    span = steps[steps.length - 1] - from || 1,
    right = width - 4;
  const at = steps.map((step) => LEFT_MARGIN + ((step - from) / span) * (right - LEFT_MARGIN));
  return [LEFT_MARGIN, ...at.slice(1).map((x, i) => (x + at[i]) / 2), right];
}

/**
 * Frequency as color, as in fastai's colorful dimension.
 * @param {Context} g @param {HistogramSeries} film @param {number} width @param {Colors} colors
 */
function drawHeatStrip(g, film, width, colors) {
  const { steps, lists, hue } = film,
    map = colorRamp(colors, hue),
    x = columnEdges(steps, width),
    high = (PLOT_HEIGHT - BOTTOM_MARGIN) / lists[0].length,
    full = 255 / highestBar(lists);
  lists.forEach((list, i) =>
    list.forEach((v, j) => {
      if (v < 1) return;
      g.fillStyle = map[Math.min(255, Math.round(v * full))];
      g.fillRect(x[i], PLOT_HEIGHT - BOTTOM_MARGIN - (j + 1) * high, Math.ceil(x[i + 1] - x[i] + 0.3), Math.ceil(high + 0.3));
    }),
  );
  drawMagnitudeAxis(g, film, colors);
}

/** The highest bar, excluding the bar of zeros. @param {Float32Array[]} lists */
function highestBar(lists) {
  const zero = lists[0].length >> 1;
  return Math.max(1, ...lists.map((list) => list.reduce((top, v, i) => (i === zero ? top : Math.max(top, v)), 0)));
}

/** 256 colors from the background through a hue to the text color. @param {Colors} colors @param {number} hue */
function colorRamp(colors, hue) {
  const [paper, middle, ink] = [colors.paper, colors.lines[hue], colors.ink].map(parseRgb);
  return Array.from({ length: 256 }, (_, i) => {
    const t = i / 255,
      [a, b, part] = t < 0.6 ? [paper, middle, t / 0.6] : [middle, ink, (t - 0.6) / 0.8];
    return `rgb(${[0, 1, 2].map((k) => Math.round(a[k] + (b[k] - a[k]) * part)).join(" ")})`;
  });
}

/**
 * The quantile of a histogram.
 * @param {Uint8Array} bytes @param {number} share
 */
function quantile(bytes, share) {
  let rest = bytes.reduce((sum, v) => sum + v * v, 0) * share,
    i = 0;
  while (i < BINS - 1 && rest > bytes[i] ** 2) rest -= bytes[i++] ** 2;
  const part = bytes[i] ? Math.min(1, rest / bytes[i] ** 2) : 0,
    size = Math.abs(i - MIDDLE);
  if (!size) return 0;
  const [a, b] = [magnitude(size - 1), magnitude(size)];
  return i > MIDDLE ? a + part * (b - a) : part * (b - a) - b;
}

/**
 * Draw the median, and the ranges of the middle 50 and 90 percent.
 * @param {Context} g @param {HistogramSeries} film @param {number} width @param {Colors} colors
 */
function drawPercentiles(g, { steps, rows, hue }, width, colors) {
  const lines = [0.05, 0.25, 0.5, 0.75, 0.95].map((share) => rows.map((row) => quantile(row, share)));
  const range = padRange(extent(lines.flat().concat(0))),
    x = scale(extent(steps), [LEFT_MARGIN, width - 4]),
    y = scale(range, [PLOT_HEIGHT - BOTTOM_MARGIN, 6]);
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of ticks(range, 4)) {
    g.fillText(formatNumber(v), LEFT_MARGIN - 6, y(v) + 4);
    drawRule(g, LEFT_MARGIN, y(v), width - 4, y(v), colors.faint);
  }
  Object.assign(g, { fillStyle: colors.lines[hue], strokeStyle: colors.lines[hue], lineWidth: 2 });
  for (const [low, up, alpha] of [
    [0, 4, 0.2],
    [1, 3, 0.35],
  ]) {
    g.globalAlpha = alpha;
    g.beginPath();
    lines[up].forEach((v, i) => g.lineTo(x(steps[i]), y(v)));
    for (let i = steps.length - 1; i >= 0; i--) g.lineTo(x(steps[i]), y(lines[low][i]));
    g.fill();
  }
  g.globalAlpha = 1;
  strokePath(
    g,
    lines[2].map((v, i) => [x(steps[i]), y(v)]),
  );
}

/** Draw the magnitudes on the left. @param {Context} g @param {HistogramSeries} film @param {Colors} colors */
function drawMagnitudeAxis(g, film, colors) {
  const high = (PLOT_HEIGHT - BOTTOM_MARGIN) / film.lists[0].length;
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const [text, position] of decadeLabels(film)) {
    const y = PLOT_HEIGHT - BOTTOM_MARGIN - position * high;
    g.fillText(text, LEFT_MARGIN - 6, Math.max(9, y + 4));
    g.fillRect(LEFT_MARGIN - 4, y, 4, 1);
  }
}

/**
 * Draw the steps below, and the current step.
 * @param {Context} g @param {HistogramSeries} film @param {number} width @param {number} step @param {Colors} colors
 * @param {boolean} columns
 */
function drawStepAxis(g, { steps }, width, step, colors, columns) {
  const x = columnEdges(steps, width),
    at = Math.max(0, lastIndexUpTo(steps, step)),
    right = columns ? x[at + 1] : scale(extent(steps), [LEFT_MARGIN, width - 4])(steps[at]);
  g.fillStyle = colors.soft;
  g.textAlign = "left";
  g.fillText(`step ${formatNumber(steps[0])}`, LEFT_MARGIN, PLOT_HEIGHT - 5);
  g.textAlign = "right";
  g.fillText(formatNumber(steps.at(-1)), width - 4, PLOT_HEIGHT - 5);
  if (!columns) return drawRule(g, right, 4, right, PLOT_HEIGHT - BOTTOM_MARGIN, colors.soft);
  Object.assign(g, { strokeStyle: colors.ink, lineWidth: 1 });
  g.strokeRect(Math.round(x[at]) - 0.5, 0.5, Math.max(3, Math.round(right - x[at])), PLOT_HEIGHT - BOTTOM_MARGIN - 1);
}

/**
 * Powers of ten with their positions in bars, far enough apart for labels.
 * @param {HistogramSeries} film @returns {[string, number][]}
 */
function decadeLabels({ window: [lo, hi], lists }) {
  const every = Math.ceil((hi - lo) / 33) || 1,
    zero = lists[0].length / 2;
  /** @type {[string, number][]} */
  const out = [["0", zero]];
  for (let e = -9; e <= 4; e++) {
    const j = 2 * (e * Math.log2(10) + 30),
      at = j - lo + 1.5,
      text = formatNumber(Number(`1e${e}`));
    if (j > lo && j <= hi && e % every === 0) out.push([text, zero + at], [`−${text}`, zero - at]);
  }
  return out;
}

/**
 * Draw the histograms as ridges, the last one in front.
 * @param {Context} g @param {HistogramSeries} film @param {number} width @param {Colors} colors
 */
function drawRidges(g, film, width, colors) {
  const { steps, lists, hue } = film,
    count = Math.min(MAX_RIDGES, steps.length),
    top = highestBar(lists),
    barWidth = (width - LEFT_MARGIN - 8) / lists[0].length;
  const room = PLOT_HEIGHT - BOTTOM_MARGIN - RIDGE_HEIGHT - 4,
    color = colors.lines[hue];
  for (let k = 0; k < count; k++) {
    const i = Math.round((k * (steps.length - 1)) / Math.max(1, count - 1)),
      base = RIDGE_HEIGHT + 2 + (room * k) / Math.max(1, count - 1);
    g.beginPath();
    g.moveTo(LEFT_MARGIN, base);
    lists[i].forEach((v, j) => g.lineTo(LEFT_MARGIN + (j + 0.5) * barWidth, base - Math.min(1, v / top) * RIDGE_HEIGHT));
    g.lineTo(width - 8, base);
    g.fillStyle = colors.paper;
    g.fill();
    g.globalAlpha = 0.15 + (0.5 * k) / count;
    g.fillStyle = color;
    g.fill();
    g.globalAlpha = 1;
    Object.assign(g, { strokeStyle: color, lineWidth: 1, fillStyle: colors.soft, textAlign: "right" });
    g.stroke();
    if (k % 3 === 0) g.fillText(formatNumber(steps[i]), LEFT_MARGIN - 6, base + 3);
  }
  g.textAlign = "center";
  for (const [text, position] of decadeLabels(film)) g.fillText(text, LEFT_MARGIN + position * barWidth, PLOT_HEIGHT - 5);
}

const KINDS = { strip: "Heat strip", bands: "Percentiles", ridge: "Ridge" };
const STATISTICS = ["norm", "mean", "std", "absmax", "zeros", "nonfinite"];

/** Details of one layer over time. @param {() => void} close @param {ViewState} viewState */
export function layerDetail(close, viewState) {
  const name = h("b"),
    kind = h("span.soft"),
    tabs = h("div.tabs", { role: "group", ariaLabel: "signal" }),
    modes = h("div.tabs", { role: "group", ariaLabel: "picture" });
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })),
    findingList = h("div"),
    numbers = h("tbody");
  const heads = h(
    "tr",
    {},
    h("td"),
    ...STATISTICS.map((nextRow) => h("th", { scope: "col" }, nextRow === "nonfinite" ? "not finite" : nextRow)),
  );
  const node = h(
    "section.panel",
    { hidden: true, ariaLabel: "layer over time" },
    h("div.head", {}, h("div", {}, name, " ", kind), makeButton("close", "Close", close)),
    findingList,
    h("div.head", {}, tabs, modes),
    h("div.stage", {}, canvas),
    h("div.scroll", {}, h("table.table.numbers", {}, h("thead", {}, heads), numbers)),
  );
  /** @type {Row | null} */
  let row = null;
  /** @type {Store | null} */
  let store = null;
  let step = 0;

  function draw() {
    node.hidden = !row;
    if (!row || !store) return;
    const current = store,
      { path, params } = row,
      signals = store.words.drawn.filter((name) => params.includes(name.split("|")[1]) || name === `activation|${path}`);
    if (!signals.includes(viewState.signal))
      viewState.signal = signals.find((name) => name.split("|")[0] === viewState.signal.split("|")[0]) ?? signals[0] ?? "";
    const { signal, mode } = viewState;
    name.textContent = path || row.name;
    kind.textContent = row.kind;
    findingList.replaceChildren(
      ...row.findings.map(({ severity, code, message }) => h(`div.tone.${severity}`, {}, h("b", {}, `${code} `), message)),
    );
    renderTabs(tabs, Object.fromEntries(signals.map((name) => [name, signalTitle(name)])), signal, (name) => {
      viewState.signal = name;
      draw();
    });
    tabs.hidden = signals.length < 2;
    renderTabs(modes, KINDS, mode, (name) => {
      viewState.mode = name;
      draw();
    });
    const steps = drawHistogramSeries(canvas, current, signal, mode, step);
    canvas.ariaLabel = `${signalTitle(signal)}: ${steps.length} histograms from step ${formatNumber(steps[0])} to ${formatNumber(steps.at(-1))}`;
    numbers.replaceChildren(
      ...signals.map((name) => h("tr", {}, h("th", { scope: "row" }, signalTitle(name)), ...statisticCells(current, name, step))),
    );
  }

  redrawOnResize(canvas.parentElement ?? node, draw);
  return {
    node,
    /** @param {Store} newStore @param {Row | null} nextRow @param {number} at */
    show(newStore, nextRow, at) {
      [store, row, step] = [newStore, nextRow, at];
      draw();
    },
  };
}

/** The name of a signal; a weight is named by its parameter, other signals follow the parameter name. @param {string} signal */
function signalTitle(signal) {
  const [family, path] = signal.split("|"),
    parameter = path.split(".").at(-1);
  return family === "activation" ? family : family === "weight" ? `${parameter}` : `${parameter} ${family}`;
}

/** @param {Store} store @param {string} signal @param {number} step */
function statisticCells({ layers }, signal, step) {
  const [family, path] = signal.split("|");
  return STATISTICS.map((item) => valueAt(layers, `${family}.${item}|${path}`, step)).map((v, i) =>
    h("td", {}, i > 3 ? formatPercent(v) : formatNumber(v)),
  );
}
