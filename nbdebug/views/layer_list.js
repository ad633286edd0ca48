// @ts-check
/** @import { Row } from "./layer_rows.js" */
/** @import { LayersPlace } from "./layers_place.js" */
import { fading, h } from "./kit.js";
import { sharp } from "./axes.js";

/** @typedef {{row: Row | null, node: HTMLElement, name: HTMLElement, share: HTMLElement, canvas: HTMLCanvasElement}} Slot */
/** @typedef {{say: (row: Row) => [string, string], paint: (g: CanvasRenderingContext2D, row: Row, width: number, height: number) => void, open: (row: Row | null) => void, fold: (row: Row, folded: boolean) => void}} Acts */

/** @type {Record<string, string>} */
const DOTS = { error: "✕", warning: "▲", note: "●", "": "" };
const WIDE = 720,
  PICTURE = 30,
  NAMES = 220,
  SHARES = 84;

/** A list that draws only the rows in sight. @param {HTMLElement} header @param {LayersPlace} place @param {Acts} acts */
export function rowList(header, place, acts) {
  const id = `nb${Math.random().toString(36).slice(2)}`,
    body = h("div.lines", { role: "presentation" });
  const grid = h(
    "div.layers",
    { role: "treegrid", tabIndex: 0, ariaLabel: "layers", "data-lm-suppress-shortcuts": "true" },
    body,
  );
  const frame = h("div.frame", {}, header, fading(grid));
  /** @type {Slot[]} */
  let slots = [];
  /** @type {Row[]} */
  let rows = [];
  let active = 0,
    tall = 40,
    tree = false,
    width = 0,
    font = "";

  function draw() {
    const narrow = frame.clientWidth < WIDE,
      top = grid.scrollTop,
      tallest = grid.clientHeight;
    width = Math.max(40, grid.clientWidth - (narrow ? 20 : NAMES + SHARES + 20));
    font = `11px ${getComputedStyle(grid).fontFamily}`;
    tall = narrow ? 72 : 40;
    frame.classList.toggle("nb-narrow", narrow);
    header.style.paddingRight = `${10 + grid.offsetWidth - grid.clientWidth}px`;
    body.style.height = `${rows.length * tall}px`;
    const first = Math.max(0, Math.floor(top / tall)),
      count = Math.min(rows.length - first, Math.ceil(tallest / tall) + 1);
    while (slots.length < count) slots.push(slot());
    slots.forEach((one, i) => {
      one.node.hidden = i >= count;
    });
    for (let i = first; i < first + count; i++) fill(slots[i % slots.length], i);
    for (let i = count; i < slots.length; i++) slots[(first + i) % slots.length].node.hidden = true;
    grid.ariaRowCount = String(rows.length);
    grid.setAttribute("aria-activedescendant", rows.length ? `${id}-${active}` : "");
  }

  /** @returns {Slot} */
  function slot() {
    const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })),
      name = h("div.who", { role: "rowheader" }),
      share = h("div.share", { role: "gridcell" });
    const node = h("div.line", { role: "row" }, name, h("div.pics", { role: "gridcell" }, canvas), share);
    body.append(node);
    return { row: null, node, name, share, canvas };
  }

  /** @param {Slot} one @param {number} i */
  function fill(one, i) {
    const row = rows[i],
      { node, canvas } = one,
      [share, words] = acts.say(row);
    Object.assign(node, {
      id: `${id}-${i}`,
      hidden: false,
      ariaRowIndex: String(i + 1),
      ariaLevel: String(tree ? row.level + 1 : 1),
      ariaSelected: String(row.path === place.opened),
    });
    Object.assign(node.style, { top: `${i * tall}px`, height: `${tall}px` });
    node.ariaExpanded = tree && row.kids ? String(!row.folded) : null;
    node.classList.toggle("nb-active", i === active);
    one.row = row;
    label(one.name, row);
    one.share.textContent = share;
    canvas.ariaLabel = words;
    const g = sized(canvas, width, PICTURE);
    g.font = font;
    acts.paint(g, row, width, PICTURE);
  }

  /** @param {HTMLElement} node @param {Row} row */
  function label(node, row) {
    const key = [row.path, row.tone, row.kind, tree && row.folded, tree].join("\n");
    if (node.dataset.key === key) return;
    node.dataset.key = key;
    node.style.setProperty("--nb-level", String(tree ? row.level : 0));
    node.title = [row.path, ...row.found.map((one) => `${one.code} ${one.message}`)].join("\n");
    const above = tree ? "" : row.path.slice(0, -row.name.length);
    const dot = h(`span.dot.${row.tone || (row.layer ? "none" : "group")}`, { ariaLabel: row.tone }, DOTS[row.tone]),
      chevron = h("span.chevron", { ariaHidden: "true" }, row.kids ? (row.folded ? "▸" : "▾") : ""),
      parts = [
        above && h("span.soft", {}, above),
        h("b", {}, row.name),
        row.kind && h("span.soft", {}, ` ${row.kind}`),
      ];
    node.replaceChildren(dot, ...(tree ? [chevron] : []), h("span.path", {}, ...parts));
  }

  /** @param {number} i */
  function go(i) {
    active = Math.max(0, Math.min(rows.length - 1, i));
    grid.scrollTop = Math.min(active * tall, Math.max(grid.scrollTop, (active + 1) * tall - grid.clientHeight));
    if (place.opened !== null && rows[active]?.layer) choose(rows[active]);
    draw();
  }

  /** @param {Row | null} row */
  function choose(row) {
    place.opened = row && row.path;
    acts.open(row);
  }

  /** @param {Row} row */
  function toggle(row) {
    if (row.layer) choose(row.path === place.opened ? null : row);
    else if (row.kids) acts.fold(row, !row.folded);
    draw();
  }

  /** @param {boolean} folded */
  function side(folded) {
    const row = rows[active];
    if (tree && row?.kids && row.folded !== folded) acts.fold(row, folded);
    else if (tree && folded && row?.above) go(rows.indexOf(row.above));
  }

  grid.onscroll = () => {
    place.top = grid.scrollTop;
    draw();
  };
  grid.onclick = (event) => {
    const one = slots.find(({ node }) => node.contains(/** @type {Node} */ (event.target)));
    if (!one?.row || String(getSelection())) return;
    active = rows.indexOf(one.row);
    if (tree && one.row.kids && /** @type {Element} */ (event.target).closest(".nb-chevron"))
      acts.fold(one.row, !one.row.folded);
    else toggle(one.row);
  };
  grid.onkeydown = (event) => {
    const page = Math.max(1, Math.floor(grid.clientHeight / tall) - 1),
      row = rows[active];
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowDown: () => go(active + 1),
      ArrowUp: () => go(active - 1),
      PageDown: () => go(active + page),
      PageUp: () => go(active - page),
      Home: () => go(0),
      End: () => go(rows.length - 1),
      ArrowRight: () => side(false),
      ArrowLeft: () => side(true),
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
      const path = rows[active]?.path ?? place.opened;
      [rows, tree] = [next, asTree];
      active = Math.max(
        0,
        rows.findIndex((row) => row.path === path),
      );
      draw();
    },
    /** Goes where the reader was. */
    resume() {
      grid.scrollTop = place.top;
    },
    close() {
      place.opened = null;
      draw();
    },
  };
}

/**
 * A sharp canvas, wiped; made anew only when its size is another.
 * @param {HTMLCanvasElement} node @param {number} width @param {number} height
 */
function sized(node, width, height) {
  if (node.width !== Math.round(width * devicePixelRatio)) return sharp(node, width, height);
  const g = /** @type {CanvasRenderingContext2D} */ (node.getContext("2d"));
  g.clearRect(0, 0, width, height);
  return g;
}
