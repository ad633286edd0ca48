// @ts-check
/** Batch size search: a table of sizes with bars. */
/** @import { Props } from "../../views/kit.js" */
import { bulletList, formatNumber, h, heading, mountView, redrawOnMessage, statusBanner, trackState } from "../../views/kit.js";

/** @typedef {{size: number, memory: number, said: string, throughput: number, low: number, high: number, milliseconds: number, mark: string}} Row */

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  const banner = h("div"), heads = h("tr"), body = h("tbody"), notes = h("div"), table = h("table.table", {}, h("thead", {}, heads), body);
  mountView(el, node, banner, table, notes);
  redrawOnMessage(model, () => {
    const state = model.get("state"), rows = /** @type {Row[]} */ (state.table);
    title.textContent = table.ariaLabel = state.title;
    status.textContent = state.status;
    banner.replaceChildren(...verdictBanner(state));
    heads.replaceChildren(...state.columns.map((/** @type {string} */ name) => h("th", { scope: "col" }, name)));
    const room = Math.max(state.limit ?? 0, ...rows.map((row) => row.memory)), fastest = Math.max(...rows.map((row) => row.throughput));
    body.replaceChildren(...rows.map((row) => tableRow(row, room, fastest, state)));
    notes.replaceChildren(...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)), ...(state.code ? [h("pre.code", { style: "margin:8px 0;padding:6px 12px" }, state.code)] : []));
  });
}

/** The suggested size and the reasons. @param {any} state */
function verdictBanner(state) {
  if (!state.headline) return [];
  const [tone, sign] = state.suggestion ? ["good", "✓"] : ["warning", "?"];
  return [statusBanner(tone, sign, state.headline, bulletList(state.reasons))];
}

/** @param {Row} row @param {number} room @param {number} fastest @param {any} state */
function tableRow(row, room, fastest, state) {
  const bar = (/** @type {string} */ text, /** @type {number} */ part, /** @type {string} */ hint) =>
    h("td", { title: hint }, text, h("i.part", { ariaHidden: "true", style: `display:block;height:4px;--nb-part:${part}` }));
  const spread = `quartiles ${formatNumber(row.low)} to ${formatNumber(row.high)}`;
  return h("tr", {}, h("td", {}, h("b", {}, formatNumber(row.size)), " ", row.mark && h(`span.pill.tone.${row.size === state.suggestion ? "good" : "note"}`, {}, row.mark)),
    bar(row.said, row.memory / room, state.limit ? "bar: share of the available memory" : ""),
    bar(formatNumber(row.throughput), row.throughput / fastest, spread),
    h("td", {}, formatNumber(row.milliseconds)));
}

export default { initialize: trackState(() => {}), render };
