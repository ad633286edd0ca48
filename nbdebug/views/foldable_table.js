// @ts-check
/** @import { Props } from "./kit.js" */
import { fadeLowerEdge, filterRows, formatNumber, h, heading, makeButton, mountView, redrawOnMessage } from "./kit.js";

/** @typedef {number | string | null} Value */
/** @typedef {{value: Value, text: string, tone: string, tags: string[][]}} Cell */
/** @typedef {{name: string, kind: string, path: string, level: number, above: Row | null, kids: boolean, folded: boolean, expanded: boolean, cells: Cell[], details: string[][], text: string}} Row */
/** @typedef {{name: string, kind: string, hint: string}} Column */

const CHUNK = 150, RANK = { error: 1e6, warning: 1e3 };
const SIGNS = { error: "✕", warning: "▲", note: "●", good: "✓" };

/** A table whose rows fold, drawn into an element. @param {Props} props */
export function renderTable({ model, el }) {
  const { node, title, status } = heading(model, true), notice = h("div"), note = h("div.note");
  const find = /** @type {HTMLInputElement} */ (h("input.find", { type: "search", placeholder: "Filter", ariaLabel: "Filter", oninput: () => draw() }));
  const folds = makeButton("folds", "", () => { foldAll(!rows.some((row) => row.folded)); draw(); });
  const count = h("span.note", { role: "status" });
  const heads = h("tr", { role: "row" }), body = h("tbody", { role: "rowgroup" });
  const table = h("table.grid", { role: "treegrid", "data-lm-suppress-shortcuts": "true" }, h("thead", { role: "rowgroup" }, heads), body);
  const frame = fadeLowerEdge(h("div.frame", { onscroll: () => { if (frame.scrollTop + 2 * frame.clientHeight > frame.scrollHeight) appendRows(CHUNK); } }, table));
  /** @type {Row[]} */
  let rows = [], /** @type {Row[]} */ listed = [], /** @type {Map<HTMLElement, Row>} */ rowByNode = new Map(), largestBar = 1;
  let order = 0, key = -1, drawnCount = 0, /** @type {Row | undefined} */ active;

  const columns = () => /** @type {Column[]} */ (model.get("state").columns);
  const foldAll = (/** @type {boolean} */ folded) => rows.forEach((row, i) => { row.folded = row.kids && folded && !(i === 0 && model.get("state").rooted); });

  /** Rows to display: sorted rows as a flat list, otherwise the tree. */
  function visibleRows() {
    const matching = filterRows(rows, find.value, !order);
    return order ? matching.sort((a, b) => compareValues(sortValue(a), sortValue(b), order)) : matching;
  }
  const indent = (/** @type {Row} */ row) => `--nb-level: ${order ? 0 : row.level}`;
  const sortValue = (/** @type {Row} */ row) => (key < 0 ? row.path : row.cells[key].value);

  function draw() {
    listed = visibleRows();
    rowByNode = new Map();
    drawnCount = 0;
    body.replaceChildren();
    heads.replaceChildren(...columns().map((column, i) => headerCell(column, i - 1)));
    const state = model.get("state");
    count.textContent = [listed.length < rows.length && `${groupThousands(listed.length)} of`, groupThousands(rows.length), state.noun].filter(Boolean).join(" ");
    Object.assign(folds, { textContent: rows.some((row) => row.folded) ? "Unfold all" : "Fold all", hidden: order || find.value || !rows.some((row) => row.kids) });
    if (!active || !listed.includes(active)) active = listed[0];
    appendRows(CHUNK);
  }

  /** Append more of the listed rows. @param {number} more */
  function appendRows(more) {
    const next = listed.slice(drawnCount, drawnCount + more);
    drawnCount += next.length;
    body.append(...next.flatMap((row) => [rowElement(row), row.expanded && detailRow(row)]).filter((element) => element !== false));
  }

  /** @param {Column} column @param {number} index */
  function headerCell(column, index) {
    const isSorted = order && key === index, number = index >= 0 && rows.some((row) => typeof row.cells[index].value === "number"), first = number ? -1 : 1;
    const click = () => {
      [key, order] = !isSorted ? [index, first] : order === first ? [index, -first] : [-1, 0];
      draw();
      heads.querySelectorAll("button")[index + 1].focus();
    };
    return h(`th.as-${column.kind}`, { role: "columnheader", scope: "col", ariaSort: !isSorted ? "none" : order > 0 ? "ascending" : "descending" },
      makeButton("sort", column.name, click, { title: [column.hint, "Click to sort."].filter(Boolean).join(" ") }),
      h("span.arrow", { ariaHidden: "true" }, isSorted ? (order > 0 ? "▲" : "▼") : ""));
  }

  /** @param {Row} row */
  function rowElement(row) {
    const flat = order !== 0, path = flat && row.path.slice(0, -row.name.length), open = row.kids && !flat ? !row.folded || find.value !== "" : row.details.length > 0 && !row.kids ? row.expanded : null;
    const node = h("tr.row", { role: "row", ariaLevel: String(flat ? 1 : row.level + 1), tabIndex: row === active ? 0 : -1, style: indent(row), onclick: (/** @type {MouseEvent} */ event) => click(event, row) },
      h("th.name", { role: "rowheader", scope: "row" },
        h("span.chevron", { ariaHidden: "true" }, open === null ? "" : open ? "▾" : "▸"), path && h("span.soft", {}, path), h("b", {}, row.name), row.kind && h("span.soft", {}, ` ${row.kind}`)),
      ...row.cells.map((cell, i) => cellElement(cell, columns()[i + 1], row)));
    if (open !== null) node.ariaExpanded = String(open);
    if (row.expanded) node.classList.add("nb-open");
    rowByNode.set(node, row);
    return node;
  }

  /** @param {Cell} cell @param {Column} column @param {Row} row */
  function cellElement(cell, column, row) {
    const part = typeof cell.value === "number" && (column.kind === "share" ? cell.value : column.kind === "bar" && cell.value / largestBar);
    const marks = cell.tags.map(([text, tone, more]) => makeButton(`mark.${tone}`, `${toneSign(tone)} ${text}`, () => setExpanded(row, true), { title: more, tabIndex: -1 }));
    const node = h(`td.as-${column.kind}`, { role: "gridcell", "data-label": column.name }, cell.text && h(cell.tone ? `span.tone.${cell.tone}` : "span", {}, ...keepWordsTogether(cell.text)), ...marks);
    if (part !== false) node.append(h("i.part", { ariaHidden: "true", style: `--nb-part: ${part}` }));
    if (!node.childNodes.length) node.classList.add("nb-empty");
    return node;
  }

  /** The details of an expanded row. @param {Row} row */
  function detailRow(row) {
    const tagTexts = row.cells.flatMap((cell) => cell.tags.filter(([, , more]) => more)).map(([text, tone, more]) => h(`div.tone.${tone}`, {}, h("b", {}, `${toneSign(tone)} ${text} `), more));
    const facts = row.details.flatMap(([label, text]) => [h("dt", {}, label), h("dd", {}, text)]);
    return h("tr.told", { role: "row", style: indent(row) }, h("td", { role: "gridcell", colSpan: columns().length }, ...tagTexts, facts.length > 0 && h("dl", {}, ...facts)));
  }

  /** @param {Row} row @param {boolean} on */
  function setExpanded(row, on) {
    row.expanded = on && row.details.length + row.cells.flatMap((cell) => cell.tags).length > 0;
    active = row;
    redraw();
  }

  /** @param {MouseEvent} event @param {Row} row */
  function click(event, row) {
    const target = /** @type {Element} */ (event.target);
    if (target.closest("button") || String(getSelection())) return;
    if (target.closest(".nb-chevron") && row.kids) setFolded(row, !row.folded);
    else setExpanded(row, !row.expanded);
  }

  /** @param {Row} row @param {boolean} folded */
  function setFolded(row, folded) {
    row.folded = row.kids && folded;
    active = row;
    redraw();
  }

  /** Draw again, keeping scroll position and focus. */
  function redraw() {
    const { scrollTop } = frame, drawnBefore = drawnCount;
    draw();
    appendRows(drawnBefore - drawnCount);
    frame.scrollTop = scrollTop;
    focusRow(active);
  }

  /** @param {Row | null | undefined} row */
  function focusRow(row) {
    if (!row || !listed.includes(row)) return;
    while (drawnCount <= listed.indexOf(row)) appendRows(CHUNK);
    for (const [node, rowOfNode] of rowByNode) {
      node.tabIndex = rowOfNode === row ? 0 : -1;
      if (rowOfNode === row) node.focus();
    }
    active = row;
  }

  body.onkeydown = (event) => {
    const row = rowByNode.get(/** @type {HTMLElement} */ (event.target)), i = row ? listed.indexOf(row) : -1, folds = row?.kids && !order && !find.value;
    /** @type {Record<string, () => void>} */
    const acts = row ? {
      ArrowDown: () => focusRow(listed[i + 1]), ArrowUp: () => focusRow(listed[i - 1]), Home: () => focusRow(listed[0]), End: () => focusRow(listed[listed.length - 1]),
      ArrowRight: () => (folds && row.folded ? setFolded(row, false) : folds ? focusRow(listed[i + 1]) : setExpanded(row, true)),
      ArrowLeft: () => (row.expanded ? setExpanded(row, false) : folds && !row.folded ? setFolded(row, true) : focusRow(row.above)),
      Enter: () => setExpanded(row, !row.expanded), " ": () => setExpanded(row, !row.expanded), Escape: () => setExpanded(row, false),
    } : {};
    if (!Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  };

  let before = "";
  mountView(el, node, notice, h("div.tools", {}, find, folds, count), frame, note);
  redrawOnMessage(model, () => {
    const state = model.get("state"), [text, tone] = state.notice, now = JSON.stringify([state.table, state.words]);
    title.textContent = state.title;
    table.ariaLabel = state.title;
    status.textContent = state.status;
    notice.replaceChildren(...(text ? [h(`div.banner.${tone || "note"}`, {}, h("span.sign", { ariaHidden: "true" }, toneSign(tone)), h("span", {}, text))] : []));
    note.textContent = [state.more && `… and ${groupThousands(state.more)} more ${state.noun} at deeper levels.`, state.note].filter(Boolean).join(" ");
    if (before === (before = now)) return;
    rows = parseRows(state);
    largestBar = Math.max(1, ...rows.flatMap((row) => row.cells.filter((_, i) => state.columns[i + 1].kind === "bar").map((cell) => Number(cell.value))));
    draw();
  });
}

/** Parse rows, and link each to its parent. @param {any} state */
function parseRows({ table: rows, words, columns, rooted }) {
  /** @type {Row[]} */
  const above = [];
  return rows.map((/** @type {any[]} */ [level, folded, name, kind, cells, ...details], /** @type {number} */ i) => {
    above.length = level;
    const kids = rows[i + 1]?.[0] > level;
    const parent = above[level - 1] ?? null, prefix = parent && !(rooted && level === 1) ? `${parent.path}.` : "";
    /** @type {Row} */
    const row = {
      name: words[name], kind: words[kind], path: prefix + words[name], level, above: parent, kids, folded: kids && folded > 0, expanded: false,
      cells: cells.map((/** @type {any} */ cell, /** @type {number} */ j) => parseCell(cell, words, columns[j + 1].kind)),
      details: details.map((pair) => pair.map((/** @type {number} */ item) => words[item])), text: "",
    };
    row.text = [row.path, row.kind, ...row.cells.flatMap((cell) => [cell.text, ...cell.tags.flat()])].join(" ").toLowerCase();
    above.push(row);
    return row;
  });
}

/** @param {any} raw @param {string[]} words @param {string} kind @returns {Cell} */
function parseCell(raw, words, kind) {
  const emptyCell = { value: null, text: "", tone: "", tags: [] };
  if (raw === null) return emptyCell;
  if (typeof raw === "number") return { ...emptyCell, value: raw, text: kind === "share" ? formatShare(raw) : Number.isInteger(raw) ? groupThousands(raw) : formatNumber(raw) };
  if (Array.isArray(raw)) return { ...emptyCell, value: raw.length > 1 ? raw[1] : words[raw[0]], text: words[raw[0]], tone: raw[2] ?? "" };
  const tags = raw.tags.map((/** @type {any[]} */ [text, tone, more]) => [words[text], tone, words[more]]);
  return { ...emptyCell, tags, value: tags.length ? tags.reduce(addSeverity, 0) : null };
}

/** @param {number} sum @param {string[]} tag */
function addSeverity(sum, [, tone]) {
  return sum + (RANK[/** @type {"error"} */ (tone)] ?? 1);
}

/** Compare two values; missing values come last in either order. @param {Value} a @param {Value} b @param {number} order */
function compareValues(a, b, order) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return order * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
}

/** Keep bracketed parts, and a word with its number, from wrapping. @param {string} text */
function keepWordsTogether(text) {
  return text.split(/(\S*\[[^\]]*\]|[a-z]+ \d\S*)/i).map((part, i) => (i % 2 ? h("span.whole", {}, part) : part));
}

/** Format a share as a percentage; 0% and 100% only if exact. @param {number} v */
function formatShare(v) {
  const rounded = Math.round(100 * v);
  return rounded === 0 && v > 0 ? "<1%" : rounded === 100 && v < 1 ? ">99%" : `${rounded}%`;
}

/** Format an integer with thousands separators. @param {number} v */
function groupThousands(v) {
  return v.toLocaleString("en-US").replace("-", "−");
}

/** @param {string} tone */
function toneSign(tone) {
  return SIGNS[/** @type {"note"} */ (tone)] ?? "";
}
