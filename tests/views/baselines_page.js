// @ts-check
/** A page with the panel of baselines on it. */
import { mountView } from "../../nbdebug/views/kit.js";
import { baselinesPanel } from "../../nbdebug/tools/errors/panels/baselines.js";

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const page = /** @type {any} */ (window);
  page.went = [];
  const go = (/** @type {object} */ query, /** @type {string} */ label) => page.went.push({ query, label });
  mountView(el, baselinesPanel(model.get("state"), go, async () => undefined));
}

export default { initialize() {}, render };
