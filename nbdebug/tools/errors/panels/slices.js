// @ts-check
/** Slices panel: subgroups with a higher error rate than the rest. */
/** @import { PanelAsk, PanelColumn, PanelGo } from "./kit.js" */
import { formatRounded, h, makeButton } from "../../../views/kit.js";
import { fallbackNote, formatCount, intervalLine, panelHeading, panelPercent, panelSelect, panelTable, requestState, samplesButton } from "./kit.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function slicesPanel(state, go, ask) {
  const results = h("div.panelbox"), ownResult = h("div.panelbox"), note = h("div");

  /** @param {object} options @param {string} line */
  async function refresh(options, line) {
    note.replaceChildren(h("div.note", { role: "status" }, "Searching…"));
    const next = await requestState(ask, "slices", options);
    note.replaceChildren(...(next.trouble === undefined ? [] : [fallbackNote(next.trouble, line)]));
    if (next.trouble === undefined) draw(next);
  }

  /** @param {any} next */
  function draw(next) {
    state = next;
    if (state.late) return;
    results.replaceChildren(...slicesResults(state, go));
    ownResult.replaceChildren(...(state.own ? [slicesTable("Your slice", state, [state.own], go)] : []));
  }

  draw(state);
  if (state.late) refresh({ now: true }, "errors.slices()");
  const measure = (/** @type {object[]} */ conditions) => refresh({ own: conditions }, "errors.rows(ranges={…}, values={…})");
  return h("div.panelbox", {}, results, state.columns.length > 0 && ownSlice(state.columns, measure), ownResult, note);
}

/** The slices, and how many were tested. @param {any} state @param {PanelGo} go */
function slicesResults(state, go) {
  const count = state.slices.length, searchSummary = `Tested ${formatCount(state.tried)} slices of ${state.features.join(", ") || "no columns"}; ${count === 1 ? "1 is" : `${count} are`} significant.`;
  const none = "No slice is significantly worse than the rest.";
  return [h("div.status", { role: "status" }, searchSummary), count ? slicesTable("Weak slices", state, state.slices, go) : h("div", {}, none),
    ...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text))];
}

/** @param {string} label @param {any} state @param {any[]} slices @param {PanelGo} go */
function slicesTable(label, state, slices, go) {
  const wrong = state.measure === "wrong", show = (/** @type {number | null} */ v) => (wrong ? panelPercent(v) : formatRounded(v));
  const to = Math.max(...slices.map((slice) => slice.high), 0), from = Math.min(...slices.map((slice) => slice.low), 0);
  const significance = (/** @type {any} */ slice) => (slice.q === undefined ? `p = ${formatRounded(slice.p, 2)}` : `false discovery rate ${formatRounded(slice.q, 2)}`);
  const ofWrong = (/** @type {any} */ slice) => samplesButton(show(slice.value), () => go({ ...slice.query, right: false }, `wrong, ${slice.words}`), "Show the wrong samples");
  /** @type {PanelColumn[]} */
  const columns = [
    { name: "slice", by: (slice) => slice.words, cell: (slice) => [samplesButton(slice.words, () => go(slice.query, slice.words))] },
    { name: "samples", kind: "number", by: (slice) => slice.support, cell: (slice) => [formatCount(slice.support), h("i.size", { ariaHidden: "true", style: `--nb-part: ${slice.support / state.rows}` })] },
    { name: wrong ? "wrong" : `mean ${state.measure}`, kind: "number", by: (slice) => slice.value, cell: (slice) => [wrong ? ofWrong(slice) : show(slice.value)] },
    { name: "the rest", kind: "number", by: (slice) => slice.rest, cell: (slice) => [show(slice.rest)] },
    { name: "times", hint: "Value of the slice divided by the value of the rest.", kind: "number", by: (slice) => slice.relative, cell: (slice) => [slice.relative === null ? "–" : `${formatRounded(slice.relative, 2)}×`] },
    { name: "worse by", hint: state.said, kind: "number", by: (slice) => slice.effect, cell: (slice) => [effectCell(slice, show, significance(slice), from, to)] },
  ];
  return h("div", {}, panelHeading(label), panelTable(label, columns, slices));
}

/** The effect size of a slice, with its interval. @param {any} slice @param {(v: number | null) => string} show @param {string} significance @param {number} from @param {number} to */
function effectCell(slice, show, significance, from, to) {
  const text = h("span", {}, show(slice.effect), h("span.soft", {}, ` (${show(slice.low)} to ${show(slice.high)})`));
  return h("span.worse", { title: significance }, text, intervalLine({ value: slice.effect, low: slice.low, high: slice.high }, from, to, 0));
}

/** @typedef {{name: string, kind: string, values: string[], low: number | null, high: number | null}} SliceColumn */
/** @typedef {{column: string, low?: number | null, high?: number | null, values?: string[]}} SliceCondition */

/** A form with two conditions, and a button that measures the slice. @param {SliceColumn[]} columns @param {(conditions: SliceCondition[]) => void} measure */
export function ownSlice(columns, measure) {
  const lines = [conditionRow(columns, "Column"), conditionRow(columns, "And column")];
  const go = () => { const conditions = lines.flatMap((line) => line.read()); if (conditions.length) measure(conditions); };
  const keys = (/** @type {KeyboardEvent} */ event) => { event.stopPropagation(); if (event.key === "Enter" && event.target instanceof HTMLInputElement) go(); };
  return h("details.fold.ownfold", {}, h("summary", {}, "Custom slice"),
    h("div.own", { onkeydown: keys }, ...lines.map((line) => line.node), h("div", {}, makeButton("use", "Measure this slice", go))));
}

/** One condition: a column, and a range or a value. @param {SliceColumn[]} columns @param {string} label */
function conditionRow(columns, label) {
  const rest = h("span.owns"), pick = panelSelect(label, ["", ...columns.map((column) => column.name)], () => draw());
  /** @type {() => SliceCondition[]} */
  let read = () => [];

  function draw() {
    const column = columns.find((columnItem) => columnItem.name === pick.value);
    read = () => [];
    rest.replaceChildren();
    if (!column) return;
    if (column.kind === "number") {
      const [low, high] = [["from", column.low], ["to", column.high]].map(([name, end]) => slicesNumber(`${column.name} ${name}`, end));
      rest.append("from", low, "to", high);
      read = () => (low.value || high.value ? [{ column: column.name, low: slicesValue(low), high: slicesValue(high) }] : []);
    } else {
      const value = panelSelect(`${column.name} is`, column.values, () => {});
      rest.append("is", value);
      read = () => [{ column: column.name, values: [value.value] }];
    }
  }

  return { node: h("div.owns", {}, h("span.soft", {}, label), pick, rest), read: () => read() };
}

/** @param {string} label @param {any} end */
function slicesNumber(label, end) {
  return /** @type {HTMLInputElement} */ (h("input", { type: "number", step: "any", ariaLabel: label, placeholder: end === null ? "" : String(end) }));
}

/** @param {HTMLInputElement} input */
function slicesValue(input) {
  return input.value === "" ? null : Number(input.value);
}
