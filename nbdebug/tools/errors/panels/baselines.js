// @ts-check
/** Baselines panel: metrics of the model and of simple baselines. */
/** @import { PanelAsk, PanelGo } from "./kit.js" */
import { h, makeButton } from "../../../views/kit.js";
import { formatCount, panelTable, samplesButton } from "./kit.js";

/** @typedef {{name: string, axis: [number, number], bars: any[]}} BaselinesMetric */

/** @param {any} state @param {PanelGo} go @param {PanelAsk} _ask */
export function baselinesPanel(state, go, _ask) {
  const choice = h("div.panelways", { role: "group", ariaLabel: "Metric" }), table = h("div");

  /** @param {BaselinesMetric} metric */
  function draw(metric) {
    const buttons = state.metrics.map((/** @type {BaselinesMetric} */ metricItem) => makeButton("toggle", metricItem.name, () => {
      draw(metricItem);
      /** @type {HTMLElement | null} */ (choice.querySelector("[aria-pressed=true]"))?.focus();
    }, { ariaPressed: String(metricItem === metric) }));
    choice.replaceChildren(...buttons);
    table.replaceChildren(panelTable(`Baselines by ${metric.name}`, baselinesColumns(state, metric, go), metric.bars));
  }

  draw(state.metrics[0]);
  const notes = h("ul.note", {}, ...state.notes.map((/** @type {string} */ note) => h("li", {}, note)));
  return h("div.panelbox", {}, h("div", {}, state.headline), choice, table, state.notes.length > 0 && notes);
}

/** @param {any} state @param {BaselinesMetric} metric @param {PanelGo} go @returns {import("./kit.js").PanelColumn[]} */
function baselinesColumns(state, metric, go) {
  return [
    { name: "answer", cell: (bar) => [h("b", {}, bar.name), " ", h("span.soft", {}, bar.said)] },
    { name: metric.name, kind: "number", by: (bar) => bar.value, hint: "with its 95% interval", cell: (bar) => [baselinesBar(bar, metric.axis)] },
    { name: "interval", kind: "number", cell: (bar) => [bar.interval] },
    { name: "advantage of the model", kind: "number", hint: "95% interval of the paired difference", cell: (bar) => [baselinesGain(bar)] },
    { name: state.right ? "only the baseline is right" : "the baseline is closer", kind: "number", by: (bar) => state.only[bar.name]?.length ?? 0, cell: (bar) => [onlyBaselineButton(state, bar.name, go)] },
  ];
}

/** A bar with its interval, relative to the axis. @param {any} bar @param {[number, number]} axis */
function baselinesBar(bar, [low, high]) {
  const part = (/** @type {number | null} */ v) => v === null ? 0 : Math.min(Math.max((v - low) / (high - low || 1), 0), 1);
  const style = `--nb-v: ${part(bar.value)}; --nb-low: ${part(bar.low)}; --nb-high: ${part(bar.high)}`;
  return h("span.gauged", {}, h("span", {}, bar.text), h("i.gauge", { ariaHidden: "true", style }, h("i")));
}

/** The advantage of the model over a baseline, and whether it is significant. @param {any} bar */
function baselinesGain(bar) {
  const words = /** @type {Record<string, string>} */ ({ worse: "worse", same: "not significant" })[bar.verdict];
  return h("span", {}, bar.gain, words && h("b", { style: bar.verdict === "worse" ? "color: var(--nb-error)" : "color: var(--nb-warning)" }, ` ${words}`));
}

/** A button that shows the rows that only a baseline predicts correctly. @param {any} state @param {string} name @param {PanelGo} go */
function onlyBaselineButton(state, name, go) {
  const rows = state.only[name], label = state.right ? `only ${name} is right` : `${name} is closer`;
  return rows && samplesButton(formatCount(rows.length), () => go({ rows }, label), `Show the samples where ${label}`);
}
