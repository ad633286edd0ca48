// @ts-check
/** A page with one panel on it. */
import { mountView } from "../../nbdebug/views/kit.js";
import { calibrationPanel } from "../../nbdebug/tools/errors/panels/calibration.js";
import { classesPanel } from "../../nbdebug/tools/errors/panels/classes.js";
import { flipsPanel } from "../../nbdebug/tools/errors/panels/flips.js";
import { residualsPanel } from "../../nbdebug/tools/errors/panels/residuals.js";

/** @type {Record<string, any>} */
const PANELS = { classes: classesPanel, calibration: calibrationPanel, flips: flipsPanel, scatter: residualsPanel };

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const { name, state } = model.get("state"), page = /** @type {any} */ (window);
  page.went = [];
  const go = (/** @type {object} */ query, /** @type {string} */ label) => page.went.push({ query, label });
  const ask = async (/** @type {object} */ asked) => page.python?.(asked);
  mountView(el, PANELS[name](state, go, ask));
}

export default { initialize() {}, render };
