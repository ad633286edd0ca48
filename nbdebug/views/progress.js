// @ts-check
/** @import { Props } from "./kit.js" */
import { follow, h, heading, keep, root } from "./kit.js";

/** A bar that fills while a tool goes over data. @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable), bar = /** @type {HTMLProgressElement} */ (h("progress.progress", { ariaLabel: "samples" }));
  root(el, node, bar);
  follow(model, () => {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    if (state.share !== null) bar.value = state.share;
  });
}

export default { initialize: keep(() => {}), render };
