// @ts-check
/** A page with one panel that looks inside a model. */
import { root } from "../../nbdebug/views/kit.js";
import { attentionPanel } from "../../nbdebug/views/explain/panel_attention.js";
import { featuresPanel } from "../../nbdebug/views/explain/panel_features.js";
import { pathPanel } from "../../nbdebug/views/explain/panel_path.js";

/** @type {Record<string, any>} */
const INSIDE_PANELS = { attention: attentionPanel, features: featuresPanel, path: pathPanel };

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const { name, state } = model.get("state"), page = /** @type {any} */ (window);
  root(el, INSIDE_PANELS[name](state, async (/** @type {object} */ options) => (page.python ? page.python(name, options) : { trouble: "" })));
}

export default { initialize() {}, render };
