// @ts-check
/** What is asked for: in words, as a line of Python, and among the cards that a page holds. */
import { num } from "../kit.js";

/** @typedef {{row: number, key: number, said: Record<string, string>, right: boolean | null, values: Record<string, any>, tags: string[], note: string, shown: any, top?: [string, number][]}} Card */
/** @typedef {{cells: number[][], ranges: Record<string, (number | null)[]>, values: Record<string, string[]>, right: boolean | null, rows: number[] | null, tag: string, sort: string | null, descending: boolean, start: number, count: number}} Asked */
/** @typedef {{text: string, off: Partial<Asked>}} Chip */

const QUERY_PARTS = /** @type {const} */ (["cells", "ranges", "values", "right", "rows", "tag"]);

/** All rows, the worst first. @returns {Asked} */
export function queryEmpty() {
  return { cells: [], ranges: {}, values: {}, right: null, rows: null, tag: "", sort: null, descending: true, start: 0, count: 24 };
}

/** What is asked for in words, each part with what takes it off; `words` names the cells, `named` what came under a label. @param {Asked} asked @param {string} words @param {{label: string, query: Partial<Asked>} | null} named @returns {Chip[]} */
export function queryChips(asked, words, named) {
  const whole = queryEmpty(), chips = [], given = named ? named.query : {};
  const same = (/** @type {any} */ a, /** @type {any} */ b) => JSON.stringify(a) === JSON.stringify(b);
  const mine = (/** @type {"ranges" | "values"} */ part) => Object.entries(asked[part]).filter(([name, one]) => !same(given[part]?.[name], one));
  const less = (/** @type {"ranges" | "values"} */ part, /** @type {string[]} */ names) => Object.fromEntries(Object.entries(asked[part]).filter(([name]) => !names.includes(name)));
  if (named) {
    /** @type {any} */
    const off = {};
    for (const part of QUERY_PARTS) {
      if (part === "ranges" || part === "values") off[part] = less(part, Object.keys(given[part] ?? {}));
      else if (part in given) off[part] = whole[part];
    }
    chips.push({ text: named.label, off });
  }
  const other = (/** @type {"cells" | "rows" | "right" | "tag"} */ part) => !same(asked[part], whole[part]) && !same(given[part], asked[part]);
  if (other("cells")) chips.push({ text: words, off: { cells: [] } });
  if (other("rows")) chips.push({ text: `${asked.rows?.length} rows`, off: { rows: null } });
  if (other("right")) chips.push({ text: asked.right ? "right" : "wrong", off: { right: null } });
  for (const [name, range] of mine("ranges")) chips.push({ text: queryRange(name, range), off: { ranges: less("ranges", [name]) } });
  for (const [name, texts] of mine("values")) chips.push({ text: `${name} = ${texts.join(" or ")}`, off: { values: less("values", [name]) } });
  if (other("tag")) chips.push({ text: asked.tag === "any" ? "with a tag" : `tag ${asked.tag}`, off: { tag: "" } });
  return chips;
}

/** Whether all that came under a label is still asked for. @param {Asked} asked @param {Partial<Asked>} given */
export function queryHolds(asked, given) {
  const same = (/** @type {any} */ a, /** @type {any} */ b) => JSON.stringify(a) === JSON.stringify(b);
  return QUERY_PARTS.every((part) => {
    if (part !== "ranges" && part !== "values") return !(part in given) || same(asked[part], given[part]);
    return Object.entries(given[part] ?? {}).every(([name, one]) => same(asked[part][name], one));
  });
}

/** A range in words. @param {string} name @param {(number | null)[]} range */
function queryRange(name, [low, high]) {
  if (low === null) return `${name} ≤ ${num(high)}`;
  return high === null ? `${name} ≥ ${num(low)}` : `${name} ${num(low)} to ${num(high)}`;
}

/** The line of Python that gives the same rows. @param {Asked} asked */
export function queryCode(asked) {
  const text = (/** @type {any} */ one) => (one === null ? "None" : JSON.stringify(one)), pair = (/** @type {any[]} */ all) => `(${all.map(text).join(", ")})`;
  const many = (/** @type {any[]} */ all) => `[${all.slice(0, 20).join(", ")}${all.length > 20 ? ", …" : ""}]`;
  const names = (/** @type {Record<string, any[]>} */ map, /** @type {(all: any[]) => string} */ write) => ["{", Object.entries(map).map(([name, one]) => `${text(name)}: ${write(one)}`).join(", "), "}"].join("");
  if (asked.tag) return `result.tagged(${asked.tag === "any" ? "" : text(asked.tag)})`;
  const parts = [
    asked.cells.length > 0 && `cells=${many(asked.cells.map(pair))}`,
    Object.keys(asked.ranges).length > 0 && `ranges=${names(asked.ranges, pair)}`,
    Object.keys(asked.values).length > 0 && `values=${names(asked.values, (all) => `[${all.map(text).join(", ")}]`)}`,
    asked.right !== null && `right=${asked.right ? "True" : "False"}`,
    asked.rows && `rows=${many(asked.rows)}`,
    asked.sort !== null && `sort=${text(asked.sort)}`,
    !asked.descending && "descending=False",
    asked.start > 0 && `start=${asked.start}`,
  ];
  return `result.rows(${parts.filter(Boolean).join(", ")})`;
}

/** Those of the cards that are asked for, in order: what a page without Python can do. @param {Card[]} cards @param {Asked} asked @param {any} state */
export function queryHere(cards, asked, state) {
  const found = cards.filter((card) => queryFits(card, asked, state.grid)), by = asked.sort ?? state.sort;
  if (!by) return found;
  const side = asked.descending ? -1 : 1, none = (/** @type {any} */ v) => v === null || v === undefined;
  return found.sort(({ values: { [by]: a } }, { values: { [by]: b } }) => {
    if (none(a) || none(b)) return Number(none(a)) - Number(none(b));
    return side * (typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
  });
}

/** @param {Card} card @param {Asked} asked @param {any} grid */
function queryFits(card, asked, grid) {
  const inside = ([low, high] = /** @type {any[]} */ ([]), /** @type {any} */ v) => v !== null && (low === null || v >= low) && (high === null || v <= high);
  const cell = ([i, j] = /** @type {number[]} */ ([])) => card.said[grid.row_title] === grid.rows[i] && card.said[grid.column_title] === (grid.columns ?? grid.rows)[j];
  return (asked.right === null || card.right === asked.right)
    && (!asked.cells.length || asked.cells.some(cell))
    && (!asked.rows || asked.rows.includes(card.row))
    && (!asked.tag || (asked.tag === "any" ? card.tags.length > 0 : card.tags.includes(asked.tag)))
    && Object.entries(asked.ranges).every(([name, range]) => inside(range, card.values[name]))
    && Object.entries(asked.values).every(([name, texts]) => texts.includes(String(card.values[name])));
}
