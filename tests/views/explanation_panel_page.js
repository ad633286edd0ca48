// @ts-check
/** A page with one panel of an explanation; Python answers its requests if it serves the page. */
import { h, mountView } from "../../nbdebug/views/kit.js";
import { counterfactualPanel } from "../../nbdebug/tools/explain/panels/counterfactuals.js";
import { contrastPanel } from "../../nbdebug/tools/explain/panels/contrast.js";
import { examplesPanel } from "../../nbdebug/tools/explain/panels/examples.js";

/** @type {Record<string, any>} */
const EXPLANATION_PANELS = { counterfactuals: counterfactualPanel, contrast: contrastPanel, examples: examplesPanel };

/** @param {{model: any, el: HTMLElement}} props */
function render({ model, el }) {
  const { name, state } = model.get("state"), page = /** @type {any} */ (window);
  const ask = async (/** @type {object} */ options) => {
    const answer = await page.python?.({ kind: "panel", name, row: 0, options });
    return answer?.state ?? { trouble: answer?.trouble ?? "" };
  };
  mountView(el, h("div.x-page", {}, EXPLANATION_PANELS[name](state, ask)));
}

export default { initialize() {}, render };
