// @ts-check
/** Calibration panel: reliability diagram, confidence histogram and temperature scaling. */
/** @import { PanelAsk, PanelGo } from "./kit.js" */
import { codeBlock, formatNumber, formatRounded, h, makeButton } from "../../../views/kit.js";
import { svgButton, svgElement, svgLine, svgPlot, svgRule } from "../../../views/plots.js";
import { fallbackNote, formatCount, panelHeading, panelPercent, requestState } from "./kit.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function calibrationPanel(state, go, ask) {
  const node = h("div.panelbox", { "data-lm-suppress-shortcuts": "true" }), note = h("div"), body = h("div.panelbox"), choice = calibrationChoice(state, (of) => refresh(of === null ? { now: true } : { of }));

  /** @param {object} options */
  async function refresh(options) {
    node.ariaBusy = "true";
    const next = await requestState(ask, "calibration", options);
    node.ariaBusy = "false";
    note.replaceChildren(...(next.trouble === undefined ? [] : [fallbackNote(next.trouble, "of" in options ? `errors.calibration(${JSON.stringify(options.of)})` : "mend" in options ? "errors.temperature()" : "errors.calibration()")]));
    if (next.trouble !== undefined) return;
    state = next;
    draw();
  }

  function draw() {
    if (state.later) return body.replaceChildren(makeButton("toggle", "Compute calibration", () => refresh({ now: true })));
    const after = state.scaling?.helps && state.scaling.after;
    body.replaceChildren(calibrationStats(state), h("div.panelplots", {}, reliabilityDiagram(state, go, after), confidenceHistogram(state, go)), ...temperatureSection());
    if (state.unknown) body.append(h("div.note", {}, `${formatCount(state.unknown)} samples without a target or a score are left out.`));
  }

  /** The effect of temperature scaling. @returns {HTMLElement[]} */
  function temperatureSection() {
    const scaling = state.scaling, head = panelHeading("Temperature");
    if (!scaling) return [];
    if (scaling.later) return [head, h("div", {}, makeButton("toggle", "Check whether temperature scaling helps", () => refresh({ mend: true })))];
    const change = `calibration error ${formatRounded(scaling.error[0])} → ${formatRounded(scaling.error[1])}, loss ${formatNumber(scaling.loss[0])} → ${formatNumber(scaling.loss[1])}, on held-out samples (${formatCount(scaling.rows)}, two-fold cross-validation)`;
    if (!scaling.helps) return [head, h("div", {}, `${state.off ? "Temperature scaling does not help" : "No temperature scaling is needed"}. A temperature of ${formatRounded(scaling.temperature)} gives: ${change}.`)];
    return [head, h("div", {}, h("b", {}, `Divide the logits by ${formatRounded(scaling.temperature)}`), `: ${change}. The predicted class does not change.`), codeBlock("Line", scaling.code)];
  }

  node.append(choice, note, body);
  draw();
  if (state.later) refresh({ now: true });
  return node;
}

/** A select element: the confidence of the prediction, or the probability of one class. @param {any} state @param {(of: string | number | null) => void} pick */
function calibrationChoice({ names, total }, pick) {
  if (names.length === 0) return h("div");
  const label = "Calibration of";
  if (total > names.length) {
    const field = /** @type {HTMLInputElement} */ (h("input.find", { type: "search", placeholder: "all classes, or the name of one", ariaLabel: label, onchange: () => pick(field.value || null) }));
    return h("div.tools", {}, h("span.soft", {}, label), field);
  }
  const options = [h("option", { value: "" }, "the confidence of the prediction"), ...names.map((/** @type {string} */ name, /** @type {number} */ i) => h("option", { value: String(i) }, `the probability of ${name}`))];
  const list = /** @type {HTMLSelectElement} */ (h("select.find", { ariaLabel: label, onchange: () => pick(list.value ? Number(list.value) : null) }, ...options));
  return h("div.tools", {}, h("span.soft", {}, label), list);
}

/** The calibration metrics and their interpretation. @param {any} state */
function calibrationStats({ error, chance, off, over, brier, column }) {
  const isConfidence = column === "confidence", summary = !off ? "No miscalibration beyond chance in these samples."
    : over ? (isConfidence ? "Overconfident: accuracy is lower than confidence." : "The probability is higher than the observed frequency.")
      : isConfidence ? "Underconfident: accuracy is higher than confidence." : "The probability is lower than the observed frequency.";
  return h("div.panelstats", {},
    h("div.panelstat", {}, h("span.label", {}, "calibration error"), h("b", {}, formatRounded(error)), h("span.soft", {}, `up to ${formatRounded(chance)} expected by chance`)),
    brier !== null && h("div.panelstat", {}, h("span.label", {}, "Brier score"), h("b", {}, formatRounded(brier))),
    h("div.panelsaid", { role: "status" }, h("span.sign", { ariaHidden: "true" }, off ? "▲" : "✓"), ` ${summary}`));
}

/**
 * Reliability diagram: one dot per bin, and the band of a calibrated model; a click shows the samples of a bin.
 * @param {any} state @param {PanelGo} go @param {{confidence: number[], accuracy: number[]} | false | undefined} after
 */
export function reliabilityDiagram({ bins, column }, go, after) {
  const yLabel = column === "confidence" ? "accuracy" : "share of the class", plot = svgPlot({ label: "Reliability diagram", across: column, up: yLabel });
  plot.svg.append(svgRule(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "--nb-soft", "4 3"));
  if (after) plot.svg.append(svgLine(plot, after.confidence, after.accuracy, "--nb-good", "2 3"));
  plot.svg.append(svgLine(plot, bins.confidence, bins.accuracy, "--nb-line0"), ...bins.counts.map((/** @type {number} */ n, /** @type {number} */ i) => {
    const [confidence, accuracy, low, high] = [bins.confidence[i], bins.accuracy[i], bins.low[i], bins.high[i]], x = plot.x(confidence), out = accuracy < low || accuracy > high;
    const range = `${column} ${formatNumber(bins.first[i])} to ${formatNumber(bins.last[i])}`, description = `${range}: ${panelPercent(accuracy)} of ${formatCount(n)} observed, ${panelPercent(low)} to ${panelPercent(high)} expected if calibrated`;
    const band = svgElement("rect", { x: x - 4, width: 8, y: plot.y(high), height: Math.max(2, plot.y(low) - plot.y(high)), rx: 2, style: "fill: var(--nb-soft); opacity: .3" });
    const dot = svgElement("circle", { cx: x, cy: plot.y(accuracy), r: 4, style: `fill: var(${out ? "--nb-error" : "--nb-line0"}); stroke: var(--nb-paper); stroke-width: 1.5` });
    return svgButton(description, () => go({ ranges: { [column]: [bins.first[i], bins.last[i]] } }, range), band, dot);
  }));
  const words = ["gray: 95% range of a calibrated model", after && "green, dotted: with temperature scaling"].filter(Boolean).join("; ");
  plot.node.append(h("div.note.reading", {}, `${formatCount(bins.counts.length)} bins of about ${formatCount(Math.round(bins.counts.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) / bins.counts.length))} samples; ${words}`));
  return plot.node;
}

/** Histogram of the confidence of correct and wrong predictions; a click shows the samples of a bar. @param {any} state @param {PanelGo} go */
export function confidenceHistogram({ histogram, column }, go) {
  const isConfidence = column === "confidence", kinds = isConfidence ? ["wrong", "right"] : ["not of the class", "of the class"], counts = [histogram.wrong, histogram.right];
  const top = roundUp(Math.max(...histogram.right.map((/** @type {number} */ n, /** @type {number} */ i) => n + histogram.wrong[i]), 1));
  const plot = svgPlot({ label: `Number of samples by ${column}`, across: column, up: "samples", top, ticks: [0, 0.5, 1] });
  for (let i = 0; i + 1 < histogram.edges.length; i++) {
    let from = 0;
    counts.forEach((each, kind) => {
      const n = each[i], left = plot.x(histogram.edges[i]) + 1, range = `${column} ${formatNumber(histogram.edges[i])} to ${formatNumber(histogram.edges[i + 1])}`;
      if (!n) return;
      const bar = svgElement("rect", { x: left, width: plot.x(histogram.edges[i + 1]) - left, y: plot.y(from + n), height: Math.max(1, plot.y(from) - plot.y(from + n)), style: `fill: var(${kind ? "--nb-line0" : "--nb-error"})` });
      const query = { ranges: { [column]: [histogram.first[i], histogram.last[i]] }, ...(isConfidence && { right: kind === 1 }) }, label = isConfidence ? `${range}, ${kinds[kind]}` : range;
      plot.svg.append(svgButton(`${label}: ${formatCount(n)} samples`, () => go(query, label), bar));
      from += n;
    });
  }
  const key = kinds.map((text, kind) => h("span.panelkey", {}, h("i.swatch", { style: `border-top: 8px solid var(${kind ? "--nb-line0" : "--nb-error"})` }), text));
  plot.node.append(h("div.panelways.reading", {}, ...key));
  return plot.node;
}

/** Round up to a number with one leading digit. @param {number} n */
function roundUp(n) {
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 5, 10].map((m) => m * size).find((v) => v >= n) ?? n;
}
