// @ts-check
/** @import { MatrixGrid, MatrixMode, MatrixOrder } from "./matrix_grid.js" */
/** @import { MatrixLook } from "./matrix_look.js" */
import { matrixShare } from "./matrix_grid.js";

/** @typedef {{ink: string, soft: string, faint: string, paper: string, focus: string, wrong: number[], right: number[], back: number[]}} MatrixColors */
/** @typedef {{mode: MatrixMode, order: MatrixOrder, chosen: Set<number>, active: {row: number, column: number} | null, box: number[] | null}} MatrixShown */

const PAINT_DOTS = 3, PAINT_NAME = 11, PAINT_PALE = 0.1, PAINT_RIGHT = 0.55;

/** Draws all of the overview. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLook} look @param {MatrixShown} shown @param {MatrixColors} colors */
export function matrixPaint(g, grid, look, shown, colors) {
  g.save();
  g.beginPath();
  g.rect(look.left, look.top, look.wide, look.high);
  g.clip();
  if (Math.min(look.cellX, look.cellY) < PAINT_DOTS) paintDots(g, grid, look, shown, colors);
  else paintCells(g, grid, look, shown, colors);
  paintMarks(g, grid, look, shown, colors);
  g.restore();
  g.strokeStyle = colors.faint;
  g.lineWidth = 1;
  g.strokeRect(look.left - 0.5, look.top - 0.5, look.wide + 1, look.high + 1);
  paintNames(g, grid, look, shown, colors);
}

/** The color of a cell over the paper. @param {MatrixColors} colors @param {boolean} right @param {number} shade */
function paintColor({ back, wrong, right: calm }, right, shade) {
  const hue = right ? calm : wrong, part = right ? PAINT_PALE + (PAINT_RIGHT - PAINT_PALE) * shade : PAINT_PALE + (1 - PAINT_PALE) * shade;
  return back.map((v, i) => Math.round(v + (hue[i] - v) * part));
}

/** @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLook} look @param {MatrixShown} shown @param {MatrixColors} colors */
function paintCells(g, grid, look, { mode, order }, colors) {
  const { cellX, cellY } = look, gap = Math.min(cellX, cellY) > 8 ? 1 : 0, size = Math.min(12, cellY * 0.5);
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.font = `${size}px ${getComputedStyle(g.canvas).fontFamily}`;
  grid.count.forEach((n, k) => {
    const x = order.columnAt[grid.column[k]] * cellX - look.x, y = order.rowAt[grid.row[k]] * cellY - look.y;
    if (x < -cellX || y < -cellY || x > look.wide || y > look.high) return;
    const right = grid.right(grid.row[k], grid.column[k]), [r, green, b] = paintColor(colors, right, grid.shade(mode, grid.row[k], grid.column[k], n));
    g.fillStyle = `rgb(${r} ${green} ${b})`;
    g.fillRect(look.left + x, look.top + y, cellX - gap, cellY - gap);
    if (cellY < 15 || cellX < 17) return;
    const v = grid.value(mode, grid.row[k], grid.column[k], n), text = mode === "counts" ? paintCount(n) : matrixShare(v);
    if (g.measureText(text).width > cellX - 3) return;
    g.fillStyle = 0.299 * r + 0.587 * green + 0.114 * b > 140 ? "#14171b" : "#ffffff";
    g.fillText(text, look.left + x + (cellX - gap) / 2, look.top + y + (cellY - gap) / 2 + 0.5);
  });
}

/** A count in few letters. @param {number} n */
function paintCount(n) {
  if (n < 10_000) return String(n);
  return n < 1e6 ? `${Math.round(n / 1e3)}k` : `${(n / 1e6).toPrecision(2)}M`;
}

/** Cells smaller than a few pixels: of all that fall on one pixel the darkest, a wrong one before a right one. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLook} look @param {MatrixShown} shown @param {MatrixColors} colors */
function paintDots(g, grid, look, { mode, order }, colors) {
  const dpr = devicePixelRatio || 1, wide = Math.ceil(look.wide * dpr), high = Math.ceil(look.high * dpr);
  const image = g.createImageData(wide, high), weight = new Float32Array(wide * high), pixels = new Uint32Array(image.data.buffer);
  const ends = (/** @type {number} */ at, /** @type {number} */ size, /** @type {number} */ from) => {
    const start = Math.floor((at * size - from) * dpr);
    return [start, Math.max(start + 1, Math.floor(((at + 1) * size - from) * dpr))];
  };
  grid.count.forEach((n, k) => {
    const [x, beyond] = ends(order.columnAt[grid.column[k]], look.cellX, look.x), [y, under] = ends(order.rowAt[grid.row[k]], look.cellY, look.y);
    if (x < 0 || y < 0 || x >= wide || y >= high) return;
    const right = grid.right(grid.row[k], grid.column[k]), shade = grid.shade(mode, grid.row[k], grid.column[k], n), [r, green, b] = paintColor(colors, right, shade), color = 0xff000000 | (b << 16) | (green << 8) | r;
    for (let j = y; j < Math.min(high, under); j++) {
      for (let i = x; i < Math.min(wide, beyond); i++) {
        const at = j * wide + i, heavy = shade + (right ? 0 : 1e-3);
        if (heavy <= weight[at]) continue;
        weight[at] = heavy;
        pixels[at] = color;
      }
    }
  });
  g.putImageData(image, Math.round(look.left * dpr), Math.round(look.top * dpr));
}

/** What is chosen, what the keyboard is on, and the box that is drawn now. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLook} look @param {MatrixShown} shown @param {MatrixColors} colors */
function paintMarks(g, grid, look, { order, chosen, active, box }, colors) {
  const wide = grid.columns.length, { cellX, cellY } = look;
  const frame = (/** @type {number} */ row, /** @type {number} */ column, tall = 1, broad = 1) =>
    g.strokeRect(look.left + column * cellX - look.x + 0.5, look.top + row * cellY - look.y + 0.5, Math.max(2, broad * cellX - 1), Math.max(2, tall * cellY - 1));
  g.strokeStyle = colors.ink;
  g.lineWidth = Math.min(cellX, cellY) > 12 ? 2 : 1;
  if (chosen.size <= 20_000) for (const key of chosen) frame(order.rowAt[Math.floor(key / wide)], order.columnAt[key % wide]);
  g.strokeStyle = colors.focus;
  g.lineWidth = 2;
  if (active) frame(active.row, active.column);
  if (box) frame(box[0], box[1], box[2] - box[0] + 1, box[3] - box[1] + 1);
}

/** Names beside rows and over columns: all where there is room, else every so many. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLook} look @param {MatrixShown} shown @param {MatrixColors} colors */
function paintNames(g, grid, look, { order, active }, colors) {
  const family = getComputedStyle(g.canvas).fontFamily, { left, top } = look;
  const each = (/** @type {number[]} */ all, /** @type {number} */ size, /** @type {number} */ from, /** @type {number} */ room, /** @type {(i: number, middle: number) => void} */ draw) => {
    const every = Math.ceil((PAINT_NAME + 1) / size);
    for (let i = Math.floor(from / size); i < all.length; i++) {
      const middle = (i + 0.5) * size - from;
      if (middle >= 0 && middle <= room && i % every === 0) draw(i, middle);
    }
  };
  g.font = `${PAINT_NAME}px ${family}`;
  g.textBaseline = "middle";
  each(order.rows, look.cellY, look.y, look.high, (i, middle) => {
    g.textAlign = "right";
    g.fillStyle = active?.row === i ? colors.ink : colors.soft;
    g.fillText(paintShort(g, grid.rows[order.rows[i]], left - 22), left - 5, top + middle);
  });
  each(order.columns, look.cellX, look.x, look.wide, (i, middle) => {
    const name = grid.columns[order.columns[i]];
    g.fillStyle = active?.column === i ? colors.ink : colors.soft;
    g.save();
    g.translate(left + middle, top - (look.turned ? 5 : 8));
    if (look.turned) g.rotate(-Math.PI / 2);
    g.textAlign = look.turned ? "left" : "center";
    g.fillText(paintShort(g, name, look.turned ? top - 24 : look.cellX), 0, 0);
    g.restore();
  });
  g.fillStyle = colors.soft;
  g.font = `600 ${PAINT_NAME}px ${family}`;
  g.textAlign = "left";
  g.fillText(`${grid.given.column_title} →`, left, 8);
  g.translate(8, top);
  g.rotate(-Math.PI / 2);
  g.textAlign = "right";
  g.fillText(`← ${grid.given.row_title}`, 0, 0);
}

/** A name that fits: its beginning and its end, since the end may be all that sets it apart. @param {CanvasRenderingContext2D} g @param {string} name @param {number} room */
function paintShort(g, name, room) {
  let text = name;
  for (let n = name.length - 1; n > 0 && g.measureText(text).width > room; n--) text = `${name.slice(0, Math.ceil(n / 2))}…${name.slice(name.length - Math.floor(n / 2))}`;
  return text;
}
