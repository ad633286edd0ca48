// @ts-check
/** Contrast panel: the attribution of the difference between two classes. */
import { formatRounded, h, makeButton } from "../../../views/kit.js";
import { attributionView, exactnessLine } from "../attribution_plots.js";
import { answerOrPrevious, controlSelect } from "../display.js";

/** @param {any} state @param {(options: object) => Promise<any>} ask @returns {HTMLElement} */
export function contrastPanel(state, ask) {
  const statusText = h("div.note", { role: "status" }), content = h("div.x-main"), top = h("div.x-between"), node = h("div.x-difference", {}, top, statusText, content);

  function draw() {
    const { found: attribution, first, second, classes, scores } = state;
    const swap = makeButton("x-swap", "⇄", () => void other(second, first), { ariaLabel: "swap the classes", title: "swap" });
    top.replaceChildren(classSelect("for", state, first, (at) => void other(at, at === second ? first : second)), swap, classSelect("rather than", state, second, (at) => void other(at === first ? second : first, at)));
    const unit = attribution.space, gap = h("div", {}, `${unit} of `, h("b", {}, classes[first] ?? `class ${first}`), ` ${formatRounded(scores[0], 4)}, of `, h("b", {}, classes[second] ?? `class ${second}`), ` ${formatRounded(scores[1], 4)}; attribution of the difference ${formatRounded(attribution.score, 4)}`);
    content.replaceChildren(gap, attributionView(attribution), exactnessLine(attribution));
  }

  /** @param {number} first @param {number} second */
  async function other(first, second) {
    statusText.textContent = "Python is computing…";
    const response = await ask({ first, second });
    state = answerOrPrevious(statusText, response, state);
    draw();
  }

  draw();
  return node;
}

/** A select element for a class. @param {string} label @param {any} state @param {number} now @param {(at: number) => void} chosen */
function classSelect(label, { classes, predicted, truth }, now, chosen) {
  const words = (/** @type {string} */ name, /** @type {number} */ at) => [name, at === predicted && "predicted", at === truth && "true"].filter(Boolean).join(", ");
  const options = classes.map((/** @type {string} */ name, /** @type {number} */ at) => [String(at), words(name, at)]);
  const select = controlSelect(label, options, (value) => chosen(Number(value)));
  select.set(String(now));
  return select.node;
}
