// @ts-check
/** The training samples near a sample: whether there are any, and whether they carry another label. */
/** @import { PanelAsk, PanelColumn, PanelGo } from "./panel_kit.js" */
/** @import { Card } from "./query.js" */
import { brief, h, num, press } from "../kit.js";
import { kindShown } from "./kinds.js";
import { panelCount, panelGauge, panelHead, panelPercent, panelState, panelTable, panelTrouble, panelWay } from "./panel_kit.js";

/** Bands of distance and of disagreement. @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function neighborsPanel(state, go, ask) {
  const said = `The ${state.k} nearest of ${panelCount(state.train)} training samples, by the ${state.metric} distance in ${state.layer}.`;
  const far = neighborsTable("How far from training data", "farther than", "the share of training samples that are nearer to their own neighbors", state.far, go);
  const labeled = neighborsTable("Neighbors with another label", "another label", "where all disagree, look for wrong labels", state.labeled, go);
  return h("div.panelbox", {}, h("div.status", {}, said), far, state.labeled.length > 0 && labeled);
}

/** @param {string} title @param {string} first @param {string} hint @param {any[]} bands @param {PanelGo} go */
function neighborsTable(title, first, hint, bands, go) {
  const judged = bands.some((one) => one.wrong);
  /** @type {PanelColumn[]} */
  const columns = [
    { name: first, cell: (one) => [panelWay(one.name, () => go(one.query, `${first}: ${one.name}`))] },
    { name: "samples", kind: "number", by: (one) => one.count, cell: (one) => [panelCount(one.count)] },
    ...(judged ? [/** @type {PanelColumn} */ ({ name: "wrong", kind: "number", by: (one) => one.wrong?.[0] ?? null, cell: (one) => [panelGauge(one.wrong ?? [null, null, null])] })] : []),
  ];
  return h("div", {}, panelHead(title, h("span.soft", {}, hint)), panelTable(title, columns, bands));
}

/** The section of the open sample; nothing where there are no neighbors to look for. @param {any} state @param {Card} card @param {PanelAsk} ask */
export function neighborsDetail(state, card, ask) {
  if (!state.panels.some((/** @type {any} */ one) => one.name === "neighbors")) return null;
  const node = h("div.neighbors", { role: "region", ariaLabel: "nearest training samples" }), button = press("use", "Nearest training samples", load);

  async function load() {
    if (state.neighborsOf?.row !== card.row) state.neighborsOf = { row: card.row, found: panelState(ask, "neighbors", { row: card.row }) };
    node.replaceChildren(h("div.note", { role: "status" }, "Looking…"));
    const found = await state.neighborsOf.found;
    if (found.trouble !== undefined) state.neighborsOf = undefined;
    if (found.trouble !== undefined) return node.replaceChildren(button, panelTrouble(found.trouble, `errors.neighbors(${card.key})`));
    node.replaceChildren(...neighborsFound(found));
  }

  node.append(button);
  if (state.neighborsOf) void load(); // those that come next want it too
  return node;
}

/** @param {any} found */
function neighborsFound({ farther, others, samples, target, layer, k }) {
  const far = `Farther from training data than ${panelPercent(farther)} of training samples are from each other, by ${layer}.`;
  const other = others === null ? "" : ` ${Math.round(others * k)} of ${k} neighbors carry another label than ${target}.`;
  return [panelHead("Nearest training samples"), h("div.status", {}, far, other), h("div.neighborlist", { role: "list" }, ...samples.map(neighborsCard))];
}

/** @param {any} one */
function neighborsCard({ key, label, same, distance, shown }) {
  const title = `training sample ${key}, ${label ? `${label}, ` : ""}distance ${num(distance)}`;
  const sign = label && h(same ? "b.right" : "b.wrong", { ariaLabel: same ? "same label" : "another label" }, same ? "=" : "≠");
  return h("div.neighbor", { role: "listitem", title, ariaLabel: title }, kindShown(shown, {}), h("div", {}, sign, " ", h("span", {}, label || key)), h("div.soft", {}, `${key} · ${brief(distance, 2)}`));
}
