// @ts-check
/** The list of layers; only visible rows are in the DOM. */
/** @import { Window } from "./layer_cells.js" */
/** @import { Row } from "./layer_rows.js" */
/** @import { ViewState } from "./store.js" */
import { prepareCanvas } from "../views/axes.js";
import { fadeLowerEdge, formatNumber, h } from "../views/kit.js";
import { EMPTY_WINDOW, magnitude } from "./layer_cells.js";
import { FAMILIES } from "./layer_rows.js";

/** @typedef {{row: Row | null, node: HTMLElement, name: HTMLElement, share: HTMLElement, canvas: HTMLCanvasElement}} Slot */
/** @typedef {{describe: (row: Row) => [string, string], paint: (g: CanvasRenderingContext2D, row: Row, width: number, height: number) => void, open: (row: Row | null) => void, fold: (row: Row, folded: boolean) => void}} Actions */

/** @type {Record<string, string>} */
const TONE_SIGNS = { error: "✕", warning: "▲", note: "●", "": "" };
const NARROW_WIDTH = 720,
  PICTURE_HEIGHT = 30,
  NAME_WIDTH = 220,
  SHARE_WIDTH = 84;

/** A list that creates elements only for visible rows. @param {HTMLElement} header @param {ViewState} viewState @param {Actions} actions */
export function layerList(header, viewState, actions) {
  const id = `nb${Math.random().toString(36).slice(2)}`,
    body = h("div.lines", { role: "presentation" });
  const grid = h(
    "div.layers",
    { role: "treegrid", tabIndex: 0, ariaLabel: "layers", "data-lm-suppress-shortcuts": "true" },
    body,
  );
  const frame = h("div.frame", {}, header, fadeLowerEdge(grid));
  /** @type {Slot[]} */
  let slots = [];
  /** @type {Row[]} */
  let rows = [];
  let active = 0,
    rowHeight = 40,
    tree = false,
    width = 0,
    font = "";

  function draw() {
    const narrow = frame.clientWidth < NARROW_WIDTH,
      top = grid.scrollTop,
      tallest = grid.clientHeight;
    width = Math.max(40, grid.clientWidth - (narrow ? 20 : NAME_WIDTH + SHARE_WIDTH + 20));
    font = `11px ${getComputedStyle(grid).fontFamily}`;
    rowHeight = narrow ? 72 : 40;
    frame.classList.toggle("nb-narrow", narrow);
    header.style.paddingRight = `${10 + grid.offsetWidth - grid.clientWidth}px`;
    body.style.height = `${rows.length * rowHeight}px`;
    const first = Math.max(0, Math.floor(top / rowHeight)),
      count = Math.min(rows.length - first, Math.ceil(tallest / rowHeight) + 1);
    while (slots.length < count) slots.push(createSlot());
    slots.forEach((slot, i) => {
      slot.node.hidden = i >= count;
    });
    for (let i = first; i < first + count; i++) fillSlot(slots[i % slots.length], i);
    for (let i = count; i < slots.length; i++) slots[(first + i) % slots.length].node.hidden = true;
    grid.ariaRowCount = String(rows.length);
    grid.setAttribute("aria-activedescendant", rows.length ? `${id}-${active}` : "");
  }

  /** @returns {Slot} */
  function createSlot() {
    const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })),
      name = h("div.who", { role: "rowheader" }),
      share = h("div.share", { role: "gridcell" });
    const node = h("div.line", { role: "row" }, name, h("div.pics", { role: "gridcell" }, canvas), share);
    body.append(node);
    return { row: null, node, name, share, canvas };
  }

  /** @param {Slot} slot @param {number} i */
  function fillSlot(slot, i) {
    const row = rows[i],
      { node, canvas } = slot,
      [share, words] = actions.describe(row);
    Object.assign(node, {
      id: `${id}-${i}`,
      hidden: false,
      ariaRowIndex: String(i + 1),
      ariaLevel: String(tree ? row.level + 1 : 1),
      ariaSelected: String(row.path === viewState.opened),
    });
    Object.assign(node.style, { top: `${i * rowHeight}px`, height: `${rowHeight}px` });
    node.ariaExpanded = tree && row.kids ? String(!row.folded) : null;
    node.classList.toggle("nb-active", i === active);
    slot.row = row;
    updateLabel(slot.name, row);
    slot.share.textContent = share;
    canvas.ariaLabel = words;
    const g = reuseCanvas(canvas, width, PICTURE_HEIGHT);
    g.font = font;
    actions.paint(g, row, width, PICTURE_HEIGHT);
  }

  /** @param {HTMLElement} node @param {Row} row */
  function updateLabel(node, row) {
    const key = [row.path, row.tone, row.kind, tree && row.folded, tree].join("\n");
    if (node.dataset.key === key) return;
    node.dataset.key = key;
    node.style.setProperty("--nb-level", String(tree ? row.level : 0));
    node.title = [row.path, ...row.findings.map((finding) => `${finding.code} ${finding.message}`)].join("\n");
    const above = tree ? "" : row.path.slice(0, -row.name.length);
    const dot = h(`span.dot.${row.tone || (row.layer ? "none" : "group")}`, { ariaLabel: row.tone }, TONE_SIGNS[row.tone]),
      chevron = h("span.chevron", { ariaHidden: "true" }, row.kids ? (row.folded ? "▸" : "▾") : ""),
      parts = [
        above && h("span.soft", {}, ...breakAfterDots(above)),
        h("b", {}, row.name),
        row.kind && h("span.soft", {}, ` ${row.kind}`),
      ];
    node.replaceChildren(dot, ...(tree ? [chevron] : []), h("span.path", {}, ...parts));
  }

  /** @param {number} i */
  function moveTo(i) {
    active = Math.max(0, Math.min(rows.length - 1, i));
    grid.scrollTop = Math.min(active * rowHeight, Math.max(grid.scrollTop, (active + 1) * rowHeight - grid.clientHeight));
    if (viewState.opened !== null && rows[active]?.layer) choose(rows[active]);
    draw();
  }

  /** @param {Row | null} row */
  function choose(row) {
    viewState.opened = row && row.path;
    actions.open(row);
  }

  /** @param {Row} row */
  function toggle(row) {
    if (row.layer) choose(row.path === viewState.opened ? null : row);
    else if (row.kids) actions.fold(row, !row.folded);
    draw();
  }

  /** @param {boolean} folded */
  function setSelectedFolded(folded) {
    const row = rows[active];
    if (tree && row?.kids && row.folded !== folded) actions.fold(row, folded);
    else if (tree && folded && row?.above) moveTo(rows.indexOf(row.above));
  }

  grid.onscroll = () => {
    viewState.top = grid.scrollTop;
    draw();
  };
  grid.onclick = (event) => {
    const slot = slots.find(({ node }) => node.contains(/** @type {Node} */ (event.target)));
    if (!slot?.row || String(getSelection())) return;
    active = rows.indexOf(slot.row);
    if (tree && slot.row.kids && /** @type {Element} */ (event.target).closest(".nb-chevron"))
      actions.fold(slot.row, !slot.row.folded);
    else toggle(slot.row);
  };
  grid.onkeydown = (event) => {
    const page = Math.max(1, Math.floor(grid.clientHeight / rowHeight) - 1),
      row = rows[active];
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowDown: () => moveTo(active + 1),
      ArrowUp: () => moveTo(active - 1),
      PageDown: () => moveTo(active + page),
      PageUp: () => moveTo(active - page),
      Home: () => moveTo(0),
      End: () => moveTo(rows.length - 1),
      ArrowRight: () => setSelectedFolded(false),
      ArrowLeft: () => setSelectedFolded(true),
      Enter: () => row && toggle(row),
      " ": () => row && toggle(row),
      Escape: () => {
        choose(null);
        draw();
      },
    };
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  };

  return {
    frame,
    grid,
    draw,
    /** @param {Row[]} next @param {boolean} asTree */
    set(next, asTree) {
      const path = rows[active]?.path ?? viewState.opened;
      [rows, tree] = [next, asTree];
      active = Math.max(
        0,
        rows.findIndex((row) => row.path === path),
      );
      draw();
    },
    /** Restore the scroll position. */
    resume() {
      grid.scrollTop = viewState.top;
    },
    close() {
      viewState.opened = null;
      draw();
    },
  };
}

/**
 * Clear a canvas; resize it only if its width changed.
 * @param {HTMLCanvasElement} node @param {number} width @param {number} height
 */
function reuseCanvas(node, width, height) {
  if (node.width !== Math.round(width * devicePixelRatio)) return prepareCanvas(node, width, height);
  const g = /** @type {CanvasRenderingContext2D} */ (node.getContext("2d"));
  g.clearRect(0, 0, width, height);
  return g;
}

/** The parts of a path, between which a line may break. @param {string} path */
function breakAfterDots(path) {
  return path.split(/(?<=\.)/).flatMap((part) => [part, h("wbr")]);
}

/** The names of the columns, and the ends of the axes that their rows share. */
export function columnHeads() {
  const heads = FAMILIES.map((name) => h("div", {}, name, h("span.scale"))),
    band = h("div", {}, "update / weight", h("span.scale", {}, h("i", {}, "1e−6 to 1, band: 1e−3")));
  const parts = [h("div", {}, "layer"), h("div.pics", {}, ...heads, band), h("div.share", {}, "dead, sat.")];
  return {
    node: h("div.columns", { ariaHidden: "true" }, ...parts),
    /** @param {Window[]} windows */
    show: (windows) => windows.forEach((window, i) => updateScale(heads[i], window)),
  };
}

/**
 * Show the ends of an axis, and the magnitude below which values fall into the middle bar; nothing if all are zero.
 * @param {HTMLElement} node @param {Window} window
 */
function updateScale(node, window) {
  const [lo, hi] = window,
    [largest, smallest] = [hi, lo - 1].map((j) => formatNumber(Number(magnitude(j).toPrecision(1)))),
    text = window === EMPTY_WINDOW ? [] : [`−${largest}`, `±${smallest}`, largest];
  const line = /** @type {HTMLElement} */ (node.lastChild);
  if (line.textContent === text.join("")) return;
  line.replaceChildren(...text.map((item) => h("i", {}, item)));
  node.title = text.length ? `By magnitude, from −${largest} to ${largest}; values below ${smallest} are in the middle bar.` : "";
}
