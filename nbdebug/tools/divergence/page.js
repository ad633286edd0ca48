// @ts-check
/** First divergence of two runs: verdict, a strip of steps for each row, and what differs there. */
/** @import { Props } from "../../views/kit.js" */
import { bulletList, h, heading, mountView, redrawOnMessage, statusBanner, tableHead, trackState } from "../../views/kit.js";

/** @typedef {{name: string, cells: (number | null)[], texts: string[]}} StripRow */

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, false), banner = h("div"), body = h("div.divergence");
  mountView(el, node, banner, body);
  redrawOnMessage(model, () => {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    const details = bulletList(state.details.map((/** @type {string[]} */ [label, text]) => `${label}: ${text}`));
    banner.replaceChildren(statusBanner(state.tone, state.tone === "good" ? "✓" : "!", state.headline, details));
    body.replaceChildren(...divergenceParts(state));
  });
}

/** @param {any} state */
function divergenceParts(state) {
  const rows = /** @type {StripRow[]} */ (state.rows), labels = /** @type {string[]} */ (state.labels), parts = [];
  if (labels.length) parts.push(stripSection(rows, labels, state.first), stripLegend(rows));
  if (state.columns.length) {
    const body = h("tbody", {}, ...rows.map(({ name, texts }) => h("tr", {}, ...[name, ...texts].map((text) => h("td", {}, text)))));
    parts.push(h("section", {}, h("table.table", { ariaLabel: "First differences" }, tableHead(state.columns), body)));
  }
  return [...parts, ...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text))];
}

/** One strip for each row, and the first and last step below. @param {StripRow[]} rows @param {string[]} labels @param {number | null} first */
function stripSection(rows, labels, first) {
  const strips = rows.flatMap(({ name, cells }) => {
    const row = cells.map((shade, i) => stripCell(shade, `${name}, ${labels[i]}: ${shadeText(shade)}`, i === first && Boolean(shade)));
    return [h("span", {}, name), h("div.strip", { role: "img", ariaLabel: stripText(name, cells, labels) }, ...row)];
  });
  const axis = h("div.stepaxis", {}, h("span", {}, labels[0]), ...(labels.length > 1 ? [h("span", {}, labels[labels.length - 1])] : []));
  return h("section", { ariaLabel: "Strip of steps" }, h("div.strips", {}, ...strips, h("span"), axis));
}

/** @param {number | null} shade @param {string} title @param {boolean} isFirst */
function stripCell(shade, title, isFirst) {
  const kind = shade === null ? "" : shade === 0 ? ".equal" : ".differs";
  return h(`i${kind}${isFirst ? ".first" : ""}`, { title, style: shade ? `--nb-part: ${shade}` : "" });
}

/** @param {number | null} shade */
function shadeText(shade) {
  return shade === null ? "not compared" : shade === 0 ? "equal in every bit" : "differs";
}

/** What a strip shows, in words. @param {string} name @param {(number | null)[]} cells @param {string[]} labels */
function stripText(name, cells, labels) {
  const first = cells.findIndex((shade) => shade);
  return first < 0 ? `${name}: no difference` : `${name}: differs from ${labels[first]}`;
}

/** @param {StripRow[]} rows */
function stripLegend(rows) {
  const shades = rows.flatMap(({ cells }) => cells), entries = [/** @type {[number | null, string]} */ ([0, "equal in every bit"])];
  const different = shades.filter((shade) => shade);
  if (different.some((shade) => shade && shade < 1)) entries.push([0.3, "differs slightly"]);
  if (different.length) entries.push([1, "differs"]);
  if (shades.includes(null)) entries.push([null, "not compared"]);
  return h("div.striplegend", {}, ...entries.map(([shade, text]) => h("span", {}, h("span.strip", {}, stripCell(shade, "", false)), text)));
}

export default { initialize: trackState(() => {}), render };
