// @ts-check
/** Features panel: activations of a layer for the sample. */
import { formatRounded, h, redrawOnResize, renderTabs } from "../../../views/kit.js";
import { answerOrPrevious, decodeBytes } from "../display.js";
import { colorScale, labeledSelect, mapColors, mapReading, mixColor, noteList, paintPixels } from "./kit.js";

/** @typedef {(options: object) => Promise<any>} FeaturesAsk */

/** @param {any} first @param {FeaturesAsk} ask */
export function featuresPanel(first, ask) {
  const node = h("div.panelbox.i-features"), statusText = h("div.note", { role: "status" });
  let state = first, ownScale = false, requestCount = 0;

  async function load(/** @type {object} */ change) {
    const request = ++requestCount;
    statusText.textContent = "Python is running the sample…";
    const response = await ask({ at: state.at, side: state.side, order: state.order, ...change });
    if (request !== requestCount) return;
    state = answerOrPrevious(statusText, response, state);
    draw();
  }

  function draw() {
    const layer = state.layers[state.at], focus = /** @type {HTMLElement | null} */ (node.contains(document.activeElement) ? document.activeElement : null)?.ariaLabel;
    const side = h("div.tabs", { role: "group", ariaLabel: "side of the layer" }), order = h("div.tabs", { role: "group", ariaLabel: "which channels" }), scale = h("div.tabs", { role: "group", ariaLabel: "scale" });
    renderTabs(side, { output: "Output", input: "Input" }, state.side, (name) => void load({ side: name }));
    renderTabs(order, { strongest: "Strongest", first: "First" }, state.order, (name) => void load({ order: name }));
    renderTabs(scale, { shared: "Shared scale", own: "Own scales" }, ownScale ? "own" : "shared", (name) => { ownScale = name === "own"; draw(); });
    const names = state.layers.map((/** @type {any} */ layer) => `${layer.title} · ${layer.kind} · ${layer.shape}`);
    const picture = state.kind === "maps" ? channelMaps(state, ownScale) : state.kind === "sequence" ? sequenceMap(state) : unitBars(state);
    const channels = state.cells ?? state.units, isPartial = channels.length < state.channels;
    node.replaceChildren(
      h("div.i-bar", {}, labeledSelect("layer", names, state.at, (at) => void load({ at, side: "output" })), side, isPartial && order, state.kind === "maps" && scale),
      h("div.i-said", {}, h("b", {}, `${layer.title}`), ` ${layer.kind}, ${state.side} ${state.shape}. ${selectionNote(state, channels.length)}`), picture, statusText, noteList([...state.said, ...state.notes]),
    );
    if (focus) /** @type {HTMLElement | null} */ (node.querySelector(`[aria-label="${CSS.escape(focus)}"]`))?.focus();
  }

  draw();
  return node;
}

/** Which channels are displayed. @param {any} state @param {number} count */
function selectionNote(state, count) {
  const part = count < state.channels ? `${count} of ${state.channels} channels, ${state.order === "first" ? "the first" : "those with the largest activations"}. ` : "";
  return part + (state.pooled ? `Averaged from ${state.pooled}. ` : "") + (state.slice > 2 ? "Middle slice of the volume." : "");
}

/** One map per channel. @param {any} state @param {boolean} ownScale */
function channelMaps(state, ownScale) {
  const bytes = decodeBytes(state.data), { rows, columns, cells } = state, size = rows * columns;
  const low = Math.min(0, ...cells.map((/** @type {any} */ cell) => cell[2])), high = Math.max(0, ...cells.map((/** @type {any} */ cell) => cell[3])), top = Math.max(-low, high) || 1;
  const canvases = cells.map(() => /** @type {HTMLCanvasElement} */ (h("canvas")));
  const value = (/** @type {number} */ at, /** @type {number} */ i) => cells[at][2] + (bytes[at * size + i] / 255) * (cells[at][3] - cells[at][2]);
  const boxes = cells.map((/** @type {any} */ [channel, mark, minimum, maximum], /** @type {number} */ at) => h("figure.i-map", { title: `channel ${channel}: ${formatRounded(minimum)} to ${formatRounded(maximum)}${mark && `, ${mark}`}` }, canvases[at], h("figcaption", {}, String(channel), mark && h("span.i-mark", {}, ` ${mark}`))));
  const grid = h("div.i-maps", { role: "img", ariaLabel: `${cells.length} channels as maps of ${columns} by ${rows}`, style: `--nb-side: ${cells.length > 24 ? Math.max(48, Math.min(72, columns * 6)) : Math.max(56, Math.min(112, columns * 9))}px` }, ...boxes);
  const where = (/** @type {number} */ x, /** @type {number} */ y) => {
    const at = canvases.findIndex((/** @type {HTMLCanvasElement} */ canvase) => contains(canvase, x, y));
    if (at < 0) return /** @type {[number, number]} */ ([-1, -1]);
    const box = canvases[at].getBoundingClientRect();
    return /** @type {[number, number]} */ ([at, Math.min(rows - 1, Math.floor(((y - box.top) / box.height) * rows)) * columns + Math.min(columns - 1, Math.floor(((x - box.left) / box.width) * columns))]);
  };
  const note = mapReading(grid, () => [cells.length, size], where, (at, i) => `channel ${cells[at][0]}, row ${Math.floor(i / columns) + 1}, column ${(i % columns) + 1}: ${formatRounded(value(at, i))}`, "Point at a map to read it, or use the arrow keys.");
  redrawOnResize(grid, () => {
    const colors = mapColors(grid);
    canvases.forEach((/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ at) => {
      const limit = ownScale ? Math.max(Math.abs(cells[at][2]), Math.abs(cells[at][3])) || 1 : top;
      paintPixels(canvas, rows, columns, (i) => mixColor(colors, value(at, i) / limit));
    });
  });
  return h("div.i-block", {}, grid, ownScale ? h("div.note", {}, "Each map has its own scale: strong colors may be small values.") : colorScale(low < 0 ? -top : 0, top), note);
}

/** @param {HTMLElement} element @param {number} x @param {number} y */
function contains(element, x, y) {
  const box = element.getBoundingClientRect();
  return x >= box.left && x < box.right && y >= box.top && y < box.bottom;
}

/** Units as rows, positions as columns. @param {any} state */
function sequenceMap(state) {
  const bytes = decodeBytes(state.data), { rows, columns, cells, low, high, tokens } = state, top = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const value = (/** @type {number} */ i) => low + (bytes[i] / 255) * (high - low), canvas = /** @type {HTMLCanvasElement} */ (h("canvas"));
  const map = h("div.i-sequence", { role: "img", ariaLabel: `${rows} units at ${columns} positions`, style: `--nb-high: ${Math.max(90, Math.min(320, rows * 10))}px` }, canvas);
  const labels = tokens.length && columns <= 48 ? h("div.i-tokens", { ariaHidden: "true", style: `grid-template-columns: repeat(${columns}, minmax(0, 1fr))` }, ...tokens.map((/** @type {string} */ token) => h("span", { title: token }, token))) : null;
  const name = (/** @type {number} */ column) => (tokens[column] ? `position ${column} (${tokens[column]})` : `position ${column}`);
  const where = (/** @type {number} */ x, /** @type {number} */ y) => {
    const box = canvas.getBoundingClientRect();
    return /** @type {[number, number]} */ ([Math.floor(((y - box.top) / box.height) * rows), Math.floor(((x - box.left) / box.width) * columns)]);
  };
  const note = mapReading(map, () => [rows, columns], where, (row, column) => `unit ${cells[row][0]}${cells[row][1] && ` (${cells[row][1]})`}, ${name(column)}: ${formatRounded(value(row * columns + column))}`, "Units down, positions across. Point at it to read it, or use the arrow keys.");
  redrawOnResize(map, () => {
    const colors = mapColors(map);
    paintPixels(canvas, rows, columns, (i) => mixColor(colors, value(i) / top));
  });
  return h("div.i-block", {}, map, labels, colorScale(low < 0 ? -top : 0, top), note);
}

/** @param {any} state */
export function unitBars(state) {
  const values = state.units.flatMap((/** @type {any[]} */ unit) => [unit[3], unit[4], unit[6]]).filter((/** @type {any} */ v) => v !== null);
  const low = Math.min(0, ...values), high = Math.max(0, ...values), at = (/** @type {number} */ v) => (100 * (v - low)) / (high - low || 1);
  const beside = state.beside ? `│ mean of ${state.beside} other samples, shaded one standard deviation to each side` : "";
  const of = state.members ? `◆ mean of the ${state.members} samples of class ${state.class}` : "";
  return h("div.i-block", {}, h("div.i-units", { role: "list", ariaLabel: "units" }, ...state.units.map((/** @type {any[]} */ unit) => unitRow(unit, at))),
    h("div.note", {}, [`▬ this sample, from ${formatRounded(low)} to ${formatRounded(high)}`, beside, of].filter(Boolean).join("; ")));
}

/** @param {any[]} unit @param {(v: number) => number} at */
function unitRow([, name, mark, value, mean, spread, of], at) {
  const [from, to] = [Math.min(0, value), Math.max(0, value)], description = [`${name}: ${formatRounded(value)}`, mark, mean !== null && `others ${formatRounded(mean)} ± ${formatRounded(spread)}`, of !== null && `its class ${formatRounded(of)}`].filter(Boolean).join(", ");
  const span = (/** @type {string} */ kind, /** @type {number} */ low, /** @type {number} */ high) => h(`i.${kind}`, { style: `left: ${at(low)}%; width: ${Math.max(0, at(high) - at(low))}%` });
  const left = Math.max(0, at(mean - spread)), right = Math.min(100, at(mean + spread));
  return h("div.i-unit", { role: "listitem", title: description, ariaLabel: description }, h("span.i-name", {}, name), h("span.i-track", {},
    mean !== null && spread !== null && h("i.i-spread", { style: `left: ${left}%; width: ${right - left}%` }), span(value < 0 ? "i-less" : "i-more", from, to), h("i.i-zero", { style: `left: ${at(0)}%` }),
    mean !== null && h("i.i-mean", { style: `left: ${at(mean)}%` }), of !== null && h("i.i-of", { style: `left: ${at(of)}%` })), h("span.i-value", {}, mark || formatRounded(value)));
}
