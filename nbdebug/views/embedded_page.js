// @ts-check
/** The page of a result inside another page; Python sends it with its module and style sheets. */
/** @import { Model } from "./kit.js" */
import { h } from "./kit.js";

/** @typedef {{module: string, css: string, state: any}} EmbeddedPage */

/** Draw a page; without a `model` it does not reach Python. @param {EmbeddedPage} page @param {Model} [model] */
export async function drawEmbeddedPage({ module, css, state }, model = inertModel(state)) {
  const el = h("div"), url = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
  const view = (await import(url)).default;
  URL.revokeObjectURL(url);
  await view.render({ model, el });
  return h("div.embedded", {}, h("style", {}, css), el);
}

/** @param {any} state @returns {Model} */
function inertModel(state) {
  return { get: (name) => (name === "state" ? state : undefined), on() {}, send() {} };
}
