// @ts-check
/** Parts that the panels share: rates with intervals, sortable tables and requests. */
/** @import { Kid } from "../../../views/kit.js" */
import { fadeLowerEdge, h, makeButton } from "../../../views/kit.js";

/** @typedef {{[name: string]: any}} PanelQuery */
/** @typedef {(query: PanelQuery, label: string) => void} PanelGo */
/** @typedef {(content: object) => Promise<any>} PanelAsk */
/** @typedef {(number | null)[]} PanelShare value, low, high */
/** @typedef {{name: string, hint?: string, kind?: "text" | "number", by?: (row: any) => number | string | null, cell: (row: any) => Kid[]}} PanelColumn */

/** Format a share as a percentage with one decimal. @param {number | null} v */
export function panelPercent(v) {
  return v === null ? "–" : `${(100 * v).toFixed(v > 0.9995 && v < 1 ? 2 : 1)}%`.replace("-", "−");
}

/** A select element with plain options. @param {string} label @param {string[]} values @param {() => void} onchange */
export function panelSelect(label, values, onchange) {
  return /** @type {HTMLSelectElement} */ (h("select", { ariaLabel: label, onchange }, ...values.map((value) => h("option", { value }, value))));
}

/** A share and its interval, as text. @param {PanelShare} share */
export function describeRate([v, low, high]) {
  return low === null || high === null ? panelPercent(v) : `${panelPercent(v)}, 95% interval ${panelPercent(low)} to ${panelPercent(high)}`;
}

/** Format a number with thousands separators. @param {number} n */
export function formatCount(n) {
  return n.toLocaleString("en-US");
}

/** A button that shows samples. @param {string} text @param {() => void} click @param {string} [title] */
export function samplesButton(text, click, title = "Show these samples") {
  return makeButton("way", text, click, { title });
}

/** A share as text and as a bar with its interval. @param {PanelShare} share */
export function intervalGauge([v, low, high]) {
  const style = `--nb-v: ${v ?? 0}; --nb-low: ${low ?? 0}; --nb-high: ${high ?? 0}`;
  const bar = v !== null && h("i.gauge", { ariaHidden: "true", style }, h("i"));
  const ends = low !== null && high !== null && h("span.ends", {}, ` ${panelPercent(low)} to ${panelPercent(high)}`);
  return h("span.gauged", { title: describeRate([v, low, high]) }, h("span", {}, panelPercent(v)), bar, ends);
}

/** Ask Python for a new state of a panel; return `trouble` if there is no answer. @param {PanelAsk} ask @param {string} name @param {object} options */
export async function requestState(ask, name, options) {
  const answer = await ask({ kind: "panel", name, options });
  if (!answer || answer.trouble) return { trouble: answer?.trouble ?? "" };
  return answer.state ?? answer;
}

/** The message if Python does not answer. @param {string} trouble @param {string} line */
export function fallbackNote(trouble, line) {
  return h("div.note", { role: "status" }, trouble || "Python is not available. Run the cell again, or use ", !trouble && h("code", {}, line));
}

/** A heading inside a panel. @param {string} text @param {...Kid} kids */
export function panelHeading(text, ...kids) {
  return h("div.panelhead", {}, h("div.label", { role: "heading", ariaLevel: "4" }, text), ...kids);
}

/**
 * A table that can be sorted by its columns; the first cell of a row is its header. Initially, rows keep the given
 * order.
 * @param {string} label @param {PanelColumn[]} columns @param {any[]} rows
 */
export function panelTable(label, columns, rows) {
  let key = -1, order = 0;
  const heads = h("tr"), body = h("tbody");
  const node = fadeLowerEdge(h("div.frame.panelframe", { tabIndex: 0, role: "region", ariaLabel: label }, h("table.grid.paneltable", {}, h("thead", {}, heads), body)));

  function draw() {
    const by = columns[key]?.by, listed = by ? [...rows].sort((a, b) => compareCells(by(a), by(b), order)) : rows;
    heads.replaceChildren(...columns.map(head));
    body.replaceChildren(...listed.map((row) => h("tr.panelrow", {}, ...columns.map((column, i) => tableCell(column, row, i)))));
  }

  /** @param {PanelColumn} column @param {number} i */
  function head(column, i) {
    const isSorted = key === i && order !== 0, kind = column.kind ?? "text", sort = !isSorted ? "none" : order > 0 ? "ascending" : "descending";
    const attributes = { scope: "col", title: column.hint ?? "" };
    if (!column.by) return h(`th.as-${kind}`, attributes, h("span.sort", {}, column.name));
    const button = makeButton("sort", column.name, () => {
      [key, order] = !isSorted ? [i, kind === "number" ? -1 : 1] : order === (kind === "number" ? -1 : 1) ? [i, -order] : [-1, 0];
      draw();
      heads.querySelectorAll("th")[i].querySelector("button")?.focus();
    });
    return h(`th.as-${kind}`, { ...attributes, ariaSort: sort }, button, h("span.arrow", { ariaHidden: "true" }, isSorted ? (order > 0 ? "▲" : "▼") : ""));
  }

  draw();
  return node;
}

/** @param {PanelColumn} column @param {any} row @param {number} i */
function tableCell(column, row, i) {
  if (i === 0) return h("th.name", { scope: "row" }, ...column.cell(row));
  return h(`td.as-${column.kind ?? "text"}`, { "data-label": column.name }, ...column.cell(row));
}

/** Compare two values; missing values come last in either order. @param {any} a @param {any} b @param {number} order */
function compareCells(a, b, order) {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return order * (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
}

/** @typedef {{value: number | null, low: number | null, high: number | null}} Interval */

/**
 * A dot with its interval on a line from `from` to `to`, and a tick at `mark`; values outside are drawn at the end.
 * @param {Interval} interval @param {number} from @param {number} to @param {number | null} [mark]
 */
export function intervalLine({ value, low, high }, from, to, mark = null) {
  const at = (/** @type {number} */ v) => Math.min(1, Math.max(0, (v - from) / (to - from || 1)));
  const part = (/** @type {string} */ kind, /** @type {number} */ v, wide = 0) => h(`i.${kind}`, { style: `--nb-at: ${at(v)}; --nb-wide: ${wide}` });
  return h("span.span", { ariaHidden: "true" },
    low !== null && high !== null && part("length", low, at(high) - at(low)),
    mark !== null && part("tick", mark),
    value !== null && part("dot", value));
}
