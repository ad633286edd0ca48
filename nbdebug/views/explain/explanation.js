// @ts-check
/** @import { ExplainAsk } from "./store.js" */
/** @import { ExplainPanel } from "./panels.js" */
/** Samples and why the model says what it says of them: a whole page, also inside another one. */
import { h } from "../kit.js";
import { explainColumn } from "./column.js";
import { explainCompare } from "./compare.js";
import { explainControls } from "./controls.js";
import { attentionPanel } from "./panel_attention.js";
import { counterfactualPanel } from "./panel_counterfactual.js";
import { differencePanel } from "./panel_difference.js";
import { examplesPanel } from "./panel_examples.js";
import { featuresPanel } from "./panel_features.js";
import { pathPanel } from "./panel_path.js";
import { trustPanel } from "./panel_trust.js";
import { explainPanels } from "./panels.js";
import { explainStore } from "./store.js";

/** What draws the panel of a name. @type {Record<string, ExplainPanel>} */
const EXPLAIN_PANELS = {
  attention: attentionPanel, counterfactual: counterfactualPanel, difference: differencePanel, examples: examplesPanel, features: featuresPanel,
  path: pathPanel, trust: trustPanel,
};

/** The whole page, also inside another one; `ask` gives undefined where no Python is there. @param {any} state @param {ExplainAsk} ask */
export function explainPage(state, ask) {
  const store = explainStore(state, ask), columns = h("div.x-columns"), panels = explainPanels(store, EXPLAIN_PANELS);
  /** @type {[number, HTMLElement][]} */
  let drawn = [];

  function draw() {
    drawn = store.columns.map((column, at) => (drawn[at]?.[0] === column.sample ? drawn[at] : [column.sample, explainColumn(store, column, at > 0)]));
    columns.classList.toggle("nb-x-two", drawn.length > 1);
    if (drawn.some(([, node], at) => columns.children[at] !== node) || columns.children.length !== drawn.length) columns.replaceChildren(...drawn.map(([, node]) => node));
  }

  store.hear(draw);
  draw();
  const head = h("div.x-top", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline));
  const keep = (/** @type {KeyboardEvent} */ event) => { if (event.key !== "Escape" && /** @type {Element} */ (event.target).closest("input, select")) event.stopPropagation(); };
  return h("div.x-page", { onkeydown: keep, "data-lm-suppress-shortcuts": "true" }, h("div.x-open", {}, head, explainCompare(store)), explainControls(store), columns, panels);
}
