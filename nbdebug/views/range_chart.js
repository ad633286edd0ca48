// @ts-check
/** The chart of a range test: what the curves lie on, and what stands before them. */
/** @import { Picture } from "./chart.js" */
import { brief, h } from "./kit.js";
import { rule } from "./chart.js";
import { placed } from "./flags.js";
import { band, ends, tops } from "./sweeps.js";

/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {"soft" | "good" | "ink"} Kind */
/** @typedef {{at: number, start: number, row: number, text: string, kind: Kind}} Flag */

const ROW = 15;
const NARROW = 560;
/** @type {Record<string, number[]>} */
const POLES = { soft: [2, 3], ink: [6, 3], good: [] };

/** The chart of a state; `place` is told of each layout. @param {any} state @param {HTMLElement} el @param {(f: any) => void} place @returns {Picture} */
export function rangeChart(state, el, place) {
  const { recommended, lines } = state, marks = marked(state), font = `11px ${getComputedStyle(el).fontFamily}`;
  const pen = /** @type {Context} */ (/** @type {HTMLCanvasElement} */ (h("canvas")).getContext("2d"));
  pen.font = `600 ${font}`;
  /** @type {Flag[]} */
  let flags = [];
  return {
    ...state, y_label: `${state.y_label}: thin as measured, thick smoothed${ends(lines).length ? ", ✕ diverged" : ""}`,
    marks: [], limits: [], height: 300, high: tops(lines), wide: [...state.span, ...marks.map((one) => one.v)],
    room(x, left, right) {
      const all = marks.map((one) => ({ ...one, at: x(one.v), text: right < NARROW ? one.name : `${one.name} ${brief(one.v, 2)}` }));
      flags = placed(all.map((one) => ({ ...one, wide: pen.measureText(one.text).width })), left, right + 12);
      return 22 + ROW * Math.max(1, ...flags.map((one) => one.row + 1));
    },
    under(g, f, colors) {
      g.globalAlpha = 0.13;
      g.fillStyle = colors.good;
      if (recommended) g.fillRect(f.x(recommended.low), f.top, Math.max(2, f.x(recommended.high) - f.x(recommended.low)), f.bottom - f.top);
      g.fillStyle = colors.ink;
      fill(g, f, band(lines));
      g.globalAlpha = 1;
    },
    over(g, f, colors) {
      for (const flag of flags) pole(g, f, flag, colors);
      for (const flag of flags) label(g, f, flag, colors, font);
      for (const { x, y, color } of ends(lines)) cross(g, f.x(x), Math.max(f.top, Math.min(f.bottom, f.y(y))), colors.lines[color % 6]);
      place(f);
    },
  };
}

/** The values that are marked, and how. @param {any} state @returns {{v: number, name: string, kind: Kind}[]} */
function marked({ suggestions, recommended, current, log_x }) {
  const all = [
    ...suggestions.map((/** @type {any} */ one) => ({ v: one.value, name: one.label, kind: "soft" })),
    { v: recommended?.value ?? null, name: "recommended", kind: "good" },
    { v: current, name: "yours", kind: "ink" },
  ];
  return all.filter((one) => one.v !== null && (one.v > 0 || !log_x));
}

/** @param {Context} g @param {any} f @param {Flag} flag @param {any} colors */
function pole(g, f, { at, start, row, kind }, colors) {
  g.lineWidth = kind === "soft" ? 1 : 2;
  rule(g, at, f.top - 6 - ROW * row + (start > at ? -9 : 4), at, f.bottom, colors[kind], POLES[kind]);
}

/** @param {Context} g @param {any} f @param {Flag} flag @param {any} colors @param {string} font */
function label(g, f, { start, row, text, kind }, colors, font) {
  const y = f.top - 6 - ROW * row, [bold, color] = kind === "soft" ? ["", colors.ink] : ["600 ", colors[kind]];
  Object.assign(g, { fillStyle: color, strokeStyle: colors.paper, lineWidth: 3, textAlign: "left", font: bold + font });
  g.strokeText(text, start, y);
  g.fillText(text, start, y);
}

/** The area between the lowest and the highest curve. @param {CanvasRenderingContext2D} g @param {any} f @param {ReturnType<typeof band>} area */
function fill(g, f, area) {
  const path = new Path2D(), y = (/** @type {number} */ v) => Math.max(f.top - 4, Math.min(f.bottom, f.y(v)));
  if (f.log && area.some((one) => one.low <= 0)) return;
  for (const one of area) path.lineTo(f.x(one.x), y(one.high));
  for (const one of [...area].reverse()) path.lineTo(f.x(one.x), y(one.low));
  g.fill(path);
}

/** The place where a sweep broke off. @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {string} color */
function cross(g, x, y, color) {
  Object.assign(g, { strokeStyle: color, lineWidth: 2 });
  g.beginPath();
  for (const side of [-1, 1]) {
    g.moveTo(x - 4, y - 4 * side);
    g.lineTo(x + 4, y + 4 * side);
  }
  g.stroke();
  g.lineWidth = 1;
}
