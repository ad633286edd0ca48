// @ts-check
/** One panel on a page of its own; its links show the Python call instead of samples. */
/** @import { Props } from "../../views/kit.js" */
import { codeBlock, h, mountView } from "../../views/kit.js";
import { fairnessPanel } from "./panels/fairness.js";
import { slicesPanel } from "./panels/slices.js";

const PANEL_PAGES = { slices: slicesPanel, fairness: fairnessPanel };

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), line = h("div", { role: "status" }), panel = PANEL_PAGES[/** @type {"slices"} */ (state.name)];
  const go = (/** @type {object} */ query, /** @type {string} */ label) => line.replaceChildren(codeBlock(label, `errors.rows(${pythonArguments(query)})`));
  mountView(el, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), panel(state.panel, go, async () => undefined), line);
}

/** A query as Python arguments. @param {Record<string, any>} query */
function pythonArguments(query) {
  return Object.entries(query).map(([name, value]) => `${name}=${pythonLiteral(value)}`).join(", ");
}

/** @param {any} value @returns {string} */
function pythonLiteral(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonLiteral).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonLiteral(item)}`).join(", ")}}`;
}

export default { initialize() {}, render };
