// @ts-check
/** @import { Store } from "./store.js" */
/** @import { MatrixGrid } from "./matrix_grid.js" */
/** @import { MatrixLook } from "./matrix_look.js" */
/** @import { MatrixShown } from "./matrix_paint.js" */
/** Pointer and keys in the overview: cells, boxes of cells and whole classes come to a query. */

const CHOICE_MOST = 20_000;

/** @typedef {{row: number, column: number}} Place in the order that is shown */
/** @param {{stage: HTMLElement, grid: MatrixGrid, look: MatrixLook, shown: MatrixShown, store: Store, draw: () => void, say: (place: Place | null, aloud?: boolean) => void}} parts */
export function matrixChoice({ stage, grid, look, shown, store, draw, say }) {
  const wide = grid.columns.length;
  let down = /** @type {(Place & {x: number, y: number, pan: boolean, rows: boolean, columns: boolean, moved: boolean}) | null} */ (null), corner = /** @type {Place | null} */ (null);

  /** Asks for cells; `more` adds them to those that are chosen, or takes one away. @param {number[]} keys @param {string} words @param {boolean} more */
  function choose(keys, words, more) {
    const old = more ? shown.chosen : new Set(), kept = new Set(old);
    for (const key of keys) {
      if (more && keys.length === 1 && kept.has(key)) kept.delete(key);
      else kept.add(key);
    }
    const all = [...kept];
    store.words = old.size ? (all.length === 1 ? cellWords(all[0]) : `${all.length} cells`) : words;
    void store.go({ cells: all.map((key) => [Math.floor(key / wide), key % wide]), ranges: store.query.ranges, values: store.query.values, tag: store.query.tag });
  }

  /** @param {number} key */
  function cellWords(key) {
    return `${grid.given.row_title} ${grid.rows[Math.floor(key / wide)]} → ${grid.columns[key % wide]}`;
  }

  /** The cells of a box that hold anything; all of them where some are not in the page. @param {number[]} box */
  function cellsOf([top, left, bottom, right]) {
    const keys = [], whole = grid.given.left_out > 0 && (bottom - top + 1) * (right - left + 1) <= CHOICE_MOST;
    for (let i = top; i <= bottom; i++) {
      for (let j = left; j <= right; j++) {
        const [row, column] = [shown.order.rows[i], shown.order.columns[j]];
        if (whole || grid.at(row, column)) keys.push(row * wide + column);
      }
    }
    return keys.length || top !== bottom || left !== right ? keys : [shown.order.rows[top] * wide + shown.order.columns[left]];
  }

  /** @param {number[]} box @param {boolean} more */
  function take(box, more) {
    const [top, left, bottom, right] = box, { row_title: row, column_title: column } = grid.given, keys = cellsOf(box);
    const span = (/** @type {string[]} */ names, /** @type {number[]} */ order, /** @type {number} */ a, /** @type {number} */ b) => (a === b ? names[order[a]] : `${names[order[a]]} to ${names[order[b]]}`);
    const [allRows, allColumns] = [bottom - top + 1 === grid.rows.length, right - left + 1 === wide];
    const rows = `${row} ${span(grid.rows, shown.order.rows, top, bottom)}`, columns = span(grid.columns, shown.order.columns, left, right);
    if (!keys.length) return;
    choose(keys, allColumns ? rows : allRows ? `${column} ${columns}` : `${rows} → ${columns}`, more);
  }

  const point = (/** @type {PointerEvent | WheelEvent} */ event) => {
    const box = stage.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const boxed = (/** @type {Place} */ a, /** @type {Place} */ b) => [Math.min(a.row, b.row), Math.min(a.column, b.column), Math.max(a.row, b.row), Math.max(a.column, b.column)];

  stage.onpointerdown = (event) => {
    const { x, y } = point(event), at = look.at(x, y);
    if (at.row < 0 && at.column < 0) return;
    down = { x, y, row: at.row, column: at.column, rows: at.onRows, columns: at.onColumns, pan: event.button !== 0 || event.altKey || at.onRows || at.onColumns, moved: false };
    stage.setPointerCapture(event.pointerId);
    stage.focus({ preventScroll: true });
    event.preventDefault();
  };
  stage.onpointermove = (event) => {
    const { x, y } = point(event), at = look.at(x, y), inside = at.row >= 0 && at.column >= 0;
    if (down && Math.hypot(x - down.x, y - down.y) > 4) down.moved = true;
    if (down?.pan && down.moved) {
      look.move(down.columns || !down.rows ? down.x - x : 0, down.rows || !down.columns ? down.y - y : 0);
      Object.assign(down, { x, y });
      draw();
    } else if (down?.moved && inside && down.row >= 0 && down.column >= 0) {
      shown.box = boxed(down, at);
      draw();
    }
    stage.style.cursor = inside || (at.onRows && at.row >= 0) || (at.onColumns && at.column >= 0) ? "pointer" : "default";
    say(inside && !down?.moved ? at : null);
  };
  stage.onpointerup = (event) => {
    const from = down, at = look.at(point(event).x, point(event).y), box = shown.box, most = { row: grid.rows.length - 1, column: wide - 1 };
    [down, shown.box] = [null, null];
    draw();
    if (!from || event.button !== 0) return;
    const more = event.shiftKey || event.ctrlKey || event.metaKey;
    if (box) take(box, more);
    else if (from.moved) return;
    else if (from.rows && at.row >= 0) take([at.row, 0, at.row, most.column], more);
    else if (from.columns && at.column >= 0) take([0, at.column, most.row, at.column], more);
    else if (at.row >= 0 && at.column >= 0) {
      shown.active = at;
      take(boxed(at, at), more);
    }
  };
  stage.onpointerleave = () => say(null);
  stage.onpointercancel = () => { [down, shown.box] = [null, null]; draw(); };
  stage.oncontextmenu = (event) => { if (look.zoom > 1) event.preventDefault(); };
  stage.onwheel = (event) => {
    const out = event.deltaY > 0, focused = document.activeElement === stage;
    if (look.most <= 1.5 || !(event.ctrlKey || event.metaKey || focused) || (out && look.zoom === 1)) return;
    event.preventDefault();
    look.zoomTo(look.zoom * 1.0015 ** -event.deltaY, point(event).x, point(event).y);
    say(null);
    draw();
  };

  /** Walks to a cell; a walk with Shift draws a box. @param {number} dr @param {number} dc @param {boolean} more */
  function walk(dr, dc, more) {
    const old = shown.active ?? { row: 0, column: -dc }, hold = (/** @type {number} */ v, /** @type {number} */ most) => Math.min(most - 1, Math.max(0, v));
    corner = more ? corner ?? old : null;
    shown.active = { row: hold(old.row + dr, grid.rows.length), column: hold(old.column + dc, wide) };
    shown.box = corner && boxed(corner, shown.active);
    look.show(shown.active.row, shown.active.column);
    say(shown.active, true);
    draw();
  }

  stage.onkeydown = (event) => {
    const page = 10, zoom = (/** @type {number} */ by) => { look.zoomTo(look.zoom * by); draw(); };
    const enter = () => {
      const { active } = shown;
      if (active) take(shown.box ?? boxed(active, active), event.shiftKey && !shown.box);
      [shown.box, corner] = [null, null];
      draw();
    };
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowUp: () => walk(-1, 0, event.shiftKey), ArrowDown: () => walk(1, 0, event.shiftKey), ArrowLeft: () => walk(0, -1, event.shiftKey), ArrowRight: () => walk(0, 1, event.shiftKey),
      PageUp: () => walk(-page, 0, event.shiftKey), PageDown: () => walk(page, 0, event.shiftKey), Home: () => walk(0, -wide, event.shiftKey), End: () => walk(0, wide, event.shiftKey),
      Enter: enter, " ": enter, "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => zoom(0),
      Escape: () => { [shown.active, shown.box, corner] = [null, null, null]; say(null); draw(); },
    };
    if (event.ctrlKey || event.metaKey || !Object.hasOwn(acts, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  };
  stage.onblur = () => { [shown.active, shown.box, corner] = [null, null, null]; say(null); draw(); };

  store.hear((news) => {
    if (news !== "query") return;
    shown.chosen = new Set(store.query.cells.map(([i, j]) => i * wide + j));
    draw();
  });
}
