// @ts-check
/** Optimizer comparison: one small chart per candidate, and a table of final losses. */
/** @import { Props } from "../../views/kit.js" */
import { extent, lineSegments, logTicks, padRange, palette, prepareCanvas, scale, ticks } from "../../views/axes.js";
import { bulletList, formatNumber, h, heading, makeButton, mountView, redrawOnMessage, redrawOnResize, statusBanner, tableHead, trackState } from "../../views/kit.js";
import { drawRule, strokePath } from "../../views/line_chart.js";

/** @typedef {{name: string, rate: string, words: string, tone: string, rank: number, place: string, train: number | null, val: number | null, error: number | null, x: number[], middle: number[], low: number[], high: number[], looks: number[], validation: number[]}} Panel */
/** @typedef {{x: ReturnType<typeof scale>, y: ReturnType<typeof scale>, ys: number[], xs: number[], left: number, width: number, log: boolean, quantity: string}} Frame */

const PANEL_HEIGHT = 132, PANEL_TOP = 8, PANEL_BOTTOM = PANEL_HEIGHT - 18;
/** @type {Record<string, [string, string]>} */
const OUTCOMES = { clear: ["✓", "good"], tie: ["≈", "note"], none: ["✕", "error"], stopped: ["■", "warning"] };
const GRID_STYLE = "display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,230px),1fr));gap:14px 18px;align-items:end";

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable), banner = h("div"), key = h("div.note"), below = h("div");
  const logs = makeButton("toggle", "log", () => { log = !log; draw(); }, { title: "logarithmic axis" });
  const grid = h("div", { style: GRID_STYLE });
  mountView(el, node, banner, h("div.bar", {}, key, logs), grid, below);
  /** @type {ReturnType<typeof candidateChart>[]} */
  let pictures = [];
  /** @type {number | undefined} */
  let cursor;
  let log = false, names = "", contentKey = "", started = false;

  function draw() {
    const state = model.get("state"), panels = /** @type {Panel[]} */ (state.panels);
    title.textContent = state.title;
    status.textContent = state.status;
    if (!started && panels.some((panel) => panel.x.length)) [started, log] = [true, spansDecades(panels)];
    if (names !== (names = panels.map((panel) => panel.name).join("\n"))) {
      pictures = panels.map(() => candidateChart(setCursor));
      grid.replaceChildren(...pictures.map((picture) => picture.node));
    }
    key.textContent = `${state.quantity} over ${state.steps} steps, same axes for all; band: range over seeds${panels.some((panel) => panel.looks.length) ? "; dots: validation loss" : ""}; faint lines: the other candidates`;
    logs.ariaPressed = String(log);
    const width = grid.firstElementChild?.clientWidth ?? 0, colors = palette(el);
    if (width) pictures.forEach((picture, i) => picture.show(panels, i, sharedAxes(state, width, log), colors, cursor));
    if (contentKey !== (contentKey = JSON.stringify([state.verdict, state.headline, state.notes, panels.map((panel) => [panel.train, panel.val, panel.words])]))) {
      banner.replaceChildren(...outcomeBanner(state));
      below.replaceChildren(...standingsTable(state));
    }
  }

  /** @param {number | undefined} step */
  function setCursor(step) {
    cursor = step;
    draw();
  }

  redrawOnMessage(model, draw);
  redrawOnResize(grid, draw);
}

/** Check whether the losses span so many decades that a log axis is better. @param {Panel[]} panels */
function spansDecades(panels) {
  const all = panels.flatMap((panel) => panel.middle), [lo, hi] = extent(all);
  return all.length > 0 && lo > 0 && hi > 20 * lo;
}

/** The axes that all charts share; diverging candidates do not extend them. @param {any} state @param {number} width @param {boolean} log @returns {Frame} */
function sharedAxes(state, width, log) {
  const panels = /** @type {Panel[]} */ (state.panels), stable = panels.filter((panel) => panel.tone !== "error"), from = stable.length ? stable : panels;
  const first = from.map((panel) => panel.middle[0] ?? NaN).find(Number.isFinite) ?? 1, maxLoss = stable.length ? Infinity : first + 2 * Math.abs(first);
  const high = padRange(extent(from.flatMap((panel) => [...panel.low, ...panel.high, ...panel.validation]).filter((v) => v <= maxLoss), log), log);
  const ys = (log ? logTicks : ticks)(high, 4), left = Math.max(24, ...ys.map((v) => formatNumber(v).length * 6.2 + 10));
  const range = /** @type {[number, number]} */ ([1, Math.max(2, state.steps)]);
  return { x: scale(range, [left, width - 8]), y: scale(high, [PANEL_BOTTOM, PANEL_TOP], log), ys, xs: [1, state.steps], left, width, log, quantity: state.quantity };
}

/** One small chart; `onPoint` is called with the step under the pointer. @param {(step: number | undefined) => void} onPoint */
function candidateChart(onPoint) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "img" })), name = h("b"), pill = h("span.pill"), caption = h("div.note", { ariaLive: "off" });
  const node = h("div", { style: "min-width:0" }, h("div.tag", {}, name, pill), caption, canvas);
  /** @type {Frame | undefined} */
  let axes;
  /** @type {Panel | undefined} */
  let current;
  let cursor = 0;
  canvas.onpointermove = canvas.onpointerdown = (event) => { if (axes) onPoint(Math.round(Math.max(1, axes.x.invert(event.offsetX)))); };
  canvas.onpointerleave = canvas.onblur = () => onPoint(undefined);
  canvas.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], last = current?.x.at(-1) ?? 1;
    if (!by && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    onPoint(by ? Math.max(1, Math.min(last, cursor + by * Math.max(1, Math.round(last / 40)))) : undefined);
  };
  return {
    node,
    /** @param {Panel[]} panels @param {number} i @param {Frame} f @param {ReturnType<typeof palette>} colors @param {number | undefined} step */
    show(panels, i, f, colors, step) {
      const candidate = panels[i], g = prepareCanvas(canvas, f.width, PANEL_HEIGHT);
      [axes, current, cursor] = [f, candidate, step ?? cursor];
      name.textContent = (isPlaced(candidate) ? `${candidate.place}. ` : "") + candidate.name;
      pill.textContent = candidate.words;
      pill.className = `nb-pill nb-tone nb-${candidate.tone}`;
      caption.textContent = step === undefined ? candidate.rate : valuesAt(candidate, step);
      g.font = "10px system-ui, sans-serif";
      drawSmallAxes(g, f, colors);
      g.save();
      g.beginPath();
      g.rect(f.left, PANEL_TOP - 2, f.width - f.left, PANEL_BOTTOM - PANEL_TOP + 3);
      g.clip();
      panels.forEach((other, j) => { if (j !== i) drawThinLine(g, f, other.x, other.middle, colors.faint, 1.25); });
      drawCandidate(g, f, candidate, colors);
      if (step !== undefined) drawRule(g, f.x(step), PANEL_TOP, f.x(step), PANEL_BOTTOM, colors.soft);
      g.restore();
      const course = candidate.x.length ? `${f.quantity} from ${formatNumber(candidate.middle[0])} to ${formatNumber(candidate.middle.at(-1))}` : "not run yet";
      canvas.ariaLabel = `${candidate.name}, ${candidate.words}: ${course}. Arrow keys read values.`;
    },
  };
}

/** The values at a step, as text. @param {Panel} candidate @param {number} step */
function valuesAt(candidate, step) {
  const i = candidate.x.findIndex((x) => x >= step);
  if (i < 0) return `step ${step}: no value`;
  return `step ${candidate.x[i]}: ${formatNumber(candidate.middle[i])} (${formatNumber(candidate.low[i])} to ${formatNumber(candidate.high[i])})`;
}

/** @param {CanvasRenderingContext2D} g @param {Frame} f @param {ReturnType<typeof palette>} colors */
function drawSmallAxes(g, f, colors) {
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of f.ys) {
    drawRule(g, f.left, f.y(v), f.width - 8, f.y(v), colors.faint);
    g.fillText(formatNumber(v), f.left - 5, f.y(v) + 3);
  }
  drawRule(g, f.left, PANEL_BOTTOM, f.width - 8, PANEL_BOTTOM, colors.soft);
  for (const v of f.xs) g.fillText(formatNumber(v), Math.max(f.left + 8, f.x(v)), PANEL_HEIGHT - 5);
}

/** Draw band, curve and validation losses of the chart's own candidate. @param {CanvasRenderingContext2D} g @param {Frame} f @param {Panel} candidate @param {ReturnType<typeof palette>} colors */
function drawCandidate(g, f, candidate, colors) {
  const color = candidate.tone === "error" ? colors.error : colors.lines[0], height = (/** @type {number} */ v) => (f.log && v <= 0 ? PANEL_BOTTOM : Math.max(-PANEL_HEIGHT, f.y(v)));
  Object.assign(g, { fillStyle: color, globalAlpha: 0.22 });
  g.beginPath();
  candidate.x.forEach((x, i) => g.lineTo(f.x(x), height(candidate.high[i])));
  for (let i = candidate.x.length - 1; i >= 0; i--) g.lineTo(f.x(candidate.x[i]), height(candidate.low[i]));
  g.fill();
  g.globalAlpha = 1;
  drawThinLine(g, f, candidate.x, candidate.middle, color, 2);
  g.fillStyle = colors.lines[1];
  candidate.looks.forEach((x, i) => {
    g.beginPath();
    g.arc(f.x(x), height(candidate.validation[i]), 3, 0, 7);
    g.fill();
  });
}

/** @param {CanvasRenderingContext2D} g @param {Frame} f @param {number[]} xs @param {number[]} ys @param {string} color @param {number} width */
function drawThinLine(g, f, xs, ys, color, width) {
  Object.assign(g, { strokeStyle: color, lineWidth: width, lineJoin: "round" });
  for (const points of lineSegments(xs, ys, f.x, f.y, f.log)) strokePath(g, points);
  g.lineWidth = 1;
}

/** The verdict and the reasons. @param {any} state */
function outcomeBanner(state) {
  const [sign, tone] = OUTCOMES[state.outcome || state.verdict] ?? [];
  if (!sign) return [];
  return [statusBanner(tone, sign, h("b", {}, state.verdict), state.headline, bulletList(state.reasons))];
}

/** Whether a candidate is told apart from all others. @param {Panel} panel */
function isPlaced(panel) {
  return Number(panel.place) > 0;
}

/** The table of final losses, the code of the best candidate, and notes on the comparison. @param {any} state */
function standingsTable(state) {
  const val = state.panels.some((/** @type {Panel} */ panel) => panel.val !== null), by = state.judged_by;
  const heads = ["", "final loss", "training", ...(val ? ["validation"] : []), "outcome"];
  const loss = (/** @type {number | null} */ v, /** @type {Panel} */ item, /** @type {string} */ name) => h("td", {}, v === null ? "" : formatNumber(v), v !== null && name === by && item.error !== null && h("span.soft", {}, ` ± ${formatNumber(Number(item.error.toPrecision(2)))}`));
  const rows = state.panels.filter((/** @type {Panel} */ panel) => panel.rank).map((/** @type {Panel} */ panel) => h("tr", {}, h("td", {}, isPlaced(panel) ? panel.place : ""), h("td", {}, h("b", {}, panel.name), h("span.soft", {}, ` ${panel.rate}`)),
    loss(panel.train, panel, "train"), val && loss(panel.val, panel, "val"), h("td", {}, panel.words, isPlaced(panel) ? "" : `, ${panel.place}`)));
  if (!state.verdict) return [];
  return [
    state.judged_by && h("table.table", { style: "margin-top:10px;overflow-wrap:normal", ariaLabel: "final loss" }, tableHead(heads), h("tbody", {}, ...rows)),
    state.code && h("pre.code", { style: "margin:8px 0;padding:6px 12px" }, state.code),
    ...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)),
  ].filter(Boolean);
}

export default { initialize: trackState(() => {}), render };
