// @ts-check
/** @import { Props } from "./kit.js" */
import { follow, h, heading, keep, num, root } from "./kit.js";

/** @typedef {{size: number, memory: number, said: string, throughput: number, low: number, high: number, milliseconds: number, mark: string}} Row */

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  const banner = h("div"), heads = h("tr"), body = h("tbody"), notes = h("div"), table = h("table.grid", {}, h("thead", {}, heads), body);
  root(el, node, banner, h("div.frame", {}, table), notes);
  follow(model, () => {
    const state = model.get("state"), rows = /** @type {Row[]} */ (state.table);
    title.textContent = table.ariaLabel = state.title;
    status.textContent = state.status;
    banner.replaceChildren(...said(state));
    heads.replaceChildren(...state.columns.map((/** @type {string} */ name, /** @type {number} */ i) => h(i > 0 && i < 4 ? "th.as-bar" : "th", { scope: "col" }, name)));
    const room = Math.max(state.limit ?? 0, ...rows.map((row) => row.memory)), fastest = Math.max(...rows.map((row) => row.throughput));
    body.replaceChildren(...rows.map((row) => line(row, room, fastest, state)));
    notes.replaceChildren(...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)), ...(state.code ? [h("pre.code", {}, ` ${state.code}`)] : []));
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
  const bar = (/** @type {string} */ name, /** @type {string} */ text, /** @type {number} */ part, /** @type {string} */ hint) =>
    h("td.as-bar", { "data-label": name, title: hint }, text, h("i.part", { ariaHidden: "true", style: `--nb-part: ${part}` }));
  const spread = `quartiles ${num(row.low)} to ${num(row.high)}`;
  return h(row.size === state.suggestion ? "tr.row.open" : "tr.row", {}, h("th.name", { scope: "row", style: "--nb-level: 0" }, h("b", {}, num(row.size))),
    bar(state.columns[1], row.said, row.memory / room, state.limit ? "the bar is the part of what there is" : ""),
    bar(state.columns[2], num(row.throughput), row.throughput / fastest, spread),
    h("td.as-number", { "data-label": state.columns[3] }, num(row.milliseconds)),
    h("td", {}, row.mark && h(`span.pill.${row.size === state.suggestion ? "good" : "note"}`, {}, row.mark)));
}

export default { initialize: keep(() => {}), render };
