// @ts-check
/** Attention: every head of every layer as a small map, one of them large, and the rollout of all. */
import { brief, h, watch } from "../kit.js";
import { attentionLarge } from "./attention_large.js";
import { insideColors, insideMix, insideNotes, insidePaint } from "./inside_paint.js";
import { explainBytes } from "./numbers.js";

/** @typedef {{data: string, rows: number, columns: number, top: number}} AttentionMap */
/** @typedef {(options: object) => Promise<any>} AttentionAsk */

/** @param {any} state @param {AttentionAsk} ask */
export function attentionPanel(state, ask) {
  const place = h("div.i-large"), said = h("div.note", { role: "status" }), grid = h("div.i-heads");
  /** @type {{canvas: HTMLCanvasElement, map: AttentionMap}[]} */
  const maps = [];
  let chosen = "", asked = 0;

  /** A small map that is a button. @param {AttentionMap} map @param {string} key @param {string} title @param {string} caption @param {() => void} click */
  function box(map, key, title, caption, click) {
    const canvas = /** @type {HTMLCanvasElement} */ (h("canvas"));
    maps.push({ canvas, map });
    return h("button.i-head", { type: "button", onclick: click, title, ariaLabel: title, "data-key": key }, canvas, h("span", {}, caption));
  }

  /** Shows one map large; in full where Python is there to be asked. @param {AttentionMap} map @param {any} about @param {object | null} options */
  async function show(map, about, options) {
    const mine = ++asked, whole = map.rows >= about.queries && map.columns >= about.keys;
    chosen = about.key;
    for (const one of /** @type {NodeListOf<HTMLElement>} */ (grid.querySelectorAll("[data-key]"))) one.ariaPressed = String(one.dataset.key === chosen);
    place.replaceChildren(attentionLarge(map, about, state.axes));
    said.textContent = "";
    if (whole || !options) return;
    const found = await ask(options);
    if (mine === asked && found.large) place.replaceChildren(attentionLarge(found.large, about, state.axes));
    else if (mine === asked) said.textContent = found.trouble || "Small, since no Python is there to be asked: run the cell again.";
  }

  const rows = state.layers.map((/** @type {any} */ layer, /** @type {number} */ at) => {
    const heads = state.maps[at].map((/** @type {AttentionMap} */ map, /** @type {number} */ head) => {
      const wide = layer.entropy[head], about = { key: `${at} ${head}`, title: `${layer.title}, ${attentionName(layer, head)}`, queries: layer.queries, keys: layer.keys, entropy: wide };
      return box(map, about.key, `${about.title}, entropy ${wide === null ? "unknown" : brief(wide)}`, wide === null ? "–" : wide.toFixed(2), () => void show(map, about, { layer: at, head }));
    });
    const more = layer.heads > heads.length && h("span.note", {}, `${layer.heads - heads.length} more`);
    return h("div.i-layer", { role: "group", ariaLabel: layer.title }, h("div.i-title", { title: layer.kind }, h("b", {}, layer.title), h("span.soft", {}, ` ${layer.queries} × ${layer.keys}${layer.kind === "softmax" ? ", looks like attention" : ""}`)), h("div.i-row", {}, ...heads, more));
  });
  const rolled = state.rollout, about = rolled && { key: "rollout", title: `rollout through ${rolled.layers.length} layers`, queries: rolled.length, keys: rolled.length, entropy: null };
  const last = rolled && h("div.i-layer", { role: "group", ariaLabel: "rollout" }, h("div.i-title", {}, h("b", {}, "Rollout"), h("span.soft", {}, ` ${attentionSpan(rolled.layers)}`)), h("div.i-row", {}, box(rolled, "rollout", about.title, "all", () => void show(rolled, about, null))));
  grid.append(...[...rows, last].filter(Boolean));
  const node = h("div.panelbox.i-attention", {}, h("div.note", {}, "Each map: queries down, the keys they look at across. Below it its entropy: 0 looks at one place, 1 evenly at all. Click a map to see it large."), h("div.i-sides", {}, grid, h("div.i-beside", {}, place, said)), h("div.i-warning", { role: "note" }, state.warning), insideNotes([...(rolled ? ["Rollout: the mean over heads, half mixed with the way around the layer, multiplied from the last layer down (Abnar & Zuidema 2020)."] : []), ...state.notes]));
  watch(grid, () => {
    const colors = insideColors(grid);
    for (const { canvas, map } of maps) {
      const bytes = explainBytes(map.data);
      insidePaint(canvas, map.rows, map.columns, (i) => insideMix(colors, -bytes[i] / 255));
    }
  });
  /** @type {HTMLElement | null} */ (grid.querySelector("button"))?.click();
  return node;
}

/** @param {any} layer @param {number} head */
function attentionName(layer, head) {
  const each = layer.heads / layer.windows;
  return layer.windows > 1 ? `window ${Math.floor(head / each) + 1}, head ${(head % each) + 1}` : `head ${head + 1}`;
}

/** @param {string[]} layers */
function attentionSpan(layers) {
  return layers.length > 1 ? `${layers[0]} to ${layers.at(-1)}` : layers[0];
}
