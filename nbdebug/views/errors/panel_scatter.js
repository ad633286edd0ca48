// @ts-check
/** The panel of residuals: one column against another; a box drawn over it leads to its rows. */
/** @import { PanelAsk, PanelGo } from "./panel_kit.js" */
/** @import { ScatterBox, ScatterFrame, ScatterPlot } from "./panel_scatter_paint.js" */
import { h, num, watch } from "../kit.js";
import { panelCount, panelState, panelTrouble } from "./panel_kit.js";
import { scatterAt, scatterFrame, scatterPaint } from "./panel_scatter_paint.js";

const SCATTER_STEP = 0.1, SCATTER_NEAR = 8;
const SCATTER_KEYS = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] });

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function scatterPanel(state, go, ask) {
  const node = h("div.panelbox"), note = h("div"), said = h("div.panelsaid", { role: "status" }), place = h("div");

  /** @param {Record<string, any>} options */
  async function again(options) {
    node.ariaBusy = "true";
    const next = await panelState(ask, "scatter", options);
    node.ariaBusy = "false";
    note.replaceChildren(...(next.trouble === undefined ? [] : [panelTrouble(next.trouble, `errors.to_frame().plot.scatter(${JSON.stringify(options.x ?? state.x)}, ${JSON.stringify(options.y ?? state.y)})`)]));
    if (next.trouble !== undefined) return;
    state = next;
    draw();
  }

  function draw() {
    said.textContent = state.said;
    place.replaceChildren(...(state.plot ? [scatterStage(state, go)] : []));
  }

  const pick = (/** @type {"x" | "y"} */ axis, /** @type {string} */ label) => {
    const options = state.names.map((/** @type {string} */ name) => h("option", { value: name, selected: name === state[axis] }, name));
    const list = /** @type {HTMLSelectElement} */ (h("select.find", { ariaLabel: label, onchange: () => again({ x: state.x, y: state.y, [axis]: list.value }) }, ...options));
    return list;
  };
  node.append(h("div.tools", {}, pick("y", "up"), h("span.soft", {}, "against"), pick("x", "across")), note, said, place);
  draw();
  if (state.later) void again({ now: true });
  return node;
}

/** The picture, a box over it by pointer or keys, and what lies in the box. @param {any} state @param {PanelGo} go */
function scatterStage(state, go) {
  const plot = /** @type {ScatterPlot} */ (state.plot), rest = "Drag a box over it to see those samples; with the keys: arrows move a box, Shift and arrows size it, Enter shows them.";
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { ariaHidden: "true" })), note = h("div.note.reading", { ariaLive: "polite" }, rest);
  const label = `${state.y} against ${state.x}, ${panelCount(plot.rows)} samples. Arrows move a box, Shift and arrows size it, Enter shows its samples.`;
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
  function show(next) {
    box = next;
    note.textContent = box ? `${scatterLabel(state, box)}: ${scatterCount(plot, box)}` : rest;
    draw();
  }

  const leave = () => { if (box) go({ ranges: scatterRanges(state, box) }, scatterLabel(state, box)); };

  /** The sample that is closest to a place on the screen, near enough to be meant. @param {number} x @param {number} y */
  function nearest(x, y) {
    const f = /** @type {ScatterFrame} */ (frame), away = plot.points.map(([a, b, row]) => {
      const [left, top] = scatterAt(f, a, b);
      return { row, far: Math.hypot(left - x, top - y) };
    });
    return away.filter((one) => one.far < SCATTER_NEAR).sort((a, b) => a.far - b.far)[0];
  }

  stage.onpointerdown = (event) => {
    if (!frame || event.button) return;
    const f = frame, from = scatterPlace(f, canvas, event);
    stage.setPointerCapture(event.pointerId);
    stage.onpointermove = (moved) => show(scatterBetween(from, scatterPlace(f, canvas, moved)));
    stage.onpointercancel = () => { stage.onpointermove = null; show(null); };
    stage.onpointerup = (done) => {
      stage.onpointermove = null;
      const to = scatterPlace(f, canvas, done), one = nearest(to.px, to.py);
      if (Math.hypot(to.px - from.px, to.py - from.py) > 4) leave();
      else if (one) go({ rows: [one.row] }, `the sample at ${state.x} ${num(f.x.invert(to.px))}`);
      else show(null);
    };
  };
  stage.onkeydown = (event) => {
    const move = SCATTER_KEYS[event.key];
    if (event.key === "Escape" && box) show(null);
    else if ((event.key === "Enter" || event.key === " ") && box) leave();
    else if (move) show(scatterMoved(box, move, event.shiftKey));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  watch(stage, draw);
  return h("div", {}, stage, note, scatterWords(state));
}

/** What the picture does not say. @param {any} state */
function scatterWords({ plot, x, y }) {
  const few = plot.cells.length === 0, beyond = plot.beyond ? ` ${panelCount(plot.beyond)} lie beyond the axes and are drawn at their edge; a box that touches the edge takes them in.` : "";
  return h("div.note", {}, `Line: mean ${y} along ${x}, and where eight of ten samples lie. ${few ? "Dots: all samples." : "Shade: how many samples; dots: those furthest out."}${beyond}`);
}

/** A place of the pointer, as pixels and as parts of the axes. @param {ScatterFrame} frame @param {HTMLElement} canvas @param {PointerEvent} event */
function scatterPlace(frame, canvas, event) {
  const at = canvas.getBoundingClientRect(), px = event.clientX - at.left, py = event.clientY - at.top;
  const part = (/** @type {number} */ v, /** @type {number} */ from, /** @type {number} */ to) => Math.max(0, Math.min(1, (v - from) / (to - from)));
  return { px, py, u: part(px, frame.left, frame.right), v: part(py, frame.bottom, frame.top) };
}

/** @param {{u: number, v: number}} a @param {{u: number, v: number}} b @returns {ScatterBox} */
function scatterBetween(a, b) {
  return { u: [Math.min(a.u, b.u), Math.max(a.u, b.u)], v: [Math.min(a.v, b.v), Math.max(a.v, b.v)] };
}

/** The box after an arrow key; the first one makes it in the middle. @param {ScatterBox | null} box @param {[number, number]} move @param {boolean} size @returns {ScatterBox} */
function scatterMoved(box, move, size) {
  if (!box) return { u: [0.4, 0.6], v: [0.4, 0.6] };
  const shift = (/** @type {[number, number]} */ [from, to], /** @type {number} */ by) => {
    const step = SCATTER_STEP * by, most = size ? Math.max(SCATTER_STEP, to - from + step) : to - from;
    const start = size ? from : Math.max(0, Math.min(1 - most, from + step));
    return /** @type {[number, number]} */ ([start, Math.min(1, start + most)].map((v) => Number(v.toFixed(6))));
  };
  return { u: shift(box.u, move[0]), v: shift(box.v, move[1]) };
}

/** What a box asks for; at the edge of an axis it has no end. @param {any} state @param {ScatterBox} box */
function scatterRanges({ plot, x, y }, { u, v }) {
  const ends = (/** @type {[number, number]} */ [low, high], /** @type {[number, number]} */ [a, b]) => [a <= 0 ? null : low + a * (high - low), b >= 1 ? null : low + b * (high - low)];
  const across = ends(plot.ends[0], u), up = ends(plot.ends[1], v);
  return x === y ? { [x]: across } : { [x]: across, [y]: up };
}

/** A box in words. @param {any} state @param {ScatterBox} box */
function scatterLabel(state, box) {
  const words = Object.entries(scatterRanges(state, box)).map(([name, [low, high]]) => low === null && high === null ? `any ${name}` : low === null ? `${name} up to ${num(high)}` : high === null ? `${name} from ${num(low)}` : `${name} ${num(low)} to ${num(high)}`);
  return words.join(", ");
}

/** How many samples a box holds: by the middles of the small boxes, or by the samples themselves. @param {ScatterPlot} plot @param {ScatterBox} box */
function scatterCount({ cells, points, boxes, ends }, { u, v }) {
  const inside = (/** @type {number} */ at, /** @type {[number, number]} */ [from, to]) => (at >= from || from <= 0) && (at <= to || to >= 1);
  if (cells.length) {
    const some = cells.filter(([i, j]) => inside((i + 0.5) / boxes[0], u) && inside((j + 0.5) / boxes[1], v));
    return `about ${panelCount(some.reduce((sum, [, , n]) => sum + n, 0))} samples`;
  }
  const part = (/** @type {number} */ at, /** @type {[number, number]} */ [low, high]) => (at - low) / (high - low);
  return `${panelCount(points.filter(([a, b]) => inside(part(a, ends[0]), u) && inside(part(b, ends[1]), v)).length)} samples`;
}
