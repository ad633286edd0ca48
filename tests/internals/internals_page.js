// @ts-check
/** A page with one panel of the internals of a model. */
import { mountView } from "../../nbdebug/views/kit.js";
import { attentionPanel } from "../../nbdebug/tools/explain/panels/attention.js";
import { featuresPanel } from "../../nbdebug/tools/explain/panels/features.js";
import { pathPanel } from "../../nbdebug/tools/explain/panels/path.js";

/** @type {Record<string, any>} */
const PANELS = { attention: attentionPanel, features: featuresPanel, path: pathPanel };

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const { name, state } = model.get("state"), page = /** @type {any} */ (window);
  mountView(el, PANELS[name](state, async (/** @type {object} */ options) => (page.python ? page.python(name, options) : { trouble: "" })));
}

export default { initialize() {}, render };
