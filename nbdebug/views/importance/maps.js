// @ts-check
/** Importance by place, as shades. */
import { palette, sharp } from "../axes.js";
import { brief, h, watch } from "../kit.js";

/** @typedef {{title: string, rows: (number | null)[][]}} ImportanceMap */

const MAP_SIDE = 260;

/** All maps beside each other. @param {ImportanceMap[]} maps */
export function importanceMaps(maps) {
  return h("div.m-maps", {}, ...maps.map(importanceMapped));
}

/** @param {ImportanceMap} one */
function importanceMapped({ title, rows }) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })), stage = h("div.m-map", {}, canvas), values = rows.flat().filter((v) => v !== null);
  const low = Math.min(0, ...values), high = Math.max(0, ...values), size = Math.max(Math.abs(low), high) || 1, wide = rows[0].length;
  const rest = `from ${brief(Math.min(...values))} to ${brief(Math.max(...values))}`, said = h("div.note", { ariaLive: "polite" }, rest);
  const places = rows.flatMap((row, i) => row.map((v, j) => ({ i, j, v: v ?? -Infinity }))).sort((a, b) => b.v - a.v);
  canvas.ariaLabel = `${title}, ${rest}; most at row ${places[0].i}, column ${places[0].j}`;

  function draw() {
    const width = Math.min(MAP_SIDE, stage.parentElement?.clientWidth ?? MAP_SIDE), cell = width / wide, tall = Math.max(cell, Math.min(40, 60 / rows.length)), g = sharp(canvas, width, Math.round(tall * rows.length));
    const colors = palette(stage), edge = (/** @type {number} */ n, /** @type {number} */ size_) => Math.round(n * size_);
    rows.forEach((row, i) => row.forEach((v, j) => {
      g.globalAlpha = v === null ? 0 : Math.abs(v) / size;
      g.fillStyle = (v ?? 0) < 0 ? colors.lines[0] : colors.lines[1];
      g.fillRect(edge(j, cell), edge(i, tall), edge(j + 1, cell) - edge(j, cell), edge(i + 1, tall) - edge(i, tall));
    }));
    g.globalAlpha = 1;
    g.strokeStyle = colors.faint;
    g.strokeRect(0.5, 0.5, width - 1, Math.round(tall * rows.length) - 1);
  }

  canvas.onpointermove = (event) => {
    const box = canvas.getBoundingClientRect(), i = Math.floor((event.clientY - box.top) / box.height * rows.length), j = Math.floor((event.clientX - box.left) / box.width * wide);
    said.textContent = `row ${i}, column ${j}: ${brief(rows[i]?.[j] ?? null)}`;
  };
  canvas.onpointerleave = () => { said.textContent = rest; };
  watch(stage, draw);
  return h("div.m-mapped", {}, h("div.label", {}, title), stage, said);
}
