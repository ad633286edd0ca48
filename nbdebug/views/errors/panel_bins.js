// @ts-check
/** The pictures of calibration: bins against the diagonal, and how many rows there are of each confidence. */
/** @import { PanelGo } from "./panel_kit.js" */
import { h, num } from "../kit.js";
import { panelCount, panelPercent } from "./panel_kit.js";
import { panelLine, panelPlot, panelRule, panelSpot, panelSvg } from "./panel_plot.js";

/**
 * Each bin as a dot in the band where a calibrated model's would lie; a press leads to its rows.
 * @param {any} state @param {PanelGo} go @param {{confidence: number[], accuracy: number[]} | false | undefined} after
 */
export function calibrationBins({ bins, column }, go, after) {
  const truth = column === "confidence" ? "share that is right" : "share that is of the class", plot = panelPlot({ label: "Reliability diagram", across: column, up: truth });
  plot.svg.append(panelRule(plot.x(0), plot.y(0), plot.x(1), plot.y(1), "--nb-soft", "4 3"));
  if (after) plot.svg.append(panelLine(plot, after.confidence, after.accuracy, "--nb-good", "2 3"));
  plot.svg.append(panelLine(plot, bins.confidence, bins.accuracy, "--nb-line0"), ...bins.counts.map((/** @type {number} */ n, /** @type {number} */ i) => {
    const [sure, right, low, high] = [bins.confidence[i], bins.accuracy[i], bins.low[i], bins.high[i]], x = plot.x(sure), out = right < low || right > high;
    const range = `${column} ${num(bins.first[i])} to ${num(bins.last[i])}`, said = `${range}: ${panelPercent(right)} of ${panelCount(n)} came true, ${panelPercent(low)} to ${panelPercent(high)} if calibrated`;
    const band = panelSvg("rect", { x: x - 4, width: 8, y: plot.y(high), height: Math.max(2, plot.y(low) - plot.y(high)), rx: 2, style: "fill: var(--nb-soft); opacity: .3" });
    const dot = panelSvg("circle", { cx: x, cy: plot.y(right), r: 4, style: `fill: var(${out ? "--nb-error" : "--nb-line0"}); stroke: var(--nb-paper); stroke-width: 1.5` });
    return panelSpot(said, () => go({ ranges: { [column]: [bins.first[i], bins.last[i]] } }, range), band, dot);
  }));
  const words = ["gray: where a calibrated model would lie, in 95 of 100 cases", after && "green, dotted: with the temperature"].filter(Boolean).join("; ");
  plot.node.append(h("div.note.reading", {}, `${panelCount(bins.counts.length)} bins of about ${panelCount(Math.round(bins.counts.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) / bins.counts.length))} samples; ${words}`));
  return plot.node;
}

/** How many rows there are of each confidence, right and wrong; a press leads to them. @param {any} state @param {PanelGo} go */
export function calibrationBars({ histogram, column }, go) {
  const sure = column === "confidence", kinds = sure ? ["wrong", "right"] : ["not of the class", "of the class"], counts = [histogram.wrong, histogram.right];
  const top = calibrationTop(Math.max(...histogram.right.map((/** @type {number} */ n, /** @type {number} */ i) => n + histogram.wrong[i]), 1));
  const plot = panelPlot({ label: `How many samples of each ${column}`, across: column, up: "samples", top, ticks: [0, 0.5, 1] });
  for (let i = 0; i + 1 < histogram.edges.length; i++) {
    let from = 0;
    counts.forEach((each, kind) => {
      const n = each[i], left = plot.x(histogram.edges[i]) + 1, range = `${column} ${num(histogram.edges[i])} to ${num(histogram.edges[i + 1])}`;
      if (!n) return;
      const bar = panelSvg("rect", { x: left, width: plot.x(histogram.edges[i + 1]) - left, y: plot.y(from + n), height: Math.max(1, plot.y(from) - plot.y(from + n)), style: `fill: var(${kind ? "--nb-line0" : "--nb-error"})` });
      const query = { ranges: { [column]: [histogram.first[i], histogram.last[i]] }, ...(sure && { right: kind === 1 }) }, label = sure ? `${range}, ${kinds[kind]}` : range;
      plot.svg.append(panelSpot(`${label}: ${panelCount(n)} samples`, () => go(query, label), bar));
      from += n;
    });
  }
  const key = kinds.map((text, kind) => h("span.panelkey", {}, h("i.swatch", { style: `border-top: 8px solid var(${kind ? "--nb-line0" : "--nb-error"})` }), text));
  plot.node.append(h("div.panelways.reading", {}, ...key));
  return plot.node;
}

/** A round number that is as large or larger. @param {number} n */
function calibrationTop(n) {
  const size = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 4, 5, 10].map((m) => m * size).find((v) => v >= n) ?? n;
}
