// @ts-check
/** A page with one panel on it. */
import { root } from "../../nbdebug/views/kit.js";
import { classesPanel } from "../../nbdebug/views/errors/panel_classes.js";

/** @type {Record<string, any>} */
const PANELS = { classes: classesPanel };

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const { name, state } = model.get("state"), page = /** @type {any} */ (window);
  page.went = [];
  const go = (/** @type {object} */ query, /** @type {string} */ label) => page.went.push({ query, label });
  const ask = async (/** @type {object} */ asked) => page.python?.(asked);
  root(el, PANELS[name](state, go, ask));
}

export default { initialize() {}, render };
