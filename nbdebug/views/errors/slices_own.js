// @ts-check
/** A slice of the reader's own, of one or two columns. */
import { h, press } from "../kit.js";

/** @typedef {{name: string, kind: string, values: string[], low: number | null, high: number | null}} SliceColumn */
/** @typedef {{column: string, low?: number | null, high?: number | null, values?: string[]}} SliceCondition */

/** Two lines to fill in, and a button that measures what they say. @param {SliceColumn[]} columns @param {(conditions: SliceCondition[]) => void} measure */
export function slicesOwn(columns, measure) {
  const lines = [slicesLine(columns, "Column"), slicesLine(columns, "And column")];
  const go = () => { const said = lines.flatMap((line) => line.read()); if (said.length) measure(said); };
  const keys = (/** @type {KeyboardEvent} */ event) => { event.stopPropagation(); if (event.key === "Enter" && event.target instanceof HTMLInputElement) go(); };
  return h("details.fold.ownfold", {}, h("summary", {}, "A slice of your own"),
    h("div.own", { onkeydown: keys }, ...lines.map((line) => line.node), h("div", {}, press("use", "Measure this slice", go))));
}

/** One condition: a column, and a range or a value of it. @param {SliceColumn[]} columns @param {string} label */
function slicesLine(columns, label) {
  const rest = h("span.owns"), pick = slicesSelect(label, ["", ...columns.map((one) => one.name)], () => draw());
  /** @type {() => SliceCondition[]} */
  let read = () => [];

  function draw() {
    const column = columns.find((one) => one.name === pick.value);
    read = () => [];
    rest.replaceChildren();
    if (!column) return;
    if (column.kind === "number") {
      const [low, high] = [["from", column.low], ["to", column.high]].map(([name, end]) => slicesNumber(`${column.name} ${name}`, end));
      rest.append("from", low, "to", high);
      read = () => (low.value || high.value ? [{ column: column.name, low: slicesValue(low), high: slicesValue(high) }] : []);
    } else {
      const value = slicesSelect(`${column.name} is`, column.values, () => {});
      rest.append("is", value);
      read = () => [{ column: column.name, values: [value.value] }];
    }
  }

  return { node: h("div.owns", {}, h("span.soft", {}, label), pick, rest), read: () => read() };
}

/** @param {string} label @param {string[]} values @param {() => void} onchange */
export function slicesSelect(label, values, onchange) {
  return /** @type {HTMLSelectElement} */ (h("select", { ariaLabel: label, onchange }, ...values.map((value) => h("option", { value }, value))));
}

/** @param {string} label @param {any} end */
function slicesNumber(label, end) {
  return /** @type {HTMLInputElement} */ (h("input", { type: "number", step: "any", ariaLabel: label, placeholder: end === null ? "" : String(end) }));
}

/** @param {HTMLInputElement} input */
function slicesValue(input) {
  return input.value === "" ? null : Number(input.value);
}
