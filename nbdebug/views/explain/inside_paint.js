// @ts-check
/** What the panels that look inside paint with: colors of the theme, maps whose places are squares. */
import { arrowStep, brief, h } from "../kit.js";
import { palette, rgbOf } from "../axes.js";

/** @typedef {[number, number, number]} InsideRgb */

/** The colors of nothing, of what is above it and of what is below it. @param {HTMLElement} el */
export function insideColors(el) {
  const { paper, lines } = palette(el);
  return { none: rgbOf(paper), up: rgbOf(lines[1]), down: rgbOf(lines[0]) };
}

/**
 * The color of a value from `-top` to `top`.
 * @param {{none: InsideRgb, up: InsideRgb, down: InsideRgb}} colors @param {number} share
 * @returns {InsideRgb}
 */
export function insideMix({ none, up, down }, share) {
  const t = Math.min(1, Math.abs(share)) ** 0.8, full = share < 0 ? down : up;
  return [none[0] + t * (full[0] - none[0]), none[1] + t * (full[1] - none[1]), none[2] + t * (full[2] - none[2])];
}

/** Paints a map, a pixel a place; the style makes it as large as it is to be. @param {HTMLCanvasElement} canvas @param {number} rows @param {number} columns @param {(i: number) => InsideRgb} color */
export function insidePaint(canvas, rows, columns, color) {
  Object.assign(canvas, { width: columns, height: rows });
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), image = g.createImageData(columns, rows);
  for (let i = 0; i < rows * columns; i++) image.data.set([...color(i), 255], 4 * i);
  g.putImageData(image, 0, 0);
}

/** A bar of the colors with its ends. @param {number} low @param {number} high */
export function insideScale(low, high) {
  return h("div.i-scale", { role: "img", ariaLabel: `from ${brief(low)} to ${brief(high)}` }, h("span", {}, low < 0 ? brief(low) : "0"), h(low < 0 ? "i.i-both" : "i.i-up", {}), h("span", {}, brief(high)));
}

/**
 * Reads the places of a map under the pointer or by the arrow keys, in a line below it.
 * @param {HTMLElement} map @param {() => [number, number]} size rows and columns
 * @param {(clientX: number, clientY: number) => [number, number]} at row and column
 * @param {(row: number, column: number) => string} said @param {string} rest @param {(row: number, column: number) => void} [mark]
 */
export function insideReading(map, size, at, said, rest, mark = () => {}) {
  const note = h("div.note.i-reading", { ariaLive: "polite" }, rest);
  let now = [-1, -1];
  const show = (/** @type {number} */ row, /** @type {number} */ column) => {
    const [rows, columns] = size(), there = row >= 0 && column >= 0 && row < rows && column < columns;
    now = there ? [row, column] : [-1, -1];
    note.textContent = there ? said(row, column) : rest;
    mark(now[0], now[1]);
  };
  map.tabIndex = 0;
  map.onpointermove = (event) => show(...at(event.clientX, event.clientY));
  map.onpointerleave = map.onblur = () => show(-1, -1);
  map.onkeydown = (event) => {
    const step = arrowStep(event), [rows, columns] = size();
    if (!step) return;
    show(Math.max(0, Math.min(rows - 1, now[0] + step[0])), Math.max(0, Math.min(columns - 1, now[1] + step[1])));
  };
  return note;
}

/** A choice among many, with its label. @param {string} label @param {string[]} names @param {number} at @param {(at: number) => void} change */
export function insideSelect(label, names, at, change) {
  const select = /** @type {HTMLSelectElement} */ (h("select.find.i-select", { ariaLabel: label }, ...names.map((name, i) => h("option", { value: String(i), selected: i === at }, name))));
  select.onchange = () => change(Number(select.value));
  return h("label.i-pick", {}, h("span.label", {}, label), select);
}

/** What is said below a panel. @param {string[]} lines */
export function insideNotes(lines) {
  return h("div.i-notes", {}, ...lines.map((line) => h("div.note", {}, line)));
}
