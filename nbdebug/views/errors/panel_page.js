// @ts-check
/** One panel on a page of its own: what leads to rows says the line to write. */
/** @import { Props } from "../kit.js" */
import { h, root } from "../kit.js";
import { code } from "../code.js";
import { fairnessPanel } from "./panel_fairness.js";
import { slicesPanel } from "./panel_slices.js";

const PANEL_PAGES = { slices: slicesPanel, fairness: fairnessPanel };

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), line = h("div", { role: "status" }), panel = PANEL_PAGES[/** @type {"slices"} */ (state.name)];
  const go = (/** @type {object} */ query, /** @type {string} */ label) => line.replaceChildren(code(label, `errors.rows(${panelPageCall(query)})`));
  root(el, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), panel(state.panel, go, async () => undefined), line);
}

/** A query as arguments in Python. @param {Record<string, any>} query */
function panelPageCall(query) {
  return Object.entries(query).map(([name, value]) => `${name}=${panelPagePython(value)}`).join(", ");
}

/** @param {any} value @returns {string} */
function panelPagePython(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(panelPagePython).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${panelPagePython(one)}`).join(", ")}}`;
}

export default { initialize() {}, render };
