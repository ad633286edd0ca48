// @ts-check
/** @import { Store } from "./store.js" */
/** @import { MatrixMode } from "./matrix_grid.js" */
/** @import { MatrixColors } from "./matrix_paint.js" */
import { h, press, watch } from "../kit.js";
import { palette, sharp } from "../axes.js";
import { pick } from "../tabs.js";
import { matrixGrid, matrixOrder, matrixOrders, matrixWords } from "./matrix_grid.js";
import { matrixLook } from "./matrix_look.js";
import { matrixPaint } from "./matrix_paint.js";
import { matrixChoice } from "./matrix_choice.js";

const MATRIX_MODES = { counts: "counts", row: "row %", column: "column %" }, MATRIX_LARGE = 30;

/** The overview: how often each class was taken for each, every cell a click away from its samples. @param {any} given @param {Store} store */
export function matrixView(given, store) {
  const grid = matrixGrid(given), large = Math.max(grid.rows.length, grid.columns.length) > MATRIX_LARGE;
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", {})), tip = h("div.tip", { hidden: true }), spoken = h("div.unseen", { role: "status" });
  const stage = h("div.e-stage", { tabIndex: 0, role: "application", ariaLabel: `${given.row_title} by ${given.column_title}; arrows walk the cells, Enter shows their samples, Shift with arrows takes several`, "data-lm-suppress-shortcuts": "true" }, canvas, tip, spoken);
  const modes = h("div.tabs", { role: "group", ariaLabel: "what is counted" }), order = /** @type {HTMLSelectElement} */ (h("select.e-pick", { ariaLabel: "order of the classes", onchange: sort }));
  order.append(...Object.entries(matrixOrders(grid)).map(([value, text]) => h("option", { value }, text)));
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), look = matrixLook(grid, (text) => pen.measureText(text).width);
  const shown = { mode: /** @type {MatrixMode} */ ("counts"), order: matrixOrder(grid, "given"), chosen: new Set(), active: /** @type {{row: number, column: number} | null} */ (null), box: /** @type {number[] | null} */ (null) };
  let due = 0, width = 0, colors = /** @type {MatrixColors | null} */ (null);

  function draw() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      const room = Math.floor(stage.clientWidth);
      if (!room) return;
      pen.font = `11px ${getComputedStyle(canvas).fontFamily}`;
      if (room !== width) look.fit(width = room);
      colors ??= matrixColors(stage);
      stage.dataset.look = JSON.stringify({ left: look.left, top: look.top, wide: look.wide, high: look.high, zoom: look.zoom });
      matrixPaint(sharp(canvas, width, look.top + look.high + 2), grid, look, shown, colors);
    });
  }

  function sort() {
    shown.order = matrixOrder(grid, order.value);
    shown.active = null;
    draw();
  }

  function mode(/** @type {string} */ name) {
    shown.mode = /** @type {MatrixMode} */ (name);
    pick(modes, MATRIX_MODES, name, mode);
    draw();
  }

  /** Says what a cell is. @param {{row: number, column: number} | null} place @param {boolean} [aloud] */
  function say(place, aloud) {
    tip.hidden = !place;
    if (!place) return;
    const words = matrixWords(grid, shown.order.rows[place.row], shown.order.columns[place.column]);
    tip.replaceChildren(h("b", {}, words.title), h("div", {}, words.count), h("div.soft", {}, words.shares));
    const [x, y] = [look.left + (place.column + 1) * look.cellX - look.x + 8, look.top + (place.row + 1) * look.cellY - look.y + 8];
    const over = x + tip.offsetWidth > stage.clientWidth;
    Object.assign(tip.style, { left: `${Math.max(0, over ? Math.min(x, stage.clientWidth) - tip.offsetWidth : x)}px`, top: `${Math.min(y, look.top + look.high)}px` });
    if (aloud) spoken.textContent = `${words.title}: ${words.count}`;
  }

  const zooms = (/** @type {number} */ by) => { look.zoomTo(look.zoom * by); draw(); };
  const buttons = large ? [press("e-zoom", "−", () => zooms(0.5), { ariaLabel: "zoom out" }), press("e-zoom", "+", () => zooms(2), { ariaLabel: "zoom in" }), press("e-zoom", "whole", () => zooms(0), { ariaLabel: "zoom to the whole" })] : [];
  matrixChoice({ stage, grid, look, shown, store, draw, say });
  mode("counts");
  watch(stage, () => { colors = null; draw(); });
  const hint = large ? "A click in the cells, then the wheel or + and − zoom; a drag over the names or with the right button moves." : "";
  const left = given.left_out > 0 && `The ${given.left_out.toLocaleString("en")} smallest cells are not drawn.`;
  return h("div.e-matrix", {}, h("div.tools", {}, modes, order, ...buttons), stage, h("div.note", {}, [`Orange: wrong. Blue: right, on a scale of its own.`, hint, left].filter(Boolean).join(" ")));
}

/** The colors of the theme as numbers. @param {HTMLElement} el @returns {MatrixColors} */
function matrixColors(el) {
  const { ink, soft, faint, paper, lines } = palette(el), g = /** @type {OffscreenCanvasRenderingContext2D} */ (new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true }));
  const numbers = (/** @type {string} */ color) => {
    g.fillStyle = color;
    g.fillRect(0, 0, 1, 1);
    return [...g.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  return { ink, soft, faint, paper, focus: lines[0], wrong: numbers(lines[1]), right: numbers(lines[0]), back: numbers(paper) };
}
