// @ts-check
/** Feature maps: what any layer gives for the sample. */
import { brief, h, watch } from "../kit.js";
import { pick } from "../tabs.js";
import { insideColors, insideMix, insideNotes, insidePaint, insideReading, insideScale, insideSelect } from "./inside_paint.js";
import { featuresUnits } from "./features_units.js";
import { explainAnswered, explainBytes } from "./numbers.js";

/** @typedef {(options: object) => Promise<any>} FeaturesAsk */

/** @param {any} first @param {FeaturesAsk} ask */
export function featuresPanel(first, ask) {
  const node = h("div.panelbox.i-features"), said = h("div.note", { role: "status" });
  let state = first, own = false, asked = 0;

  async function go(/** @type {object} */ change) {
    const mine = ++asked;
    said.textContent = "Python runs the sample…";
    const found = await ask({ at: state.at, side: state.side, order: state.order, ...change });
    if (mine !== asked) return;
    state = explainAnswered(said, found, state);
    draw();
  }

  function draw() {
    const one = state.layers[state.at], focus = /** @type {HTMLElement | null} */ (node.contains(document.activeElement) ? document.activeElement : null)?.ariaLabel;
    const side = h("div.tabs", { role: "group", ariaLabel: "side of the layer" }), order = h("div.tabs", { role: "group", ariaLabel: "which channels" }), scale = h("div.tabs", { role: "group", ariaLabel: "scale" });
    pick(side, { output: "Output", input: "Input" }, state.side, (name) => void go({ side: name }));
    pick(order, { strongest: "Strongest", first: "First" }, state.order, (name) => void go({ order: name }));
    pick(scale, { one: "One scale", own: "Own scales" }, own ? "own" : "one", (name) => { own = name === "own"; draw(); });
    const names = state.layers.map((/** @type {any} */ layer) => `${layer.title} · ${layer.kind} · ${layer.shape}`);
    const shown = state.kind === "maps" ? featuresMaps(state, own) : state.kind === "sequence" ? featuresSequence(state) : featuresUnits(state);
    const held = state.cells ?? state.units, some = held.length < state.channels;
    node.replaceChildren(
      h("div.i-bar", {}, insideSelect("layer", names, state.at, (at) => void go({ at, side: "output" })), side, some && order, state.kind === "maps" && scale),
      h("div.i-said", {}, h("b", {}, `${one.title}`), ` ${one.kind}, ${state.side} ${state.shape}. ${featuresSome(state, held.length)}`), shown, said, insideNotes([...state.said, ...state.notes]),
    );
    if (focus) /** @type {HTMLElement | null} */ (node.querySelector(`[aria-label="${CSS.escape(focus)}"]`))?.focus();
  }

  draw();
  return node;
}

/** Which of the channels are there. @param {any} state @param {number} held */
function featuresSome(state, held) {
  const part = held < state.channels ? `${held} of ${state.channels} channels, ${state.order === "first" ? "the first" : "those with the largest numbers"}. ` : "";
  return part + (state.pooled ? `Averaged from ${state.pooled}. ` : "") + (state.slice > 2 ? "The middle slice of a volume." : "");
}

/** A map for each channel. @param {any} state @param {boolean} own */
function featuresMaps(state, own) {
  const bytes = explainBytes(state.data), { rows, columns, cells } = state, size = rows * columns;
  const low = Math.min(0, ...cells.map((/** @type {any} */ one) => one[2])), high = Math.max(0, ...cells.map((/** @type {any} */ one) => one[3])), top = Math.max(-low, high) || 1;
  const canvases = cells.map(() => /** @type {HTMLCanvasElement} */ (h("canvas")));
  const value = (/** @type {number} */ at, /** @type {number} */ i) => cells[at][2] + (bytes[at * size + i] / 255) * (cells[at][3] - cells[at][2]);
  const boxes = cells.map((/** @type {any} */ [channel, mark, least, most], /** @type {number} */ at) => h("figure.i-map", { title: `channel ${channel}: ${brief(least)} to ${brief(most)}${mark && `, ${mark}`}` }, canvases[at], h("figcaption", {}, String(channel), mark && h("span.i-mark", {}, ` ${mark}`))));
  const grid = h("div.i-maps", { role: "img", ariaLabel: `${cells.length} channels as maps of ${columns} by ${rows}`, style: `--nb-side: ${cells.length > 24 ? Math.max(48, Math.min(72, columns * 6)) : Math.max(56, Math.min(112, columns * 9))}px` }, ...boxes);
  const where = (/** @type {number} */ x, /** @type {number} */ y) => {
    const at = canvases.findIndex((/** @type {HTMLCanvasElement} */ one) => featuresHit(one, x, y));
    if (at < 0) return /** @type {[number, number]} */ ([-1, -1]);
    const box = canvases[at].getBoundingClientRect();
    return /** @type {[number, number]} */ ([at, Math.min(rows - 1, Math.floor(((y - box.top) / box.height) * rows)) * columns + Math.min(columns - 1, Math.floor(((x - box.left) / box.width) * columns))]);
  };
  const note = insideReading(grid, () => [cells.length, size], where, (at, i) => `channel ${cells[at][0]}, row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}: ${brief(value(at, i))}`, "Point at a map to read it, or use the arrow keys.");
  watch(grid, () => {
    const colors = insideColors(grid);
    canvases.forEach((/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ at) => {
      const most = own ? Math.max(Math.abs(cells[at][2]), Math.abs(cells[at][3])) || 1 : top;
      insidePaint(canvas, rows, columns, (i) => insideMix(colors, value(at, i) / most));
    });
  });
  return h("div.i-block", {}, grid, own ? h("div.note", {}, "Each map has its own scale: strong colors may be small numbers.") : insideScale(low < 0 ? -top : 0, top), note);
}

/** @param {HTMLElement} one @param {number} x @param {number} y */
function featuresHit(one, x, y) {
  const box = one.getBoundingClientRect();
  return x >= box.left && x < box.right && y >= box.top && y < box.bottom;
}

/** Units down, positions across. @param {any} state */
function featuresSequence(state) {
  const bytes = explainBytes(state.data), { rows, columns, cells, low, high, tokens } = state, top = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const value = (/** @type {number} */ i) => low + (bytes[i] / 255) * (high - low), canvas = /** @type {HTMLCanvasElement} */ (h("canvas"));
  const map = h("div.i-sequence", { role: "img", ariaLabel: `${rows} units at ${columns} positions`, style: `--nb-high: ${Math.max(90, Math.min(320, rows * 10))}px` }, canvas);
  const labels = tokens.length && columns <= 48 ? h("div.i-tokens", { ariaHidden: "true", style: `grid-template-columns: repeat(${columns}, minmax(0, 1fr))` }, ...tokens.map((/** @type {string} */ token) => h("span", { title: token }, token))) : null;
  const name = (/** @type {number} */ column) => (tokens[column] ? `position ${column} (${tokens[column]})` : `position ${column}`);
  const where = (/** @type {number} */ x, /** @type {number} */ y) => {
    const box = canvas.getBoundingClientRect();
    return /** @type {[number, number]} */ ([Math.floor(((y - box.top) / box.height) * rows), Math.floor(((x - box.left) / box.width) * columns)]);
  };
  const note = insideReading(map, () => [rows, columns], where, (row, column) => `unit ${cells[row][0]}${cells[row][1] && ` (${cells[row][1]})`}, ${name(column)}: ${brief(value(row * columns + column))}`, "Units down, positions across. Point at it to read it, or use the arrow keys.");
  watch(map, () => {
    const colors = insideColors(map);
    insidePaint(canvas, rows, columns, (i) => insideMix(colors, value(i) / top));
  });
  return h("div.i-block", {}, map, labels, insideScale(low < 0 ? -top : 0, top), note);
}
