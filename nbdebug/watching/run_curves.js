// @ts-check
/** Loss and metric curves of a run. */
/** @import { Store, ViewState } from "./store.js" */
import { palette, prepareCanvas } from "../views/axes.js";
import { formatNumber, h, renderTabs } from "../views/kit.js";
import { lineChart } from "../views/line_chart.js";
import { columnPoints } from "./store.js";

const MIN_POINTS_TO_SMOOTH = 240;
/** @type {Record<string, string[]>} */
const GROUPS = {
  Loss: ["loss", "eval_loss", "sample_train_loss", "sample_val_loss"],
  Score: ["sample_train_score", "sample_val_score", "sample_changed"],
  "Learning rate": ["lr"],
  Momentum: ["momentum"],
  "Gradient norm": ["gradient_norm", "raw_gradient_norm"],
  "Step time": ["step_seconds", "wait_seconds"],
};
const FROM_ZERO = ["Learning rate", "Step time"];
/**
 * The style of each quantity, the same in all groups: the color (of six) says whether it is measured in training, in
 * validation or elsewhere; from 6 it is dashed, with hollow points: of the fixed samples, or the lesser of two.
 * @type {Record<string, number>}
 */
const STYLES = {
  loss: 0,
  sample_train_loss: 6,
  sample_train_score: 6,
  eval_loss: 2,
  sample_val_loss: 8,
  sample_val_score: 8,
  sample_changed: 15,
  gradient_norm: 1,
  raw_gradient_norm: 7,
  lr: 4,
  momentum: 5,
  step_seconds: 3,
  wait_seconds: 9,
};
const OTHER_STYLES = { train: [6, 12, 0], val: [8, 14, 2], other: [3, 5, 4, 1, 9, 11, 10, 7] };

/**
 * The curves of the run, one group at a time.
 * @param {(step: number) => void} onStep @param {Record<string, string>} names what a person calls them @param {ViewState} viewState
 */
export function runCurves(onStep, names, viewState) {
  const tabs = h("div.tabs", { role: "group", ariaLabel: "curves" }),
    host = h("div", { onclick: () => placePin() });
  const picture = lineChart(host, onStep),
    norms = clipSuggestion(),
    pin = h("i.pin", { hidden: true });
  host.querySelector(".nb-plot")?.append(pin);
  /** @type {Store | null} */
  let store = null;
  let at = 0,
    pinned = false,
    /** @type {any[]} */ drawnKey = [],
    /** @type {() => any} */ currentLayout = () => undefined;

  /** Draw the curves only if they changed: the slider moves only a line in front of them. */
  function draw() {
    if (!store) return;
    const { words, run, evaluations, layers } = store,
      key = [store, viewState.group, run.have, evaluations.have, layers.have, words.findings, words.events];
    if (key.some((part, i) => part !== drawnKey[i])) plot(store);
    drawnKey = key;
    placePin();
  }

  /** @param {Store} now */
  function plot(now) {
    /** @type {Record<string, string[]>} */
    const all = availableGroups(now);
    const group = all[viewState.group] ? viewState.group : (Object.keys(all)[0] ?? viewState.group);
    tabs.hidden = Object.keys(all).length < 2;
    renderTabs(tabs, Object.fromEntries(Object.keys(all).map((name) => [name, name])), group, (name) => {
      viewState.group = name;
      draw();
    });
    const styles = lineStyles(all[group] ?? []),
      lines = (all[group] ?? []).map((name, i) => ({ ...smoothedLine(now, name), name: names[name] ?? name, style: styles[i] })),
      words = { x_label: "step", y_label: "", title: group, limits: [], log: false, log_x: false },
      axes = { wide: stepRange(now), spacing: usualDistance(now.run.steps), fromZero: FROM_ZERO.includes(group) };
    currentLayout = picture({ ...words, ...axes, lines, marks: eventMarks(now) });
    norms.show(now, group === "Gradient norm");
  }

  function placePin() {
    const layout = currentLayout();
    pin.hidden = !pinned || !layout;
    if (!layout) return;
    Object.assign(pin.style, {
      left: `${Math.round(layout.x(at))}px`,
      top: `${layout.top}px`,
      height: `${layout.bottom - layout.top}px`,
    });
  }

  return {
    node: h("div.curves", {}, tabs, host, norms.node),
    /** The axis of the steps in the chart. */
    axis: () => currentLayout(),
    /** @param {Store} now @param {number} step @param {boolean} fixed */
    show(now, step, fixed) {
      [store, at, pinned] = [now, step, fixed];
      draw();
    },
  };
}

/** The first and the last step with any measurement: one axis for all groups. @param {Store} store */
function stepRange({ run, evaluations, layers }) {
  const ends = [run, evaluations, layers].flatMap(({ steps }) => (steps.length ? [steps[0], steps[steps.length - 1]] : []));
  return ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1];
}

/** The median distance of recorded steps, undefined for fewer than two. @param {number[]} steps */
function usualDistance(steps) {
  return steps
    .slice(1)
    .map((step, i) => step - steps[i])
    .sort((a, b) => a - b)[(steps.length - 1) >> 1];
}

/** A different style for each line of a group; a logged metric takes the color of its part of the data. @param {string[]} columns */
function lineStyles(columns) {
  /** @type {Set<number>} */
  const taken = new Set();
  return columns.map((name) => {
    const part = name.startsWith("sample_train_") ? "train" : name.startsWith("sample_val_") ? "val" : "other",
      wanted = name in STYLES ? [STYLES[name]] : OTHER_STYLES[part],
      style = [...wanted, ...Array(18).keys()].find((number) => !taken.has(number)) ?? 0;
    taken.add(style);
    return style;
  });
}

/** The groups with data; metrics logged under other names come last. @param {Store} store */
function availableGroups({ run, evaluations }) {
  const available = [...run.columns.keys(), ...evaluations.columns.keys()],
    assigned = new Set([...Object.values(GROUPS).flat(), "clip_scale", "skipped", "epoch"]);
  const all = { ...GROUPS, Logged: available.filter((name) => !assigned.has(name)) };
  return Object.fromEntries(
    Object.entries(all)
      .map(([name, members]) => [name, members.filter((column) => available.includes(column))])
      .filter(([, members]) => members.length),
  );
}

/**
 * A line; a noisy line is its moving average, with the raw values behind it.
 * @param {Store} store @param {string} name
 */
function smoothedLine({ run, evaluations }, name) {
  const { x, y } = columnPoints(run.columns.has(name) ? run : evaluations, name),
    bad = y.filter((v) => v === null).length;
  if (y.length < MIN_POINTS_TO_SMOOTH || bad || name === "lr" || name === "momentum") return { name, x, y, bad };
  const half = Math.ceil(y.length / 120),
    sums = [0];
  for (const v of y) sums.push(sums[sums.length - 1] + (v ?? 0));
  const mean = y.map((_, i) => {
    const a = Math.max(0, i - half),
      b = Math.min(y.length, i + half + 1);
    return (sums[b] - sums[a]) / (b - a);
  });
  return { name, x, y: mean, bad, raw: y };
}

/** Findings and events, at their steps. @param {Store} store */
function eventMarks({ words }) {
  const findingMarks = words.findings.filter((finding) => finding.step !== null).map((finding) => ({ at: finding.step ?? 0, text: finding.code }));
  const unplaced = new Set(words.findings.filter((finding) => finding.step === null).map((finding) => finding.code));
  const otherMarks = words.events
    .filter(([, kind, text]) => kind !== "finding" || unplaced.has(text.split(" ")[0]))
    .map(([at, kind, text]) => ({ at, text: kind === "finding" ? text.split(" ")[0] : text }));
  return [...findingMarks, ...otherMarks];
}

/** The distribution of gradient norms, and the 95th percentile as a clip threshold. */
function clipSuggestion() {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })),
    summary = h("summary"),
    node = h("details.fold", { hidden: true }, summary, h("div.stage", {}, canvas));
  /** @type {number[]} */
  let norms = [];
  const draw = () => {
    if (node.hasAttribute("open")) drawNormHistogram(canvas, norms);
  };
  node.addEventListener("toggle", draw);
  return {
    node,
    /** @param {Store} store @param {boolean} visible */
    show({ run }, visible) {
      const hasNorms = run.columns.has("gradient_norm") || run.columns.has("raw_gradient_norm");
      node.hidden = !hasNorms;
      node.style.visibility = visible ? "" : "hidden"; // it keeps its place, so that what is below does not jump
      if (!visible) node.removeAttribute("open");
      if (!visible || !hasNorms) return;
      const name = run.columns.has("raw_gradient_norm") ? "raw_gradient_norm" : "gradient_norm";
      norms = columnPoints(run, name)
        .y.filter((v) => v !== null && v > 0)
        .map(Number)
        .sort((a, b) => a - b);
      node.style.visibility = norms.length < 20 ? "hidden" : "";
      const at = norms[Math.floor(0.95 * norms.length)];
      summary.textContent = `Suggested clip threshold: ${formatNumber(Number(at?.toPrecision(2)))}, the 95th percentile of ${norms.length} gradient norms`;
      draw();
    },
  };
}

/** @param {HTMLCanvasElement} canvas @param {number[]} norms sorted */
function drawNormHistogram(canvas, norms) {
  const width = Math.min(480, canvas.parentElement?.clientWidth ?? 0),
    high = 96,
    g = prepareCanvas(canvas, width, high),
    colors = palette(canvas.parentElement ?? canvas);
  const low = Math.log(norms[0]),
    span = Math.log(norms[norms.length - 1]) - low || 1,
    x = (/** @type {number} */ v) => ((Math.log(v) - low) / span) * (width - 8) + 4;
  const counts = new Float32Array(48),
    limit = norms[Math.floor(0.95 * norms.length)],
    barWidth = (width - 8) / 48;
  for (const v of norms) counts[Math.min(47, Math.floor((48 * (Math.log(v) - low)) / span))]++;
  const top = Math.max(...counts);
  counts.forEach((n, i) => {
    g.fillStyle = 4 + i * barWidth >= x(limit) ? colors.lines[1] : colors.lines[0];
    const up = (n / top) * (high - 38);
    g.fillRect(4 + i * barWidth, high - 18 - up, barWidth - 1, up);
  });
  g.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  g.fillStyle = colors.soft;
  g.fillText(formatNumber(norms[0]), 4, high - 4);
  g.textAlign = "right";
  g.fillText(formatNumber(norms[norms.length - 1]), width - 4, high - 4);
  g.fillStyle = colors.ink;
  g.fillRect(x(limit), 14, 1, high - 32);
  g.textAlign = x(limit) > width / 2 ? "right" : "left";
  g.fillText(` 95 %: ${formatNumber(limit)} `, x(limit), 11);
  canvas.ariaLabel = `Distribution of gradient norms from ${formatNumber(norms[0])} to ${formatNumber(norms[norms.length - 1])}; 95% are below ${formatNumber(limit)}`;
}
