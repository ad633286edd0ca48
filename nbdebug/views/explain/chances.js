// @ts-check
/** @import { ExplainChoice } from "./store.js" */
/** What the model says of a sample: classes with their chances, each a button that explains it. */
import { brief, h, press } from "../kit.js";
import { percentOf } from "../tabs.js";

const CHANCES_FIRST = 3, CHANCES_LEAST = 0.01;

/** @param {any} sample @param {number | null} explained the class @param {(part: Partial<ExplainChoice>) => void} change */
export function explainChances(sample, explained, change) {
  if (sample.predicted === null) return chancesValue(sample);
  const rows = sample.outputs.map((/** @type {any} */ one, /** @type {number} */ i) => {
    const marks = chancesMarks(one, sample, explained), row = chancesRow(one, marks, one.class === explained, () => change({ target: one.class }));
    row.hidden = i >= CHANCES_FIRST && one.chance < CHANCES_LEAST && marks.length === 0;
    return row;
  });
  const hidden = rows.filter((/** @type {HTMLElement} */ row) => row.hidden), more = press("x-more", `${hidden.length} more`, () => {
    for (const row of hidden) row.hidden = false;
    hidden[0].focus();
    more.remove();
  });
  return h("div.x-chances", { role: "group", ariaLabel: `what the model says of ${sample.name}; a class explains it` }, ...rows, hidden.length > 0 && more);
}

/** @param {any} one @param {any} sample @param {number | null} explained */
function chancesMarks(one, sample, explained) {
  const words = { predicted: one.class === sample.predicted, true: one.class === sample.truth, explained: one.class === explained };
  return Object.entries(words).filter(([, is]) => is).map(([word]) => word);
}

/** @param {any} one @param {string[]} marks @param {boolean} on @param {() => void} click */
function chancesRow({ name, chance, score, class: number }, marks, on, click) {
  const button = press("x-chance", "", click, { ariaPressed: String(on), title: `output ${brief(score, 4)}: explain ${name}`, "data-class": number });
  button.append(h("span.x-name", {}, name), h("span.x-track", { ariaHidden: "true" }, h("i.x-fill", { style: `--nb-from: 0; --nb-wide: ${chance ?? 0}` })), h("span.x-number", {}, chance === null ? brief(score) : percentOf(chance)), ...(marks.length ? [h("span.x-is", {}, ...marks.map((word) => h(`span.x-pill.x-${word}`, {}, word)))] : []));
  return button;
}

/** A single number, beside the true one. @param {any} sample */
function chancesValue({ outputs, truthName }) {
  return h("div.x-value", {}, h("span", {}, h("span.label", {}, "predicted"), h("b", {}, brief(outputs[0].score, 4))), truthName !== null && h("span", {}, h("span.label", {}, "true"), h("b", {}, truthName)));
}
