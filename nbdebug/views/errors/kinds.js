// @ts-check
/** A sample as people see it, by its kind. Text of the data stays text. */
import { h } from "../kit.js";
import { panelSvg } from "./panel_plot.js";

const KIND_LINES = ["var(--nb-line0)", "var(--nb-line1)", "var(--nb-line2)", "var(--nb-line3)"], KIND_ODD = 2.5, KIND_ROWS = 6, KIND_LETTERS = 180;

/** @type {Record<string, (shown: any, full: boolean) => HTMLElement>} */
const KINDS_SHOWN = { image: kindImage, text: kindText, table: kindTable, series: kindSeries, audio: kindAudio, html: kindHtml, trouble: kindTrouble, parts: kindParts };

/** The sample, or its values where it is not at hand. @param {any} shown @param {Record<string, any>} values @param {boolean} [full] */
export function kindShown(shown, values, full = false) {
  const node = shown ? (KINDS_SHOWN[shown.kind] ?? kindTrouble)(shown, full) : kindTable({ rows: Object.entries(values).map(([name, value]) => [name, kindValue(value), null]) }, full);
  node.classList.add("nb-e-shown", `nb-e-as-${shown && shown.kind in KINDS_SHOWN ? shown.kind : "table"}`);
  return node;
}

/** A value in few letters. @param {any} v */
export function kindValue(v) {
  if (v === null || v === undefined) return "–";
  return typeof v === "number" && !Number.isInteger(v) ? String(Number(v.toPrecision(4))) : String(v);
}

/** A picture, that no other address than its own can be. @param {any} shown @param {boolean} full */
function kindImage({ src, overlay, width, height }, full) {
  const picture = (/** @type {string} */ address, /** @type {string} */ kind) => h(`img.e-${kind}`, { src: address, alt: "", draggable: false });
  const node = h("div", {}, ...[[src, "image"], [overlay, "overlay"]].filter(([one]) => String(one ?? "").startsWith("data:image/")).map(([one, kind]) => picture(one, kind)));
  if (Math.max(width ?? 0, height ?? 0) <= (full ? 256 : 64)) node.classList.add("nb-e-coarse");
  if (width && height) node.style.setProperty("--nb-ratio", String(width / height));
  return node;
}

/** @param {any} shown @param {boolean} full */
function kindText({ text, tokens }, full) {
  if (!tokens) return h("div", {}, full || text.length <= KIND_LETTERS ? text : `${text.slice(0, KIND_LETTERS)}…`);
  const shown = full ? tokens : tokens.slice(0, 40), top = Math.max(1e-12, ...tokens.map((/** @type {any[]} */ [, w]) => Math.abs(w ?? 0)));
  const spans = shown.map((/** @type {[string, number | null]} */ [word, weight]) => {
    const part = Math.round((80 * Math.abs(weight ?? 0)) / top), tone = (weight ?? 0) < 0 ? 0 : 1;
    return weight === null ? word : h("span.e-token", { style: `--nb-heat: color-mix(in srgb, var(--nb-line${tone}) ${part}%, transparent)`, title: kindValue(weight) }, word);
  });
  return h("div", {}, ...spans, shown.length < tokens.length && "…");
}

/** Names and values, the odd ones marked, and the first where there is no room for all. @param {any} shown @param {boolean} full */
function kindTable({ rows }, full) {
  const odd = (/** @type {any[]} */ row) => Math.abs(row[2] ?? 0), all = full ? rows : [...rows].sort((a, b) => odd(b) - odd(a)).slice(0, KIND_ROWS);
  const line = (/** @type {any[]} */ row) => {
    const strange = odd(row) >= KIND_ODD;
    return h(strange ? "tr.e-odd" : "tr", strange ? { title: `unusual: ${kindValue(row[2])} spreads from the middle` } : {}, h("th", { scope: "row" }, row[0]), h("td", {}, strange && h("b", { ariaLabel: "unusual" }, "▲ "), row[1]));
  };
  return h("div", {}, h("table", {}, h("tbody", {}, ...all.map(line))), all.length < rows.length && h("div.note", {}, `… ${rows.length - all.length} more`));
}

/** @param {any} shown @param {boolean} full */
function kindSeries({ lines, names }, full) {
  const [wide, high] = full ? [600, 160] : [200, 70], values = lines.flat().filter(Number.isFinite), low = Math.min(...values), span = Math.max(...values) - low || 1;
  const path = (/** @type {(number | null)[]} */ line) => line.map((v, i) => (v === null || !Number.isFinite(v) ? "" : `${i && line[i - 1] !== null ? "L" : "M"}${((i * wide) / Math.max(1, line.length - 1)).toFixed(1)} ${(3 + (high - 6) * (1 - (v - low) / span)).toFixed(1)}`)).join("");
  const node = panelSvg("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img" });
  node.append(...lines.slice(0, 8).map((/** @type {number[]} */ line, /** @type {number} */ i) => panelSvg("path", { d: path(line), fill: "none", "stroke-width": 1.4, "vector-effect": "non-scaling-stroke", style: `stroke: ${KIND_LINES[i % KIND_LINES.length]}` })));
  const box = h("div", {});
  box.append(node);
  if (full) box.append(h("div.note", {}, [`${kindValue(low)} to ${kindValue(low + span)}`, ...(names ?? [])].join(", ")));
  return box;
}

/** @param {any} shown @param {boolean} full */
function kindAudio({ src, lines }, full) {
  const player = String(src).startsWith("data:audio/") ? h("audio", { controls: true, src, preload: "none" }) : "";
  return h("div", {}, ...(lines ? [kindSeries({ lines, names: [] }, full)] : []), player);
}

/** What the user's own render gave: shown as it is, in a frame that runs nothing and reaches nothing. @param {any} shown @param {boolean} full */
function kindHtml({ html }, full) {
  const frame = h("iframe", { sandbox: "", tabIndex: full ? 0 : -1, title: "sample", loading: "lazy", srcdoc: `<meta name="color-scheme" content="light dark"><style>body{margin:4px;font:12px system-ui}img{max-width:100%}</style>${html}` });
  return h("div", {}, frame);
}

/** Several inputs of one sample, each under its name. @param {any} shown @param {boolean} full */
function kindParts({ parts }, full) {
  return h("div", {}, ...parts.map((/** @type {[string, any]} */ [name, one]) => h("div.e-part-of", {}, h("div.note", {}, name), kindShown(one, {}, full))));
}

/** @param {any} shown */
function kindTrouble(shown) {
  return h("div", {}, h("b", { ariaHidden: "true" }, "▲ "), shown.text ?? "cannot be shown");
}
