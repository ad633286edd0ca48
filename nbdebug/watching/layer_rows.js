// @ts-check
/** Rows of the layer list: module tree, ranking and filter. */
/** @import { Store } from "./store.js" */
import { formatNumber, formatPercent } from "../views/kit.js";
import { valueAt } from "./store.js";

/** @typedef {{path: string, name: string, kind: string, level: number, above: Row | null, kids: boolean, folded: boolean, layer: boolean, params: string[], trains: boolean, called: boolean, at: Record<string, number>, findings: any[], tone: string, text: string}} Row */

/** @type {Record<string, number>} */
export const TONES = { error: 3, warning: 2, note: 1, "": 0 };
export const FAMILIES = ["weight", "gradient", "update", "activation"];

/**
 * All rows in the order of the model: layers, and the modules that contain them.
 * @param {Store} store @param {Set<string>} folded
 */
export function buildRows({ words }, folded) {
  const drawnIndex = new Map(words.drawn.map((name, i) => [name, i]));
  /** @type {Map<string, Row>} */
  const all = new Map();
  for (const [path, kind, params, called, trains] of words.layers) {
    const row = rowForPath(all, path, folded),
      name = path || words.model || "model";
    Object.assign(row, { kind, params, called, trains, layer: true, name: path ? row.name : name });
    for (const family of FAMILIES) {
      const at = drawnIndex.get(`${family}|${family === "activation" ? path : params[0]}`);
      if (at !== undefined) row.at[family] = at;
    }
    row.text = `${path || name} ${kind}`.toLowerCase();
  }
  const rows = [...all.values()];
  for (const row of rows) attachFindings(row, words.findings);
  for (const row of rows) for (let ancestor = row.above; ancestor; ancestor = ancestor.above) ancestor.tone = worseTone(ancestor.tone, row.tone);
  return depthFirst(rows);
}

/**
 * Return the row of a path; create it and its ancestors if they do not exist.
 * @param {Map<string, Row>} all @param {string} path @param {Set<string>} folded @returns {Row}
 */
function rowForPath(all, path, folded) {
  const existing = all.get(path);
  if (existing) return existing;
  const lastDot = path.lastIndexOf("."),
    above = lastDot < 0 ? null : rowForPath(all, path.slice(0, lastDot), folded);
  if (above) above.kids = true;
  const row = {
    path,
    name: path.slice(lastDot + 1),
    kind: "",
    level: above ? above.level + 1 : 0,
    above,
    kids: false,
    folded: folded.has(path),
    layer: false,
    params: [],
    trains: true,
    called: true,
    at: {},
    findings: [],
    tone: "",
    text: path.toLowerCase(),
  };
  all.set(path, row);
  return row;
}

/** Order rows so that children follow their parent. @param {Row[]} rows */
function depthFirst(rows) {
  /** @type {Map<Row | null, Row[]>} */
  const under = new Map();
  for (const row of rows) under.set(row.above, [...(under.get(row.above) ?? []), row]);
  /** @type {(parent: Row | null) => Row[]} */
  const walk = (parent) => (under.get(parent) ?? []).flatMap((row) => [row, ...walk(row)]);
  return walk(null);
}

/** @param {Row} row @param {any[]} findings */
function attachFindings(row, findings) {
  row.findings = findings.filter(
    ({ place: path }) => path && (row.params.includes(path) || `${row.path}.`.startsWith(`${path}.`)),
  );
  row.tone = row.findings.map((item) => item.severity).reduce(worseTone, "");
}

/** @param {string} a @param {string} b */
function worseTone(a, b) {
  return TONES[b] > TONES[a] ? b : a;
}

/** The decimal logarithm of a row's last update-to-weight ratio. @param {Store} store @param {Row} row */
function logUpdateRatio({ layers }, row) {
  return Math.log10(valueAt(layers, `update.ratio|${row.params[0]}`, Infinity));
}

/**
 * A score of how unusual a row is, for rows without findings.
 * @param {Store} store @param {Row} row @param {number} middle
 */
function troubleScore(store, row, middle) {
  const last = (/** @type {string} */ name) => valueAt(store.layers, name, Infinity) || 0,
    off = Math.abs(logUpdateRatio(store, row) - middle);
  const bad = FAMILIES.map((family) =>
    last(`${family}.nonfinite|${family === "activation" ? row.path : row.params[0]}`),
  );
  const lost = last(`activation.dead|${row.path}`) + last(`activation.saturated|${row.path}`);
  return 100 * TONES[row.tone] + 9 * Math.max(...bad) + lost + (Number.isFinite(off) ? Math.max(0, off - 0.5) : 0);
}

/** The layers, worst first. @param {Store} store @param {Row[]} rows */
export function rankRows(store, rows) {
  const layers = rows.filter((row) => row.layer),
    ratios = layers
      .map((row) => logUpdateRatio(store, row))
      .filter(Number.isFinite)
      .sort((a, b) => a - b);
  const middle = ratios[ratios.length >> 1] ?? 0;
  return layers
    .map((row) => ({ row, rank: troubleScore(store, row, middle) }))
    .sort((a, b) => b.rank - a.rank)
    .map(({ row }) => row);
}

/**
 * The share of dead or saturated units of a row, and the description of the row.
 * @param {Store} store @param {Row} row @param {number} step @returns {[string, string]}
 */
export function describeRow({ layers }, { path, params, findings }, step) {
  const value = (/** @type {string} */ name) => valueAt(layers, name, step),
    dead = value(`activation.dead|${path}`),
    pinned = value(`activation.saturated|${path}`),
    ratio = value(`update.ratio|${params[0]}`);
  const share = dead === dead ? `${formatPercent(dead)} dead` : pinned === pinned ? `${formatPercent(pinned)} sat.` : "",
    parts = [ratio === ratio && `update to weight ${formatNumber(ratio)}`, share, ...findings.map((item) => item.message)];
  return [share, parts.filter(Boolean).join(", ")];
}
