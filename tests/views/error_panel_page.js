// @ts-check
/** A page with one panel of the error browser; Python answers its requests if it serves the page. */
import { mountView } from "../../nbdebug/views/kit.js";
import { baselinesPanel } from "../../nbdebug/tools/errors/panels/baselines.js";
import { calibrationPanel } from "../../nbdebug/tools/errors/panels/calibration.js";
import { classesPanel } from "../../nbdebug/tools/errors/panels/classes.js";
import { flipsPanel } from "../../nbdebug/tools/errors/panels/flips.js";
import { residualsPanel } from "../../nbdebug/tools/errors/panels/residuals.js";

/** @type {Record<string, any>} */
const PANELS = {
  baselines: baselinesPanel,
  calibration: calibrationPanel,
  classes: classesPanel,
  flips: flipsPanel,
  residuals: residualsPanel,
};

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const { name, state } = model.get("state"), page = /** @type {any} */ (window);
  page.clicks = [];
  const go = (/** @type {object} */ query, /** @type {string} */ label) => page.clicks.push({ query, label });
  const ask = async (/** @type {object} */ request) => page.python?.(request);
  mountView(el, PANELS[name](state, go, ask));
}

export default { initialize() {}, render };
