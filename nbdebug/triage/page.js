// @ts-check
/** Triage: the cause, the causes left, and those ruled out. */
/** @import { Props } from "../views/kit.js" */
import { cardTree, foldable, nameValueTable } from "../views/finding_cards.js";
import { codeBlock, h, heading, mountView, redrawOnMessage, statusBanner, trackState } from "../views/kit.js";

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").running), banner = h("div"), cards = h("div.cards"), rest = h("div");
  mountView(el, node, banner, cards, rest);
  redrawOnMessage(model, () => {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = `Symptom: ${state.symptom}`;
    banner.replaceChildren(state.running ? h("div.note", {}, state.status) : state.established ? statusBanner("good", "✓", state.status) : statusBanner("warning", "?", state.status));
    cards.replaceChildren(...cardTree(state.findings, new Set()));
    rest.replaceChildren(
      ...(state.next_test ? [codeBlock("Next test", state.next_test)] : []),
      ...causeTable("Not decided", state.left, !state.established),
      ...causeTable("Ruled out", state.ruled_out, false),
      ...causeTable("Checks, in the order of cost", state.stages, false));
  });
}

/** A list of names with a note each, that folds. @param {string} name @param {string[][]} rows @param {boolean} open */
function causeTable(name, rows, open) {
  if (!rows.length) return [];
  const node = foldable(`${name} (${rows.length})`, nameValueTable(rows));
  if (node instanceof HTMLDetailsElement) node.open = open;
  return [node];
}

export default { initialize: trackState(() => {}), render };
