// @ts-check
/** One dot a sample for each feature, colored by the value of the feature. */
import { extent, palette, rgbOf, roomy, scale, sharp } from "../axes.js";
import { axisBelow } from "../axis_lines.js";
import { arrowStep, brief, h, watch } from "../kit.js";

/** @typedef {{attributions: (number | null)[], values: (number | null)[], partner: number | null}} ImportanceDots */

const SWARM_ROW = 28, SWARM_TOP = 4, SWARM_BOTTOM = 36, SWARM_NARROW = 420;

/** The picture. @param {any} state @param {(feature: number) => void} go */
export function importanceSwarm(state, go) {
  /** @type {ImportanceDots[]} */
  const swarms = state.swarms, names = state.rows.slice(0, swarms.length).map((/** @type {any} */ one) => one.name);
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "application", ariaLabel: "Beeswarm: up and down choose a feature, left and right a sample, Enter opens its dependence" }));
  const stage = h("div.m-stage", {}, canvas), tip = h("div.note.m-said", { ariaLive: "polite" }, SWARM_HINT), ranks = swarms.map((one) => importanceRanks(one.values));
  const node = h("div", {}, stage, importanceLegend("value"), tip), lanes = swarms.map((one) => importanceSorted(one.attributions));
  /** @type {[number, number][][]} */
  let spots = [];
  let at = [-1, -1];

  function draw() {
    const width = stage.clientWidth;
    if (!width) return;
    const narrow = width < SWARM_NARROW, row = narrow ? SWARM_ROW + 16 : SWARM_ROW, left = narrow ? 8 : Math.min(190, width * 0.28), height = SWARM_TOP + row * swarms.length + SWARM_BOTTOM;
    const g = sharp(canvas, width, height), colors = palette(stage), x = scale(roomy(extent(swarms.flatMap((one) => one.attributions))), [left, width - 10]), bottom = height - SWARM_BOTTOM;
    g.font = `12px ${getComputedStyle(stage).fontFamily}`;
    axisBelow(g, { left, right: width - 10, top: SWARM_TOP, bottom, x }, "attribution (SHAP value)", colors, true);
    spots = swarms.map((one, j) => {
      const middle = SWARM_TOP + row * j + (narrow ? 16 : 0) + SWARM_ROW / 2;
      g.fillStyle = colors.ink;
      g.textAlign = narrow ? "left" : "right";
      g.fillText(importanceCut(g, names[j], narrow ? width - 12 : left - 12), narrow ? left : left - 10, narrow ? middle - SWARM_ROW / 2 - 1 : middle + 4);
      return importanceLane(one.attributions, x, middle);
    });
    spots.forEach((lane, j) => lane.forEach(([px, py], i) => {
      if (Number.isNaN(px)) return;
      importanceDot(g, px, py, importanceColor(ranks[j][i], colors), j === at[0] && i === at[1] ? colors.ink : "");
    }));
  }

  /** @param {number} j @param {number} i */
  function choose(j, i) {
    at = [j, i];
    tip.textContent = j < 0 ? SWARM_HINT : importanceSaid(state, names[j], swarms[j], i);
    draw();
  }

  canvas.onpointermove = (event) => {
    const [j, i] = importanceNearest(spots, event.offsetX, event.offsetY);
    if (j !== at[0] || i !== at[1]) choose(j, i);
  };
  canvas.onpointerleave = () => choose(-1, -1);
  canvas.onclick = () => { if (at[0] >= 0) go(at[0]); };
  canvas.onkeydown = (event) => {
    if (event.key === "Enter" && at[0] >= 0) go(at[0]);
    const step = arrowStep(event);
    if (!step) return;
    const j = Math.max(0, Math.min(swarms.length - 1, at[0] + (at[0] < 0 ? 1 : step[0]))), lane = lanes[j], now = j === at[0] ? lane.indexOf(at[1]) + step[1] : 0;
    choose(j, lane[Math.max(0, Math.min(lane.length - 1, now))] ?? 0);
  };
  watch(stage, draw);
  return node;
}

const SWARM_HINT = "Point at a dot to read its sample.";

/** Where the dots of one feature lie: beside each other where they would cover one another. @param {(number | null)[]} values @param {(v: number) => number} x @param {number} middle */
function importanceLane(values, x, middle) {
  /** @type {Map<number, number>} */
  const taken = new Map();
  const places = importanceSorted(values), most = /** @type {Map<number, number>} */ (new Map());
  for (const i of places) { const at = Math.round(x(values[i] ?? 0) / 4); most.set(at, (most.get(at) ?? 0) + 1); }
  /** @type {[number, number][]} */
  const out = values.map(() => [NaN, NaN]);
  for (const i of places) {
    const px = x(values[i] ?? 0), at = Math.round(px / 4), n = taken.get(at) ?? 0, room = Math.min(3.2, (SWARM_ROW - 6) / (most.get(at) ?? 1));
    taken.set(at, n + 1);
    out[i] = [px, middle + (n % 2 ? 1 : -1) * Math.ceil(n / 2) * room];
  }
  return out;
}

/** The places of the finite values, from low to high. @param {(number | null)[]} values */
function importanceSorted(values) {
  return values.map((_, i) => i).filter((i) => values[i] !== null).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
}

/** The rank of each value from 0 to 1, equal ones alike; null where there is none. @param {(number | null)[]} values */
export function importanceRanks(values) {
  const kept = [...new Set(values.filter((one) => one !== null))].sort((a, b) => (a ?? 0) - (b ?? 0)), at = /** @type {Map<number | null, number>} */ (new Map(kept.map((v, i) => [v, kept.length > 1 ? i / (kept.length - 1) : 0.5])));
  return values.map((v) => at.get(v) ?? null);
}

/** From low to high. @param {number | null} rank @param {ReturnType<typeof palette>} colors */
export function importanceColor(rank, { lines, soft }) {
  if (rank === null) return soft;
  const [low, high] = [rgbOf(lines[0]), rgbOf(lines[1])];
  return `rgb(${low.map((v, i) => Math.round(v + (high[i] - v) * rank)).join(",")})`;
}

/** @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {string} color @param {string} ring */
export function importanceDot(g, x, y, color, ring) {
  g.globalAlpha = ring ? 1 : 0.8;
  g.fillStyle = color;
  g.beginPath();
  g.arc(x, y, ring ? 4 : 2.4, 0, 7);
  g.fill();
  g.globalAlpha = 1;
  if (!ring) return;
  g.strokeStyle = ring;
  g.stroke();
}

/** A text that fits. @param {CanvasRenderingContext2D} g @param {string} text @param {number} room */
function importanceCut(g, text, room) {
  if (g.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && g.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return `${text.slice(0, end)}…`;
}

/** The dot under the pointer, [-1, -1] for none. @param {[number, number][][]} spots @param {number} x @param {number} y @returns {[number, number]} */
export function importanceNearest(spots, x, y) {
  let best = 64;
  /** @type {[number, number]} */
  let found = [-1, -1];
  spots.forEach((lane, j) => lane.forEach(([px, py], i) => {
    const far = (px - x) ** 2 + (py - y) ** 2;
    if (far < best) { best = far; found = [j, i]; }
  }));
  return found;
}

/** A dot in words. @param {any} state @param {string} name @param {ImportanceDots} one @param {number} i */
export function importanceSaid(state, name, one, i) {
  return `sample ${state.samples[i]}: ${name} = ${brief(one.values[i])}, attribution ${brief(one.attributions[i])}`;
}

/** What colors mean. @param {string} of */
export function importanceLegend(of) {
  return h("div.m-legend", {}, h("span.m-scale", { ariaHidden: "true" }), h("span.note", {}, `low to high ${of}`));
}
