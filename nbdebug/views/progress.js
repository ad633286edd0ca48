// @ts-check
/** @import { Props } from "./kit.js" */
import { h, heading, mountView, redrawOnMessage, trackState } from "./kit.js";

/** A progress bar while a tool processes data. @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable), bar = /** @type {HTMLProgressElement} */ (h("progress.progress", { ariaLabel: "samples" }));
  mountView(el, node, bar);
  redrawOnMessage(model, () => {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    bar.hidden = !state.stoppable;
    if (state.share !== null) bar.value = state.share;
  });
}

export default { initialize: trackState(() => {}), render };
