// @ts-check
/** A sample displayed by its modality. Text from the data stays text. */
import { h } from "./kit.js";
import { pathData, svgElement } from "./plots.js";

const SERIES_COLORS = ["var(--nb-line0)", "var(--nb-line1)", "var(--nb-line2)", "var(--nb-line3)"], MIN_UNUSUAL = 2.5, MAX_ROWS_SMALL = 6, MAX_LETTERS_SMALL = 180;

/** @type {Record<string, (shown: any, full: boolean) => HTMLElement>} */
const MODALITIES = { image: imageContent, text: plainTextContent, table: tableContent, series: seriesContent, audio: audioContent, html: htmlContent, trouble: errorContent, parts: partsContent };

/** The sample, or its values if the sample is not available. @param {any} content @param {Record<string, any>} values @param {boolean} [full] */
export function sampleContent(content, values, full = false) {
  const node = content ? (MODALITIES[content.kind] ?? errorContent)(content, full) : tableContent({ rows: Object.entries(values).map(([name, value]) => [name, formatCellValue(value), null]) }, full);
  node.classList.add("nb-e-shown", `nb-e-as-${content && content.kind in MODALITIES ? content.kind : "table"}`);
  return node;
}

/** Format a value in few characters. @param {any} v */
export function formatCellValue(v) {
  if (v === null || v === undefined) return "–";
  return typeof v === "number" && !Number.isInteger(v) ? String(Number(v.toPrecision(4))) : String(v);
}

/** An image; only data URLs are allowed. @param {any} shown @param {boolean} full */
function imageContent({ src, overlay, width, height }, full) {
  const picture = (/** @type {string} */ address, /** @type {string} */ kind) => h(`img.e-${kind}`, { src: address, alt: "", draggable: false });
  const node = h("div", {}, ...[[src, "image"], [overlay, "overlay"]].filter(([item]) => String(item ?? "").startsWith("data:image/")).map(([item, kind]) => picture(item, kind)));
  if (Math.max(width ?? 0, height ?? 0) <= (full ? 256 : 64)) node.classList.add("nb-e-coarse");
  if (width && height) node.style.setProperty("--nb-ratio", String(width / height));
  return node;
}

/** @param {any} shown @param {boolean} full */
function plainTextContent({ text, tokens }, full) {
  if (!tokens) return h("div", {}, full || text.length <= MAX_LETTERS_SMALL ? text : `${text.slice(0, MAX_LETTERS_SMALL)}…`);
  const visibleTokens = full ? tokens : tokens.slice(0, 40), top = Math.max(1e-12, ...tokens.map((/** @type {any[]} */ [, w]) => Math.abs(w ?? 0)));
  const spans = visibleTokens.map((/** @type {[string, number | null]} */ [word, weight]) => {
    const part = Math.round((80 * Math.abs(weight ?? 0)) / top), tone = (weight ?? 0) < 0 ? 0 : 1;
    return weight === null ? word : h("span.e-token", { style: `--nb-heat: color-mix(in srgb, var(--nb-line${tone}) ${part}%, transparent)`, title: formatCellValue(weight) }, word);
  });
  return h("div", {}, ...spans, visibleTokens.length < tokens.length && "…");
}

/** Names and values; unusual values are marked and come first if there is no room for all. @param {any} shown @param {boolean} full */
function tableContent({ rows }, full) {
  const odd = (/** @type {any[]} */ row) => Math.abs(row[2] ?? 0), all = full ? rows : [...rows].sort((a, b) => odd(b) - odd(a)).slice(0, MAX_ROWS_SMALL);
  const line = (/** @type {any[]} */ row) => {
    const strange = odd(row) >= MIN_UNUSUAL;
    return h(strange ? "tr.e-odd" : "tr", strange ? { title: `unusual: ${formatCellValue(row[2])} robust standard deviations from the median` } : {}, h("th", { scope: "row" }, row[0]), h("td", {}, strange && h("b", { ariaLabel: "unusual" }, "▲ "), row[1]));
  };
  return h("div", {}, h("table", {}, h("tbody", {}, ...all.map(line))), all.length < rows.length && h("div.note", {}, `… ${rows.length - all.length} more`));
}

/** @param {any} shown @param {boolean} full */
function seriesContent({ lines, names }, full) {
  const [wide, high] = full ? [600, 160] : [200, 70], values = lines.flat().filter(Number.isFinite), low = Math.min(...values), span = Math.max(...values) - low || 1;
  const path = (/** @type {(number | null)[]} */ line) => pathData(line, (i) => (i * wide) / Math.max(1, line.length - 1), (v) => 3 + (high - 6) * (1 - (v - low) / span));
  const node = svgElement("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img" });
  node.append(...lines.slice(0, 8).map((/** @type {number[]} */ line, /** @type {number} */ i) => svgElement("path", { d: path(line), fill: "none", "stroke-width": 1.4, "vector-effect": "non-scaling-stroke", style: `stroke: ${SERIES_COLORS[i % SERIES_COLORS.length]}` })));
  const box = h("div", {});
  box.append(node);
  if (full) box.append(h("div.note", {}, [`${formatCellValue(low)} to ${formatCellValue(low + span)}`, ...(names ?? [])].join(", ")));
  return box;
}

/** @param {any} shown @param {boolean} full */
function audioContent({ src, lines }, full) {
  const player = String(src).startsWith("data:audio/") ? h("audio", { controls: true, src, preload: "none" }) : "";
  return h("div", {}, ...(lines ? [seriesContent({ lines, names: [] }, full)] : []), player);
}

/** HTML of the user's own render function, in a sandboxed frame without scripts. @param {any} shown @param {boolean} full */
function htmlContent({ html }, full) {
  const frame = h("iframe", { sandbox: "", tabIndex: full ? 0 : -1, title: "sample", loading: "lazy", srcdoc: `<meta name="color-scheme" content="light dark"><style>body{margin:4px;font:12px system-ui}img{max-width:100%}</style>${html}` });
  return h("div", {}, frame);
}

/** Several inputs of one sample, each with its name. @param {any} shown @param {boolean} full */
function partsContent({ parts }, full) {
  return h("div", {}, ...parts.map((/** @type {[string, any]} */ [name, part]) => h("div.e-part-of", {}, h("div.note", {}, name), sampleContent(part, {}, full))));
}

/** @param {any} content */
function errorContent(content) {
  return h("div", {}, h("b", { ariaHidden: "true" }, "▲ "), content.text ?? "cannot be displayed");
}
