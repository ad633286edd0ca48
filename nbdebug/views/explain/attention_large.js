// @ts-check
/** One map of attention, large, with what stands at each place on both axes. */
import { brief, h, watch } from "../kit.js";
import { palette, sharp } from "../axes.js";
import { insideColors, insideMix, insideReading } from "./inside_paint.js";
import { explainBytes } from "./numbers.js";

const ATTENTION_LETTER = 7; // pixels of a letter, about

/**
 * @param {{data: string, rows: number, columns: number, top: number}} map
 * @param {{title: string, queries: number, keys: number, entropy: number | null}} about @param {Record<string, string[]>} axes
 */
export function attentionLarge(map, about, axes) {
  const bytes = explainBytes(map.data), canvas = /** @type {HTMLCanvasElement} */ (h("canvas")), frame = h("div.i-frame", { role: "img", ariaLabel: `${about.title}: ${about.queries} queries by ${about.keys} keys` }, canvas);
  const whole = map.rows >= about.queries && map.columns >= about.keys;
  const names = (/** @type {number} */ length, /** @type {number} */ shown) => (length === shown && axes[String(length)]) || Array.from({ length: shown }, (_, i) => String(Math.floor((i * length) / shown)));
  const down = names(about.queries, map.rows), across = names(about.keys, map.columns);
  const room = (/** @type {string[]} */ list) => Math.min(84, 8 + ATTENTION_LETTER * Math.max(...list.map((one) => one.length)));
  const left = room(down), top = room(across);
  let cell = 10, marked = [-1, -1];

  function draw() {
    const width = frame.clientWidth || 300;
    cell = Math.max(1.5, Math.min(26, (width - left - 2) / map.columns));
    const g = sharp(canvas, left + cell * map.columns + 1, top + cell * map.rows + 1), colors = insideColors(frame), { ink, soft } = palette(frame);
    for (let i = 0; i < bytes.length; i++) {
      g.fillStyle = `rgb(${insideMix(colors, -bytes[i] / 255).map(Math.round).join(" ")})`;
      g.fillRect(left + (i % map.columns) * cell, top + Math.floor(i / map.columns) * cell, cell + 0.3, cell + 0.3);
    }
    g.font = `${Math.max(9, Math.min(12, cell - 1))}px ui-monospace, Menlo, Consolas, monospace`;
    g.textBaseline = "middle";
    const every = Math.max(1, Math.ceil(11 / cell));
    down.forEach((name, row) => {
      if (row % every && row !== marked[0]) return;
      g.fillStyle = row === marked[0] ? ink : soft;
      g.textAlign = "right";
      g.fillText(attentionShort(name), left - 4, top + (row + 0.5) * cell);
    });
    across.forEach((name, column) => {
      if (column % every && column !== marked[1]) return;
      g.save();
      g.translate(left + (column + 0.5) * cell, top - 4);
      g.rotate(-Math.PI / 2);
      g.fillStyle = column === marked[1] ? ink : soft;
      g.textAlign = "left";
      g.fillText(attentionShort(name), 0, 0);
      g.restore();
    });
    g.strokeStyle = soft;
    g.strokeRect(left - 0.5, top - 0.5, cell * map.columns + 1, cell * map.rows + 1);
    if (marked[0] < 0) return;
    g.strokeStyle = ink;
    g.strokeRect(left + marked[1] * cell + 0.5, top + marked[0] * cell + 0.5, Math.max(2, cell - 1), Math.max(2, cell - 1));
  }

  const said = (/** @type {number} */ row, /** @type {number} */ column) => `from ${attentionPlace(row, down)} to ${attentionPlace(column, across)}: ${brief((bytes[row * map.columns + column] / 255) * map.top)}`;
  const where = (/** @type {number} */ x, /** @type {number} */ y) => {
    const box = canvas.getBoundingClientRect();
    return /** @type {[number, number]} */ ([Math.floor((y - box.top - top) / cell), Math.floor((x - box.left - left) / cell)]);
  };
  const note = insideReading(frame, () => [map.rows, map.columns], where, said, "Point at a place to read it, or use the arrow keys.", (row, column) => { marked = [row, column]; draw(); });
  watch(frame, draw);
  const scale = `blank 0, full color ${brief(map.top)}${whole ? "" : `; ${map.rows} × ${map.columns} places, the greatest of neighbors`}`;
  return h("div.i-block", {}, h("div.i-said", {}, h("b", {}, about.title), about.entropy === null ? "" : ` entropy ${brief(about.entropy)}`), frame, h("div.note", {}, scale), note);
}

/** @param {string} name */
function attentionShort(name) {
  return name.length > 11 ? `${name.slice(0, 10)}…` : name;
}

/** @param {number} at @param {string[]} names */
function attentionPlace(at, names) {
  return names[at] === String(at) ? `place ${at}` : `“${names[at]}” (${at})`;
}
