// @ts-check
/** Examples panel: training samples that support or oppose the prediction. */
import { codeBlock, formatRounded, h } from "../../../views/kit.js";
import { sampleContent } from "../../../views/sample_card.js";
import { answerOrPrevious, controlSelect, formatSigned, otherClasses } from "../display.js";

/** @param {any} state @param {(options: object) => Promise<any>} ask @returns {HTMLElement} */
export function examplesPanel(state, ask) {
  const statusText = h("div.note", { role: "status" }), content = h("div.x-main"), node = h("div.x-examples", {}, content, statusText);

  /** @param {number} rival */
  async function against(rival) {
    statusText.textContent = "Python is searching…";
    const response = await ask({ rival });
    state = answerOrPrevious(statusText, response, state);
    draw();
  }

  function draw() {
    const { lists, rival, notes, meaning, code: line } = state, toward = `for ${state.said}`, away = `for ${rival}`;
    const similar = examplesPair("Most similar", [[toward, lists["nearest for"]], [away, lists["nearest against"]]], distanceCaption);
    const influential = lists["pull for"].length + lists["pull against"].length > 0 && examplesPair("Most influential", [[`toward ${state.said}`, lists["pull for"]], ["away from the prediction", lists["pull against"]]], influenceCaption);
    const more = notes.length > 0 && h("ul.x-notes", {}, ...notes.map((/** @type {string} */ note) => h("li", {}, note)));
    const foot = h("div.x-exact", {}, h("div.note", {}, meaning), more, h("details.fold", {}, h("summary", {}, "Python"), codeBlock("in Python", line)));
    content.replaceChildren(examplesHead(state, (at) => void against(at)), ...[similar, influential].filter((item) => item !== false), foot);
  }

  draw();
  return node;
}

/** The sample, the labels of its neighbors, and the class to compare with. @param {any} state @param {(at: number) => void} against */
function examplesHead({ own: content, agree, k, farther, said: predictedName, against: now, classes, predicted, samples, layer }, against) {
  const labeled = agree === null ? "" : `${Math.round(agree * k)} of its ${k} nearest training samples are labeled ${predictedName}. `;
  const distanceText = `Its distance from them in ${layer} is larger than that of ${Math.round(100 * farther)}% of ${samples.toLocaleString("en-US")} training samples from theirs.`;
  const select = controlSelect("against", otherClasses(classes, predicted), (value) => against(Number(value)));
  select.set(String(now));
  const warning = farther >= 0.95 && h("div.x-far.warning", {}, "▲ This sample is far from the training data.");
  return h("div.x-itself", {}, content && h("div.x-example.x-own", {}, sampleContent(content, {}), h("b", {}, "this sample")), h("div.x-side", {}, h("div", {}, labeled, distanceText), warning, classes.length > 2 && select.node));
}

/** Two lists next to each other. @param {string} title @param {[string, any[]][]} lists @param {(example: any) => string} caption */
function examplesPair(title, lists, caption) {
  const list = (/** @type {[string, any[]]} */ [name, cards]) => h("div", {}, h("div.note", {}, name), cards.length ? h("div.x-cards", { role: "list", ariaLabel: `${title}, ${name}` }, ...cards.map((card) => examplesCard(card, caption(card)))) : h("div.note", {}, "none"));
  return h("section", {}, h("div.label", { role: "heading", ariaLevel: "5" }, title), h("div.x-pair", {}, ...lists.map(list)));
}

/** @param {any} example */
function distanceCaption({ distance, twin }) {
  return twin ? "identical features" : `distance ${formatRounded(distance, 2)}`;
}

/** @param {any} example */
function influenceCaption({ pull: influence, share }) {
  return share === null ? formatSigned(influence, 2) : `${formatSigned(influence, 2)}, ${formatRounded(100 * share, 2)}%`;
}

/** One training sample. @param {any} example @param {string} caption */
function examplesCard({ key, label, predicted, twin, odd, shown: content, distance, pull: influence, share }, caption) {
  const words = [`training sample ${key}, labeled ${label}`, label !== predicted && `predicted ${predicted}`, odd && "the model and most of its neighbors disagree with its label", twin && "the model gives it the same features as this sample", `distance ${formatRounded(distance)}`, influence !== null && `influence ${formatSigned(influence)}, ${formatRounded(100 * (share ?? 0), 2)}% of the total`].filter(Boolean).join("; ");
  const marks = [odd && h("b.warning.x-far", {}, "▲ label?"), twin && h("b", {}, "= twin")].filter(Boolean);
  const name = h("div", {}, h("b", {}, label), predicted !== label && h("span.soft", {}, ` → ${predicted}`));
  return h("div.x-example", { role: "listitem", title: words, ariaLabel: words }, sampleContent(content, {}), name, h("div.soft", {}, `${key} · ${caption}`), marks.length > 0 && h("div", {}, ...marks));
}
