// @ts-check
/** What panels are made of: ways to rows, shares with their intervals, tables to sort. */
/** @import { Kid } from "../kit.js" */
import { fading, h, press } from "../kit.js";

/** @typedef {{[name: string]: any}} PanelQuery */
/** @typedef {(query: PanelQuery, label: string) => void} PanelGo */
/** @typedef {(asked: object) => Promise<any>} PanelAsk */
/** @typedef {(number | null)[]} PanelShare value, low, high */
/** @typedef {{name: string, hint?: string, kind?: "text" | "number", by?: (row: any) => number | string | null, cell: (row: any) => Kid[]}} PanelColumn */

/** A share in percent, to a tenth. @param {number | null} v */
export function panelPercent(v) {
  return v === null ? "–" : `${(100 * v).toFixed(v > 0.9995 && v < 1 ? 2 : 1)}%`;
}

/** A share and its interval in words. @param {PanelShare} share */
export function panelSpoken([v, low, high]) {
  return low === null || high === null ? panelPercent(v) : `${panelPercent(v)}, 95% interval ${panelPercent(low)} to ${panelPercent(high)}`;
}

/** A number with marks between thousands. @param {number} n */
export function panelCount(n) {
  return n.toLocaleString("en-US");
}

/** A button that leads to rows. @param {string} text @param {() => void} click @param {string} [title] */
export function panelWay(text, click, title = "Show these samples") {
  return press("way", text, click, { title });
}

/** A share as a text and as a bar with the ends of its interval. @param {PanelShare} share */
export function panelGauge([v, low, high]) {
  const style = `--nb-v: ${v ?? 0}; --nb-low: ${low ?? 0}; --nb-high: ${high ?? 0}`;
  const bar = v !== null && h("i.gauge", { ariaHidden: "true", style }, h("i"));
  const ends = low !== null && high !== null && h("span.ends", {}, ` ${panelPercent(low)} to ${panelPercent(high)}`);
  return h("span.gauged", { title: panelSpoken([v, low, high]) }, h("span", {}, panelPercent(v)), bar, ends);
}

/** Asks Python for another state of a panel; one with `trouble` where nobody answers. @param {PanelAsk} ask @param {string} name @param {object} options */
export async function panelState(ask, name, options) {
  const answer = await ask({ kind: "panel", name, options });
  if (!answer || answer.trouble) return { trouble: answer?.trouble ?? "" };
  return answer.state ?? answer;
}

/** What is said where Python does not answer. @param {string} trouble @param {string} line */
export function panelTrouble(trouble, line) {
  return h("div.note", { role: "status" }, trouble || "No Python is there to be asked. Run the cell again, or write ", !trouble && h("code", {}, line));
}

/** A heading inside a panel. @param {string} text @param {...Kid} kids */
export function panelHead(text, ...kids) {
  return h("div.panelhead", {}, h("div.label", { role: "heading", ariaLevel: "4" }, text), ...kids);
}

/**
 * A table whose columns may be sorted; the first cell of a row names it. Rows come in an order of their own.
 * @param {string} label @param {PanelColumn[]} columns @param {any[]} rows
 */
export function panelTable(label, columns, rows) {
  let key = -1, order = 0;
  const heads = h("tr"), body = h("tbody");
  const node = fading(h("div.frame.panelframe", { tabIndex: 0, role: "region", ariaLabel: label }, h("table.grid.paneltable", {}, h("thead", {}, heads), body)));

  function draw() {
    const by = columns[key]?.by, listed = by ? [...rows].sort((a, b) => panelCompare(by(a), by(b), order)) : rows;
    heads.replaceChildren(...columns.map(head));
    body.replaceChildren(...listed.map((row) => h("tr.panelrow", {}, ...columns.map((column, i) => panelBox(column, row, i)))));
  }

  /** @param {PanelColumn} column @param {number} i */
  function head(column, i) {
    const mine = key === i && order !== 0, kind = column.kind ?? "text", sort = !mine ? "none" : order > 0 ? "ascending" : "descending";
    const given = { scope: "col", title: column.hint ?? "" };
    if (!column.by) return h(`th.as-${kind}`, given, h("span.sort", {}, column.name));
    const button = press("sort", column.name, () => {
      [key, order] = !mine ? [i, kind === "number" ? -1 : 1] : order === (kind === "number" ? -1 : 1) ? [i, -order] : [-1, 0];
      draw();
      heads.querySelectorAll("th")[i].querySelector("button")?.focus();
    });
    return h(`th.as-${kind}`, { ...given, ariaSort: sort }, button, h("span.arrow", { ariaHidden: "true" }, mine ? (order > 0 ? "▲" : "▼") : ""));
  }

  draw();
  return node;
}

/** @param {PanelColumn} column @param {any} row @param {number} i */
function panelBox(column, row, i) {
  if (i === 0) return h("th.name", { scope: "row" }, ...column.cell(row));
  return h(`td.as-${column.kind ?? "text"}`, { "data-label": column.name }, ...column.cell(row));
}

/** What has no value comes last in either order. @param {any} a @param {any} b @param {number} order */
function panelCompare(a, b, order) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return order * (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
}
