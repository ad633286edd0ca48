// @ts-check
/** The record of a run in the browser, and the state of the view. */

/** @typedef {{columns: Map<string, number>, steps: number[], rows: Float32Array[], have: number}} Grid */
/** @typedef {{steps: number[], rows: Uint8Array[], have: number, tops: Record<string, Uint8Array>}} Shapes */
/** @typedef {{code: string, name: string, severity: string, message: string, step: number | null, place: string | null}} FindingEntry */
/** @typedef {{model: string, drawn: string[], layers: any[][], findings: FindingEntry[], events: any[][]}} Words */
/** @typedef {{signals: string[], places: string[], signal: number[], place: number[]}} NameGrid */
/** @typedef {{name: string, rows: number, width?: number, first?: number, columns?: string[], grid?: NameGrid, steps?: number[], sizes?: number[]}} Part */
/** @typedef {{run: Grid, evaluations: Grid, layers: Grid, shapes: Shapes, words: Words, lost: number}} Store */

export const BINS = 177,
  MIDDLE = 88;
/** @type {Record<string, number>} */
const MAX_ROWS = { run: 20000, evaluations: 20000, layers: 1024, shapes: 256 };

/** @returns {Store} */
export function emptyStore() {
  const grid = () => ({ columns: new Map(), steps: [], rows: [], have: 0 });
  const words = { model: "", drawn: [], layers: [], findings: [], events: [] };
  const shapes = { steps: [], rows: [], have: 0, tops: {} };
  return { run: grid(), evaluations: grid(), layers: grid(), shapes, words, lost: 0 };
}

/** Unpack the whole state. @param {any} state @returns {Promise<Store>} */
export async function unpack(state) {
  const store = emptyStore(),
    text = atob(state.packed),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const wire = await inflate(bytes),
    size = new DataView(wire.buffer).getUint32(0, true);
  const { parts, words } = JSON.parse(new TextDecoder().decode(wire.subarray(4, 4 + size)));
  Object.assign(store.words, words, { drawn: expandNames(words.drawn) });
  await addParts(store, parts, wire.subarray(4 + size));
  for (const name in state.held) tableOf(store, name).have = state.held[name];
  return store;
}

/** @param {Uint8Array} bytes */
async function inflate(bytes) {
  const blob = new Blob([/** @type {Uint8Array<ArrayBuffer>} */ (bytes)]);
  const stream = blob.stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {Store} store @param {string} name @returns {any} */
function tableOf(store, name) {
  return Reflect.get(store, name);
}

/**
 * Add rows; known rows are skipped, and missing rows are counted.
 * @param {Store} store @param {Part[]} parts @param {Uint8Array} bytes
 */
export async function addParts(store, parts, bytes) {
  let at = 0;
  for (const part of parts) {
    const into = tableOf(store, part.name);
    const names = part.grid ? expandNames(part.grid) : part.columns;
    if (names) into.columns = new Map(names.map((name, i) => [name, i]));
    const size =
      part.name === "shapes" ? await addHistograms(store, part, bytes.subarray(at)) : addNumbers(into, part, bytes.slice(at));
    const first = part.first ?? 0,
      missing = Math.max(0, first - into.have);
    store.lost += missing;
    into.have = Math.max(into.have, first + part.rows);
    at += size;
    if (into.rows.length > MAX_ROWS[part.name]) dropEverySecond(into);
  }
}

/** The names of columns or histograms from indices into signals and places. @param {NameGrid} grid @returns {string[]} */
function expandNames({ signals, places, signal, place }) {
  let at = 0;
  return signal.map((index, i) => [signals[index], places[(at += place[i])]].filter(Boolean).join("|"));
}

/** @param {Grid} into @param {Part} part @param {Uint8Array} bytes */
function addNumbers(into, { rows, width = 0, first = 0 }, bytes) {
  const count = rows * width,
    start = 8 * rows;
  const out = new Uint8Array(4 * count),
    flat = new Float32Array(out.buffer),
    steps = new Float64Array(bytes.slice(0, start).buffer);
  let at = start;
  for (let k = 0; k < 4; k++)
    for (let column = 0; column < width; column++) for (let row = 0; row < rows; row++) out[4 * (row * width + column) + k] = bytes[at++];
  for (let i = Math.max(0, into.have - first); i < rows; i++) {
    into.steps.push(steps[i]);
    into.rows.push(flat.subarray(i * width, (i + 1) * width));
  }
  return start + 4 * count;
}

/**
 * Add histograms, which are packed per row or all together.
 * @param {Store} store @param {Part} part @param {Uint8Array} bytes
 */
async function addHistograms({ shapes, words }, { rows, steps = [], sizes, first = 0 }, bytes) {
  const width = BINS * words.drawn.length,
    skip = Math.max(0, shapes.have - first);
  const coarse = sizes ? [] : unpackCoarse(bytes, rows, width);
  let at = 0;
  for (let i = 0; i < rows; i++) {
    const row = sizes ? await inflate(bytes.subarray(at, (at += sizes[i]))) : coarse[i];
    if (i < skip) continue;
    shapes.steps.push(steps[i]);
    shapes.rows.push(row);
    if (i % Math.ceil(rows / 24) === 0 || i === rows - 1) raiseTops(shapes.tops, words.drawn, row);
  }
  return sizes ? at : rows * width;
}

/**
 * Transpose coarse histograms, whose steps are the last axis, and convert their square-root levels.
 * @param {Uint8Array} bytes @param {number} rows @param {number} width
 */
function unpackCoarse(bytes, rows, width) {
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
 * Update the highest bar per magnitude of each signal family; all its histograms share one axis.
 * @param {Shapes["tops"]} tops @param {string[]} names @param {Uint8Array} row
 */
function raiseTops(tops, names, row) {
  names.forEach((name, i) => {
    const top = (tops[name.slice(0, name.indexOf("|"))] ??= new Uint8Array(MIDDLE + 1)),
      zero = i * BINS + MIDDLE;
    for (let j = 1; j <= MIDDLE; j++) {
      const v = Math.max(row[zero + j], row[zero - j]);
      if (v > top[j]) top[j] = v;
    }
  });
}

/** Drop every second row. @param {{steps: number[], rows: any[]}} into */
function dropEverySecond(into) {
  const even = (/** @type {any} */ _, /** @type {number} */ i) => i % 2 === 0;
  into.steps = into.steps.filter(even);
  into.rows = into.rows.filter(even);
}

/** The index of the last step that is not after `step`. @param {number[]} steps @param {number} step */
export function lastIndexUpTo(steps, step) {
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
 * The value at a step, or the last one before it; NaN if there is none.
 * @param {Grid} grid @param {string} name @param {number} step
 */
export function valueAt(grid, name, step) {
  const column = grid.columns.get(name);
  if (column === undefined) return NaN;
  for (let i = lastIndexUpTo(grid.steps, step); i >= 0; i--) {
    const v = grid.rows[i][column];
    if (v === v && v !== undefined) return v;
  }
  return NaN;
}

/**
 * The histogram of a signal at a step, or the last one before it.
 * @param {Store} store @param {number} signalIndex @param {number} step
 */
export function histogramAt({ shapes }, signalIndex, step) {
  for (let i = lastIndexUpTo(shapes.steps, step), tries = 0; i >= 0 && tries < 8; i--, tries++) {
    const row = shapes.rows[i].subarray(signalIndex * BINS, (signalIndex + 1) * BINS);
    if (row.some((v) => v > 0)) return row;
  }
  return null;
}

/**
 * The points of a column; missing values are left out, values that are not finite are null.
 * @param {Grid} grid @param {string} name
 */
export function columnPoints(grid, name) {
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

/**
 * The view state: filter, tree mode, folded modules, opened layer, selected step, scroll position, curve group,
 * signal, plot type and focused element.
 * @typedef {{find: string, tree: boolean, folded: Set<string>, opened: string | null, selectedStep: number | null, top: number, group: string, signal: string, mode: string, focus: string}} ViewState
 */

/**
 * The view state of a run. All views of the run on a page share it, so that the static view continues where the live
 * view was left.
 * @param {string} run @returns {ViewState}
 */
export function layersViewState(run) {
  const page = /** @type {{nbdebugViewStates?: Map<string, ViewState>}} */ (globalThis),
    all = (page.nbdebugViewStates ??= new Map());
  const viewState = all.get(run) ?? {
    find: "",
    tree: false,
    folded: new Set(),
    opened: null,
    selectedStep: null,
    top: 0,
    group: "Loss",
    signal: "",
    mode: "strip",
    focus: "",
  };
  if (run) all.set(run, viewState);
  return viewState;
}

/**
 * Remember which part has the focus; if that part is removed from the page, it stays remembered.
 * @param {HTMLElement} el @param {ViewState} viewState @param {Record<string, HTMLElement>} parts
 */
export function rememberFocus(el, viewState, parts) {
  const note = () => {
    if (el.isConnected) viewState.focus = Object.keys(parts).find((part) => parts[part] === document.activeElement) ?? "";
  };
  el.addEventListener("focusin", note);
  el.addEventListener("focusout", () => setTimeout(note));
}

/**
 * Restore the focus, unless something else has it.
 * @param {ViewState} viewState @param {Record<string, HTMLElement>} parts
 */
export function restoreFocus(viewState, parts) {
  if (document.activeElement === document.body) parts[viewState.focus]?.focus({ preventScroll: true });
}
