// @ts-check
/** The picture of one column against another: shades for many samples, dots for few, a trend with its band. */
import { palette, scale, sharp } from "../axes.js";
import { axisBelow, axisBeside } from "../axis_lines.js";

/** @typedef {[number, number]} ScatterEnds */
/** @typedef {{u: ScatterEnds, v: ScatterEnds}} ScatterBox parts of the axes, from 0 to 1 */
/** @typedef {{x: number[], mean: number[], low: number[], high: number[]}} ScatterTrend */
/** @typedef {{ends: [ScatterEnds, ScatterEnds], boxes: ScatterEnds, cells: [number, number, number][], points: [number, number, number][], trend: ScatterTrend, rows: number, beyond: number}} ScatterPlot */
/** @typedef {ReturnType<typeof scatterFrame>} ScatterFrame */
/** @typedef {CanvasRenderingContext2D} ScatterContext */

/** Where things are. @param {number} width @param {ScatterPlot} plot */
export function scatterFrame(width, plot) {
  const height = Math.round(Math.max(220, Math.min(360, width * 0.62))), left = 46, right = width - 12, top = 18, bottom = height - 34;
  return { width, height, left, right, top, bottom, x: scale(plot.ends[0], [left, right]), y: scale(plot.ends[1], [bottom, top]) };
}

/** Where a sample is drawn; one beyond an axis at its edge. @param {ScatterFrame} f @param {number} a @param {number} b @returns {ScatterEnds} */
export function scatterAt(f, a, b) {
  return [Math.max(f.left, Math.min(f.right, f.x(a))), Math.max(f.top, Math.min(f.bottom, f.y(b)))];
}

/** @param {HTMLCanvasElement} canvas @param {HTMLElement} host @param {ScatterFrame} f @param {any} state @param {ScatterBox | null} box */
export function scatterPaint(canvas, host, f, state, box) {
  const g = sharp(canvas, f.width, f.height), colors = palette(host), plot = /** @type {ScatterPlot} */ (state.plot);
  g.font = `11px ${getComputedStyle(host).fontFamily}`;
  axisBelow(g, f, state.x, colors);
  axisBeside(g, f, state.y, colors);
  scatterShades(g, f, plot, colors.lines[0]);
  scatterDots(g, f, plot, plot.cells.length ? colors.lines[1] : colors.lines[0]);
  scatterTrend(g, f, plot.trend, colors);
  if (box) scatterOutline(g, f, box, colors.ink);
}

/** How many samples are where, by the logarithm. @param {ScatterContext} g @param {ScatterFrame} f @param {ScatterPlot} plot @param {string} color */
function scatterShades(g, f, { cells, boxes }, color) {
  const most = Math.log1p(cells.reduce((max, [, , n]) => Math.max(max, n), 1)), wide = (f.right - f.left) / boxes[0], high = (f.bottom - f.top) / boxes[1];
  g.fillStyle = color;
  for (const [i, j, n] of cells) {
    g.globalAlpha = 0.12 + 0.88 * (Math.log1p(n) / most);
    g.fillRect(f.left + i * wide, f.bottom - (j + 1) * high, Math.max(1, wide - 0.4), Math.max(1, high - 0.4));
  }
  g.globalAlpha = 1;
}

/** Samples one by one. @param {ScatterContext} g @param {ScatterFrame} f @param {ScatterPlot} plot @param {string} color */
function scatterDots(g, f, { points }, color) {
  g.fillStyle = color;
  g.globalAlpha = 0.75;
  for (const [a, b] of points) {
    g.beginPath();
    g.arc(...scatterAt(f, a, b), 2.2, 0, 7);
    g.fill();
  }
  g.globalAlpha = 1;
}

/** @param {ScatterContext} g @param {ScatterFrame} f @param {ScatterTrend} trend @param {ReturnType<typeof palette>} colors */
function scatterTrend(g, f, { x, mean, low, high }, colors) {
  g.save();
  g.beginPath();
  g.rect(f.left, f.top, f.right - f.left, f.bottom - f.top);
  g.clip();
  const path = (/** @type {number[]} */ ys, /** @type {number[]} */ xs) => xs.forEach((v, i) => g.lineTo(f.x(v), f.y(ys[i])));
  g.globalAlpha = 0.16;
  g.fillStyle = colors.ink;
  g.beginPath();
  path(low, x);
  path([...high].reverse(), [...x].reverse());
  g.fill();
  g.globalAlpha = 1;
  Object.assign(g, { strokeStyle: colors.ink, lineWidth: 2 });
  g.beginPath();
  path(mean, x);
  g.stroke();
  g.restore();
}

/** @param {ScatterContext} g @param {ScatterFrame} f @param {ScatterBox} box @param {string} color */
function scatterOutline(g, f, { u, v }, color) {
  const at = (/** @type {number} */ part, /** @type {number} */ from, /** @type {number} */ to) => from + part * (to - from);
  const left = at(u[0], f.left, f.right), top = at(v[1], f.bottom, f.top), wide = at(u[1], f.left, f.right) - left, high = at(v[0], f.bottom, f.top) - top;
  Object.assign(g, { strokeStyle: color, fillStyle: color, lineWidth: 1.5 });
  g.globalAlpha = 0.1;
  g.fillRect(left, top, wide, high);
  g.globalAlpha = 1;
  g.strokeRect(left, top, wide, high);
}
