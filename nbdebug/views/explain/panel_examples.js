// @ts-check
/** Training samples that speak for what the model says, and against it. */
import { brief, h } from "../kit.js";
import { code } from "../code.js";
import { kindShown } from "../errors/kinds.js";
import { explainAnswered, explainSigned } from "./numbers.js";

/** @param {any} state @param {(options: object) => Promise<any>} ask @returns {HTMLElement} */
export function examplesPanel(state, ask) {
  const said = h("div.note", { role: "status" }), place = h("div.x-main"), node = h("div.x-examples", {}, place, said);

  /** @param {number} rival */
  async function against(rival) {
    said.textContent = "Python looks…";
    const found = await ask({ rival });
    state = explainAnswered(said, found, state);
    draw();
  }

  function draw() {
    const { lists, rival, notes, meaning, code: line } = state, toward = `for ${state.said}`, away = `for ${rival}`;
    const near = examplesPair("Most similar", [[toward, lists["nearest for"]], [away, lists["nearest against"]]], examplesNear);
    const pull = lists["pull for"].length + lists["pull against"].length > 0 && examplesPair("Pull the most", [[`toward ${state.said}`, lists["pull for"]], ["away from it", lists["pull against"]]], examplesPull);
    const more = notes.length > 0 && h("ul.x-notes", {}, ...notes.map((/** @type {string} */ one) => h("li", {}, one)));
    const foot = h("div.x-exact", {}, h("div.note", {}, meaning), more, h("details.fold", {}, h("summary", {}, "Python"), code("in Python", line)));
    place.replaceChildren(examplesHead(state, (at) => void against(at)), ...[near, pull].filter((one) => one !== false), foot);
  }

  draw();
  return node;
}

/** The sample, how its neighbors are labeled, and the class against. @param {any} state @param {(at: number) => void} against */
function examplesHead({ own, agree, k, farther, said, against: now, classes, predicted, samples, layer }, against) {
  const labeled = agree === null ? "" : `${Math.round(agree * k)} of its ${k} nearest training samples are labeled ${said}. `;
  const far = `It lies farther from them than ${Math.round(100 * farther)}% of ${samples.toLocaleString("en-US")} training samples lie from theirs, by ${layer}.`;
  const names = classes.map((/** @type {string} */ name, /** @type {number} */ at) => at !== predicted && h("option", { value: String(at), selected: at === now }, name));
  const pick = classes.length > 2 && h("label.x-control", {}, h("span.label", {}, "against"), h("select.x-pick", { ariaLabel: "against", onchange: (/** @type {any} */ event) => against(Number(event.target.value)) }, ...names));
  const odd = farther >= 0.95 && h("div.x-far.warning", {}, "▲ Training data hardly reaches this sample.");
  return h("div.x-itself", {}, own && h("div.x-example.x-own", {}, kindShown(own, {}), h("b", {}, "this sample")), h("div.x-side", {}, h("div", {}, labeled, far), odd, pick));
}

/** Two lists side by side. @param {string} title @param {[string, any[]][]} lists @param {(one: any) => string} told */
function examplesPair(title, lists, told) {
  const list = (/** @type {[string, any[]]} */ [name, cards]) => h("div", {}, h("div.note", {}, name), cards.length ? h("div.x-cards", { role: "list", ariaLabel: `${title}, ${name}` }, ...cards.map((one) => examplesCard(one, told(one)))) : h("div.note", {}, "none"));
  return h("section", {}, h("div.label", { role: "heading", ariaLevel: "5" }, title), h("div.x-pair", {}, ...lists.map(list)));
}

/** @param {any} one */
function examplesNear({ distance, twin }) {
  return twin ? "the same to the model" : `${brief(distance, 2)} away`;
}

/** @param {any} one */
function examplesPull({ pull, share }) {
  return share === null ? explainSigned(pull, 2) : `${explainSigned(pull, 2)}, ${brief(100 * share, 2)}%`;
}

/** One training sample. @param {any} one @param {string} told */
function examplesCard({ key, label, predicted, twin, odd, shown, distance, pull, share }, told) {
  const words = [`training sample ${key}, labeled ${label}`, label !== predicted && `the model says ${predicted}`, odd && "neither the model nor most of its neighbors agree with its label", twin && "the model cannot tell it from this sample", `distance ${brief(distance)}`, pull !== null && `pull ${explainSigned(pull)}, ${brief(100 * (share ?? 0), 2)}% of all pull`].filter(Boolean).join("; ");
  const marks = [odd && h("b.warning.x-far", {}, "▲ label?"), twin && h("b", {}, "= twin")].filter(Boolean);
  const name = h("div", {}, h("b", {}, label), predicted !== label && h("span.soft", {}, ` → ${predicted}`));
  return h("div.x-example", { role: "listitem", title: words, ariaLabel: words }, kindShown(shown, {}), name, h("div.soft", {}, `${key} · ${told}`), marks.length > 0 && h("div", {}, ...marks));
}
