// @ts-check
/** The value of a feature against its attribution, colored by the feature that it interacts most with. */
/** @import { ImportanceDots } from "./swarm.js" */
import { extent, palette, roomy, scale, sharp } from "../axes.js";
import { axisBelow, axisBeside } from "../axis_lines.js";
import { arrowStep, brief, h, watch } from "../kit.js";
import { importanceColor, importanceDot, importanceLegend, importanceNearest, importanceRanks, importanceSaid } from "./swarm.js";

const DEPENDENCE_HINT = "Point at a dot to read its sample.";

/** The picture, and a way to choose its feature. @param {any} state */
export function importanceDependence(state) {
  /** @type {ImportanceDots[]} */
  const swarms = state.swarms, names = state.rows.slice(0, swarms.length).map((/** @type {any} */ one) => one.name);
  const feature = /** @type {HTMLSelectElement} */ (h("select.m-pick", { ariaLabel: "feature", onchange: () => choose(Number(feature.value)) }, ...dependenceOptions(names)));
  const color = /** @type {HTMLSelectElement} */ (h("select.m-pick", { ariaLabel: "colored by", onchange: () => { other = Number(color.value); draw(); } }, h("option", { value: "-1" }, "nothing"), ...dependenceOptions(names)));
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabIndex: 0, role: "application", ariaLabel: "Dependence: left and right choose a sample" })), stage = h("div.m-stage", {}, canvas);
  const tip = h("div.note.m-said", { ariaLive: "polite" }, DEPENDENCE_HINT), why = h("span.note"), key = importanceLegend("");
  const node = h("div", {}, h("div.m-tools", {}, feature, h("label.note", {}, "colored by ", color), why), stage, key, tip);
  let now = 0, other = -1, at = -1;
  /** @type {[number, number][]} */
  let spots = [];

  function draw() {
    const width = Math.min(stage.clientWidth, 720);
    if (!width) return;
    const one = swarms[now], height = Math.round(Math.max(220, Math.min(380, width * 0.6))), g = sharp(canvas, width, height), colors = palette(stage);
    const left = 52, right = width - 10, top = 20, bottom = height - 36;
    const x = scale(dependenceRoom(one.values), [left, right]), y = scale(roomy(extent(one.attributions)), [bottom, top]), frame = { left, right, top, bottom, x, y };
    g.font = `11px ${getComputedStyle(stage).fontFamily}`;
    axisBelow(g, frame, names[now], colors);
    axisBeside(g, frame, "attribution (SHAP value)", colors);
    const ranks = other < 0 ? null : importanceRanks(swarms[other].values);
    const shift = dependenceShift(one.values);
    spots = one.values.map((v, i) => (v === null || one.attributions[i] === null ? [NaN, NaN] : [x(v) + shift(i), y(one.attributions[i] ?? 0)]));
    spots.forEach(([px, py], i) => {
      if (!Number.isNaN(px)) importanceDot(g, px, py, ranks ? importanceColor(ranks[i], colors) : colors.lines[0], i === at ? colors.ink : "");
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
    why.textContent = partner === null ? "No other feature is seen to change what it contributes." : `${names[partner]} changes what it contributes most.`;
    tip.textContent = DEPENDENCE_HINT;
    draw();
  }

  /** @param {number} i */
  function read(i) {
    at = i;
    const also = other >= 0 && i >= 0 ? `, ${names[other]} = ${brief(swarms[other].values[i])}` : "";
    tip.textContent = i < 0 ? DEPENDENCE_HINT : importanceSaid(state, names[now], swarms[now], i) + also;
    draw();
  }

  canvas.onpointermove = (event) => {
    const [, i] = importanceNearest([spots], event.offsetX, event.offsetY);
    if (i !== at) read(i);
  };
  canvas.onpointerleave = () => read(-1);
  canvas.onkeydown = (event) => {
    const step = arrowStep(event, true);
    if (!step) return;
    const order = spots.map((_, i) => i).filter((i) => !Number.isNaN(spots[i][0])).sort((a, b) => spots[a][0] - spots[b][0]), place = order.indexOf(at) + step[1];
    read(order[Math.max(0, Math.min(order.length - 1, place))] ?? -1);
  };
  watch(stage, draw);
  choose(0);
  return { node, choose };
}

/** @param {string[]} names */
function dependenceOptions(names) {
  return names.map((name, i) => h("option", { value: String(i) }, name));
}

/** Dots of few values are spread a little sideways, each always alike. @param {(number | null)[]} values */
function dependenceShift(values) {
  const few = new Set(values).size <= 12;
  return (/** @type {number} */ i) => (few ? ((i * 0.618034) % 1 - 0.5) * 16 : 0);
}

/** Air on both sides, so that few values stand clear of the edge. @param {(number | null)[]} values @returns {[number, number]} */
function dependenceRoom(values) {
  const [low, high] = extent(values), air = (high - low) * 0.06;
  return [low - air, high + air];
}
