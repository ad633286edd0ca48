// @ts-check
/** @import { MatrixGrid } from "./matrix_grid.js" */
/** Where the cells of the overview lie on its canvas: margins, zoom, and what is under a pointer. */

/** @typedef {ReturnType<typeof matrixLook>} MatrixLook */

const LOOK_TITLE = 18, LOOK_NAME = 104, LOOK_AIR = 6, LOOK_HIGH = 430, LOOK_ROW = 30;

/** @param {MatrixGrid} grid @param {(text: string) => number} measure in pixels */
export function matrixLook(grid, measure) {
  const longest = (/** @type {string[]} */ names) => Math.min(LOOK_NAME, Math.max(...names.slice(0, 400).map(measure)) + 8);
  const look = {
    left: 0, top: 0, wide: 0, high: 0, baseX: 1, baseY: 1, zoom: 1, x: 0, y: 0, turned: false,
    get cellX() { return look.baseX * look.zoom; },
    get cellY() { return look.baseY * look.zoom; },
    get most() { return Math.max(1, 40 / Math.min(look.baseX, look.baseY)); },
    fit, at, zoomTo, move, show,
  };

  /** Takes a new width. @param {number} width */
  function fit(width) {
    const [rows, columns] = [grid.rows.length, grid.columns.length], square = grid.given.diagonal;
    const names = { rows: longest(grid.rows), columns: longest(grid.columns) };
    look.left = LOOK_TITLE + names.rows;
    const room = Math.max(60, width - look.left - LOOK_AIR);
    look.baseX = Math.min(room / columns, square ? 64 : 96, square ? LOOK_HIGH / rows : Infinity);
    look.baseY = square ? look.baseX : Math.min(LOOK_ROW, LOOK_HIGH / rows);
    look.turned = names.columns > look.baseX;
    look.top = LOOK_TITLE + (look.turned ? names.columns : 16);
    look.wide = look.baseX * columns;
    look.high = look.baseY * rows;
    move(0, 0);
  }

  /** The place in the order under a pixel; -1 beside the cells. @param {number} px @param {number} py */
  function at(px, py) {
    const place = (/** @type {number} */ v, /** @type {number} */ size, /** @type {number} */ most) => (v < 0 || v >= most ? -1 : Math.floor(v / size));
    return {
      row: py - look.top > look.high ? -1 : place(py - look.top + look.y, look.cellY, look.cellY * grid.rows.length),
      column: px - look.left > look.wide ? -1 : place(px - look.left + look.x, look.cellX, look.cellX * grid.columns.length),
      onRows: px < look.left && py >= look.top, onColumns: py < look.top && px >= look.left,
    };
  }

  /** Zooms and leaves in place what is under a pixel. @param {number} zoom @param {number} [px] @param {number} [py] */
  function zoomTo(zoom, px = look.left + look.wide / 2, py = look.top + look.high / 2) {
    const next = Math.min(look.most, Math.max(1, zoom)), by = next / look.zoom, [dx, dy] = [px - look.left, py - look.top];
    look.zoom = next;
    look.x = (look.x + dx) * by - dx;
    look.y = (look.y + dy) * by - dy;
    move(0, 0);
  }

  /** Moves what is in sight. @param {number} dx @param {number} dy */
  function move(dx, dy) {
    look.x = Math.min(look.wide * (look.zoom - 1), Math.max(0, look.x + dx));
    look.y = Math.min(look.high * (look.zoom - 1), Math.max(0, look.y + dy));
  }

  /** Brings a cell into sight. @param {number} row @param {number} column */
  function show(row, column) {
    const over = (/** @type {number} */ start, /** @type {number} */ size, /** @type {number} */ from, /** @type {number} */ room) =>
      Math.min(0, start * size - from) || Math.max(0, (start + 1) * size - from - room);
    move(over(column, look.cellX, look.x, look.wide), over(row, look.cellY, look.y, look.high));
  }

  return look;
}
