// @ts-check
/** Residuals panel: scatter plot of two columns with box selection. */
/** @import { PanelAsk, PanelGo } from "./kit.js" */
import { palette, prepareCanvas, scale } from "../../../views/axes.js";
import { formatNumber, h, redrawOnResize } from "../../../views/kit.js";
import { drawXAxis, drawYAxis } from "../../../views/plots.js";
import { fallbackNote, formatCount, requestState } from "./kit.js";

const KEY_STEP = 0.1, MAX_CLICK_DISTANCE = 8;
const KEY_MOVES = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] });

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function residualsPanel(state, go, ask) {
  const node = h("div.panelbox"), note = h("div"), summary = h("div.panelsaid", { role: "status" }), content = h("div");

  /** @param {Record<string, any>} options */
  async function refresh(options) {
    node.ariaBusy = "true";
    const next = await requestState(ask, "residuals", options);
    node.ariaBusy = "false";
    note.replaceChildren(...(next.trouble === undefined ? [] : [fallbackNote(next.trouble, `errors.to_frame().plot.scatter(${JSON.stringify(options.x ?? state.x)}, ${JSON.stringify(options.y ?? state.y)})`)]));
    if (next.trouble !== undefined) return;
    state = next;
    draw();
  }

  function draw() {
    summary.textContent = state.said;
    content.replaceChildren(...(state.plot ? [scatterStage(state, go)] : []));
  }

  const pick = (/** @type {"x" | "y"} */ axis, /** @type {string} */ label) => {
    const options = state.names.map((/** @type {string} */ name) => h("option", { value: name, selected: name === state[axis] }, name));
    const list = /** @type {HTMLSelectElement} */ (h("select.find", { ariaLabel: label, onchange: () => refresh({ x: state.x, y: state.y, [axis]: list.value }) }, ...options));
    return list;
  };
  node.append(h("div.tools", {}, pick("y", "up"), h("span.soft", {}, "against"), pick("x", "across")), note, summary, content);
  draw();
  if (state.later) void refresh({ now: true });
  return node;
}

/** The scatter plot, box selection by pointer or keyboard, and the number of samples in the box. @param {any} state @param {PanelGo} go */
function scatterStage(state, go) {
  const plot = /** @type {ScatterPlot} */ (state.plot), rest = "Drag a box to see its samples. Keyboard: arrow keys move the box, Shift and arrow keys resize it, Enter shows its samples.";
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { ariaHidden: "true" })), note = h("div.note.reading", { ariaLive: "polite" }, rest);
  const label = `${state.y} against ${state.x}, ${formatCount(plot.rows)} samples. Arrow keys move a box, Shift and arrow keys resize it, Enter shows its samples.`;
  const stage = h("div.scatter", { tabIndex: 0, role: "application", ariaLabel: label }, canvas);
  /** @type {ScatterBox | null} */
  let box = null;
  /** @type {ScatterFrame | null} */
  let frame = null;

  function draw() {
    const width = stage.clientWidth;
    if (!width) return;
    frame = scatterFrame(width, plot);
    scatterPaint(canvas, stage, frame, state, box);
  }

  /** @param {ScatterBox | null} next */
  function setBox(next) {
    box = next;
    note.textContent = box ? `${scatterLabel(state, box)}: ${scatterCount(plot, box)}` : rest;
    draw();
  }

  const showSamples = () => { if (box) go({ ranges: scatterRanges(state, box) }, scatterLabel(state, box)); };

  /** Return the sample nearest to a point in pixels, if it is near enough for a click. @param {number} x @param {number} y */
  function nearest(x, y) {
    const f = /** @type {ScatterFrame} */ (frame), distances = plot.points.map(([a, b, row]) => {
      const [left, top] = scatterAt(f, a, b);
      return { row, far: Math.hypot(left - x, top - y) };
    });
    return distances.filter((sample) => sample.far < MAX_CLICK_DISTANCE).sort((a, b) => a.far - b.far)[0];
  }

  stage.onpointerdown = (event) => {
    if (!frame || event.button) return;
    const f = frame, from = pointerPosition(f, canvas, event);
    stage.setPointerCapture(event.pointerId);
    stage.onpointermove = (moved) => setBox(boxBetweenPoints(from, pointerPosition(f, canvas, moved)));
    stage.onpointercancel = () => { stage.onpointermove = null; setBox(null); };
    stage.onpointerup = (done) => {
      stage.onpointermove = null;
      const to = pointerPosition(f, canvas, done), sample = nearest(to.px, to.py);
      if (Math.hypot(to.px - from.px, to.py - from.py) > 4) showSamples();
      else if (sample) go({ rows: [sample.row] }, `the sample at ${state.x} ${formatNumber(f.x.invert(to.px))}`);
      else setBox(null);
    };
  };
  stage.onkeydown = (event) => {
    const move = KEY_MOVES[event.key];
    if (event.key === "Escape" && box) setBox(null);
    else if ((event.key === "Enter" || event.key === " ") && box) showSamples();
    else if (move) setBox(moveBox(box, move, event.shiftKey));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  redrawOnResize(stage, draw);
  return h("div", {}, stage, note, legendNote(state));
}

/** The legend of the plot, and the number of samples outside the axes. @param {any} state */
function legendNote({ plot, x, y }) {
  const isSparse = plot.cells.length === 0, beyond = plot.beyond ? ` Samples outside the axes, drawn at the edge: ${formatCount(plot.beyond)}. A box that touches the edge includes them.` : "";
  return h("div.note", {}, `Line: mean ${y} by ${x}, with the range of 80% of the samples. ${isSparse ? "Dots: all samples." : "Shade: number of samples; dots: outliers."}${beyond}`);
}

/** The position of the pointer, in pixels and as fractions of the axes. @param {ScatterFrame} frame @param {HTMLElement} canvas @param {PointerEvent} event */
function pointerPosition(frame, canvas, event) {
  const at = canvas.getBoundingClientRect(), px = event.clientX - at.left, py = event.clientY - at.top;
  const part = (/** @type {number} */ v, /** @type {number} */ from, /** @type {number} */ to) => Math.max(0, Math.min(1, (v - from) / (to - from)));
  return { px, py, u: part(px, frame.left, frame.right), v: part(py, frame.bottom, frame.top) };
}

/** @param {{u: number, v: number}} a @param {{u: number, v: number}} b @returns {ScatterBox} */
function boxBetweenPoints(a, b) {
  return { u: [Math.min(a.u, b.u), Math.max(a.u, b.u)], v: [Math.min(a.v, b.v), Math.max(a.v, b.v)] };
}

/** Move or resize the box with an arrow key; the first key press creates it in the middle. @param {ScatterBox | null} box @param {[number, number]} move @param {boolean} size @returns {ScatterBox} */
function moveBox(box, move, size) {
  if (!box) return { u: [0.4, 0.6], v: [0.4, 0.6] };
  const shift = (/** @type {[number, number]} */ [from, to], /** @type {number} */ by) => {
    const step = KEY_STEP * by, width = size ? Math.max(KEY_STEP, to - from + step) : to - from;
    const start = size ? from : Math.max(0, Math.min(1 - width, from + step));
    return /** @type {[number, number]} */ ([start, Math.min(1, start + width)].map((v) => Number(v.toFixed(6))));
  };
  return { u: shift(box.u, move[0]), v: shift(box.v, move[1]) };
}

/** The ranges of a box; it is unbounded where it touches the end of an axis. @param {any} state @param {ScatterBox} box */
function scatterRanges({ plot, x, y }, { u, v }) {
  const ends = (/** @type {[number, number]} */ [low, high], /** @type {[number, number]} */ [a, b]) => [a <= 0 ? null : low + a * (high - low), b >= 1 ? null : low + b * (high - low)];
  const across = ends(plot.ends[0], u), up = ends(plot.ends[1], v);
  return x === y ? { [x]: across } : { [x]: across, [y]: up };
}

/** A box as text. @param {any} state @param {ScatterBox} box */
function scatterLabel(state, box) {
  const words = Object.entries(scatterRanges(state, box)).map(([name, [low, high]]) => low === null && high === null ? `any ${name}` : low === null ? `${name} up to ${formatNumber(high)}` : high === null ? `${name} from ${formatNumber(low)}` : `${name} ${formatNumber(low)} to ${formatNumber(high)}`);
  return words.join(", ");
}

/** Count the samples in a box: exactly from points, approximately from the centers of cells. @param {ScatterPlot} plot @param {ScatterBox} box */
function scatterCount({ cells, points, boxes, ends }, { u, v }) {
  const inside = (/** @type {number} */ at, /** @type {[number, number]} */ [from, to]) => (at >= from || from <= 0) && (at <= to || to >= 1);
  if (cells.length) {
    const matches = cells.filter(([i, j]) => inside((i + 0.5) / boxes[0], u) && inside((j + 0.5) / boxes[1], v));
    return `about ${formatCount(matches.reduce((sum, [, , n]) => sum + n, 0))} samples`;
  }
  const part = (/** @type {number} */ at, /** @type {[number, number]} */ [low, high]) => (at - low) / (high - low);
  return `${formatCount(points.filter(([a, b]) => inside(part(a, ends[0]), u) && inside(part(b, ends[1]), v)).length)} samples`;
}

/** @typedef {[number, number]} ScatterEnds */
/** @typedef {{u: ScatterEnds, v: ScatterEnds}} ScatterBox parts of the axes, from 0 to 1 */
/** @typedef {{x: number[], mean: number[], low: number[], high: number[]}} ScatterTrend */
/** @typedef {{ends: [ScatterEnds, ScatterEnds], boxes: ScatterEnds, cells: [number, number, number][], points: [number, number, number][], trend: ScatterTrend, rows: number, beyond: number}} ScatterPlot */
/** @typedef {ReturnType<typeof scatterFrame>} ScatterFrame */
/** @typedef {CanvasRenderingContext2D} ScatterContext */

/** Compute the layout of the plot. @param {number} width @param {ScatterPlot} plot */
export function scatterFrame(width, plot) {
  const height = Math.round(Math.max(220, Math.min(360, width * 0.62))), left = 46, right = width - 12, top = 18, bottom = height - 34;
  return { width, height, left, right, top, bottom, x: scale(plot.ends[0], [left, right]), y: scale(plot.ends[1], [bottom, top]) };
}

/** The position of a sample in pixels; samples outside the axes are drawn at the edge. @param {ScatterFrame} f @param {number} a @param {number} b @returns {ScatterEnds} */
export function scatterAt(f, a, b) {
  return [Math.max(f.left, Math.min(f.right, f.x(a))), Math.max(f.top, Math.min(f.bottom, f.y(b)))];
}

/** @param {HTMLCanvasElement} canvas @param {HTMLElement} host @param {ScatterFrame} f @param {any} state @param {ScatterBox | null} box */
export function scatterPaint(canvas, host, f, state, box) {
  const g = prepareCanvas(canvas, f.width, f.height), colors = palette(host), plot = /** @type {ScatterPlot} */ (state.plot);
  g.font = `11px ${getComputedStyle(host).fontFamily}`;
  drawXAxis(g, f, state.x, colors);
  drawYAxis(g, f, state.y, colors);
  scatterShades(g, f, plot, colors.lines[0]);
  scatterDots(g, f, plot, plot.cells.length ? colors.lines[1] : colors.lines[0]);
  scatterTrend(g, f, plot.trend, colors);
  if (box) scatterOutline(g, f, box, colors.ink);
}

/** Draw the density of samples, on a log scale. @param {ScatterContext} g @param {ScatterFrame} f @param {ScatterPlot} plot @param {string} color */
function scatterShades(g, f, { cells, boxes }, color) {
  const maxLog = Math.log1p(cells.reduce((max, [, , n]) => Math.max(max, n), 1)), wide = (f.right - f.left) / boxes[0], high = (f.bottom - f.top) / boxes[1];
  g.fillStyle = color;
  for (const [i, j, n] of cells) {
    g.globalAlpha = 0.12 + 0.88 * (Math.log1p(n) / maxLog);
    g.fillRect(f.left + i * wide, f.bottom - (j + 1) * high, Math.max(1, wide - 0.4), Math.max(1, high - 0.4));
  }
  g.globalAlpha = 1;
}

/** Draw individual samples. @param {ScatterContext} g @param {ScatterFrame} f @param {ScatterPlot} plot @param {string} color */
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
