// @ts-check
/** Counterfactuals panel: the smallest changes of a table row that change the prediction. */
import { codeBlock, formatRounded, h, makeButton } from "../../../views/kit.js";
import { answerOrPrevious, controlSelect, otherClasses } from "../display.js";

const MAX_FARTHER_SHARE = 0.95;

/** @param {any} state @param {(options: object) => Promise<any>} ask @returns {HTMLElement} */
export function counterfactualPanel(state, ask) {
  const statusText = h("div.note", { role: "status" }), content = h("div.x-main"), node = h("div.x-counterfactual", {}, content, statusText);

  /** @param {object} changed */
  async function search(changed) {
    const { target, by, fixed } = state;
    statusText.textContent = "Python is searching…";
    const response = await ask({ target, by, fixed, ...changed });
    state = answerOrPrevious(statusText, response, state);
    draw();
  }

  function draw() {
    const keep = (/** @type {string} */ name) => void search({ fixed: [...state.fixed, name] });
    const cards = state.answers.map((/** @type {any} */ answer, /** @type {number} */ at) => counterfactualCard(answer, at, keep));
    const none = h("div.x-trouble.warning", {}, h("b", {}, "▲ "), "No counterfactual was found.");
    const notes = state.notes.length > 0 && h("ul.x-notes", {}, ...state.notes.map((/** @type {string} */ note) => h("li", {}, note)));
    content.replaceChildren(counterfactualQuery(state, (changed) => void search(changed)), cards.length ? h("div.x-answers", { role: "list" }, ...cards) : none, ...(notes ? [notes] : []), counterfactualSummary(state));
  }

  draw();
  return node;
}

/** The desired outcome, and the features that must not change. @param {any} state @param {(changed: object) => void} change */
function counterfactualQuery(state, change) {
  const { classes, predicted, target, by, fixed, decision } = state;
  const number = h("input.x-place", { type: "number", step: "any", value: String(Number((by ?? 0).toPrecision(3))), onchange: (/** @type {any} */ event) => change({ by: Number(event.target.value) }) });
  const options = [["", "any other class"], ...otherClasses(classes, predicted)];
  const select = controlSelect("wanted", options, (value) => change({ target: value === "" ? null : Number(value) }));
  select.set(target === null ? "" : String(target));
  const wish = by !== null ? h("label.x-control", {}, h("span.label", {}, "change the output by"), number) : classes.length > 2 && select.node;
  const fixedButtons = fixed.map((/** @type {string} */ name) => makeButton("x-held", `${name} ×`, () => change({ fixed: fixed.filter((/** @type {string} */ feature) => feature !== name) }), { ariaLabel: `allow ${name} to change`, title: "allow it to change" }));
  return h("div.x-wish", {}, h("div", {}, "The model predicts ", h("b", {}, decision), ". The smallest changes that change the prediction:"), wish, fixedButtons.length > 0 && h("div.x-holds", {}, h("span.note", {}, "fixed:"), ...fixedButtons));
}

/** One counterfactual. @param {any} counterfactual @param {number} at @param {(name: string) => void} keep */
function counterfactualCard({ decision, distance, farther, nearest, changes }, at, keep) {
  const rows = changes.map((/** @type {any} */ change) => counterfactualRow(change, keep)), isFar = farther >= MAX_FARTHER_SHARE;
  const plausibility = nearest < 1e-6 ? "identical to a training sample" : farther < 0.5 ? `closer to training data than ${Math.round(100 - 100 * farther)}% of training samples are to each other` : `farther from training data than ${Math.round(100 * farther)}% of training samples are from each other`;
  const foot = h("div.note", {}, h("span", { title: "sum of the changes, each divided by the median absolute deviation of its column" }, `size ${formatRounded(distance)}`), "; ", isFar ? h("span.warning.x-far", {}, `▲ ${plausibility}: implausible`) : plausibility);
  return h("div.x-answer", { role: "listitem", ariaLabel: `change ${at + 1}: ${decision}` }, h("div.x-then", {}, "then ", h("b", {}, decision)), ...rows, foot);
}

/** One changed feature: values before and after, and their positions in the observed range. @param {any} change @param {(name: string) => void} keep */
function counterfactualRow({ feature, before, after, percentile, way: positions, seen: observed }, keep) {
  const share = percentile === null ? "" : `${Math.round(100 * percentile)}% of training samples are at or below ${after}`;
  const track = positions && h("div.x-seen", { role: "img", ariaLabel: `from ${before} to ${after}; observed range ${observed[0]} to ${observed[1]}`, title: `observed range ${observed[0]} to ${observed[1]}. ${share}`, style: `--nb-a: ${positions[0]}; --nb-b: ${positions[1]}; --nb-low: ${Math.min(...positions)}; --nb-wide: ${Math.abs(positions[1] - positions[0])}` }, h("i.x-moved"), h("i.x-was"), h("i.x-now"));
  const ends = positions && h("div.x-words", { ariaHidden: "true" }, h("span", {}, observed[0]), h("span", {}, observed[1]));
  const hold = makeButton("x-hold", "fix", () => keep(feature), { ariaLabel: `fix ${feature}`, title: "search without changing this" });
  return h("div.x-change", {}, h("span.x-feature", {}, feature), h("span.x-values", {}, before, h("span.soft", {}, " → "), h("b", {}, after)), positions ? h("div", {}, track, ends) : h("span.note", {}, "another category"), hold);
}

/** Details of the search, and the Python code. @param {any} state */
function counterfactualSummary({ evaluations, samples, code: line }) {
  const text = `Searched with ${evaluations.toLocaleString("en-US")} model evaluations, using values of ${samples.toLocaleString("en-US")} training samples. Every listed change is necessary. Counterfactuals describe the model, not causal effects. Numbers are rounded here, not in Python.`;
  return h("div.x-exact", {}, h("div.note", {}, text), h("details.fold", {}, h("summary", {}, "Python"), codeBlock("in Python", line)));
}
