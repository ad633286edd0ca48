// @ts-check
/** @import { Props } from "./kit.js" */
import { follow, h, heading, keep, num, root } from "./kit.js";

/** @typedef {{size: number, memory: number, said: string, throughput: number, low: number, high: number, milliseconds: number, mark: string}} Row */

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  const banner = h("div"), heads = h("tr"), body = h("tbody"), notes = h("div"), table = h("table.table", {}, h("thead", {}, heads), body);
  root(el, node, banner, table, notes);
  follow(model, () => {
    const state = model.get("state"), rows = /** @type {Row[]} */ (state.table);
    title.textContent = table.ariaLabel = state.title;
    status.textContent = state.status;
    banner.replaceChildren(...said(state));
    heads.replaceChildren(...state.columns.map((/** @type {string} */ name) => h("th", { scope: "col" }, name)));
    const room = Math.max(state.limit ?? 0, ...rows.map((row) => row.memory)), fastest = Math.max(...rows.map((row) => row.throughput));
    body.replaceChildren(...rows.map((row) => line(row, room, fastest, state)));
    notes.replaceChildren(...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)), ...(state.code ? [h("pre.code", { style: "margin:8px 0;padding:6px 12px" }, state.code)] : []));
  });
}

/** What is suggested, and why. @param {any} state */
function said(state) {
  if (!state.headline) return [];
  return [h(`div.banner.${state.suggestion ? "good" : "warning"}`, { role: "status" }, h("span.sign", { ariaHidden: "true" }, state.suggestion ? "✓" : "?"),
    h("div", {}, state.headline, h("ul", {}, ...state.reasons.map((/** @type {string} */ one) => h("li", {}, one)))))];
}

/** @param {Row} row @param {number} room @param {number} fastest @param {any} state */
function line(row, room, fastest, state) {
  const bar = (/** @type {string} */ text, /** @type {number} */ part, /** @type {string} */ hint) =>
    h("td", { title: hint }, text, h("i.part", { ariaHidden: "true", style: `display:block;height:4px;--nb-part:${part}` }));
  const spread = `quartiles ${num(row.low)} to ${num(row.high)}`;
  return h("tr", {}, h("td", {}, h("b", {}, num(row.size)), " ", row.mark && h(`span.pill.tone.${row.size === state.suggestion ? "good" : "note"}`, {}, row.mark)),
    bar(row.said, row.memory / room, state.limit ? "the bar is the part of what there is" : ""),
    bar(num(row.throughput), row.throughput / fastest, spread),
    h("td", {}, num(row.milliseconds)));
}

export default { initialize: keep(() => {}), render };
