// @ts-check
/** The chart of a range test: curves with a band, labeled markers and a drag handle. */
/** @import { Picture } from "../../views/line_chart.js" */
import { formatRounded, h } from "../../views/kit.js";
import { drawRule } from "../../views/line_chart.js";

/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {"soft" | "good" | "ink"} Kind */
/** @typedef {{at: number, start: number, row: number, text: string, kind: Kind}} PlacedMarker */

const LABEL_ROW_HEIGHT = 15;
const NARROW_WIDTH = 560;
/** @type {Record<string, number[]>} */
const POLE_DASHES = { soft: [2, 3], ink: [6, 3], good: [] };

/** The picture of a state; `onLayout` is called with each layout. @param {any} state @param {HTMLElement} el @param {(f: any) => void} onLayout @returns {Picture} */
export function rangeChart(state, el, onLayout) {
  const { recommended, lines } = state, marks = markedValues(state), font = `11px ${getComputedStyle(el).fontFamily}`;
  const pen = /** @type {Context} */ (/** @type {HTMLCanvasElement} */ (h("canvas")).getContext("2d"));
  pen.font = `600 ${font}`;
  /** @type {PlacedMarker[]} */
  let flags = [];
  return {
    ...state, y_label: lossLabel(lines, state.y_label),
    marks: [], limits: [], height: 300, high: axisLosses(lines), wide: [...state.span, ...marks.map((mark) => mark.v)],
    room(x, left, right) {
      const all = marks.map((mark) => ({ ...mark, at: x(mark.v), text: right < NARROW_WIDTH ? mark.name : `${mark.name} ${formatRounded(mark.v, 2)}` }));
      flags = placeLabels(all.map((item) => ({ ...item, wide: pen.measureText(item.text).width })), left, right + 12);
      return 22 + LABEL_ROW_HEIGHT * Math.max(1, ...flags.map((flag) => flag.row + 1));
    },
    under(g, f, colors) {
      g.globalAlpha = 0.13;
      g.fillStyle = colors.good;
      if (recommended) g.fillRect(f.x(recommended.low), f.top, Math.max(2, f.x(recommended.high) - f.x(recommended.low)), f.bottom - f.top);
      g.fillStyle = colors.ink;
      fillBand(g, f, seedBand(lines));
      g.globalAlpha = 1;
    },
    over(g, f, colors) {
      for (const flag of flags) drawPole(g, f, flag, colors);
      for (const flag of flags) drawLabel(g, f, flag, colors, font);
      for (const { x, y, color } of divergencePoints(lines)) drawCross(g, f.x(x), Math.max(f.top, Math.min(f.bottom, f.y(y))), colors.lines[color % 6]);
      onLayout(f);
    },
  };
}

/** The marked values and their styles. @param {any} state @returns {{v: number, name: string, kind: Kind}[]} */
function markedValues({ suggestions, recommended, current, log_x }) {
  const all = [
    ...suggestions.map((/** @type {any} */ suggestion) => ({ v: suggestion.value, name: suggestion.label, kind: "soft" })),
    { v: recommended?.value ?? null, name: "recommended", kind: "good" },
    { v: current, name: "yours", kind: "ink" },
  ];
  return all.filter((item) => item.v !== null && (item.v > 0 || !log_x));
}

/** @param {Context} g @param {any} f @param {PlacedMarker} flag @param {any} colors */
function drawPole(g, f, { at, start, row, kind }, colors) {
  g.lineWidth = kind === "soft" ? 1 : 2;
  drawRule(g, at, f.top - 6 - LABEL_ROW_HEIGHT * row + (start > at ? -9 : 4), at, f.bottom, colors[kind], POLE_DASHES[kind]);
}

/** @param {Context} g @param {any} f @param {PlacedMarker} flag @param {any} colors @param {string} font */
function drawLabel(g, f, { start, row, text, kind }, colors, font) {
  const y = f.top - 6 - LABEL_ROW_HEIGHT * row, [bold, color] = kind === "soft" ? ["", colors.ink] : ["600 ", colors[kind]];
  Object.assign(g, { fillStyle: color, strokeStyle: colors.paper, lineWidth: 3, textAlign: "left", font: bold + font });
  g.strokeText(text, start, y);
  g.fillText(text, start, y);
}

/** The area between the lowest and the highest curve. @param {CanvasRenderingContext2D} g @param {any} f @param {ReturnType<typeof seedBand>} area */
function fillBand(g, f, area) {
  const path = new Path2D(), y = (/** @type {number} */ v) => Math.max(f.top - 4, Math.min(f.bottom, f.y(v)));
  if (f.log && area.some((point) => point.low <= 0)) return;
  for (const point of area) path.lineTo(f.x(point.x), y(point.high));
  for (const point of [...area].reverse()) path.lineTo(f.x(point.x), y(point.low));
  g.fill(path);
}

/** A cross where a sweep diverged. @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {string} color */
function drawCross(g, x, y, color) {
  Object.assign(g, { strokeStyle: color, lineWidth: 2 });
  g.beginPath();
  for (const side of [-1, 1]) {
    g.moveTo(x - 4, y - 4 * side);
    g.lineTo(x + 4, y + 4 * side);
  }
  g.stroke();
  g.lineWidth = 1;
}

/** @typedef {{x: number[], y: (number | null)[], raw: (number | null)[], ended: string}} Sweep */

const DIVERGED_ENDS = ["diverged", "not finite"];

/** The lowest and the highest smoothed loss at each value that at least two sweeps reached. @param {Sweep[]} lines */
export function seedBand(lines) {
  const out = [];
  for (let i = 0; ; i++) {
    const reached = lines.filter((line) => i < line.x.length), ys = reached.map((line) => Number(line.y[i]));
    if (reached.length < 2) return out;
    out.push({ x: reached[0].x[i], low: Math.min(...ys), high: Math.max(...ys) });
  }
}

/** The points where sweeps diverged. @param {Sweep[]} lines */
export function divergencePoints(lines) {
  const out = lines.map(({ x, y, ended }, color) => ({ x: x[x.length - 1], y: Number(y[y.length - 1]), color, ended }));
  return out.filter((end) => end.x !== undefined && DIVERGED_ENDS.includes(end.ended));
}

/**
 * The losses that the axis must include; a diverging curve is cut off once the divergence is visible, and raw losses that
 * would take more than half of the axis.
 * @param {Sweep[]} lines
 */
export function axisLosses(lines) {
  return lines.flatMap(({ y, raw }) => {
    const finite = y.filter((v) => v !== null), first = finite[0], low = Math.min(...finite);
    if (!finite.length) return [];
    const high = Math.min(Math.max(...finite), first + Math.max(first - low, Math.abs(first) / 10));
    return [Math.max(Math.min(low, ...raw.filter((v) => v !== null)), 2 * low - high), high];
  });
}

/** The label of the axis of smoothed losses, which says whether it leaves out losses. @param {Sweep[]} lines @param {string} name */
export function lossLabel(lines, name) {
  const all = lines.flatMap(({ y, raw }) => [...y, ...raw]).filter((v) => v !== null), axis = axisLosses(lines);
  const isCut = Math.max(...all) > Math.max(...axis) || Math.min(...all) < Math.min(...axis);
  return [`${name}: thin line raw, thick line smoothed`, divergencePoints(lines).length && "✕ diverged", isCut && "cut off beyond the axis"].filter(Boolean).join(", ");
}

/**
 * Loss and slope at a value: the median over the sweeps that reached it, and the lowest and highest loss.
 * @param {Sweep[]} lines @param {number} value @param {boolean} log whether the slope is that over a decade
 */
export function readCurves(lines, value, log) {
  const readings = lines.map((line) => interpolate(line, value, log)).filter((line) => line !== null);
  const losses = readings.map((reading) => reading.loss), none = { loss: null, low: null, high: null, slope: null };
  const all = { low: Math.min(...losses), high: Math.max(...losses), loss: median(losses), slope: median(readings.map((reading) => reading.slope)) };
  return { count: readings.length, ...(readings.length ? all : none) };
}

/** Interpolate one sweep. @param {Sweep} line @param {number} value @param {boolean} log */
function interpolate({ x, y }, value, log) {
  const f = log ? Math.log10 : (/** @type {number} */ v) => v, next = x.findIndex((v, i) => i > 0 && v >= value), last = next - 1;
  if (next < 0 || value < x[0] * (1 - 1e-9)) return null;
  const slope = (Number(y[next]) - Number(y[last])) / (f(x[next]) - f(x[last]));
  return { loss: Number(y[last]) + slope * (f(value) - f(x[last])), slope };
}

/** @param {number[]} values */
function median(values) {
  const sorted = [...values].sort((a, b) => a - b), half = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** @typedef {{at: number, wide: number}} Marker positions and widths in pixels */
/** @typedef {Marker & {start: number, row: number}} LabelPosition */

const LABEL_GAP = 6;
const MAX_LABEL_ROWS = 9;

/**
 * Place the labels from right to left: each in the lowest row where it overlaps no other label and, if possible,
 * crosses no pole.
 * @template {Marker} T
 * @param {T[]} flags @param {number} left @param {number} right
 * @returns {(T & LabelPosition)[]}
 */
export function placeLabels(flags, left, right) {
  /** @type {(T & LabelPosition)[]} */
  const out = [];
  for (const flag of [...flags].sort((a, b) => b.at - a.at)) {
    const start = Math.max(left, Math.min(flag.at + 3, right - flag.wide)), all = [...Array(MAX_LABEL_ROWS).keys()].map((row) => ({ ...flag, start, row }));
    const free = all.filter((item) => !out.some((other) => labelsOverlap(item, other)));
    out.push(free.find((position) => !out.some((other) => poleCrossesLabel(position, other) || poleCrossesLabel(other, position))) ?? free[0] ?? all[0]);
  }
  return out;
}

/** Check whether two labels overlap. @param {LabelPosition} a @param {LabelPosition} b */
function labelsOverlap(a, b) {
  return a.row === b.row && a.start < b.start + b.wide + LABEL_GAP && b.start < a.start + a.wide + LABEL_GAP;
}

/** Check whether the pole of `b` crosses the label of `a`. @param {LabelPosition} a @param {LabelPosition} b */
function poleCrossesLabel(a, b) {
  return a.row <= b.row && b.at > a.start - 2 && b.at < a.start + a.wide + 2;
}

const KEY_STEPS = 200;

/** A handle that can be dragged or moved with the keyboard; `read` describes a value as text. @param {(value: number) => string} read */
export function dragHandle(read) {
  const node = h("div.handle", { tabIndex: 0, role: "slider", ariaLabel: "learning rate to read", hidden: true });
  /** @type {any} */
  let layout;
  /** @type {any} */
  let state;
  let value = NaN, initialKey = "";

  const roundInRange = (/** @type {number} */ v) => Number(Math.max(state.span[0], Math.min(state.span[1], v)).toPrecision(3));

  /** Move the handle to a value. @param {number} next */
  function setValue(next) {
    value = roundInRange(next);
    node.ariaValueNow = decimalText(value);
    node.ariaValueText = read(value);
    show();
  }

  function show() {
    if (layout && !node.hidden) Object.assign(node.style, { left: `${layout.x(value)}px`, top: `${layout.top}px`, height: `${layout.bottom - layout.top}px` });
  }

  /** Place the handle in a layout. @param {any} f */
  function setLayout(f) {
    layout = f;
    show();
  }

  /** Set the range, and the initial value unless the user moved the handle; null hides it. @param {any} newState @param {number | null} first */
  function setRange(newState, first) {
    state = newState;
    node.hidden = first === null;
    Object.assign(node, { ariaValueMin: decimalText(newState.span[0]), ariaValueMax: decimalText(newState.span[1]) });
    if (first !== null && initialKey !== (initialKey = String(first))) setValue(first);
  }

  node.onpointerdown = (event) => {
    node.setPointerCapture(event.pointerId);
    node.focus();
    event.preventDefault();
  };
  node.onpointermove = (event) => {
    if (node.hasPointerCapture(event.pointerId)) setValue(layout.x.invert(event.clientX - (node.parentElement?.getBoundingClientRect().left ?? 0)));
  };
  node.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    setValue(layout.x.invert(layout.x(value) + (by * (layout.x(state.span[1]) - layout.x(state.span[0]))) / KEY_STEPS));
  };
  return { node, setValue, setLayout, setRange, value: () => value };
}

/** A number without an exponent, which attributes of ARIA may not have. @param {number} v */
function decimalText(v) {
  return v.toLocaleString("en", { useGrouping: false, maximumSignificantDigits: 17 });
}
