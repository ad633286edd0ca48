// @ts-check
/** The two axes of a picture of dots: lines from round numbers, and names. */
/** @import { palette, scale } from "./axes.js" */
import { ticks } from "./axes.js";
import { num } from "./kit.js";

/** @typedef {{left: number, right: number, top: number, bottom: number, x: ReturnType<typeof scale>, y: ReturnType<typeof scale>}} AxesFrame */

/** Lines up from round numbers of the axis below, one at zero stronger if asked, and its name. @param {CanvasRenderingContext2D} g @param {Omit<AxesFrame, "y">} f @param {string} name @param {ReturnType<typeof palette>} colors @param {boolean} [zero] */
export function axisBelow(g, { left, right, top, bottom, x }, name, colors, zero = false) {
  g.fillStyle = colors.soft;
  g.textAlign = "center";
  for (const v of ticks([x.invert(left), x.invert(right)], Math.max(2, (right - left) / 90))) {
    straight(g, zero && v === 0 ? colors.soft : colors.faint, [x(v), top], [x(v), bottom]);
    g.fillText(num(v), x(v), bottom + 14);
  }
  g.textAlign = "right";
  g.fillText(`${name} →`, right, bottom + 30);
}

/** Lines across from round numbers of the axis on the left, that at zero stronger, and its name. @param {CanvasRenderingContext2D} g @param {AxesFrame} f @param {string} name @param {ReturnType<typeof palette>} colors */
export function axisBeside(g, { left, right, top, bottom, y }, name, colors) {
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of ticks([y.invert(bottom), y.invert(top)])) {
    straight(g, v === 0 ? colors.soft : colors.faint, [left, y(v)], [right, y(v)]);
    g.fillText(num(v), left - 5, y(v) + 4);
  }
  g.textAlign = "left";
  g.fillText(`↑ ${name}`, 2, 11);
}

/** @param {CanvasRenderingContext2D} g @param {string} color @param {[number, number]} from @param {[number, number]} to */
function straight(g, color, from, to) {
  g.strokeStyle = color;
  g.beginPath();
  g.moveTo(...from);
  g.lineTo(...to);
  g.stroke();
}
