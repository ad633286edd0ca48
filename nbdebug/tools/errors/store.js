// @ts-check
/** Page state: query, samples, selection and requests. */
/** @import { Model } from "../../views/kit.js" */
import { connectKernel } from "../../views/kernel_requests.js";
import { formatNumber } from "../../views/kit.js";

/** @typedef {ReturnType<typeof errorsStore>} Store */
/** @typedef {"page" | "query" | "connection" | "marks" | "chosen" | "open" | "wait"} StoreEvent */

const WAIT_NOTICE_DELAY = 600;

/** @param {Model} model */
export function errorsStore(model) {
  const state = model.get("state"), first = state.first.cards ?? [], stored = [...first, ...(state.stored ?? [])];
  /** @type {((event: StoreEvent) => void)[]} */
  const listeners = [];
  let latest = 0, choosing = 0;

  const store = {
    state, stored, query: /** @type {Query} */ ({ ...queryEmpty(), right: state.judged ? false : null, ...state.filter?.query }), words: "",
    labeled: /** @type {{label: string, query: Partial<Query>} | null} */ (state.filter ?? null),
    cards: /** @type {Card[]} */ (first), total: state.first.total ?? 0, start: 0,
    connected: false, wasConnected: false, waiting: false, trouble: "",
    tagged: /** @type {Record<string, number>} */ (state.tagged ?? {}),
    selected: /** @type {Map<number, Card>} */ (new Map()), opened: /** @type {Card | null} */ (null),
    subscribe: (/** @type {(event: StoreEvent) => void} */ listener) => { listeners.push(listener); },
    ask: Object.assign((/** @type {object} */ content, /** @type {(progress: any) => void} */ onProgress = () => {}) => ask(content, onProgress), { stop: (/** @type {object} */ content) => ask.stop(content) }),
    go, change, fetch, mark, choose, everything, open,
  };

  const ask = connectKernel(model, (available) => {
    const was = store.connected;
    store.connected = available;
    store.wasConnected = was && !available ? true : store.wasConnected && !available;
    notify("connection");
    if (available) void syncTags();
    else if (was) void fetch();
  });

  /** @param {StoreEvent} event */
  function notify(event) {
    for (const listener of listeners) listener(event);
  }

  /** Load the tags and notes, which may have changed since the page was saved. */
  async function syncTags() {
    const answer = await ask({ kind: "mark", rows: [] });
    if (answer?.counts) store.tagged = answer.counts;
    await fetch();
  }

  /** Replace the query, starting at the first row. @param {Partial<Query>} query @param {string} [label] */
  function go(query, label = "") {
    const { sort, descending, count } = store.query;
    store.labeled = label ? { label, query } : null;
    store.query = { ...queryEmpty(), sort, descending, count, ...query };
    store.opened = null;
    notify("open");
    return fetch();
  }

  /** Change a part of the query. @param {Partial<Query>} part */
  function change(part) {
    store.query = { ...store.query, start: 0, ...part };
    if (store.labeled && !keepsLabel(store.query, store.labeled.query)) store.labeled = null;
    if (store.opened) open(null);
    return fetch();
  }

  async function fetch() {
    const request = ++latest;
    notify("query");
    if (!store.connected) return showStored();
    const waitTimer = setTimeout(() => { if (request === latest) { store.waiting = true; notify("wait"); } }, WAIT_NOTICE_DELAY);
    const answer = await ask({ kind: "rows", query: store.query });
    clearTimeout(waitTimer);
    if (request !== latest) return undefined;
    store.waiting = false;
    if (!answer) return showStored();
    store.trouble = answer.trouble ?? "";
    if (answer.cards) setCards(answer.cards, answer.total, answer.start);
    return notify("page");
  }

  function showStored() {
    const { right, cells } = store.query, isOverview = right === false && !cells.length;
    const matches = filterCards(isOverview ? [...first] : [...stored], store.query, state);
    store.waiting = false;
    setCards(matches, matches.length, 0);
    notify("page");
  }

  /** @param {Card[]} cards @param {number} total @param {number} start */
  function setCards(cards, total, start) {
    Object.assign(store, { cards, total, start });
    for (const card of cards) if (store.selected.has(card.row)) store.selected.set(card.row, card);
  }

  /** Write a tag or a note on samples; return the error message. @param {number[]} rows @param {object} what */
  async function mark(rows, what) {
    const answer = await ask({ kind: "mark", rows, ...what });
    if (!answer || answer.trouble) return answer?.trouble ?? "Python is not available";
    for (const { row, tags, note } of answer.marks) {
      for (const card of [...store.cards, store.selected.get(row), store.opened]) if (card && card.row === row) Object.assign(card, { tags, note });
    }
    store.tagged = answer.counts;
    notify("marks");
    return "";
  }

  /** Select or deselect cards. @param {Card[]} cards @param {boolean} on */
  function choose(cards, on) {
    for (const card of cards) {
      if (on) store.selected.set(card.row, card);
      else store.selected.delete(card.row);
    }
    notify("chosen");
    clearTimeout(choosing);
    choosing = setTimeout(() => { void ask({ kind: "select", rows: [...store.selected.keys()] }); }, 120);
  }

  /** Select all samples that match the query, on other pages too. */
  async function everything() {
    const answer = await ask({ kind: "everything", query: store.query });
    const loaded = new Map(store.cards.map((card) => [card.row, card]));
    if (answer?.cards) choose(answer.cards.map((/** @type {Card} */ card) => loaded.get(card.row) ?? card), true);
  }

  /** Open one sample, or close it. @param {Card | null} card */
  function open(card) {
    store.opened = card;
    notify("open");
  }

  return store;
}

/** @typedef {{row: number, key: number, said: Record<string, string>, right: boolean | null, values: Record<string, any>, tags: string[], note: string, shown: any, top?: [string, number][]}} Card */
/** @typedef {{cells: number[][], ranges: Record<string, (number | null)[]>, values: Record<string, string[]>, right: boolean | null, rows: number[] | null, tag: string, sort: string | null, descending: boolean, start: number, count: number}} Query */
/** @typedef {{text: string, off: Partial<Query>}} Chip */

const QUERY_PARTS = /** @type {const} */ (["cells", "ranges", "values", "right", "rows", "tag"]);

/** The query for all rows, the worst first. @returns {Query} */
export function queryEmpty() {
  return { cells: [], ranges: {}, values: {}, right: null, rows: null, tag: "", sort: null, descending: true, start: 0, count: 24 };
}

/** The query as chips, each with the change that removes it; `words` describes the cells, `labeled` is the labeled part of the query. @param {Query} query @param {string} words @param {{label: string, query: Partial<Query>} | null} labeled @returns {Chip[]} */
export function queryChips(query, words, labeled) {
  const unfiltered = queryEmpty(), chips = [], labelQuery = labeled ? labeled.query : {};
  const unlabeled = (/** @type {"ranges" | "values"} */ part) => Object.entries(query[part]).filter(([name, item]) => !same(labelQuery[part]?.[name], item));
  const without = (/** @type {"ranges" | "values"} */ part, /** @type {string[]} */ names) => Object.fromEntries(Object.entries(query[part]).filter(([name]) => !names.includes(name)));
  if (labeled) {
    /** @type {any} */
    const off = {};
    for (const part of QUERY_PARTS) {
      if (part === "ranges" || part === "values") off[part] = without(part, Object.keys(labelQuery[part] ?? {}));
      else if (part in labelQuery) off[part] = unfiltered[part];
    }
    chips.push({ text: labeled.label, off });
  }
  const other = (/** @type {"cells" | "rows" | "right" | "tag"} */ part) => !same(query[part], unfiltered[part]) && !same(labelQuery[part], query[part]);
  if (other("cells")) chips.push({ text: words, off: { cells: [] } });
  if (other("rows")) chips.push({ text: `${query.rows?.length} rows`, off: { rows: null } });
  if (other("right")) chips.push({ text: query.right ? "right" : "wrong", off: { right: null } });
  for (const [name, range] of unlabeled("ranges")) chips.push({ text: queryRange(name, range), off: { ranges: without("ranges", [name]) } });
  for (const [name, texts] of unlabeled("values")) chips.push({ text: `${name} = ${texts.join(" or ")}`, off: { values: without("values", [name]) } });
  if (other("tag")) chips.push({ text: query.tag === "any" ? "with a tag" : `tag ${query.tag}`, off: { tag: "" } });
  return chips;
}

/** Check whether the query still includes everything that belongs to its label. @param {Query} query @param {Partial<Query>} labelQuery */
export function keepsLabel(query, labelQuery) {
  return QUERY_PARTS.every((part) => {
    if (part !== "ranges" && part !== "values") return !(part in labelQuery) || same(query[part], labelQuery[part]);
    return Object.entries(labelQuery[part] ?? {}).every(([name, item]) => same(query[part][name], item));
  });
}

/** @param {any} a @param {any} b */
function same(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** A range as text. @param {string} name @param {(number | null)[]} range */
function queryRange(name, [low, high]) {
  if (low === null) return `${name} ≤ ${formatNumber(high)}`;
  return high === null ? `${name} ≥ ${formatNumber(low)}` : `${name} ${formatNumber(low)} to ${formatNumber(high)}`;
}

/** The Python call that returns the same rows. @param {Query} query */
export function queryCode(query) {
  const text = (/** @type {any} */ value) => (value === null ? "None" : JSON.stringify(value)), pair = (/** @type {any[]} */ all) => `(${all.map(text).join(", ")})`;
  const many = (/** @type {any[]} */ all) => `[${all.slice(0, 20).join(", ")}${all.length > 20 ? ", …" : ""}]`;
  const names = (/** @type {Record<string, any[]>} */ map, /** @type {(all: any[]) => string} */ write) => ["{", Object.entries(map).map(([name, value]) => `${text(name)}: ${write(value)}`).join(", "), "}"].join("");
  if (query.tag) return `result.tagged(${query.tag === "any" ? "" : text(query.tag)})`;
  const parts = [
    query.cells.length > 0 && `cells=${many(query.cells.map(pair))}`,
    Object.keys(query.ranges).length > 0 && `ranges=${names(query.ranges, pair)}`,
    Object.keys(query.values).length > 0 && `values=${names(query.values, (all) => `[${all.map(text).join(", ")}]`)}`,
    query.right !== null && `right=${query.right ? "True" : "False"}`,
    query.rows && `rows=${many(query.rows)}`,
    query.sort !== null && `sort=${text(query.sort)}`,
    !query.descending && "descending=False",
    query.start > 0 && `start=${query.start}`,
  ];
  return `result.rows(${parts.filter(Boolean).join(", ")})`;
}

/** The Python calls that keep, drop or relabel the samples with a tag. @param {string} tag @param {boolean} hasClasses */
export function tagCode(tag, hasClasses) {
  const effect = `dbg.label_effect(errors=result, tag=${JSON.stringify(tag)})   # of errors("train"): retrain with and without these labels`;
  const name = JSON.stringify(tag), relabel = `labels = result.relabeled(${name})   # the predicted class of each, by dataset index`;
  return [`kept = result.subset(${name})   # these samples`, `dataset = result.without(${name})   # all others`, ...(hasClasses ? [relabel, effect] : [])].join("\n");
}

/** Filter and sort the cards in the page, for use without Python. @param {Card[]} cards @param {Query} query @param {any} state */
export function filterCards(cards, query, state) {
  const matches = cards.filter((card) => matchesQuery(card, query, state.grid)), by = query.sort ?? state.sort;
  if (!by) return matches;
  const side = query.descending ? -1 : 1, isMissing = (/** @type {any} */ v) => v === null || v === undefined;
  return matches.sort(({ values: { [by]: a } }, { values: { [by]: b } }) => {
    if (isMissing(a) || isMissing(b)) return Number(isMissing(a)) - Number(isMissing(b));
    return side * (typeof a === "number" ? a - b : String(a).localeCompare(String(b)));
  });
}

/** @param {Card} card @param {Query} query @param {any} grid */
function matchesQuery(card, query, grid) {
  const inside = ([low, high] = /** @type {any[]} */ ([]), /** @type {any} */ v) => v !== null && (low === null || v >= low) && (high === null || v <= high);
  const cell = ([i, j] = /** @type {number[]} */ ([])) => card.said[grid.row_title] === grid.rows[i] && card.said[grid.column_title] === (grid.columns ?? grid.rows)[j];
  return (query.right === null || card.right === query.right)
    && (!query.cells.length || query.cells.some(cell))
    && (!query.rows || query.rows.includes(card.row))
    && (!query.tag || (query.tag === "any" ? card.tags.length > 0 : card.tags.includes(query.tag)))
    && Object.entries(query.ranges).every(([name, range]) => inside(range, card.values[name]))
    && Object.entries(query.values).every(([name, texts]) => texts.includes(String(card.values[name])));
}
