// @ts-check
/** The cells of the overview, their shares, and the orders of its classes. */

/** @typedef {ReturnType<typeof matrixGrid>} MatrixGrid */
/** @typedef {"counts" | "row" | "column"} MatrixMode */
/** @typedef {{rows: number[], columns: number[], rowAt: number[], columnAt: number[]}} MatrixOrder */

/** @param {any} given */
export function matrixGrid(given) {
  const rows = /** @type {string[]} */ (given.rows), columns = /** @type {string[]} */ (given.columns ?? given.rows), good = new Set(given.good), wide = columns.length;
  const row = /** @type {number[]} */ ([]), column = /** @type {number[]} */ ([]), count = /** @type {number[]} */ ([]), found = new Map(), most = { counts: 1, row: 1e-9, column: 1e-9 };
  for (let i = 0, at = 0; i < given.cells.length; i += 2) {
    at += given.cells[i];
    found.set(at, given.cells[i + 1]);
    row.push(Math.floor(at / wide));
    column.push(at % wide);
    count.push(given.cells[i + 1]);
  }
  const right = (/** @type {number} */ i, /** @type {number} */ j) => (given.diagonal ? i === j : good.has(j));
  const value = (/** @type {MatrixMode} */ mode, /** @type {number} */ i, /** @type {number} */ j, /** @type {number} */ n) =>
    mode === "counts" ? n : n / Math.max(1, mode === "row" ? given.row_sums[i] : given.column_sums[j]);
  const top = { counts: { ...most }, right: { ...most } };
  count.forEach((n, k) => {
    const of = right(row[k], column[k]) ? top.right : top.counts;
    for (const mode of /** @type {const} */ (["counts", "row", "column"])) of[mode] = Math.max(of[mode], value(mode, row[k], column[k], n));
  });
  return {
    given, rows, columns, row, column, count, right, value,
    at: (/** @type {number} */ i, /** @type {number} */ j) => /** @type {number} */ (found.get(i * wide + j) ?? 0),
    /** How dark a cell is, 0 to 1: wrong ones against the most frequent wrong one, right ones against these. */
    shade: (/** @type {MatrixMode} */ mode, /** @type {number} */ i, /** @type {number} */ j, /** @type {number} */ n) =>
      (value(mode, i, j, n) / (right(i, j) ? top.right : top.counts)[mode]) ** 0.65,
  };
}

/** The orders that there are. @param {MatrixGrid} grid */
export function matrixOrders({ given }) {
  const all = { given: "as given", name: "by name", similarity: "by similarity", errors: "by errors" };
  return Object.fromEntries(Object.entries(all).filter(([name]) => name === "given" || name === "name" || name in given.orders));
}

/** Rows and columns in an order; columns that are no classes stay. @param {MatrixGrid} grid @param {string} name @returns {MatrixOrder} */
export function matrixOrder({ given, rows, columns }, name) {
  const numbers = (/** @type {string[]} */ all) => all.map((_, i) => i), letters = new Intl.Collator(undefined, { numeric: true });
  const sorted = name === "name" ? numbers(rows).sort((a, b) => letters.compare(rows[a], rows[b])) : given.orders[name] ?? numbers(rows);
  const order = { rows: sorted, columns: given.diagonal ? sorted : numbers(columns) };
  const back = (/** @type {number[]} */ all) => {
    const at = Array(all.length);
    all.forEach((one, i) => { at[one] = i; });
    return at;
  };
  return { ...order, rowAt: back(order.rows), columnAt: back(order.columns) };
}

/** A part of a whole in percent. @param {number} v */
export function matrixShare(v) {
  if (v > 0 && v < 0.001) return "<0.1%";
  const percent = 100 * v;
  return `${percent < 10 && !Number.isInteger(percent) ? percent.toFixed(1) : Math.round(percent)}%`;
}

/** A cell in words. @param {MatrixGrid} grid @param {number} i @param {number} j */
export function matrixWords(grid, i, j) {
  const { row_title: row, column_title: column, unit, row_sums: rowSums, column_sums: columnSums } = grid.given, n = grid.at(i, j);
  return {
    title: `${row} ${grid.rows[i]} → ${column} ${grid.columns[j]}`,
    count: `${n.toLocaleString("en")} ${unit}`,
    shares: `${matrixShare(n / Math.max(1, rowSums[i]))} of ${row} ${grid.rows[i]}, ${matrixShare(n / Math.max(1, columnSums[j]))} of ${column} ${grid.columns[j]}`,
  };
}
