// @ts-check
/** Diagnosis of a history: charts of losses and scores, and the findings. */
/** @import { Props } from "../views/kit.js" */
import { cardTree } from "../views/finding_cards.js";
import { h, heading, mountView, redrawOnMessage, statusBanner, trackState } from "../views/kit.js";
import { lineChart } from "../views/line_chart.js";

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, false), banner = h("div"), cards = h("div.cards"), notes = h("div");
  const hosts = model.get("state").charts.map(() => h("div"));
  mountView(el, node, banner, ...hosts, cards, notes);
  const pictures = hosts.map((/** @type {HTMLElement} */ host) => lineChart(host));
  redrawOnMessage(model, () => {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    banner.replaceChildren(...(state.findings.length ? [] : [statusBanner("good", "✓", "The curves show no fault.")]));
    state.charts.forEach((/** @type {any} */ chart, /** @type {number} */ i) => pictures[i](chart));
    cards.replaceChildren(...cardTree(state.findings, new Set()));
    notes.replaceChildren(...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)));
  });
}

export default { initialize: trackState(() => {}), render };
