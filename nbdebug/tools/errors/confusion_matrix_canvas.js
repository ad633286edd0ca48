// @ts-check
/** Confusion matrix: cells, canvas layout and painting. */

/** @typedef {{ink: string, soft: string, faint: string, paper: string, focus: string, wrong: number[], right: number[], back: number[]}} MatrixColors */
/** @typedef {{mode: MatrixMode, order: MatrixOrder, chosen: Set<number>, active: {row: number, column: number} | null, box: number[] | null}} MatrixView */

const MIN_CELL_TO_FILL = 3, NAME_FONT_SIZE = 11, MIN_SHADE = 0.1, MAX_CORRECT_SHADE = 0.55;

/** Draw the whole matrix. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLayout} layout @param {MatrixView} view @param {MatrixColors} colors */
export function matrixPaint(g, grid, layout, view, colors) {
  g.save();
  g.beginPath();
  g.rect(layout.left, layout.top, layout.wide, layout.high);
  g.clip();
  if (Math.min(layout.cellX, layout.cellY) < MIN_CELL_TO_FILL) paintDots(g, grid, layout, view, colors);
  else paintCells(g, grid, layout, view, colors);
  paintMarks(g, grid, layout, view, colors);
  g.restore();
  g.strokeStyle = colors.faint;
  g.lineWidth = 1;
  g.strokeRect(layout.left - 0.5, layout.top - 0.5, layout.wide + 1, layout.high + 1);
  paintNames(g, grid, layout, view, colors);
}

/** The color of a cell on the page background. @param {MatrixColors} colors @param {boolean} right @param {number} shade */
function paintColor({ back, wrong, right: calm }, right, shade) {
  const hue = right ? calm : wrong, part = right ? MIN_SHADE + (MAX_CORRECT_SHADE - MIN_SHADE) * shade : MIN_SHADE + (1 - MIN_SHADE) * shade;
  return back.map((v, i) => Math.round(v + (hue[i] - v) * part));
}

/** @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLayout} layout @param {MatrixView} shown @param {MatrixColors} colors */
function paintCells(g, grid, layout, { mode, order }, colors) {
  const { cellX, cellY } = layout, gap = Math.min(cellX, cellY) > 8 ? 1 : 0, size = Math.min(12, cellY * 0.5);
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.font = `${size}px ${getComputedStyle(g.canvas).fontFamily}`;
  grid.count.forEach((n, k) => {
    const x = order.columnAt[grid.column[k]] * cellX - layout.x, y = order.rowAt[grid.row[k]] * cellY - layout.y;
    if (x < -cellX || y < -cellY || x > layout.wide || y > layout.high) return;
    const right = grid.right(grid.row[k], grid.column[k]), [r, green, b] = paintColor(colors, right, grid.shade(mode, grid.row[k], grid.column[k], n));
    g.fillStyle = `rgb(${r} ${green} ${b})`;
    g.fillRect(layout.left + x, layout.top + y, cellX - gap, cellY - gap);
    if (cellY < 15 || cellX < 17) return;
    const v = grid.value(mode, grid.row[k], grid.column[k], n), text = mode === "counts" ? paintCount(n) : formatCellShare(v);
    if (g.measureText(text).width > cellX - 3) return;
    g.fillStyle = 0.299 * r + 0.587 * green + 0.114 * b > 140 ? "#14171b" : "#ffffff";
    g.fillText(text, layout.left + x + (cellX - gap) / 2, layout.top + y + (cellY - gap) / 2 + 0.5);
  });
}

/** A count in few characters. @param {number} n */
function paintCount(n) {
  if (n < 10_000) return String(n);
  return n < 1e6 ? `${Math.round(n / 1e3)}k` : `${(n / 1e6).toPrecision(2)}M`;
}

/** Draw cells smaller than a few pixels: each pixel shows its darkest cell, errors before correct cells. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLayout} layout @param {MatrixView} shown @param {MatrixColors} colors */
function paintDots(g, grid, layout, { mode, order }, colors) {
  const dpr = devicePixelRatio || 1, wide = Math.ceil(layout.wide * dpr), high = Math.ceil(layout.high * dpr);
  const image = g.createImageData(wide, high), weight = new Float32Array(wide * high), pixels = new Uint32Array(image.data.buffer);
  const ends = (/** @type {number} */ at, /** @type {number} */ size, /** @type {number} */ from) => {
    const start = Math.floor((at * size - from) * dpr);
    return [start, Math.max(start + 1, Math.floor(((at + 1) * size - from) * dpr))];
  };
  grid.count.forEach((n, k) => {
    const [x, beyond] = ends(order.columnAt[grid.column[k]], layout.cellX, layout.x), [y, under] = ends(order.rowAt[grid.row[k]], layout.cellY, layout.y);
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
  g.putImageData(image, Math.round(layout.left * dpr), Math.round(layout.top * dpr));
}

/** Draw the outlines of selected cells, the focused cell and the current box. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLayout} layout @param {MatrixView} shown @param {MatrixColors} colors */
function paintMarks(g, grid, layout, { order, chosen, active, box }, colors) {
  const wide = grid.columns.length, { cellX, cellY } = layout;
  const frame = (/** @type {number} */ row, /** @type {number} */ column, tall = 1, broad = 1) =>
    g.strokeRect(layout.left + column * cellX - layout.x + 0.5, layout.top + row * cellY - layout.y + 0.5, Math.max(2, broad * cellX - 1), Math.max(2, tall * cellY - 1));
  g.strokeStyle = colors.ink;
  g.lineWidth = Math.min(cellX, cellY) > 12 ? 2 : 1;
  if (chosen.size <= 20_000) for (const key of chosen) frame(order.rowAt[Math.floor(key / wide)], order.columnAt[key % wide]);
  g.strokeStyle = colors.focus;
  g.lineWidth = 2;
  if (active) frame(active.row, active.column);
  if (box) frame(box[0], box[1], box[2] - box[0] + 1, box[3] - box[1] + 1);
}

/** Draw the names of rows and columns; if there is no room for all, every nth. @param {CanvasRenderingContext2D} g @param {MatrixGrid} grid @param {MatrixLayout} layout @param {MatrixView} shown @param {MatrixColors} colors */
function paintNames(g, grid, layout, { order, active }, colors) {
  const family = getComputedStyle(g.canvas).fontFamily, { left, top } = layout;
  const each = (/** @type {number[]} */ all, /** @type {number} */ size, /** @type {number} */ from, /** @type {number} */ room, /** @type {(i: number, middle: number) => void} */ draw) => {
    const every = Math.ceil((NAME_FONT_SIZE + 1) / size);
    for (let i = Math.floor(from / size); i < all.length; i++) {
      const middle = (i + 0.5) * size - from;
      if (middle >= 0 && middle <= room && i % every === 0) draw(i, middle);
    }
  };
  g.font = `${NAME_FONT_SIZE}px ${family}`;
  g.textBaseline = "middle";
  each(order.rows, layout.cellY, layout.y, layout.high, (i, middle) => {
    g.textAlign = "right";
    g.fillStyle = active?.row === i ? colors.ink : colors.soft;
    g.fillText(paintShort(g, grid.rows[order.rows[i]], left - 22), left - 5, top + middle);
  });
  each(order.columns, layout.cellX, layout.x, layout.wide, (i, middle) => {
    const name = grid.columns[order.columns[i]];
    g.fillStyle = active?.column === i ? colors.ink : colors.soft;
    g.save();
    g.translate(left + middle, top - (layout.turned ? 5 : 8));
    if (layout.turned) g.rotate(-Math.PI / 2);
    g.textAlign = layout.turned ? "left" : "center";
    g.fillText(paintShort(g, name, layout.turned ? top - 24 : layout.cellX), 0, 0);
    g.restore();
  });
  g.fillStyle = colors.soft;
  g.font = `600 ${NAME_FONT_SIZE}px ${family}`;
  g.textAlign = "left";
  g.fillText(`${grid.data.column_title} →`, left, 8);
  g.translate(8, top);
  g.rotate(-Math.PI / 2);
  g.textAlign = "right";
  g.fillText(`← ${grid.data.row_title}`, 0, 0);
}

/** Shorten a name in the middle until it fits, since names often differ only at the end. @param {CanvasRenderingContext2D} g @param {string} name @param {number} room */
function paintShort(g, name, room) {
  let text = name;
  for (let n = name.length - 1; n > 0 && g.measureText(text).width > room; n--) text = `${name.slice(0, Math.ceil(n / 2))}…${name.slice(name.length - Math.floor(n / 2))}`;
  return text;
}

/** @typedef {ReturnType<typeof matrixLayout>} MatrixLayout */

const TITLE_SIZE = 18, MAX_NAME_WIDTH = 104, RIGHT_MARGIN = 6, MAX_MATRIX_HEIGHT = 430, MAX_ROW_HEIGHT = 30;

/** @param {MatrixGrid} grid @param {(text: string) => number} measure in pixels */
export function matrixLayout(grid, measure) {
  const longest = (/** @type {string[]} */ names) => Math.min(MAX_NAME_WIDTH, Math.max(...names.slice(0, 400).map(measure)) + 8);
  const layout = {
    left: 0, top: 0, wide: 0, high: 0, baseX: 1, baseY: 1, zoom: 1, x: 0, y: 0, turned: false,
    get cellX() { return layout.baseX * layout.zoom; },
    get cellY() { return layout.baseY * layout.zoom; },
    get maxZoom() { return Math.max(1, 40 / Math.min(layout.baseX, layout.baseY)); },
    fit, at, zoomTo, move, show,
  };

  /** Adapt to a new width. @param {number} width */
  function fit(width) {
    const [rows, columns] = [grid.rows.length, grid.columns.length], square = grid.data.diagonal;
    const names = { rows: longest(grid.rows), columns: longest(grid.columns) };
    layout.left = TITLE_SIZE + names.rows;
    const room = Math.max(60, width - layout.left - RIGHT_MARGIN);
    layout.baseX = Math.min(room / columns, square ? 64 : 96, square ? MAX_MATRIX_HEIGHT / rows : Infinity);
    layout.baseY = square ? layout.baseX : Math.min(MAX_ROW_HEIGHT, MAX_MATRIX_HEIGHT / rows);
    layout.turned = names.columns > layout.baseX;
    layout.top = TITLE_SIZE + (layout.turned ? names.columns : 16);
    layout.wide = layout.baseX * columns;
    layout.high = layout.baseY * rows;
    move(0, 0);
  }

  /** Return the cell under a pixel, as positions in the displayed order; -1 outside the cells. @param {number} px @param {number} py */
  function at(px, py) {
    const index = (/** @type {number} */ v, /** @type {number} */ size, /** @type {number} */ limit) => (v < 0 || v >= limit ? -1 : Math.floor(v / size));
    return {
      row: py - layout.top > layout.high ? -1 : index(py - layout.top + layout.y, layout.cellY, layout.cellY * grid.rows.length),
      column: px - layout.left > layout.wide ? -1 : index(px - layout.left + layout.x, layout.cellX, layout.cellX * grid.columns.length),
      onRows: px < layout.left && py >= layout.top, onColumns: py < layout.top && px >= layout.left,
    };
  }

  /** Zoom around a pixel. @param {number} zoom @param {number} [px] @param {number} [py] */
  function zoomTo(zoom, px = layout.left + layout.wide / 2, py = layout.top + layout.high / 2) {
    const next = Math.min(layout.maxZoom, Math.max(1, zoom)), by = next / layout.zoom, [dx, dy] = [px - layout.left, py - layout.top];
    layout.zoom = next;
    layout.x = (layout.x + dx) * by - dx;
    layout.y = (layout.y + dy) * by - dy;
    move(0, 0);
  }

  /** Move the visible part. @param {number} dx @param {number} dy */
  function move(dx, dy) {
    layout.x = Math.min(layout.wide * (layout.zoom - 1), Math.max(0, layout.x + dx));
    layout.y = Math.min(layout.high * (layout.zoom - 1), Math.max(0, layout.y + dy));
  }

  /** Scroll a cell into view. @param {number} row @param {number} column */
  function show(row, column) {
    const over = (/** @type {number} */ start, /** @type {number} */ size, /** @type {number} */ from, /** @type {number} */ room) =>
      Math.min(0, start * size - from) || Math.max(0, (start + 1) * size - from - room);
    move(over(column, layout.cellX, layout.x, layout.wide), over(row, layout.cellY, layout.y, layout.high));
  }

  return layout;
}

/** @typedef {ReturnType<typeof matrixGrid>} MatrixGrid */
/** @typedef {"counts" | "row" | "column"} MatrixMode */
/** @typedef {{rows: number[], columns: number[], rowAt: number[], columnAt: number[]}} MatrixOrder */

/** @param {any} data */
export function matrixGrid(data) {
  const rows = /** @type {string[]} */ (data.rows), columns = /** @type {string[]} */ (data.columns ?? data.rows), good = new Set(data.good), wide = columns.length;
  const row = /** @type {number[]} */ ([]), column = /** @type {number[]} */ ([]), count = /** @type {number[]} */ ([]), counts = new Map(), initial = { counts: 1, row: 1e-9, column: 1e-9 };
  for (let i = 0, at = 0; i < data.cells.length; i += 2) {
    at += data.cells[i];
    counts.set(at, data.cells[i + 1]);
    row.push(Math.floor(at / wide));
    column.push(at % wide);
    count.push(data.cells[i + 1]);
  }
  const right = (/** @type {number} */ i, /** @type {number} */ j) => (data.diagonal ? i === j : good.has(j));
  const value = (/** @type {MatrixMode} */ mode, /** @type {number} */ i, /** @type {number} */ j, /** @type {number} */ n) =>
    mode === "counts" ? n : n / Math.max(1, mode === "row" ? data.row_sums[i] : data.column_sums[j]);
  const top = { counts: { ...initial }, right: { ...initial } };
  count.forEach((n, k) => {
    const of = right(row[k], column[k]) ? top.right : top.counts;
    for (const mode of /** @type {const} */ (["counts", "row", "column"])) of[mode] = Math.max(of[mode], value(mode, row[k], column[k], n));
  });
  return {
    data, rows, columns, row, column, count, right, value,
    at: (/** @type {number} */ i, /** @type {number} */ j) => /** @type {number} */ (counts.get(i * wide + j) ?? 0),
    /** The shade of a cell from 0 to 1: errors relative to the most frequent error, correct cells relative to each other. */
    shade: (/** @type {MatrixMode} */ mode, /** @type {number} */ i, /** @type {number} */ j, /** @type {number} */ n) =>
      (value(mode, i, j, n) / (right(i, j) ? top.right : top.counts)[mode]) ** 0.65,
  };
}

/** The available orders of the classes. @param {MatrixGrid} grid */
export function matrixOrders({ data }) {
  const all = { given: "in the given order", name: "by name", similarity: "by similarity", errors: "by number of errors" };
  return Object.fromEntries(Object.entries(all).filter(([name]) => name === "given" || name === "name" || name in data.orders));
}

/** Rows and columns in a given order; columns that are not classes keep their order. @param {MatrixGrid} grid @param {string} name @returns {MatrixOrder} */
export function matrixOrder({ data, rows, columns }, name) {
  const numbers = (/** @type {string[]} */ all) => all.map((_, i) => i), letters = new Intl.Collator(undefined, { numeric: true });
  const sorted = name === "name" ? numbers(rows).sort((a, b) => letters.compare(rows[a], rows[b])) : data.orders[name] ?? numbers(rows);
  const order = { rows: sorted, columns: data.diagonal ? sorted : numbers(columns) };
  const back = (/** @type {number[]} */ all) => {
    const at = Array(all.length);
    all.forEach((item, i) => { at[item] = i; });
    return at;
  };
  return { ...order, rowAt: back(order.rows), columnAt: back(order.columns) };
}

/** Format a share as a percentage. @param {number} v */
export function formatCellShare(v) {
  if (v > 0 && v < 0.001) return "<0.1%";
  const percent = 100 * v;
  return `${percent < 10 && !Number.isInteger(percent) ? percent.toFixed(1) : Math.round(percent)}%`;
}

/** The contents of a cell, as text. @param {MatrixGrid} grid @param {number} i @param {number} j */
export function describeCell(grid, i, j) {
  const { row_title: row, column_title: column, unit, row_sums: rowSums, column_sums: columnSums } = grid.data, n = grid.at(i, j);
  return {
    title: `${row} ${grid.rows[i]} → ${column} ${grid.columns[j]}`,
    count: `${n.toLocaleString("en")} ${unit}`,
    shares: `${formatCellShare(n / Math.max(1, rowSums[i]))} of ${row} ${grid.rows[i]}, ${formatCellShare(n / Math.max(1, columnSums[j]))} of ${column} ${grid.columns[j]}`,
  };
}
