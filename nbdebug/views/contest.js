// @ts-check
/** @import { Props } from "./kit.js" */
import { extent, logTicks, palette, roomy, scale, sharp, stretches, ticks } from "./axes.js";
import { follow, h, heading, keep, num, press, root, watch } from "./kit.js";
import { rule, trace } from "./chart.js";

/** @typedef {{name: string, rate: string, words: string, tone: string, rank: number, train: number | null, val: number | null, error: number | null, x: number[], middle: number[], low: number[], high: number[], looks: number[], validation: number[]}} Panel */
/** @typedef {{x: ReturnType<typeof scale>, y: ReturnType<typeof scale>, ys: number[], xs: number[], left: number, width: number, log: boolean}} Frame */

const PANEL_HEIGHT = 132, PANEL_TOP = 8, PANEL_BOTTOM = PANEL_HEIGHT - 18;
/** @type {Record<string, [string, string]>} */
const OUTCOMES = { clear: ["✓", "good"], tie: ["≈", "note"], none: ["✕", "error"], stopped: ["■", "warning"] };
const PANELS = "display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,230px),1fr));gap:14px 18px;align-items:end";

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable), banner = h("div"), key = h("div.note"), below = h("div");
  const logs = press("toggle", "log", () => { log = !log; draw(); }, { ariaLabel: "logarithmic axis" });
  const grid = h("div", { style: PANELS });
  root(el, node, banner, h("div.bar", {}, key, logs), grid, below);
  /** @type {ReturnType<typeof smallPicture>[]} */
  let pictures = [];
  /** @type {number | undefined} */
  let cursor;
  let log = false, names = "", said = "", begun = false;

  function draw() {
    const state = model.get("state"), panels = /** @type {Panel[]} */ (state.panels);
    title.textContent = state.title;
    status.textContent = state.status;
    if (!begun && panels.some((one) => one.x.length)) [begun, log] = [true, spansDecades(panels)];
    if (names !== (names = panels.map((one) => one.name).join("\n"))) {
      pictures = panels.map(() => smallPicture(point));
      grid.replaceChildren(...pictures.map((one) => one.node));
    }
    key.textContent = `training loss over ${state.steps} steps, all on the same axes; band: all seeds${panels.some((one) => one.looks.length) ? "; dots: validation loss" : ""}; faint: the others`;
    logs.ariaPressed = String(log);
    const width = grid.firstElementChild?.clientWidth ?? 0, colors = palette(el);
    if (width) pictures.forEach((one, i) => one.show(panels, i, shared(state, width, log), colors, cursor));
    if (said !== (said = JSON.stringify([state.verdict, state.headline, state.notes, panels.map((one) => [one.train, one.val, one.words])]))) {
      banner.replaceChildren(...outcome(state));
      below.replaceChildren(...standings(state));
    }
  }

  /** @param {number | undefined} step */
  function point(step) {
    cursor = step;
    draw();
  }

  follow(model, draw);
  watch(grid, draw);
}

/** Whether the losses span so much that a logarithm shows them better. @param {Panel[]} panels */
function spansDecades(panels) {
  const all = panels.flatMap((one) => one.middle), [lo, hi] = extent(all);
  return all.length > 0 && lo > 0 && hi > 20 * lo;
}

/** The axes that all pictures share; what diverges may leave them at the top. @param {any} state @param {number} width @param {boolean} log @returns {Frame} */
function shared(state, width, log) {
  const panels = /** @type {Panel[]} */ (state.panels), calm = panels.filter((one) => one.tone !== "error"), from = calm.length ? calm : panels;
  const first = from.map((one) => one.middle[0] ?? NaN).find(Number.isFinite) ?? 1, most = calm.length ? Infinity : first + 2 * Math.abs(first);
  const high = roomy(extent(from.flatMap((one) => [...one.low, ...one.high, ...one.validation]).filter((v) => v <= most), log), log);
  const ys = (log ? logTicks : ticks)(high, 4), left = Math.max(24, ...ys.map((v) => num(v).length * 6.2 + 10));
  const range = /** @type {[number, number]} */ ([1, Math.max(2, state.steps)]);
  return { x: scale(range, [left, width - 8]), y: scale(high, [PANEL_BOTTOM, PANEL_TOP], log), ys, xs: [1, state.steps], left, width, log };
}

/** One small picture; `point` is told of the step that is pointed at. @param {(step: number | undefined) => void} point */
function smallPicture(point) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "img" })), name = h("b"), pill = h("span.pill"), said = h("div.note", { ariaLive: "off" });
  const node = h("div", { style: "min-width:0" }, h("div.tag", {}, name, pill), said, canvas);
  /** @type {Frame | undefined} */
  let at;
  /** @type {Panel | undefined} */
  let mine;
  let cursor = 0;
  canvas.onpointermove = canvas.onpointerdown = (event) => { if (at) point(Math.round(Math.max(1, at.x.invert(event.offsetX)))); };
  canvas.onpointerleave = canvas.onblur = () => point(undefined);
  canvas.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], last = mine?.x.at(-1) ?? 1;
    if (!by && event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    point(by ? Math.max(1, Math.min(last, cursor + by * Math.max(1, Math.round(last / 40)))) : undefined);
  };
  return {
    node,
    /** @param {Panel[]} panels @param {number} i @param {Frame} f @param {ReturnType<typeof palette>} colors @param {number | undefined} step */
    show(panels, i, f, colors, step) {
      const one = panels[i], g = sharp(canvas, f.width, PANEL_HEIGHT);
      [at, mine, cursor] = [f, one, step ?? cursor];
      name.textContent = (one.rank ? `${one.rank}. ` : "") + one.name;
      pill.textContent = one.words;
      pill.className = `nb-pill nb-tone nb-${one.tone}`;
      said.textContent = step === undefined ? one.rate : readAt(one, step);
      g.font = "10px system-ui, sans-serif";
      smallAxes(g, f, colors);
      g.save();
      g.beginPath();
      g.rect(f.left, PANEL_TOP - 2, f.width - f.left, PANEL_BOTTOM - PANEL_TOP + 3);
      g.clip();
      panels.forEach((other, j) => { if (j !== i) thinLine(g, f, other.x, other.middle, colors.faint, 1.25); });
      ownCurve(g, f, one, colors);
      if (step !== undefined) rule(g, f.x(step), PANEL_TOP, f.x(step), PANEL_BOTTOM, colors.soft);
      g.restore();
      const course = one.x.length ? `training loss from ${num(one.middle[0])} to ${num(one.middle.at(-1))}` : "not run yet";
      canvas.ariaLabel = `${one.name}, ${one.words}: ${course}. Arrow keys read values.`;
    },
  };
}

/** The values at a step. @param {Panel} one @param {number} step */
function readAt(one, step) {
  const i = one.x.findIndex((x) => x >= step);
  if (i < 0) return `step ${step}: no value`;
  return `step ${one.x[i]}: ${num(one.middle[i])} (${num(one.low[i])} to ${num(one.high[i])})`;
}

/** @param {CanvasRenderingContext2D} g @param {Frame} f @param {ReturnType<typeof palette>} colors */
function smallAxes(g, f, colors) {
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of f.ys) {
    rule(g, f.left, f.y(v), f.width - 8, f.y(v), colors.faint);
    g.fillText(num(v), f.left - 5, f.y(v) + 3);
  }
  rule(g, f.left, PANEL_BOTTOM, f.width - 8, PANEL_BOTTOM, colors.soft);
  for (const v of f.xs) g.fillText(num(v), Math.max(f.left + 8, f.x(v)), PANEL_HEIGHT - 5);
}

/** Band, curve and validation of the candidate itself. @param {CanvasRenderingContext2D} g @param {Frame} f @param {Panel} one @param {ReturnType<typeof palette>} colors */
function ownCurve(g, f, one, colors) {
  const color = one.tone === "error" ? colors.error : colors.lines[0], height = (/** @type {number} */ v) => (f.log && v <= 0 ? PANEL_BOTTOM : Math.max(-PANEL_HEIGHT, f.y(v)));
  Object.assign(g, { fillStyle: color, globalAlpha: 0.22 });
  g.beginPath();
  one.x.forEach((x, i) => g.lineTo(f.x(x), height(one.high[i])));
  for (let i = one.x.length - 1; i >= 0; i--) g.lineTo(f.x(one.x[i]), height(one.low[i]));
  g.fill();
  g.globalAlpha = 1;
  thinLine(g, f, one.x, one.middle, color, 2);
  g.fillStyle = colors.lines[1];
  one.looks.forEach((x, i) => {
    g.beginPath();
    g.arc(f.x(x), height(one.validation[i]), 3, 0, 7);
    g.fill();
  });
}

/** @param {CanvasRenderingContext2D} g @param {Frame} f @param {number[]} xs @param {number[]} ys @param {string} color @param {number} width */
function thinLine(g, f, xs, ys, color, width) {
  Object.assign(g, { strokeStyle: color, lineWidth: width, lineJoin: "round" });
  for (const points of stretches(xs, ys, f.x, f.y, f.log)) trace(g, points);
  g.lineWidth = 1;
}

/** What came out, and why. @param {any} state */
function outcome(state) {
  const [sign, tone] = OUTCOMES[state.verdict] ?? [];
  if (!sign) return [];
  return [h(`div.banner.${tone}`, { role: "status" }, h("span.sign", { ariaHidden: "true" }, sign),
    h("div", {}, h("b", {}, state.verdict), state.headline, h("ul", {}, ...state.reasons.map((/** @type {string} */ one) => h("li", {}, one)))))];
}

/** The table, the code of the best, and how it was compared. @param {any} state */
function standings(state) {
  const val = state.panels.some((/** @type {Panel} */ one) => one.val !== null), by = state.judged_by;
  const heads = ["", "loss at the end", "training", ...(val ? ["validation"] : []), "outcome"];
  const loss = (/** @type {number | null} */ v, /** @type {Panel} */ one, /** @type {string} */ name) => h("td", {}, v === null ? "" : num(v), v !== null && name === by && one.error !== null && h("span.soft", {}, ` ± ${num(Number(one.error.toPrecision(2)))}`));
  const rows = state.panels.filter((/** @type {Panel} */ one) => one.rank).map((/** @type {Panel} */ one) => h("tr", {}, h("td", {}, String(one.rank)), h("td", {}, h("b", {}, one.name), h("span.soft", {}, ` ${one.rate}`)),
    loss(one.train, one, "train"), val && loss(one.val, one, "val"), h("td", {}, one.words)));
  if (!state.verdict) return [];
  return [
    h("table.table", { style: "margin-top:10px;overflow-wrap:normal", ariaLabel: "loss at the end" }, h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, ...rows)),
    state.code && h("pre.code", { style: "margin:8px 0;padding:6px 12px" }, state.code),
    ...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)),
  ].filter(Boolean);
}

export default { initialize: keep(() => {}), render };
