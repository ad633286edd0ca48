// @ts-check
/** Confusion matrix: modes, class orders and selection. */
/** @import { MatrixColors, MatrixGrid, MatrixLayout, MatrixMode, MatrixView } from "./confusion_matrix_canvas.js" */
/** @import { Store } from "./store.js" */
import { palette, prepareCanvas } from "../../views/axes.js";
import { h, makeButton, redrawOnResize, renderTabs } from "../../views/kit.js";
import { describeCell, matrixGrid, matrixLayout, matrixOrder, matrixOrders, matrixPaint } from "./confusion_matrix_canvas.js";

const MAX_LISTED_CELLS = 20_000;

/** @typedef {{row: number, column: number}} MatrixPosition in the order that is shown */
/** @param {{stage: HTMLElement, grid: MatrixGrid, layout: MatrixLayout, view: MatrixView, store: Store, draw: () => void, showCell: (cell: MatrixPosition | null, announce?: boolean) => void}} parts */
export function matrixSelection({ stage, grid, layout, view, store, draw, showCell }) {
  const wide = grid.columns.length;
  let down = /** @type {(MatrixPosition & {x: number, y: number, pan: boolean, rows: boolean, columns: boolean, moved: boolean}) | null} */ (null), corner = /** @type {MatrixPosition | null} */ (null);

  /** Query cells; `more` adds them to the selected cells, or removes a single one. @param {number[]} keys @param {string} words @param {boolean} more */
  function choose(keys, words, more) {
    const old = more ? view.chosen : new Set(), selected = new Set(old);
    for (const key of keys) {
      if (more && keys.length === 1 && selected.has(key)) selected.delete(key);
      else selected.add(key);
    }
    const all = [...selected];
    store.words = old.size ? (all.length === 1 ? cellWords(all[0]) : `${all.length} cells`) : words;
    void store.go({ cells: all.map((key) => [Math.floor(key / wide), key % wide]), ranges: store.query.ranges, values: store.query.values, tag: store.query.tag });
  }

  /** @param {number} key */
  function cellWords(key) {
    return `${grid.data.row_title} ${grid.rows[Math.floor(key / wide)]} → ${grid.columns[key % wide]}`;
  }

  /** Return the non-empty cells of a box; all of its cells if the page does not hold every cell. @param {number[]} box */
  function cellsOf([top, left, bottom, right]) {
    const keys = [], includeEmpty = grid.data.left_out > 0 && (bottom - top + 1) * (right - left + 1) <= MAX_LISTED_CELLS;
    for (let i = top; i <= bottom; i++) {
      for (let j = left; j <= right; j++) {
        const [row, column] = [view.order.rows[i], view.order.columns[j]];
        if (includeEmpty || grid.at(row, column)) keys.push(row * wide + column);
      }
    }
    return keys.length || top !== bottom || left !== right ? keys : [view.order.rows[top] * wide + view.order.columns[left]];
  }

  /** @param {number[]} box @param {boolean} more */
  function selectBox(box, more) {
    const [top, left, bottom, right] = box, { row_title: row, column_title: column } = grid.data, keys = cellsOf(box);
    const span = (/** @type {string[]} */ names, /** @type {number[]} */ order, /** @type {number} */ a, /** @type {number} */ b) => (a === b ? names[order[a]] : `${names[order[a]]} to ${names[order[b]]}`);
    const [allRows, allColumns] = [bottom - top + 1 === grid.rows.length, right - left + 1 === wide];
    const rows = `${row} ${span(grid.rows, view.order.rows, top, bottom)}`, columns = span(grid.columns, view.order.columns, left, right);
    if (!keys.length) return;
    choose(keys, allColumns ? rows : allRows ? `${column} ${columns}` : `${rows} → ${columns}`, more);
  }

  const point = (/** @type {PointerEvent | WheelEvent} */ event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const boxBetween = (/** @type {MatrixPosition} */ a, /** @type {MatrixPosition} */ b) => [Math.min(a.row, b.row), Math.min(a.column, b.column), Math.max(a.row, b.row), Math.max(a.column, b.column)];

  stage.onpointerdown = (event) => {
    const { x, y } = point(event), at = layout.at(x, y);
    if (at.row < 0 && at.column < 0) return;
    down = { x, y, row: at.row, column: at.column, rows: at.onRows, columns: at.onColumns, pan: event.button !== 0 || event.altKey || at.onRows || at.onColumns, moved: false };
    stage.setPointerCapture(event.pointerId);
    stage.focus({ preventScroll: true });
    event.preventDefault();
  };
  stage.onpointermove = (event) => {
    const { x, y } = point(event), at = layout.at(x, y), inside = at.row >= 0 && at.column >= 0;
    if (down && Math.hypot(x - down.x, y - down.y) > 4) down.moved = true;
    if (down?.pan && down.moved) {
      layout.move(down.columns || !down.rows ? down.x - x : 0, down.rows || !down.columns ? down.y - y : 0);
      Object.assign(down, { x, y });
      draw();
    } else if (down?.moved && inside && down.row >= 0 && down.column >= 0) {
      view.box = boxBetween(down, at);
      draw();
    }
    stage.style.cursor = inside || (at.onRows && at.row >= 0) || (at.onColumns && at.column >= 0) ? "pointer" : "default";
    showCell(inside && !down?.moved ? at : null);
  };
  stage.onpointerup = (event) => {
    const from = down, at = layout.at(point(event).x, point(event).y), box = view.box, last = { row: grid.rows.length - 1, column: wide - 1 };
    [down, view.box] = [null, null];
    draw();
    if (!from || event.button !== 0) return;
    const more = event.shiftKey || event.ctrlKey || event.metaKey;
    if (box) selectBox(box, more);
    else if (from.moved) return;
    else if (from.rows && at.row >= 0) selectBox([at.row, 0, at.row, last.column], more);
    else if (from.columns && at.column >= 0) selectBox([0, at.column, last.row, at.column], more);
    else if (at.row >= 0 && at.column >= 0) {
      view.active = at;
      selectBox(boxBetween(at, at), more);
    }
  };
  stage.onpointerleave = () => showCell(null);
  stage.onpointercancel = () => { [down, view.box] = [null, null]; draw(); };
  stage.oncontextmenu = (event) => { if (layout.zoom > 1) event.preventDefault(); };
  stage.onwheel = (event) => {
    const out = event.deltaY > 0, focused = document.activeElement === stage;
    if (layout.maxZoom <= 1.5 || !(event.ctrlKey || event.metaKey || focused) || (out && layout.zoom === 1)) return;
    event.preventDefault();
    layout.zoomTo(layout.zoom * 1.0015 ** -event.deltaY, point(event).x, point(event).y);
    showCell(null);
    draw();
  };

  /** Move to a cell; with Shift, extend a box. @param {number} dr @param {number} dc @param {boolean} more */
  function moveActive(dr, dc, more) {
    const old = view.active ?? { row: 0, column: -dc }, hold = (/** @type {number} */ v, /** @type {number} */ count) => Math.min(count - 1, Math.max(0, v));
    corner = more ? corner ?? old : null;
    view.active = { row: hold(old.row + dr, grid.rows.length), column: hold(old.column + dc, wide) };
    view.box = corner && boxBetween(corner, view.active);
    layout.show(view.active.row, view.active.column);
    showCell(view.active, true);
    draw();
  }

  stage.onkeydown = (event) => {
    const page = 10, zoom = (/** @type {number} */ by) => { layout.zoomTo(layout.zoom * by); draw(); };
    const enter = () => {
      const { active } = view;
      if (active) selectBox(view.box ?? boxBetween(active, active), event.shiftKey && !view.box);
      [view.box, corner] = [null, null];
      draw();
    };
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowUp: () => moveActive(-1, 0, event.shiftKey), ArrowDown: () => moveActive(1, 0, event.shiftKey), ArrowLeft: () => moveActive(0, -1, event.shiftKey), ArrowRight: () => moveActive(0, 1, event.shiftKey),
      PageUp: () => moveActive(-page, 0, event.shiftKey), PageDown: () => moveActive(page, 0, event.shiftKey), Home: () => moveActive(0, -wide, event.shiftKey), End: () => moveActive(0, wide, event.shiftKey),
      Enter: enter, " ": enter, "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => zoom(0),
      Escape: () => { [view.active, view.box, corner] = [null, null, null]; showCell(null); draw(); },
    };
    if (event.ctrlKey || event.metaKey || !Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  };
  stage.onblur = () => { [view.active, view.box, corner] = [null, null, null]; showCell(null); draw(); };

  store.subscribe((event) => {
    if (event !== "query") return;
    view.chosen = new Set(store.query.cells.map(([i, j]) => i * wide + j));
    draw();
  });
}

const MATRIX_MODES = { counts: "counts", row: "row %", column: "column %" }, MIN_CLASSES_TO_ZOOM = 30;

/** The overview: counts of each pair of classes; a click on a cell shows its samples. @param {any} data @param {Store} store */
export function matrixView(data, store) {
  const grid = matrixGrid(data), large = Math.max(grid.rows.length, grid.columns.length) > MIN_CLASSES_TO_ZOOM;
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", {})), tip = h("div.tip", { hidden: true }), spoken = h("div.unseen", { role: "status" });
  const stage = h("div.e-stage", { tabIndex: 0, role: "application", ariaLabel: `${data.row_title} by ${data.column_title}; arrow keys move between cells, Enter shows the samples of a cell, Shift with arrow keys selects several`, "data-lm-suppress-shortcuts": "true" }, canvas, tip, spoken);
  const modes = h("div.tabs", { role: "group", ariaLabel: "cell values" }), order = /** @type {HTMLSelectElement} */ (h("select.e-pick", { ariaLabel: "order of the classes", onchange: sort }));
  order.append(...Object.entries(matrixOrders(grid)).map(([value, text]) => h("option", { value }, text)));
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), layout = matrixLayout(grid, (text) => pen.measureText(text).width);
  const view = { mode: /** @type {MatrixMode} */ ("counts"), order: matrixOrder(grid, "given"), chosen: new Set(), active: /** @type {{row: number, column: number} | null} */ (null), box: /** @type {number[] | null} */ (null) };
  let due = 0, width = 0, colors = /** @type {MatrixColors | null} */ (null);

  function draw() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      const room = Math.floor(stage.clientWidth);
      if (!room) return;
      pen.font = `11px ${getComputedStyle(canvas).fontFamily}`;
      if (room !== width) layout.fit(width = room);
      colors ??= matrixColors(stage);
      stage.dataset.look = JSON.stringify({ left: layout.left, top: layout.top, wide: layout.wide, high: layout.high, zoom: layout.zoom });
      matrixPaint(prepareCanvas(canvas, width, layout.top + layout.high + 2), grid, layout, view, colors);
    });
  }

  function sort() {
    view.order = matrixOrder(grid, order.value);
    view.active = null;
    draw();
  }

  function mode(/** @type {string} */ name) {
    view.mode = /** @type {MatrixMode} */ (name);
    renderTabs(modes, MATRIX_MODES, name, mode);
    draw();
  }

  /** Show and announce the contents of a cell. @param {{row: number, column: number} | null} cell @param {boolean} [announce] */
  function showCell(cell, announce) {
    tip.hidden = !cell;
    if (!cell) return;
    const words = describeCell(grid, view.order.rows[cell.row], view.order.columns[cell.column]);
    tip.replaceChildren(h("b", {}, words.title), h("div", {}, words.count), h("div.soft", {}, words.shares));
    const [x, y] = [layout.left + (cell.column + 1) * layout.cellX - layout.x + 8, layout.top + (cell.row + 1) * layout.cellY - layout.y + 8];
    const over = x + tip.offsetWidth > stage.clientWidth;
    Object.assign(tip.style, { left: `${Math.max(0, over ? Math.min(x, stage.clientWidth) - tip.offsetWidth : x)}px`, top: `${Math.min(y, layout.top + layout.high)}px` });
    if (announce) spoken.textContent = `${words.title}: ${words.count}`;
  }

  const zooms = (/** @type {number} */ by) => { layout.zoomTo(layout.zoom * by); draw(); };
  const buttons = large ? [makeButton("e-zoom", "−", () => zooms(0.5), { ariaLabel: "zoom out" }), makeButton("e-zoom", "+", () => zooms(2), { ariaLabel: "zoom in" }), makeButton("e-zoom", "whole", () => zooms(0), { ariaLabel: "zoom to the whole matrix" })] : [];
  matrixSelection({ stage, grid, layout, view, store, draw, showCell });
  mode("counts");
  redrawOnResize(stage, () => { colors = null; draw(); });
  const hint = large ? "Click into the matrix, then zoom with the wheel or + and −. Drag the names, or drag with the right button, to move." : "";
  const left = data.left_out > 0 && `The ${data.left_out.toLocaleString("en")} smallest cells are not drawn.`;
  return h("div.e-matrix", {}, h("div.tools", {}, modes, order, ...buttons), stage, h("div.note", {}, ["Orange: wrong. Blue: right, on a separate scale.", hint, left].filter(Boolean).join(" ")));
}

/** The theme's colors as numbers. @param {HTMLElement} el @returns {MatrixColors} */
function matrixColors(el) {
  const { ink, soft, faint, paper, lines } = palette(el), g = /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true }));
  const numbers = (/** @type {string} */ color) => {
    g.fillStyle = color;
    g.fillRect(0, 0, 1, 1);
    return [...g.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  return { ink, soft, faint, paper, focus: lines[0], wrong: numbers(lines[1]), right: numbers(lines[0]), back: numbers(paper) };
}
