// @ts-check
/** Beeswarm plot and dependence plot. */
import { extent, padRange, palette, parseRgb, prepareCanvas, scale } from "../../views/axes.js";
import { arrowStep, formatRounded, h, redrawOnResize } from "../../views/kit.js";
import { drawXAxis, drawYAxis } from "../../views/plots.js";

/** @typedef {{attributions: (number | null)[], values: (number | null)[], partner: number | null}} ImportanceDots */

const ROW_HEIGHT = 28, TOP_MARGIN = 4, BOTTOM_MARGIN = 36, NARROW_WIDTH = 420;

/** The beeswarm plot. @param {any} state @param {(feature: number) => void} go */
export function beeswarmPlot(state, go) {
  /** @type {ImportanceDots[]} */
  const swarms = state.swarms, names = state.rows.slice(0, swarms.length).map((/** @type {any} */ row) => row.name);
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "application", ariaLabel: "Beeswarm: up and down choose a feature, left and right a sample, Enter opens its dependence plot" }));
  const stage = h("div.m-stage", {}, canvas), tip = h("div.note.m-said", { ariaLive: "polite" }, POINT_HINT), ranks = swarms.map((dots) => valueRanks(dots.values));
  const node = h("div", {}, stage, colorLegend("value"), tip), lanes = swarms.map((dots) => sortedIndices(dots.attributions));
  /** @type {[number, number][][]} */
  let spots = [];
  let at = [-1, -1];

  function draw() {
    const width = stage.clientWidth;
    if (!width) return;
    const narrow = width < NARROW_WIDTH, row = narrow ? ROW_HEIGHT + 16 : ROW_HEIGHT, left = narrow ? 8 : Math.min(190, width * 0.28), height = TOP_MARGIN + row * swarms.length + BOTTOM_MARGIN;
    const g = prepareCanvas(canvas, width, height), colors = palette(stage), x = scale(padRange(extent(swarms.flatMap((dots) => dots.attributions))), [left, width - 10]), bottom = height - BOTTOM_MARGIN;
    g.font = `12px ${getComputedStyle(stage).fontFamily}`;
    drawXAxis(g, { left, right: width - 10, top: TOP_MARGIN, bottom, x }, "attribution (SHAP value)", colors, true);
    spots = swarms.map((dots, j) => {
      const middle = TOP_MARGIN + row * j + (narrow ? 16 : 0) + ROW_HEIGHT / 2;
      g.fillStyle = colors.ink;
      g.textAlign = narrow ? "left" : "right";
      g.fillText(fitText(g, names[j], narrow ? width - 12 : left - 12), narrow ? left : left - 10, narrow ? middle - ROW_HEIGHT / 2 - 1 : middle + 4);
      return lanePositions(dots.attributions, x, middle);
    });
    spots.forEach((lane, j) => lane.forEach(([px, py], i) => {
      if (Number.isNaN(px)) return;
      drawPoint(g, px, py, rankColor(ranks[j][i], colors), j === at[0] && i === at[1] ? colors.ink : "");
    }));
  }

  /** @param {number} j @param {number} i */
  function choose(j, i) {
    at = [j, i];
    tip.textContent = j < 0 ? POINT_HINT : describePoint(state, names[j], swarms[j], i);
    draw();
  }

  canvas.onpointermove = (event) => {
    const [j, i] = nearestPoint(spots, event.offsetX, event.offsetY);
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
  redrawOnResize(stage, draw);
  return node;
}

const POINT_HINT = "Point at a dot to read its sample.";

/** The positions of one feature's dots; dots at similar values are spread vertically. @param {(number | null)[]} values @param {(v: number) => number} x @param {number} middle */
function lanePositions(values, x, middle) {
  /** @type {Map<number, number>} */
  const placedCounts = new Map();
  const order = sortedIndices(values), counts = /** @type {Map<number, number>} */ (new Map());
  for (const i of order) { const at = Math.round(x(values[i] ?? 0) / 4); counts.set(at, (counts.get(at) ?? 0) + 1); }
  /** @type {[number, number][]} */
  const out = values.map(() => [NaN, NaN]);
  for (const i of order) {
    const px = x(values[i] ?? 0), at = Math.round(px / 4), n = placedCounts.get(at) ?? 0, room = Math.min(3.2, (ROW_HEIGHT - 6) / (counts.get(at) ?? 1));
    placedCounts.set(at, n + 1);
    out[i] = [px, middle + (n % 2 ? 1 : -1) * Math.ceil(n / 2) * room];
  }
  return out;
}

/** Indices of the finite values, in ascending order of value. @param {(number | null)[]} values */
function sortedIndices(values) {
  return values.map((_, i) => i).filter((i) => values[i] !== null).sort((a, b) => (values[a] ?? 0) - (values[b] ?? 0));
}

/** The rank of each value from 0 to 1; equal values have equal ranks, missing values have none. @param {(number | null)[]} values */
export function valueRanks(values) {
  const distinct = [...new Set(values.filter((value) => value !== null))].sort((a, b) => (a ?? 0) - (b ?? 0)), at = /** @type {Map<number | null, number>} */ (new Map(distinct.map((v, i) => [v, distinct.length > 1 ? i / (distinct.length - 1) : 0.5])));
  return values.map((v) => at.get(v) ?? null);
}

/** The color of a rank. @param {number | null} rank @param {ReturnType<typeof palette>} colors */
export function rankColor(rank, { lines, soft }) {
  if (rank === null) return soft;
  const [low, high] = [parseRgb(lines[0]), parseRgb(lines[1])];
  return `rgb(${low.map((v, i) => Math.round(v + (high[i] - v) * rank)).join(",")})`;
}

/** @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {string} color @param {string} ring */
export function drawPoint(g, x, y, color, ring) {
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

/** Shorten a text to a width. @param {CanvasRenderingContext2D} g @param {string} text @param {number} room */
function fitText(g, text, room) {
  if (g.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && g.measureText(`${text.slice(0, end)}…`).width > room) end--;
  return `${text.slice(0, end)}…`;
}

/** The dot under the pointer; [-1, -1] for none. @param {[number, number][][]} spots @param {number} x @param {number} y @returns {[number, number]} */
export function nearestPoint(spots, x, y) {
  let best = 64;
  /** @type {[number, number]} */
  let nearest = [-1, -1];
  spots.forEach((lane, j) => lane.forEach(([px, py], i) => {
    const distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance < best) { best = distance; nearest = [j, i]; }
  }));
  return nearest;
}

/** A dot as text. @param {any} state @param {string} name @param {ImportanceDots} dots @param {number} i */
export function describePoint(state, name, dots, i) {
  return `sample ${state.samples[i]}: ${name} = ${formatRounded(dots.values[i])}, attribution ${formatRounded(dots.attributions[i])}`;
}

/** The color scale from low to high values. @param {string} subject */
export function colorLegend(subject) {
  return h("div.m-legend", {}, h("span.m-scale", { ariaHidden: "true" }), h("span.note", {}, `low to high ${subject}`));
}

/** The dependence plot, and a function that chooses its feature. @param {any} state */
export function dependencePlot(state) {
  /** @type {ImportanceDots[]} */
  const swarms = state.swarms, names = state.rows.slice(0, swarms.length).map((/** @type {any} */ row) => row.name);
  const feature = /** @type {HTMLSelectElement} */ (h("select.m-pick", { ariaLabel: "feature", onchange: () => choose(Number(feature.value)) }, ...featureOptions(names)));
  const color = /** @type {HTMLSelectElement} */ (h("select.m-pick", { ariaLabel: "colored by", onchange: () => { other = Number(color.value); draw(); } }, h("option", { value: "-1" }, "nothing"), ...featureOptions(names)));
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "application", ariaLabel: "Dependence: left and right choose a sample" })), stage = h("div.m-stage", {}, canvas);
  const tip = h("div.note.m-said", { ariaLive: "polite" }, POINT_HINT), why = h("span.note"), key = colorLegend("");
  const node = h("div", {}, h("div.m-tools", {}, feature, h("label.note", {}, "colored by ", color), why), stage, key, tip);
  let now = 0, other = -1, at = -1;
  /** @type {[number, number][]} */
  let spots = [];

  function draw() {
    const width = Math.min(stage.clientWidth, 720);
    if (!width) return;
    const dots = swarms[now], height = Math.round(Math.max(220, Math.min(380, width * 0.6))), g = prepareCanvas(canvas, width, height), colors = palette(stage);
    const left = 52, right = width - 10, top = 20, bottom = height - 36;
    const x = scale(paddedExtent(dots.values), [left, right]), y = scale(padRange(extent(dots.attributions)), [bottom, top]), frame = { left, right, top, bottom, x, y };
    g.font = `11px ${getComputedStyle(stage).fontFamily}`;
    drawXAxis(g, frame, names[now], colors);
    drawYAxis(g, frame, "attribution (SHAP value)", colors);
    const ranks = other < 0 ? null : valueRanks(swarms[other].values);
    const shift = jitter(dots.values);
    spots = dots.values.map((v, i) => (v === null || dots.attributions[i] === null ? [NaN, NaN] : [x(v) + shift(i), y(dots.attributions[i] ?? 0)]));
    spots.forEach(([px, py], i) => {
      if (!Number.isNaN(px)) drawPoint(g, px, py, ranks ? rankColor(ranks[i], colors) : colors.lines[0], i === at ? colors.ink : "");
    });
    key.hidden = other < 0;
    if (other >= 0) key.lastElementChild?.replaceChildren(`low to high ${names[other]}`);
  }

  /** @param {number} j */
  function choose(j) {
    const partner = swarms[j].partner;
    [now, other, at] = [j, partner ?? -1, -1];
    feature.value = String(j);
    color.value = String(other);
    why.textContent = partner === null ? "No interaction with another feature was detected." : `Strongest interaction: ${names[partner]}.`;
    tip.textContent = POINT_HINT;
    draw();
  }

  /** @param {number} i */
  function read(i) {
    at = i;
    const also = other >= 0 && i >= 0 ? `, ${names[other]} = ${formatRounded(swarms[other].values[i])}` : "";
    tip.textContent = i < 0 ? POINT_HINT : describePoint(state, names[now], swarms[now], i) + also;
    draw();
  }

  canvas.onpointermove = (event) => {
    const [, i] = nearestPoint([spots], event.offsetX, event.offsetY);
    if (i !== at) read(i);
  };
  canvas.onpointerleave = () => read(-1);
  canvas.onkeydown = (event) => {
    const step = arrowStep(event, true);
    if (!step) return;
    const order = spots.map((_, i) => i).filter((i) => !Number.isNaN(spots[i][0])).sort((a, b) => spots[a][0] - spots[b][0]), position = order.indexOf(at) + step[1];
    read(order[Math.max(0, Math.min(order.length - 1, position))] ?? -1);
  };
  redrawOnResize(stage, draw);
  choose(0);
  return { node, choose };
}

/** @param {string[]} names */
function featureOptions(names) {
  return names.map((name, i) => h("option", { value: String(i) }, name));
}

/** A horizontal jitter for features with few distinct values; it is deterministic. @param {(number | null)[]} values */
function jitter(values) {
  const isDiscrete = new Set(values).size <= 12;
  return (/** @type {number} */ i) => (isDiscrete ? ((i * 0.618034) % 1 - 0.5) * 16 : 0);
}

/** The range with padding on both sides, so that dots do not touch the edge. @param {(number | null)[]} values @returns {[number, number]} */
function paddedExtent(values) {
  const [low, high] = extent(values), padding = (high - low) * 0.06;
  return [low - padding, high + padding];
}
