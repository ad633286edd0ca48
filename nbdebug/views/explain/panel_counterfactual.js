// @ts-check
/** Smallest changes of a row of a table: what would have to be otherwise. */
import { brief, h, press } from "../kit.js";
import { code } from "../code.js";
import { explainAnswered } from "./numbers.js";

const COUNTERFACTUAL_FAR = 0.95;

/** @param {any} state @param {(options: object) => Promise<any>} ask @returns {HTMLElement} */
export function counterfactualPanel(state, ask) {
  const said = h("div.note", { role: "status" }), place = h("div.x-main"), node = h("div.x-counterfactual", {}, place, said);

  /** @param {object} changed */
  async function again(changed) {
    const { target, by, fixed } = state;
    said.textContent = "Python searches…";
    const found = await ask({ target, by, fixed, ...changed });
    state = explainAnswered(said, found, state);
    draw();
  }

  function draw() {
    const keep = (/** @type {string} */ name) => void again({ fixed: [...state.fixed, name] });
    const cards = state.answers.map((/** @type {any} */ one, /** @type {number} */ at) => counterfactualCard(one, at, keep));
    const none = h("div.x-trouble.warning", {}, h("b", {}, "▲ "), "No such change was found.");
    const notes = state.notes.length > 0 && h("ul.x-notes", {}, ...state.notes.map((/** @type {string} */ one) => h("li", {}, one)));
    place.replaceChildren(counterfactualWish(state, (changed) => void again(changed)), cards.length ? h("div.x-answers", { role: "list" }, ...cards) : none, ...(notes ? [notes] : []), counterfactualSaid(state));
  }

  draw();
  return node;
}

/** What is wanted, and what must stay. @param {any} state @param {(changed: object) => void} change */
function counterfactualWish(state, change) {
  const { classes, predicted, target, by, fixed, decision } = state;
  const number = h("input.x-place", { type: "number", step: "any", value: String(Number((by ?? 0).toPrecision(3))), onchange: (/** @type {any} */ event) => change({ by: Number(event.target.value) }) });
  const names = classes.map((/** @type {string} */ name, /** @type {number} */ at) => at !== predicted && h("option", { value: String(at), selected: at === target }, name));
  const chosen = (/** @type {any} */ event) => change({ target: event.target.value === "" ? null : Number(event.target.value) });
  const select = h("select.x-pick", { ariaLabel: "wanted", onchange: chosen }, h("option", { value: "", selected: target === null }, "any other class"), ...names);
  const wish = by !== null ? h("label.x-control", {}, h("span.label", {}, "move the output by"), number) : classes.length > 2 && h("label.x-control", {}, h("span.label", {}, "wanted"), select);
  const held = fixed.map((/** @type {string} */ name) => press("x-held", `${name} ×`, () => change({ fixed: fixed.filter((/** @type {string} */ one) => one !== name) }), { ariaLabel: `let ${name} change again`, title: "let it change again" }));
  return h("div.x-wish", {}, h("div", {}, "The model says ", h("b", {}, decision), ". The smallest changes with which it would say something else:"), wish, held.length > 0 && h("div.x-holds", {}, h("span.note", {}, "stays as it is:"), ...held));
}

/** One answer. @param {any} one @param {number} at @param {(name: string) => void} keep */
function counterfactualCard({ decision, distance, farther, nearest, changes }, at, keep) {
  const rows = changes.map((/** @type {any} */ change) => counterfactualRow(change, keep)), far = farther >= COUNTERFACTUAL_FAR;
  const near = nearest < 1e-6 ? "just so is a training sample" : farther < 0.5 ? `nearer to a training sample than ${Math.round(100 - 100 * farther)}% of them are to another` : `farther from every training sample than ${Math.round(100 * farther)}% of them are from another`;
  const foot = h("div.note", {}, h("span", { title: "sum of the changes, each over the median absolute deviation of its column" }, `size ${brief(distance)}`), "; ", far ? h("span.warning.x-far", {}, `▲ ${near}: hardly like any`) : near);
  return h("section.x-answer", { role: "listitem", ariaLabel: `change ${at + 1}: ${decision}` }, h("div.x-then", {}, "then ", h("b", {}, decision)), ...rows, foot);
}

/** One change: before, after, where both lie among what was seen. @param {any} change @param {(name: string) => void} keep */
function counterfactualRow({ feature, before, after, percentile, way, seen }, keep) {
  const share = percentile === null ? "" : `${Math.round(100 * percentile)}% of training samples are at or below ${after}`;
  const track = way && h("div.x-seen", { role: "img", ariaLabel: `from ${before} to ${after}; seen were ${seen[0]} to ${seen[1]}`, title: `seen were ${seen[0]} to ${seen[1]}. ${share}`, style: `--nb-a: ${way[0]}; --nb-b: ${way[1]}; --nb-low: ${Math.min(...way)}; --nb-wide: ${Math.abs(way[1] - way[0])}` }, h("i.x-moved"), h("i.x-was"), h("i.x-now"));
  const ends = way && h("div.x-words", { ariaHidden: "true" }, h("span", {}, seen[0]), h("span", {}, seen[1]));
  const hold = press("x-hold", "keep", () => keep(feature), { ariaLabel: `keep ${feature} as it is`, title: "search without changing this" });
  return h("div.x-change", {}, h("span.x-feature", {}, feature), h("span.x-values", {}, before, h("span.soft", {}, " → "), h("b", {}, after)), way ? h("div", {}, track, ends) : h("span.note", {}, "another choice"), hold);
}

/** What was done, and how to do it in Python. @param {any} state */
function counterfactualSaid({ evaluations, samples, code: line }) {
  const said = `Searched with ${evaluations.toLocaleString("en-US")} rows through the model, among values of ${samples.toLocaleString("en-US")} training samples; no change in an answer can be left out. What the model would say, not what would happen. Numbers are rounded here, in Python they are not.`;
  return h("div.x-exact", {}, h("div.note", {}, said), h("details.fold", {}, h("summary", {}, "Python"), code("in Python", line)));
}
