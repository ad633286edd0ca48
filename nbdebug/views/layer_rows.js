// @ts-check
/** @import { Store } from "./layer_store.js" */
import { num } from "./kit.js";
import { valueAt } from "./layer_store.js";
import { percentOf } from "./tabs.js";

/** @typedef {{path: string, name: string, kind: string, level: number, above: Row | null, kids: boolean, folded: boolean, layer: boolean, params: string[], trains: boolean, seen: boolean, at: Record<string, number>, found: any[], tone: string, text: string}} Row */

/** @type {Record<string, number>} */
export const TONES = { error: 3, warning: 2, note: 1, "": 0 };
export const FAMILIES = ["weight", "gradient", "update", "activation"];

/**
 * All rows in the order of the model: layers, and above them what they lie in.
 * @param {Store} store @param {Set<string>} folded
 */
export function rowsOf({ words }, folded) {
  const places = new Map(words.drawn.map((name, i) => [name, i]));
  /** @type {Map<string, Row>} */
  const all = new Map();
  for (const [path, kind, params, seen, trains] of words.layers) {
    const row = hang(all, path, folded),
      name = path || words.model || "model";
    Object.assign(row, { kind, params, seen, trains, layer: true, name: path ? row.name : name });
    for (const family of FAMILIES) {
      const at = places.get(`${family}|${family === "activation" ? path : params[0]}`);
      if (at !== undefined) row.at[family] = at;
    }
    row.text = `${path || name} ${kind}`.toLowerCase();
  }
  const rows = [...all.values()];
  for (const row of rows) tie(row, words.findings);
  for (const row of rows) for (let one = row.above; one; one = one.above) one.tone = worse(one.tone, row.tone);
  return ordered(rows);
}

/**
 * The row of a path, made with all above it.
 * @param {Map<string, Row>} all @param {string} path @param {Set<string>} folded @returns {Row}
 */
function hang(all, path, folded) {
  const there = all.get(path);
  if (there) return there;
  const cut = path.lastIndexOf("."),
    above = cut < 0 ? null : hang(all, path.slice(0, cut), folded);
  if (above) above.kids = true;
  const row = {
    path,
    name: path.slice(cut + 1),
    kind: "",
    level: above ? above.level + 1 : 0,
    above,
    kids: false,
    folded: folded.has(path),
    layer: false,
    params: [],
    trains: true,
    seen: true,
    at: {},
    found: [],
    tone: "",
    text: path.toLowerCase(),
  };
  all.set(path, row);
  return row;
}

/** Those that lie in a row come right after it. @param {Row[]} rows */
function ordered(rows) {
  /** @type {Map<Row | null, Row[]>} */
  const under = new Map();
  for (const row of rows) under.set(row.above, [...(under.get(row.above) ?? []), row]);
  /** @type {(one: Row | null) => Row[]} */
  const walk = (one) => (under.get(one) ?? []).flatMap((row) => [row, ...walk(row)]);
  return walk(null);
}

/** @param {Row} row @param {any[]} findings */
function tie(row, findings) {
  row.found = findings.filter(
    ({ place }) => place && (row.params.includes(place) || `${row.path}.`.startsWith(`${place}.`)),
  );
  row.tone = row.found.map((one) => one.severity).reduce(worse, "");
}

/** @param {string} a @param {string} b */
function worse(a, b) {
  return TONES[b] > TONES[a] ? b : a;
}

/** The decimal logarithm of a row's last update-to-weight ratio. @param {Store} store @param {Row} row */
function pace({ layers }, row) {
  return Math.log10(valueAt(layers, `update.ratio|${row.params[0]}`, Infinity));
}

/**
 * How far a row is from the others, for those that no finding names.
 * @param {Store} store @param {Row} row @param {number} middle
 */
function trouble(store, row, middle) {
  const last = (/** @type {string} */ name) => valueAt(store.layers, name, Infinity) || 0,
    off = Math.abs(pace(store, row) - middle);
  const bad = FAMILIES.map((family) =>
    last(`${family}.nonfinite|${family === "activation" ? row.path : row.params[0]}`),
  );
  const lost = last(`activation.dead|${row.path}`) + last(`activation.saturated|${row.path}`);
  return 100 * TONES[row.tone] + 9 * Math.max(...bad) + lost + (Number.isFinite(off) ? Math.max(0, off - 0.5) : 0);
}

/** The layers, worst first. @param {Store} store @param {Row[]} rows */
export function ranked(store, rows) {
  const layers = rows.filter((row) => row.layer),
    paces = layers
      .map((row) => pace(store, row))
      .filter(Number.isFinite)
      .sort((a, b) => a - b);
  const middle = paces[paces.length >> 1] ?? 0;
  return layers
    .map((row) => ({ row, rank: trouble(store, row, middle) }))
    .sort((a, b) => b.rank - a.rank)
    .map(({ row }) => row);
}

/**
 * The rows that are listed: of a search the hits, in a tree with all above them.
 * @param {Row[]} rows @param {string} search @param {boolean} tree
 */
export function listed(rows, search, tree) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean),
    hits = rows.filter((row) => words.every((word) => row.text.includes(word)));
  if (!tree) return hits;
  const kept = new Set(hits);
  for (const row of hits) for (let one = row.above; one; one = one.above) kept.add(one);
  const hidden = (/** @type {Row | null} */ one) => {
    for (; one; one = one.above) if (one.folded) return true;
  };
  return rows.filter((row) => kept.has(row) && (words.length > 0 || !hidden(row.above)));
}

/**
 * The share of a row that is dead or saturated, and all of the row in words.
 * @param {Store} store @param {Row} row @param {number} step @returns {[string, string]}
 */
export function wordsOf({ layers }, { path, params, found }, step) {
  const value = (/** @type {string} */ name) => valueAt(layers, name, step),
    dead = value(`activation.dead|${path}`),
    pinned = value(`activation.saturated|${path}`),
    ratio = value(`update.ratio|${params[0]}`);
  const share = dead === dead ? `${percentOf(dead)} dead` : pinned === pinned ? `${percentOf(pinned)} sat.` : "",
    told = [ratio === ratio && `update to weight ${num(ratio)}`, share, ...found.map((one) => one.message)];
  return [share, told.filter(Boolean).join(", ")];
}
