// @ts-check
/** Two classes against each other: what speaks for the one rather than the other. */
import { brief, h, press } from "../kit.js";
import { attributionView } from "./attribution.js";
import { explainExactness } from "./exactness.js";
import { explainAnswered } from "./numbers.js";

/** @param {any} state @param {(options: object) => Promise<any>} ask @returns {HTMLElement} */
export function differencePanel(state, ask) {
  const said = h("div.note", { role: "status" }), place = h("div.x-main"), top = h("div.x-between"), node = h("div.x-difference", {}, top, said, place);

  function draw() {
    const { found, first, second, classes, scores } = state;
    const swap = press("x-swap", "⇄", () => void other(second, first), { ariaLabel: "swap the classes", title: "swap" });
    top.replaceChildren(differencePick("for", state, first, (at) => void other(at, at === second ? first : second)), swap, differencePick("rather than", state, second, (at) => void other(at === first ? second : first, at)));
    const unit = found.space, gap = h("div", {}, `${unit} of `, h("b", {}, classes[first] ?? `class ${first}`), ` ${brief(scores[0], 4)}, of `, h("b", {}, classes[second] ?? `class ${second}`), ` ${brief(scores[1], 4)}: what makes the difference of ${brief(found.score, 4)}`);
    place.replaceChildren(gap, attributionView(found), explainExactness(found));
  }

  /** @param {number} first @param {number} second */
  async function other(first, second) {
    said.textContent = "Python computes it…";
    const found = await ask({ first, second });
    state = explainAnswered(said, found, state);
    draw();
  }

  draw();
  return node;
}

/** A class to choose. @param {string} label @param {any} state @param {number} now @param {(at: number) => void} chosen */
function differencePick(label, { classes, predicted, truth }, now, chosen) {
  const words = (/** @type {string} */ name, /** @type {number} */ at) => [name, at === predicted && "predicted", at === truth && "true"].filter(Boolean).join(", ");
  const options = classes.map((/** @type {string} */ name, /** @type {number} */ at) => h("option", { value: String(at), selected: at === now }, words(name, at)));
  const select = h("select.x-pick", { ariaLabel: label, onchange: (/** @type {any} */ event) => chosen(Number(event.target.value)) }, ...options);
  return h("label.x-control", {}, h("span.label", {}, label), select);
}
