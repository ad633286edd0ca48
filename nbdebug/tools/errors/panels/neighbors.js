// @ts-check
/** Neighbors panel: distance to training data and label disagreement. */
/** @import { Card } from "../store.js" */
/** @import { PanelAsk, PanelColumn, PanelGo } from "./kit.js" */
import { formatNumber, formatRounded, h, makeButton } from "../../../views/kit.js";
import { sampleContent } from "../../../views/sample_card.js";
import { fallbackNote, formatCount, intervalGauge, panelHeading, panelPercent, panelTable, requestState, samplesButton } from "./kit.js";

/** Samples by their distance to training data, and by how many neighbors have another label. @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function neighborsPanel(state, go, ask) {
  const summary = `The ${state.k} nearest of ${formatCount(state.train)} training samples by ${state.metric} distance in ${state.layer}.`;
  const distances = neighborsTable("Distance from training data", "farther than", "share of training samples that are closer to their own neighbors", state.far, go);
  const labeled = neighborsTable("Neighbors with another label", "another label", "if all neighbors disagree, the label may be wrong", state.labeled, go);
  return h("div.panelbox", {}, h("div.status", {}, summary), distances, state.labeled.length > 0 && labeled);
}

/** @param {string} title @param {string} first @param {string} hint @param {any[]} bands @param {PanelGo} go */
function neighborsTable(title, first, hint, bands, go) {
  const hasErrors = bands.some((band) => band.wrong);
  /** @type {PanelColumn[]} */
  const columns = [
    { name: first, cell: (band) => [samplesButton(band.name, () => go(band.query, `${first}: ${band.name}`))] },
    { name: "samples", kind: "number", by: (band) => band.count, cell: (band) => [formatCount(band.count)] },
    ...(hasErrors ? [/** @type {PanelColumn} */ ({ name: "wrong", kind: "number", by: (band) => band.wrong?.[0] ?? null, cell: (band) => [intervalGauge(band.wrong ?? [null, null, null])] })] : []),
  ];
  return h("div", {}, panelHeading(title, h("span.soft", {}, hint)), panelTable(title, columns, bands));
}

/** The neighbors of the opened sample; null if there is no neighbors panel. @param {any} state @param {Card} card @param {PanelAsk} ask */
export function neighborsDetail(state, card, ask) {
  if (!state.panels.some((/** @type {any} */ panel) => panel.name === "neighbors")) return null;
  const node = h("div.neighbors", { role: "region", ariaLabel: "nearest training samples" }), button = makeButton("use", "Nearest training samples", load);

  async function load() {
    if (state.neighborsOf?.row !== card.row) state.neighborsOf = { row: card.row, response: requestState(ask, "neighbors", { row: card.row }) };
    node.replaceChildren(h("div.note", { role: "status" }, "Searching…"));
    const response = await state.neighborsOf.response;
    if (response.trouble !== undefined) state.neighborsOf = undefined;
    if (response.trouble !== undefined) return node.replaceChildren(button, fallbackNote(response.trouble, `errors.neighbors(${card.key})`));
    node.replaceChildren(...neighborsResult(response));
  }

  node.append(button);
  if (state.neighborsOf) void load(); // loaded once, so load them for the next opened samples too
  return node;
}

/** @param {any} response */
function neighborsResult({ farther, others, samples, target, layer, k }) {
  const distanceText = `Its distance from training data in ${layer} is larger than that of ${panelPercent(farther)} of training samples.`;
  const labelText = others === null ? "" : ` ${Math.round(others * k)} of ${k} neighbors have another label than ${target}.`;
  return [panelHeading("Nearest training samples"), h("div.status", {}, distanceText, labelText), h("div.neighborlist", { role: "list" }, ...samples.map(neighborsCard))];
}

/** @param {any} neighbor */
function neighborsCard({ key, label, same: sameLabel, distance, shown: content }) {
  const title = `training sample ${key}, ${label ? `${label}, ` : ""}distance ${formatNumber(distance)}`;
  const sign = label && h(sameLabel ? "b.right" : "b.wrong", { ariaLabel: sameLabel ? "same label" : "another label" }, sameLabel ? "=" : "≠");
  return h("div.neighbor", { role: "listitem", title, ariaLabel: title }, sampleContent(content, {}), h("div", {}, sign, " ", h("span", {}, label || key)), h("div.soft", {}, `${key} · ${formatRounded(distance, 2)}`));
}
