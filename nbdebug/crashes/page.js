// @ts-check
/** A crash: cards of findings, and the calls of the model up to the one that raised. */
/** @import { Props } from "../views/kit.js" */
import { cardTree, skippedChecks } from "../views/finding_cards.js";
import { h, heading, mountView, redrawOnMessage, trackState } from "../views/kit.js";
import { shapeGraph } from "../views/shape_graph.js";

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, false), cards = h("div.cards"), rest = h("div"), picture = h("div");
  mountView(el, node, cards, picture, rest);
  redrawOnMessage(model, () => {
    const { title: name, subtitle, findings, not_checked, more, trace } = model.get("state");
    title.textContent = name;
    status.textContent = subtitle;
    cards.replaceChildren(...cardTree(findings, new Set()));
    picture.replaceChildren(shapeGraph(trace));
    rest.replaceChildren(...skippedChecks(not_checked, more));
  });
}

export default { initialize: trackState(() => {}), render };
