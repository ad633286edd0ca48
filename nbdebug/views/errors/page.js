// @ts-check
/** @import { Props } from "../kit.js" */
import { h, root } from "../kit.js";
import { asking } from "../answers.js";

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state");
  asking(model, () => {});
  root(el, h("div.title", {}, state.title), h("div.status", {}, state.headline));
}

export default { initialize() {}, render };
