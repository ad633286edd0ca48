// @ts-check
/** What the browser knows of a run: tables of numbers by step, histograms, and words. */

/** @typedef {{columns: Map<string, number>, steps: number[], rows: Float32Array[], have: number}} Grid */
/** @typedef {{steps: number[], rows: Uint8Array[], have: number, tops: Record<string, Uint8Array>}} Shapes */
/** @typedef {{code: string, name: string, severity: string, message: string, step: number | null, place: string | null}} Found */
/** @typedef {{model: string, drawn: string[], layers: any[][], findings: Found[], events: any[][]}} Words */
/** @typedef {{name: string, rows: number, width?: number, first?: number, columns?: string[], steps?: number[], sizes?: number[]}} Part */
/** @typedef {{run: Grid, evaluations: Grid, layers: Grid, shapes: Shapes, words: Words, lost: number}} Store */

export const BINS = 177,
  MIDDLE = 88;
/** @type {Record<string, number>} */
const MOST = { run: 20000, evaluations: 20000, layers: 1024, shapes: 256 };

/** @returns {Store} */
export function empty() {
  const grid = () => ({ columns: new Map(), steps: [], rows: [], have: 0 });
  const words = { model: "", drawn: [], layers: [], findings: [], events: [] };
  const shapes = { steps: [], rows: [], have: 0, tops: {} };
  return { run: grid(), evaluations: grid(), layers: grid(), shapes, words, lost: 0 };
}

/** The whole state. @param {any} state @returns {Promise<Store>} */
export async function unpack(state) {
  const store = empty(),
    text = atob(state.packed),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const wire = await inflate(bytes),
    size = new DataView(wire.buffer).getUint32(0, true);
  const { parts, words } = JSON.parse(new TextDecoder().decode(wire.subarray(4, 4 + size)));
  Object.assign(store.words, words);
  await take(store, parts, wire.subarray(4 + size));
  for (const name in state.held) reach(store, name).have = state.held[name];
  return store;
}

/** @param {Uint8Array} bytes */
async function inflate(bytes) {
  const blob = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes)]);
  const stream = blob.stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {Store} store @param {string} name @returns {any} */
function reach(store, name) {
  return Reflect.get(store, name);
}

/**
 * Adds rows; those that are there already do not count twice, and missing ones are counted.
 * @param {Store} store @param {Part[]} parts @param {Uint8Array} bytes
 */
export async function take(store, parts, bytes) {
  let at = 0;
  for (const part of parts) {
    const into = reach(store, part.name);
    if (part.columns) into.columns = new Map(part.columns.map((name, i) => [name, i]));
    const size =
      part.name === "shapes" ? await drawn(store, part, bytes.subarray(at)) : numbers(into, part, bytes.slice(at));
    const first = part.first ?? 0,
      gone = Math.max(0, first - into.have);
    store.lost += gone;
    into.have = Math.max(into.have, first + part.rows);
    at += size;
    if (into.rows.length > MOST[part.name]) thinned(into);
  }
}

/** @param {Grid} into @param {Part} part @param {Uint8Array} bytes */
function numbers(into, { rows, width = 0, first = 0 }, bytes) {
  const count = rows * width,
    start = 8 * rows;
  const out = new Uint8Array(4 * count),
    flat = new Float32Array(out.buffer),
    steps = new Float64Array(bytes.slice(0, start).buffer);
  for (let k = 0; k < 4; k++) for (let i = 0; i < count; i++) out[4 * i + k] = bytes[start + k * count + i];
  for (let i = Math.max(0, into.have - first); i < rows; i++) {
    into.steps.push(steps[i]);
    into.rows.push(flat.subarray(i * width, (i + 1) * width));
  }
  return start + 4 * count;
}

/**
 * Histograms: each row packed by itself, or all together.
 * @param {Store} store @param {Part} part @param {Uint8Array} bytes
 */
async function drawn({ shapes, words }, { rows, steps = [], sizes, first = 0 }, bytes) {
  const width = BINS * words.drawn.length,
    skip = Math.max(0, shapes.have - first);
  const coarse = sizes ? [] : turned(bytes, rows, width);
  let at = 0;
  for (let i = 0; i < rows; i++) {
    const row = sizes ? await inflate(bytes.subarray(at, (at += sizes[i]))) : coarse[i];
    if (i < skip) continue;
    shapes.steps.push(steps[i]);
    shapes.rows.push(row);
    if (i % Math.ceil(rows / 24) === 0 || i === rows - 1) widen(shapes.tops, words.drawn, row);
  }
  return sizes ? at : rows * width;
}

/**
 * Rows out of bytes that hold the steps last, in levels by the root.
 * @param {Uint8Array} bytes @param {number} rows @param {number} width
 */
function turned(bytes, rows, width) {
  const out = Array.from({ length: rows }, () => new Uint8Array(width)),
    table = Uint8Array.from({ length: 256 }, (_, v) => Math.ceil(255 * (v / 24) ** 2));
  for (let j = 0, at = 0; j < width; j++) {
    for (let i = 0; i < rows; i++, at++) {
      if (bytes[at]) out[i][j] = table[bytes[at]];
    }
  }
  return out;
}

/**
 * The highest bar by magnitude of each family: all of its pictures share one axis.
 * @param {Shapes["tops"]} tops @param {string[]} names @param {Uint8Array} row
 */
function widen(tops, names, row) {
  names.forEach((name, i) => {
    const top = (tops[name.slice(0, name.indexOf("|"))] ??= new Uint8Array(MIDDLE + 1)),
      zero = i * BINS + MIDDLE;
    for (let j = 1; j <= MIDDLE; j++) {
      const v = Math.max(row[zero + j], row[zero - j]);
      if (v > top[j]) top[j] = v;
    }
  });
}

/** Drops every second row. @param {{steps: number[], rows: any[]}} into */
function thinned(into) {
  const even = (/** @type {any} */ _, /** @type {number} */ i) => i % 2 === 0;
  into.steps = into.steps.filter(even);
  into.rows = into.rows.filter(even);
}

/** The index of the last step that is not after `step`. @param {number[]} steps @param {number} step */
export function upto(steps, step) {
  let lo = 0,
    hi = steps.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (steps[mid] <= step) lo = mid + 1;
    else hi = mid;
  }
  return lo - 1;
}

/**
 * A value at a step, or the last one before it; NaN where there is none.
 * @param {Grid} grid @param {string} name @param {number} step
 */
export function valueAt(grid, name, step) {
  const column = grid.columns.get(name);
  if (column === undefined) return NaN;
  for (let i = upto(grid.steps, step); i >= 0; i--) {
    const v = grid.rows[i][column];
    if (v === v && v !== undefined) return v;
  }
  return NaN;
}

/**
 * The histogram of a place at a step, or the last one before it.
 * @param {Store} store @param {number} place @param {number} step
 */
export function shapeAt({ shapes }, place, step) {
  for (let i = upto(shapes.steps, step), tries = 0; i >= 0 && tries < 8; i--, tries++) {
    const row = shapes.rows[i].subarray(place * BINS, (place + 1) * BINS);
    if (row.some((v) => v > 0)) return row;
  }
  return null;
}

/**
 * The points of a column; what was not measured is left out, what is not finite is null.
 * @param {Grid} grid @param {string} name
 */
export function points(grid, name) {
  const column = grid.columns.get(name) ?? -1;
  /** @type {number[]} */
  const x = [],
    /** @type {(number | null)[]} */ y = [];
  grid.rows.forEach((row, i) => {
    const v = row[column];
    if (v !== v || v === undefined) return;
    x.push(grid.steps[i]);
    y.push(Number.isFinite(v) ? v : null);
  });
  return { x, y };
}
