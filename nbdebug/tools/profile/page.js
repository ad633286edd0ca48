// @ts-check
/** Profile of a training step: verdict, timeline of the steps as stacked bars, roofline, and tables. */
/** @import { Props } from "../../views/kit.js" */
import { extent, logTicks, padRange, scale } from "../../views/axes.js";
import { bulletList, codeBlock, formatNumber, formatPercent, h, heading, mountView, redrawOnMessage, statusBanner, tableHead, trackState } from "../../views/kit.js";
import { svgElement, svgPlot, svgRule, svgText } from "../../views/plots.js";

/** @typedef {{index: number, name: string, text: string, milliseconds: string, percent: string}} Phase */
/** @typedef {{cells: string[], part?: number, mark?: string, code?: string}} ProfileRow */
/** @typedef {{name: string, intensity: number, rate: number}} RooflinePoint */

const TABLE_TITLES = /** @type {Record<string, string>} */ ({ lines: "Your lines", trials: "Changes that were tried", modules: "Modules", latencies: "Inference latency" });
const ROOFLINE_SIZE = { wide: 420, high: 250, left: 52, right: 410, top: 24, bottom: 210 };

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable), banner = h("div"), body = h("div.profile");
  mountView(el, node, banner, body);
  redrawOnMessage(model, () => {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    banner.replaceChildren(...profileVerdict(state));
    body.replaceChildren(...(state.steps.length ? profileParts(state) : []));
  });
}

/** Verdict, reasons, and the next step. @param {any} state */
function profileVerdict(state) {
  if (!state.headline) return [];
  const verdict = statusBanner(state.tone, state.tone === "good" ? "✓" : "!", state.headline, bulletList(state.reasons), state.where && h("div.note", {}, state.where));
  return state.code ? [verdict, codeBlock("Next step", state.code)] : [verdict];
}

/** @param {any} state */
function profileParts(state) {
  const parts = [timeline(state)];
  for (const name of ["lines", "trials", "modules"]) parts.push(...profileTable(name, state));
  if (state.roofline) parts.push(rooflinePlot(state.roofline));
  parts.push(...profileTable("latencies", state));
  parts.push(...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)));
  return parts;
}

/** One stacked bar for each step, and a legend with the mean of each phase. @param {any} state */
function timeline(state) {
  const steps = /** @type {number[][]} */ (state.steps), phases = /** @type {Phase[]} */ (state.phases), sums = steps.map((step) => step.reduce((a, b) => a + b, 0));
  const plot = svgPlot({ label: "Time of each step by phase", across: "step", up: "ms", wide: 640, high: 200, top: 1.02 * Math.max(...sums), ticks: [0, 0.5, 1] });
  plot.svg.querySelectorAll("text[text-anchor=middle]").forEach((text) => text.remove());
  const width = (plot.x(1) - plot.x(0)) / steps.length;
  steps.forEach((step, i) => {
    let below = 0;
    const bar = svgElement("g", {}, svgElement("title", {}, document.createTextNode(stepText(step, i, phases))));
    for (const phase of phases) {
      const value = step[phase.index];
      bar.append(svgElement("rect", { x: plot.x(0) + i * width, y: plot.y(below + value), width: Math.max(width - (width > 3 ? 1 : 0), 0.5), height: plot.y(below) - plot.y(below + value), style: `fill: ${phaseColor(phase)}` }));
      below += value;
    }
    plot.svg.append(bar);
  });
  const legend = phases.map((phase) => h("span.phase", {}, h("i", { style: `background: ${phaseColor(phase)}` }), `${phase.text} `, h("b", {}, phase.percent), ` ${phase.milliseconds}`));
  return h("section", { ariaLabel: "Timeline of the steps" }, plot.node, h("div.phases", {}, ...legend));
}

/** @param {number[]} step @param {number} i @param {Phase[]} phases */
function stepText(step, i, phases) {
  return `step ${i + 1}: ${phases.map((phase) => `${phase.text} ${formatNumber(Number(step[phase.index].toPrecision(3)))} ms`).join(", ")}`;
}

/** A color for each phase; two of the eight are neutral. @param {Phase} phase */
function phaseColor({ name }) {
  const lines = ["data", "forward", "backward", "optimizer", "loss", "evaluation"];
  return lines.includes(name) ? `var(--nb-line${[1, 0, 5, 2, 4, 3][lines.indexOf(name)]})` : name === "python" ? "var(--nb-soft)" : "var(--nb-error)";
}

/** A table with a title; none without rows. @param {string} name @param {any} state */
function profileTable(name, state) {
  const rows = /** @type {ProfileRow[]} */ (state.tables[name] ?? []);
  if (!rows.length) return [];
  const body = h("tbody", {}, ...rows.map(profileRow));
  return [h("section", {}, h("div.label", {}, TABLE_TITLES[name]), h("table.table", { ariaLabel: TABLE_TITLES[name] }, tableHead(state.columns[name]), body))];
}

/** @param {ProfileRow} row */
function profileRow({ cells: [first, ...others], part, mark, code }) {
  const bar = part === undefined ? null : h("i.part", { ariaHidden: "true", title: formatPercent(part), style: `display:block;height:4px;margin-left:0;--nb-part:${Math.min(part, 1)}` });
  const pill = mark ? h(`span.pill.tone.${mark === "recommended" ? "good" : "note"}`, {}, mark) : null;
  const head = h("td", {}, first, " ", pill, code ? h("div.note", {}, code) : null, bar);
  return h("tr", {}, head, ...others.map((text) => h("td", {}, text)));
}

/** Modules below the ceilings of the device, on logarithmic axes. @param {{flops: number, bytes: number, points: RooflinePoint[]}} roofline */
function rooflinePlot({ flops, bytes, points }) {
  const { wide, high, left, right, top, bottom } = ROOFLINE_SIZE, ridge = flops / bytes;
  const across = padRange(extent([...points.map((point) => point.intensity), ridge, ridge * 4, ridge / 20], true), true), up = padRange(extent([...points.map((point) => point.rate), flops, flops / 100], true), true);
  const x = scale(across, [left, right], true), y = scale(up, [bottom, top], true);
  const svg = svgElement("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "img", "aria-label": "Roofline: modules below the measured ceilings" });
  for (const v of logTicks(up)) svg.append(svgRule(left, y(v), right, y(v), "--nb-faint"), svgText(left - 5, y(v) + 4, rateText(v), "end"));
  for (const v of logTicks(across)) svg.append(svgText(x(v), bottom + 14, formatNumber(v), "middle"));
  const start = Math.max(across[0], up[0] / bytes);
  svg.append(svgRule(x(start), y(start * bytes), x(ridge), y(flops), "--nb-soft"), svgRule(x(ridge), y(flops), right, y(flops), "--nb-soft"));
  svg.append(svgText(0, 11, "↑ FLOP per second", "start"), svgText(right, high - 5, "FLOP per byte →", "end"));
  for (const { name, intensity, rate } of points) {
    const text = `${name}: ${formatNumber(Number(intensity.toPrecision(3)))} FLOP per byte, ${rateText(rate)} FLOP per second`;
    svg.append(svgElement("circle", { cx: x(intensity), cy: y(rate), r: 5, style: "fill: var(--nb-line0); fill-opacity: .6; stroke: var(--nb-line0)" }, svgElement("title", {}, document.createTextNode(text))));
  }
  const limit = points.filter((point) => point.intensity < ridge).length;
  const words = `Forward passes of modules, each below the ceiling that was measured on this device. Memory limits ${limit} of ${points.length} (left of ${formatNumber(Number(ridge.toPrecision(2)))} FLOP per byte), arithmetic the others.`;
  return h("section", {}, h("div.label", {}, "Roofline"), h("div.panelplot", {}, svg), h("div.note", {}, words));
}

/** A rate with a metric prefix. @param {number} v */
function rateText(v) {
  const steps = /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]), [size, prefix] = steps.find(([limit]) => v >= limit) ?? [1, ""];
  return `${Number((v / size).toPrecision(2))} ${prefix}`.trim();
}

export default { initialize: trackState(() => {}), render };
