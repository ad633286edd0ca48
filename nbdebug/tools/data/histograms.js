// @ts-check
/** Histograms of features, those of the splits beside each other on the same axes. */
import { formatNumber, h } from "../../views/kit.js";
import { svgElement } from "../../views/plots.js";

/** @typedef {{title: string, extent: string, bins: (string | number)[], counts: [string, number[]][], shifted: boolean}} Distribution */

const WIDE = 132, HIGH = 40;

/** @param {{title: string, note: string, hidden: number, histograms: Distribution[]}} group */
export function histogramGroup({ title, note, hidden, histograms }) {
  const more = hidden > 0 && h("div.note", {}, `… and ${hidden.toLocaleString("en-US")} more.`);
  return h("section.d-group", {}, h("div.d-heading", { role: "heading", ariaLevel: "4" }, title), note && h("div.note", {}, note), h("div.d-rows", {}, ...histograms.map(distributionNode)), more);
}

/** The histograms of one feature. @param {Distribution} distribution */
function distributionNode(distribution) {
  const { title, extent, bins, counts, shifted } = distribution;
  const shares = counts.map(([, values]) => toShares(values)), top = Math.max(...shares.flat()) || 1;
  const heading = h("div.d-text", {}, h("b", {}, title), shifted && h("span.tone.warning", {}, " ▲ shifted"), h("span.soft", {}, ` ${extent}`));
  const charts = counts.map(([split, values], i) => h("figure.d-histogram", {}, barChart(`${title}, ${split}`, values, bins, shares[i], top, i), h("figcaption", {}, split)));
  return h("div.d-row", { role: "group", ariaLabel: title }, heading, h("div.d-cards", {}, ...charts));
}

/** Bars of one split, each with its bin and count. @param {string} label @param {number[]} values @param {(string | number)[]} bins @param {number[]} shares @param {number} top @param {number} line */
function barChart(label, values, bins, shares, top, line) {
  const width = WIDE / Math.max(values.length, 1), thick = Math.min(Math.max(width - 1, 1), 24);
  const bars = shares.map((share, i) => {
    const tall = share ? Math.max((share / top) * HIGH, 1) : 0, text = `${binName(bins, values.length, i)}: ${values[i].toLocaleString("en-US")} (${(100 * share).toFixed(1)}%)`;
    const bar = svgElement("rect", { x: (i * width + (width - thick) / 2).toFixed(1), y: (HIGH - tall).toFixed(1), width: thick.toFixed(1), height: tall.toFixed(1), style: `fill: var(--nb-line${line})` });
    const area = svgElement("rect", { x: (i * width).toFixed(1), y: 0, width: width.toFixed(1), height: HIGH, style: "fill: transparent" });
    return svgElement("g", {}, svgElement("title", {}, document.createTextNode(text)), bar, area);
  });
  const base = svgElement("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH, style: "stroke: var(--nb-soft)" });
  const highest = shares.indexOf(Math.max(...shares)), most = values.length ? `; most in ${binName(bins, values.length, highest)}` : "";
  return svgElement("svg", { viewBox: `0 0 ${WIDE} ${HIGH + 1}`, width: WIDE, height: HIGH + 1, role: "img", "aria-label": `${label}${most}` }, ...bars, base);
}

/** @param {number[]} values */
function toShares(values) {
  const total = values.reduce((sum, value) => sum + value, 0);
  return values.map((value) => value / Math.max(total, 1));
}

/** The category, or the interval of the numbers. @param {(string | number)[]} bins @param {number} count @param {number} i */
function binName(bins, count, i) {
  return bins.length > count ? `${formatNumber(bins[i])} to ${formatNumber(bins[i + 1])}` : String(bins[i]);
}
