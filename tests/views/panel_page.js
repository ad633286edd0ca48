// @ts-check
/** A page with one panel on it. */
import { root } from "../../nbdebug/views/kit.js";
import { calibrationPanel } from "../../nbdebug/views/errors/panel_calibration.js";
import { classesPanel } from "../../nbdebug/views/errors/panel_classes.js";
import { flipsPanel } from "../../nbdebug/views/errors/panel_flips.js";
import { scatterPanel } from "../../nbdebug/views/errors/panel_scatter.js";

/** @type {Record<string, any>} */
const PANELS = { classes: classesPanel, calibration: calibrationPanel, flips: flipsPanel, scatter: scatterPanel };

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const { name, state } = model.get("state"), page = /** @type {any} */ (window);
  page.went = [];
  const go = (/** @type {object} */ query, /** @type {string} */ label) => page.went.push({ query, label });
  const ask = async (/** @type {object} */ asked) => page.python?.(asked);
  root(el, PANELS[name](state, go, ask));
}

export default { initialize() {}, render };
