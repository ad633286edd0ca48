// @ts-check
/** @import { Props } from "./kit.js" */
import { fading, follow, h, heading, keep, num, press, root } from "./kit.js";

/** @typedef {number | string | null} Value */
/** @typedef {{value: Value, text: string, tone: string, tags: string[][]}} Cell */
/** @typedef {{name: string, kind: string, path: string, level: number, above: Row | null, kids: boolean, folded: boolean, told: boolean, cells: Cell[], details: string[][], text: string}} Row */
/** @typedef {{name: string, kind: string, hint: string}} Column */

const CHUNK = 150, RANK = { error: 1e6, warning: 1e3 };
const SIGNS = { error: "✕", warning: "▲", note: "●", good: "✓" };

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, false), notice = h("div"), note = h("div.note");
  const find = /** @type {HTMLInputElement} */ (h("input.find", { type: "search", placeholder: "Filter", ariaLabel: "Filter", oninput: () => draw() }));
  const folds = press("folds", "", () => { foldAll(!rows.some((row) => row.folded)); draw(); });
  const count = h("span.note", { role: "status" });
  const heads = h("tr", { role: "row" }), body = h("tbody", { role: "rowgroup" });
  const table = h("table.grid", { role: "treegrid", "data-lm-suppress-shortcuts": "true" }, h("thead", { role: "rowgroup" }, heads), body);
  const frame = fading(h("div.frame", { onscroll: () => { if (frame.scrollTop + 2 * frame.clientHeight > frame.scrollHeight) grow(CHUNK); } }, table));
  /** @type {Row[]} */
  let rows = [], /** @type {Row[]} */ listed = [], /** @type {Map<HTMLElement, Row>} */ at = new Map(), most = 1;
  let order = 0, key = -1, drawn = 0, /** @type {Row | undefined} */ active;

  const columns = () => /** @type {Column[]} */ (model.get("state").columns);
  const foldAll = (/** @type {boolean} */ folded) => rows.forEach((row, i) => { row.folded = row.kids && folded && !(i === 0 && model.get("state").rooted); });

  /** Sorted, all rows stand side by side; else they hang under each other, those of a filter with all above them. */
  function list() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean), hits = rows.filter((row) => words.every((word) => row.text.includes(word)));
    if (order) return hits.sort((a, b) => compare(pick(a), pick(b), order));
    const kept = new Set(hits);
    for (const row of hits) for (let one = row.above; one && !kept.has(one); one = one.above) kept.add(one);
    const hidden = (/** @type {Row | null} */ one) => { for (; one; one = one.above) if (one.folded) return true; };
    return rows.filter((row) => kept.has(row) && (words.length > 0 || !hidden(row.above)));
  }
  const indent = (/** @type {Row} */ row) => `--nb-level: ${order ? 0 : row.level}`;
  const pick = (/** @type {Row} */ row) => (key < 0 ? row.path : row.cells[key].value);

  function draw() {
    listed = list();
    at = new Map();
    drawn = 0;
    body.replaceChildren();
    heads.replaceChildren(...columns().map((column, i) => sorter(column, i - 1)));
    const state = model.get("state");
    count.textContent = [listed.length < rows.length && `${group(listed.length)} of`, group(rows.length), state.noun].filter(Boolean).join(" ");
    Object.assign(folds, { textContent: rows.some((row) => row.folded) ? "Unfold all" : "Fold all", hidden: order || find.value || !rows.some((row) => row.kids) });
    if (!active || !listed.includes(active)) active = listed[0];
    grow(CHUNK);
  }

  /** Draws more of the listed rows. @param {number} more */
  function grow(more) {
    const next = listed.slice(drawn, drawn + more);
    drawn += next.length;
    body.append(...next.flatMap((row) => [line(row), row.told && told(row)]).filter((one) => one !== false));
  }

  /** @param {Column} column @param {number} index */
  function sorter(column, index) {
    const mine = order && key === index, number = index >= 0 && rows.some((row) => typeof row.cells[index].value === "number"), first = number ? -1 : 1;
    const click = () => {
      [key, order] = !mine ? [index, first] : order === first ? [index, -first] : [-1, 0];
      draw();
      heads.querySelectorAll("button")[index + 1].focus();
    };
    return h(`th.as-${column.kind}`, { role: "columnheader", scope: "col", ariaSort: !mine ? "none" : order > 0 ? "ascending" : "descending" },
      press("sort", column.name, click, { title: [column.hint, "Click to sort."].filter(Boolean).join(" ") }),
      h("span.arrow", { ariaHidden: "true" }, mine ? (order > 0 ? "▲" : "▼") : ""));
  }

  /** @param {Row} row */
  function line(row) {
    const flat = order !== 0, path = flat && row.path.slice(0, -row.name.length), open = row.kids && !flat ? !row.folded || find.value !== "" : row.details.length > 0 && !row.kids ? row.told : null;
    const node = h("tr.row", { role: "row", ariaLevel: String(flat ? 1 : row.level + 1), tabIndex: row === active ? 0 : -1, style: indent(row), onclick: (/** @type {MouseEvent} */ event) => click(event, row) },
      h("th.name", { role: "rowheader", scope: "row" },
        h("span.chevron", { ariaHidden: "true" }, open === null ? "" : open ? "▾" : "▸"), path && h("span.soft", {}, path), h("b", {}, row.name), row.kind && h("span.soft", {}, ` ${row.kind}`)),
      ...row.cells.map((cell, i) => box(cell, columns()[i + 1], row)));
    if (open !== null) node.ariaExpanded = String(open);
    if (row.told) node.classList.add("nb-open");
    at.set(node, row);
    return node;
  }

  /** @param {Cell} cell @param {Column} column @param {Row} row */
  function box(cell, column, row) {
    const part = typeof cell.value === "number" && (column.kind === "share" ? cell.value : column.kind === "bar" && cell.value / most);
    const marks = cell.tags.map(([text, tone, more]) => press(`mark.${tone}`, `${sign(tone)} ${text}`, () => tell(row, true), { title: more, tabIndex: -1 }));
    const node = h(`td.as-${column.kind}`, { role: "gridcell", "data-label": column.name }, cell.text && h(cell.tone ? `span.tone.${cell.tone}` : "span", {}, ...whole(cell.text)), ...marks);
    if (part !== false) node.append(h("i.part", { ariaHidden: "true", style: `--nb-part: ${part}` }));
    if (!node.childNodes.length) node.classList.add("nb-empty");
    return node;
  }

  /** What a row has to say for itself. @param {Row} row */
  function told(row) {
    const said = row.cells.flatMap((cell) => cell.tags.filter(([, , more]) => more)).map(([text, tone, more]) => h(`div.tone.${tone}`, {}, h("b", {}, `${sign(tone)} ${text} `), more));
    const facts = row.details.flatMap(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]);
    return h("tr.told", { role: "row", style: indent(row) }, h("td", { role: "gridcell", colSpan: columns().length }, ...said, facts.length > 0 && h("dl", {}, ...facts)));
  }

  /** @param {Row} row @param {boolean} on */
  function tell(row, on) {
    row.told = on && row.details.length + row.cells.flatMap((cell) => cell.tags).length > 0;
    active = row;
    again();
  }

  /** @param {MouseEvent} event @param {Row} row */
  function click(event, row) {
    const target = /** @type {Element} */ (event.target);
    if (target.closest("button") || String(getSelection())) return;
    if (target.closest(".nb-chevron") && row.kids) fold(row, !row.folded);
    else tell(row, !row.told);
  }

  /** @param {Row} row @param {boolean} folded */
  function fold(row, folded) {
    row.folded = row.kids && folded;
    active = row;
    again();
  }

  /** Draws again with the eye and the keyboard where they were. */
  function again() {
    const { scrollTop } = frame, had = drawn;
    draw();
    grow(had - drawn);
    frame.scrollTop = scrollTop;
    go(active);
  }

  /** @param {Row | null | undefined} row */
  function go(row) {
    if (!row || !listed.includes(row)) return;
    while (drawn <= listed.indexOf(row)) grow(CHUNK);
    for (const [node, one] of at) {
      node.tabIndex = one === row ? 0 : -1;
      if (one === row) node.focus();
    }
    active = row;
  }

  body.onkeydown = (event) => {
    const row = at.get(/** @type {HTMLElement} */ (event.target)), i = row ? listed.indexOf(row) : -1, folds = row?.kids && !order && !find.value;
    /** @type {Record<string, () => void>} */
    const acts = row ? {
      ArrowDown: () => go(listed[i + 1]), ArrowUp: () => go(listed[i - 1]), Home: () => go(listed[0]), End: () => go(listed[listed.length - 1]),
      ArrowRight: () => (folds && row.folded ? fold(row, false) : folds ? go(listed[i + 1]) : tell(row, true)),
      ArrowLeft: () => (row.told ? tell(row, false) : folds && !row.folded ? fold(row, true) : go(row.above)),
      Enter: () => tell(row, !row.told), " ": () => tell(row, !row.told), Escape: () => tell(row, false),
    } : {};
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  };

  let before = "";
  root(el, node, notice, h("div.tools", {}, find, folds, count), frame, note);
  follow(model, () => {
    const state = model.get("state"), [text, tone] = state.notice, now = JSON.stringify([state.table, state.words]);
    title.textContent = state.title;
    table.ariaLabel = state.title;
    status.textContent = state.status;
    notice.replaceChildren(...(text ? [h(`div.banner.${tone || "note"}`, {}, h("span.sign", { ariaHidden: "true" }, sign(tone)), h("span", {}, text))] : []));
    note.textContent = [state.more && `… and ${group(state.more)} more ${state.noun} that lie deeper.`, state.note].filter(Boolean).join(" ");
    if (before === (before = now)) return;
    rows = read(state);
    most = Math.max(1, ...rows.flatMap((row) => row.cells.filter((_, i) => state.columns[i + 1].kind === "bar").map((cell) => Number(cell.value))));
    draw();
  });
}

/** Rows with their texts, and each with the one that it hangs under. @param {any} state */
function read({ table: rows, words, columns, rooted }) {
  /** @type {Row[]} */
  const above = [];
  return rows.map((/** @type {any[]} */ [level, folded, name, kind, cells, ...details], /** @type {number} */ i) => {
    above.length = level;
    const kids = rows[i + 1]?.[0] > level;
    const parent = above[level - 1] ?? null, prefix = parent && !(rooted && level === 1) ? `${parent.path}.` : "";
    /** @type {Row} */
    const row = {
      name: words[name], kind: words[kind], path: prefix + words[name], level, above: parent, kids, folded: kids && folded > 0, told: false,
      cells: cells.map((/** @type {any} */ one, /** @type {number} */ j) => cell(one, words, columns[j + 1].kind)),
      details: details.map((pair) => pair.map((/** @type {number} */ one) => words[one])), text: "",
    };
    row.text = [row.path, row.kind, ...row.cells.flatMap((one) => [one.text, ...one.tags.flat()])].join(" ").toLowerCase();
    above.push(row);
    return row;
  });
}

/** @param {any} given @param {string[]} words @param {string} kind @returns {Cell} */
function cell(given, words, kind) {
  const nothing = { value: null, text: "", tone: "", tags: [] };
  if (given === null) return nothing;
  if (typeof given === "number") return { ...nothing, value: given, text: kind === "share" ? percent(given) : Number.isInteger(given) ? group(given) : num(given) };
  if (Array.isArray(given)) return { ...nothing, value: given.length > 1 ? given[1] : words[given[0]], text: words[given[0]], tone: given[2] ?? "" };
  const tags = given.tags.map((/** @type {any[]} */ [text, tone, more]) => [words[text], tone, words[more]]);
  return { ...nothing, tags, value: tags.length ? tags.reduce(weight, 0) : null };
}

/** @param {number} sum @param {string[]} tag */
function weight(sum, [, tone]) {
  return sum + (RANK[/** @type {"error"} */ (tone)] ?? 1);
}

/** What is missing comes last in either order. @param {Value} a @param {Value} b @param {number} order */
function compare(a, b, order) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return order * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
}

/** A text that may be broken between brackets, not inside them, nor between a word and its number. @param {string} text */
function whole(text) {
  return text.split(/(\S*\[[^\]]*\]|[a-z]+ \d\S*)/i).map((part, i) => (i % 2 ? h("span.whole", {}, part) : part));
}

/** A share of one in percent, whole only where it is. @param {number} v */
function percent(v) {
  const whole = Math.round(100 * v);
  return whole === 0 && v > 0 ? "<1%" : whole === 100 && v < 1 ? ">99%" : `${whole}%`;
}

/** A whole number with its thousands apart. @param {number} v */
function group(v) {
  return v.toLocaleString("en-US").replace("-", "−");
}

/** @param {string} tone */
function sign(tone) {
  return SIGNS[/** @type {"note"} */ (tone)] ?? "";
}

export default { initialize: keep(() => {}), render };
