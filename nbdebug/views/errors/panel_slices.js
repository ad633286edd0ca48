// @ts-check
/** The panel of slices: parts of the data that are worse than the rest, and one of the reader's own. */
/** @import { PanelAsk, PanelColumn, PanelGo } from "./panel_kit.js" */
import { brief, h } from "../kit.js";
import { panelCount, panelHead, panelPercent, panelState, panelTable, panelTrouble, panelWay } from "./panel_kit.js";
import { slicesOwn } from "./slices_own.js";
import { spanLine } from "./span.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function slicesPanel(state, go, ask) {
  const found = h("div.panelbox"), own = h("div.panelbox"), note = h("div");

  /** @param {object} options @param {string} line */
  async function again(options, line) {
    note.replaceChildren(h("div.note", { role: "status" }, "Searching…"));
    const next = await panelState(ask, "slices", options);
    note.replaceChildren(...(next.trouble === undefined ? [] : [panelTrouble(next.trouble, line)]));
    if (next.trouble === undefined) draw(next);
  }

  /** @param {any} next */
  function draw(next) {
    state = next;
    if (state.late) return;
    found.replaceChildren(...slicesFound(state, go));
    own.replaceChildren(...(state.own ? [slicesTable("Your slice", state, [state.own], go)] : []));
  }

  draw(state);
  if (state.late) again({ now: true }, "errors.slices()");
  const measure = (/** @type {object[]} */ conditions) => again({ own: conditions }, "errors.rows(ranges={…}, values={…})");
  return h("div.panelbox", {}, found, state.columns.length > 0 && slicesOwn(state.columns, measure), own, note);
}

/** What was found, out of how many. @param {any} state @param {PanelGo} go */
function slicesFound(state, go) {
  const count = state.slices.length, kept = `Tried ${panelCount(state.tried)} slices of ${state.features.join(", ") || "nothing"}; kept ${count}.`;
  const none = "No part of the data is worse than the rest by more than chance allows.";
  return [h("div.status", { role: "status" }, kept), count ? slicesTable("Weak slices", state, state.slices, go) : h("div", {}, none),
    ...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text))];
}

/** @param {string} label @param {any} state @param {any[]} slices @param {PanelGo} go */
function slicesTable(label, state, slices, go) {
  const wrong = state.measure === "wrong", show = (/** @type {number | null} */ v) => (wrong ? slicesPercent(v) : brief(v));
  const to = Math.max(...slices.map((one) => one.high), 0), from = Math.min(...slices.map((one) => one.low), 0);
  const sure = (/** @type {any} */ one) => (one.q === undefined ? `p = ${brief(one.p, 2)}` : `false-discovery rate ${brief(one.q, 2)}`);
  const ofWrong = (/** @type {any} */ one) => panelWay(show(one.value), () => go({ ...one.query, right: false }, `wrong, ${one.words}`), "Show the wrong ones");
  /** @type {PanelColumn[]} */
  const columns = [
    { name: "slice", by: (one) => one.words, cell: (one) => [panelWay(one.words, () => go(one.query, one.words))] },
    { name: "samples", kind: "number", by: (one) => one.support, cell: (one) => [panelCount(one.support), h("i.size", { ariaHidden: "true", style: `--nb-part: ${one.support / state.rows}` })] },
    { name: wrong ? "wrong" : `mean ${state.measure}`, kind: "number", by: (one) => one.value, cell: (one) => [wrong ? ofWrong(one) : show(one.value)] },
    { name: "the rest", kind: "number", by: (one) => one.rest, cell: (one) => [show(one.rest)] },
    { name: "times", hint: "How many times as bad as the rest.", kind: "number", by: (one) => one.relative, cell: (one) => [one.relative === null ? "–" : `${brief(one.relative, 2)}×`] },
    { name: "worse by", hint: state.said, kind: "number", by: (one) => one.effect, cell: (one) => [slicesWorse(one, show, sure(one), from, to)] },
  ];
  return h("div", {}, panelHead(label), panelTable(label, columns, slices));
}

/** By how much a slice is worse, with the interval. @param {any} one @param {(v: number | null) => string} show @param {string} sure @param {number} from @param {number} to */
function slicesWorse(one, show, sure, from, to) {
  const text = h("span", {}, show(one.effect), h("span.soft", {}, ` (${show(one.low)} to ${show(one.high)})`));
  return h("span.worse", { title: sure }, text, spanLine({ value: one.effect, low: one.low, high: one.high }, from, to, 0));
}

/** A share in percent, with the sign that a minus has. @param {number | null} v */
export function slicesPercent(v) {
  return panelPercent(v).replace("-", "−");
}
