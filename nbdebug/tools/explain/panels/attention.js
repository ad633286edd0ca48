// @ts-check
/** Attention panel: all heads of all layers, one enlarged, and the attention rollout. */
import { palette, prepareCanvas } from "../../../views/axes.js";
import { formatRounded, h, redrawOnResize } from "../../../views/kit.js";
import { decodeBytes } from "../display.js";
import { mapColors, mapReading, mixColor, noteList, paintPixels } from "./kit.js";

/** @typedef {{data: string, rows: number, columns: number, top: number}} AttentionMap */
/** @typedef {(options: object) => Promise<any>} AttentionAsk */

/** @param {any} state @param {AttentionAsk} ask */
export function attentionPanel(state, ask) {
  const largeBox = h("div.i-large"), statusText = h("div.note", { role: "status" }), grid = h("div.i-heads");
  /** @type {{canvas: HTMLCanvasElement, map: AttentionMap}[]} */
  const maps = [];
  let chosen = "", requestCount = 0;

  /** A small map that is a button. @param {AttentionMap} map @param {string} key @param {string} title @param {string} caption @param {() => void} click */
  function box(map, key, title, caption, click) {
    const canvas = /** @type {HTMLCanvasElement} */ (h("canvas"));
    maps.push({ canvas, map });
    return h("button.i-head", { type: "button", onclick: click, title, ariaLabel: title, "data-key": key }, canvas, h("span", {}, caption));
  }

  /** Enlarge a map; load it in full resolution if Python is available. @param {AttentionMap} map @param {any} about @param {object | null} options */
  async function show(map, about, options) {
    const request = ++requestCount, isComplete = map.rows >= about.queries && map.columns >= about.keys;
    chosen = about.key;
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (grid.querySelectorAll("[data-key]"))) button.ariaPressed = String(button.dataset.key === chosen);
    largeBox.replaceChildren(enlargedMap(map, about, state.axes));
    statusText.textContent = "";
    if (isComplete || !options) return;
    const response = await ask(options);
    if (request === requestCount && response.large) largeBox.replaceChildren(enlargedMap(response.large, about, state.axes));
    else if (request === requestCount) statusText.textContent = response.trouble || "Reduced resolution, since Python is not available: run the cell again.";
  }

  const rows = state.layers.map((/** @type {any} */ layer, /** @type {number} */ at) => {
    const heads = state.maps[at].map((/** @type {AttentionMap} */ map, /** @type {number} */ head) => {
      const wide = layer.entropy[head], about = { key: `${at} ${head}`, title: `${layer.title}, ${headName(layer, head)}`, queries: layer.queries, keys: layer.keys, entropy: wide };
      return box(map, about.key, `${about.title}, entropy ${wide === null ? "unknown" : formatRounded(wide)}`, wide === null ? "–" : wide.toFixed(2), () => void show(map, about, { layer: at, head }));
    });
    const more = layer.heads > heads.length && h("span.note", {}, `${layer.heads - heads.length} more`);
    return h("div.i-layer", { role: "group", ariaLabel: layer.title }, h("div.i-title", { title: layer.kind }, h("b", {}, layer.title), h("span.soft", {}, ` ${layer.queries} × ${layer.keys}${layer.kind === "softmax" ? ", looks like attention" : ""}`)), h("div.i-row", {}, ...heads, more));
  });
  const rolled = state.rollout, about = rolled && { key: "rollout", title: `rollout through ${rolled.layers.length} layers`, queries: rolled.length, keys: rolled.length, entropy: null };
  const last = rolled && h("div.i-layer", { role: "group", ariaLabel: "rollout" }, h("div.i-title", {}, h("b", {}, "Rollout"), h("span.soft", {}, ` ${layerSpan(rolled.layers)}`)), h("div.i-row", {}, box(rolled, "rollout", about.title, "all", () => void show(rolled, about, null))));
  grid.append(...[...rows, last].filter(Boolean));
  const node = h("div.panelbox.i-attention", {}, h("div.note", {}, "Each map shows queries as rows and keys as columns. The number below is its entropy: 0 if each query attends to one key, 1 if it attends to all keys equally. Click a map to enlarge it."), h("div.i-sides", {}, grid, h("div.i-beside", {}, largeBox, statusText)), h("div.i-warning", { role: "note" }, state.warning), noteList([...(rolled ? ["Rollout: the mean over heads, averaged with the residual connection and multiplied over all layers (Abnar & Zuidema 2020)."] : []), ...state.notes]));
  redrawOnResize(grid, () => {
    const colors = mapColors(grid);
    for (const { canvas, map } of maps) {
      const bytes = decodeBytes(map.data);
      paintPixels(canvas, map.rows, map.columns, (i) => mixColor(colors, -bytes[i] / 255));
    }
  });
  /** @type {HTMLElement | null} */ (grid.querySelector("button"))?.click();
  return node;
}

/** @param {any} layer @param {number} head */
function headName(layer, head) {
  const each = layer.heads / layer.windows;
  return layer.windows > 1 ? `window ${Math.floor(head / each) + 1}, head ${(head % each) + 1}` : `head ${head + 1}`;
}

/** @param {string[]} layers */
function layerSpan(layers) {
  return layers.length > 1 ? `${layers[0]} to ${layers.at(-1)}` : layers[0];
}

const CHARACTER_WIDTH = 7; // approximate width of a character in pixels

/**
 * @param {{data: string, rows: number, columns: number, top: number}} map
 * @param {{title: string, queries: number, keys: number, entropy: number | null}} about @param {Record<string, string[]>} axes
 */
export function enlargedMap(map, about, axes) {
  const bytes = decodeBytes(map.data), canvas = /** @type {HTMLCanvasElement} */ (h("canvas")), frame = h("div.i-frame", { role: "img", ariaLabel: `${about.title}: ${about.queries} queries by ${about.keys} keys` }, canvas);
  const isComplete = map.rows >= about.queries && map.columns >= about.keys;
  const names = (/** @type {number} */ length, /** @type {number} */ displayed) => (length === displayed && axes[String(length)]) || Array.from({ length: displayed }, (_, i) => String(Math.floor((i * length) / displayed)));
  const down = names(about.queries, map.rows), across = names(about.keys, map.columns);
  const room = (/** @type {string[]} */ list) => Math.min(84, 8 + CHARACTER_WIDTH * Math.max(...list.map((item) => item.length)));
  const left = room(down), top = room(across);
  let cell = 10, marked = [-1, -1];

  function draw() {
    const width = frame.clientWidth || 300;
    cell = Math.max(1.5, Math.min(26, (width - left - 2) / map.columns));
    const g = prepareCanvas(canvas, left + cell * map.columns + 1, top + cell * map.rows + 1), colors = mapColors(frame), { ink, soft } = palette(frame);
    for (let i = 0; i < bytes.length; i++) {
      g.fillStyle = `rgb(${mixColor(colors, -bytes[i] / 255).map(Math.round).join(" ")})`;
      g.fillRect(left + (i % map.columns) * cell, top + Math.floor(i / map.columns) * cell, cell + 0.3, cell + 0.3);
    }
    g.font = `${Math.max(9, Math.min(12, cell - 1))}px ui-monospace, Menlo, Consolas, monospace`;
    g.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(11 / cell));
    down.forEach((name, row) => {
      if (row % every && row !== marked[0]) return;
      g.fillStyle = row === marked[0] ? ink : soft;
      g.textAlign = "right";
      g.fillText(shortName(name), left - 4, top + (row + 0.5) * cell);
    });
    across.forEach((name, column) => {
      if (column % every && column !== marked[1]) return;
      g.save();
      g.translate(left + (column + 0.5) * cell, top - 4);
      g.rotate(-Math.PI / 2);
      g.fillStyle = column === marked[1] ? ink : soft;
      g.textAlign = "left";
      g.fillText(shortName(name), 0, 0);
      g.restore();
    });
    g.strokeStyle = soft;
    g.strokeRect(left - 0.5, top - 0.5, cell * map.columns + 1, cell * map.rows + 1);
    if (marked[0] < 0) return;
    g.strokeStyle = ink;
    g.strokeRect(left + marked[1] * cell + 0.5, top + marked[0] * cell + 0.5, Math.max(2, cell - 1), Math.max(2, cell - 1));
  }

  const describeCell = (/** @type {number} */ row, /** @type {number} */ column) => `from ${positionName(row, down)} to ${positionName(column, across)}: ${formatRounded((bytes[row * map.columns + column] / 255) * map.top)}`;
  const where = (/** @type {number} */ x, /** @type {number} */ y) => {
    const box = canvas.getBoundingClientRect();
    return /** @type {[number, number]} */ ([Math.floor((y - box.top - top) / cell), Math.floor((x - box.left - left) / cell)]);
  };
  const note = mapReading(frame, () => [map.rows, map.columns], where, describeCell, "Point at a cell to read it, or use the arrow keys.", (row, column) => { marked = [row, column]; draw(); });
  redrawOnResize(frame, draw);
  const scale = `no color: 0, full color: ${formatRounded(map.top)}${isComplete ? "" : `; ${map.rows} × ${map.columns} cells, each the maximum of neighboring positions`}`;
  return h("div.i-block", {}, h("div.i-said", {}, h("b", {}, about.title), about.entropy === null ? "" : ` entropy ${formatRounded(about.entropy)}`), frame, h("div.note", {}, scale), note);
}

/** @param {string} name */
function shortName(name) {
  return name.length > 11 ? `${name.slice(0, 10)}…` : name;
}

/** @param {number} at @param {string[]} names */
function positionName(at, names) {
  return names[at] === String(at) ? `position ${at}` : `“${names[at]}” (${at})`;
}
