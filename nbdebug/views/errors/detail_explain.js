// @ts-check
/** @import { Card } from "./query.js" */
/** Why the model said that of the open sample: its explanation, in the place where it was clicked. */
import { h, instead, press } from "../kit.js";
import { explainPage } from "../explain/explanation.js";
import { explainSlow, explainWaits } from "../explain/patience.js";

/** The button, and what it brings; nothing where there is no model to ask. @param {any} state @param {Card} card @param {(content: object, told?: (progress: any) => void) => Promise<any>} ask */
export function explainDetail(state, card, ask) {
  if (!state.explains) return null;
  const said = h("div.note", { role: "status" }), button = press("use", "Why does it say that?", () => { void explain(); });
  const node = h("section.e-explain", { ariaLabel: "why it says that" }, button, said);

  let sure = false;

  async function explain() {
    button.setAttribute("aria-disabled", "true");
    explainWaits(said);
    const answer = await ask({ kind: "explain", row: card.row, sure }, (progress) => explainWaits(said, progress));
    button.removeAttribute("aria-disabled");
    if (answer?.page) return instead(node, explainPage(answer.page, (content, told) => ask({ kind: "explain", row: card.row, content }, told)));
    sure = answer?.slow !== undefined;
    if (sure) said.textContent = `${explainSlow(answer.slow)} Press again to have it computed.`;
    else said.textContent = answer?.trouble ?? `Python is not there: dbg.explain(${card.key}) in a new cell tells.`;
  }

  return node;
}
