// @ts-check
/** @import { ExplainStore } from "./store.js" */
/** Which samples are in sight: tabs for those that were asked for, and a second one beside the first. */
import { h } from "../kit.js";
import { pick } from "../tabs.js";
import { explainAbsent } from "./column.js";

const COMPARE_TABS = 12;

/** @param {ExplainStore} store */
export function explainCompare(store) {
  const { state } = store, tabs = h("div.tabs", { role: "group", ariaLabel: "samples" }), others = h("span.tabs"), said = h("div", { role: "status" });
  const key = /** @type {HTMLInputElement} */ (h("input.x-place", { type: "number", min: "0", step: "1", ariaLabel: "place of the sample to compare with", placeholder: "place" }));
  const form = h("form.x-beside", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); if (key.value === "") return; void store.place(Number(key.value)); key.value = ""; } }, h("span.note", {}, "compare with"), others, state.places && key, state.places && h("button.x-go", { type: "submit" }, "show"));
  const asked = state.samples.filter((/** @type {any} */ one) => !one.beside).length;

  function draw() {
    const named = Object.fromEntries(state.samples.slice(0, COMPARE_TABS).map((/** @type {any} */ one, /** @type {number} */ i) => [i, one.name])), first = store.columns[0].sample, second = store.columns[1]?.sample;
    tabs.hidden = asked < 2 && Object.keys(named).length < 3;
    if (!tabs.hidden) pick(tabs, named, String(first), (i) => compareFirst(store, Number(i)));
    const rest = Object.fromEntries(Object.entries(named).filter(([i]) => Number(i) !== first));
    pick(others, rest, String(second ?? ""), (i) => (Number(i) === second ? store.drop() : void store.show(1, Number(i))));
    form.hidden = !state.places && Object.keys(rest).length === 0;
    said.replaceChildren(...(store.line ? [explainAbsent(store.line)] : store.said ? [h("div.note", {}, store.said)] : []));
  }

  store.hear(draw);
  draw();
  return h("div", {}, h("div.x-samples", {}, tabs, form), said);
}

/** Another sample first; never the same twice. @param {ExplainStore} store @param {number} sample */
function compareFirst(store, sample) {
  if (store.columns[1]?.sample === sample) void store.show(1, store.columns[0].sample);
  void store.show(0, sample);
}
