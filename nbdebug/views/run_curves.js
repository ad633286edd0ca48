// @ts-check
/** @import { Store } from "./layer_store.js" */
/** @import { LayersPlace } from "./layers_place.js" */
import { chart } from "./chart.js";
import { h, num } from "./kit.js";
import { palette, sharp } from "./axes.js";
import { points } from "./layer_store.js";
import { pick } from "./tabs.js";

const NOISY = 240;
/** @type {Record<string, string[]>} */
const GROUPS = {
  Loss: ["loss", "eval_loss", "sample_train_loss", "sample_val_loss"],
  Score: ["sample_train_score", "sample_val_score", "sample_changed"],
  Rate: ["lr", "momentum"],
  "Gradient norm": ["gradient_norm", "raw_gradient_norm"],
  "Step time": ["step_seconds", "wait_seconds"],
};

/**
 * The curves of the run, one group at a time.
 * @param {(step: number) => void} go @param {Record<string, string>} names what a person calls them @param {LayersPlace} place
 */
export function runCurves(go, names, place) {
  const tabs = h("div.tabs", { role: "group", ariaLabel: "curves" }),
    host = h("div", { onclick: () => mark() });
  const picture = chart(host, go),
    norms = clipping(),
    pin = h("i.pin", { hidden: true });
  host.querySelector(".nb-plot")?.append(pin);
  /** @type {Store | null} */
  let store = null;
  let at = 0,
    held = false,
    /** @type {any[]} */ known = [],
    /** @type {() => any} */ layoutNow = () => undefined;

  /** The curves are drawn only when they are others: the slider moves nothing but a line before them. */
  function draw() {
    if (!store) return;
    const { words, run, evaluations } = store,
      key = [store, place.group, run.have, evaluations.have, words.findings, words.events];
    if (key.some((one, i) => one !== known[i])) plot(store);
    known = key;
    mark();
  }

  /** @param {Store} now */
  function plot(now) {
    /** @type {Record<string, string[]>} */
    const all = groupsOf(now);
    if (!all[place.group]) place.group = Object.keys(all)[0] ?? place.group;
    const { group } = place;
    tabs.hidden = Object.keys(all).length < 2;
    pick(tabs, Object.fromEntries(Object.keys(all).map((one) => [one, one])), group, (one) => {
      place.group = one;
      draw();
    });
    const lines = (all[group] ?? []).map((name) => ({ ...lineOf(now, name), name: names[name] ?? name })),
      words = { x_label: "step", y_label: "", title: group };
    layoutNow = picture({ ...words, lines, marks: marksOf(now), limits: [], log: false, log_x: false });
    norms.show(now, group === "Gradient norm");
  }

  function mark() {
    const shown = layoutNow();
    pin.hidden = !held || !shown;
    if (!shown) return;
    Object.assign(pin.style, {
      left: `${Math.round(shown.x(at))}px`,
      top: `${shown.top}px`,
      height: `${shown.bottom - shown.top}px`,
    });
  }

  return {
    node: h("div.curves", {}, tabs, host, norms.node),
    /** @param {Store} now @param {number} step @param {boolean} fixed */
    show(now, step, fixed) {
      [store, at, held] = [now, step, fixed];
      draw();
    },
  };
}

/** Groups that hold anything; what was logged under other names comes last. @param {Store} store */
function groupsOf({ run, evaluations }) {
  const there = [...run.columns.keys(), ...evaluations.columns.keys()],
    known = new Set([...Object.values(GROUPS).flat(), "clip_scale", "skipped", "epoch"]);
  const all = { ...GROUPS, Logged: there.filter((name) => !known.has(name)) };
  return Object.fromEntries(
    Object.entries(all)
      .map(([name, ones]) => [name, ones.filter((one) => there.includes(one))])
      .filter(([, ones]) => ones.length),
  );
}

/**
 * A line; a noisy one is its moving mean, with itself behind it.
 * @param {Store} store @param {string} name
 */
function lineOf({ run, evaluations }, name) {
  const { x, y } = points(run.columns.has(name) ? run : evaluations, name),
    bad = y.filter((v) => v === null).length;
  if (y.length < NOISY || bad || name === "lr") return { name, x, y, bad };
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

/** Findings and what happened, each where it was seen. @param {Store} store */
function marksOf({ words }) {
  const found = words.findings.filter((one) => one.step !== null).map((one) => ({ at: one.step ?? 0, text: one.code }));
  const unplaced = new Set(words.findings.filter((one) => one.step === null).map((one) => one.code));
  const told = words.events
    .filter(([, kind, text]) => kind !== "finding" || unplaced.has(text.split(" ")[0]))
    .map(([at, kind, text]) => ({ at, text: kind === "finding" ? text.split(" ")[0] : cut(text) }));
  return [...found, ...told];
}

/** @param {string} text */
function cut(text) {
  return text.length > 24 ? `${text.slice(0, 23)}…` : text;
}

/** How gradient norms lie, and where the 95th percentile would clip. */
function clipping() {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })),
    said = h("summary"),
    node = h("details.fold", { hidden: true }, said, h("div.stage", {}, canvas));
  /** @type {number[]} */
  let norms = [];
  const draw = () => {
    if (node.hasAttribute("open")) tower(canvas, norms);
  };
  node.addEventListener("toggle", draw);
  return {
    node,
    /** @param {Store} store @param {boolean} shown */
    show({ run }, shown) {
      node.hidden = !shown;
      if (!shown) return;
      const name = run.columns.has("raw_gradient_norm") ? "raw_gradient_norm" : "gradient_norm";
      norms = points(run, name)
        .y.filter((v) => v !== null && v > 0)
        .map(Number)
        .sort((a, b) => a - b);
      node.hidden = norms.length < 20;
      const at = norms[Math.floor(0.95 * norms.length)];
      said.textContent = `Suggested clip threshold: ${num(Number(at?.toPrecision(2)))}, the 95th percentile of ${norms.length} gradient norms`;
      draw();
    },
  };
}

/** @param {HTMLCanvasElement} canvas @param {number[]} norms sorted */
function tower(canvas, norms) {
  const width = Math.min(480, canvas.parentElement?.clientWidth ?? 0),
    high = 96,
    g = sharp(canvas, width, high),
    colors = palette(canvas.parentElement ?? canvas);
  const low = Math.log(norms[0]),
    span = Math.log(norms[norms.length - 1]) - low || 1,
    x = (/** @type {number} */ v) => ((Math.log(v) - low) / span) * (width - 8) + 4;
  const counts = new Float32Array(48),
    limit = norms[Math.floor(0.95 * norms.length)],
    one = (width - 8) / 48;
  for (const v of norms) counts[Math.min(47, Math.floor((48 * (Math.log(v) - low)) / span))]++;
  const top = Math.max(...counts);
  counts.forEach((n, i) => {
    g.fillStyle = 4 + i * one >= x(limit) ? colors.lines[1] : colors.lines[0];
    const up = (n / top) * (high - 38);
    g.fillRect(4 + i * one, high - 18 - up, one - 1, up);
  });
  g.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  g.fillStyle = colors.soft;
  g.fillText(num(norms[0]), 4, high - 4);
  g.textAlign = "right";
  g.fillText(num(norms[norms.length - 1]), width - 4, high - 4);
  g.fillStyle = colors.ink;
  g.fillRect(x(limit), 14, 1, high - 32);
  g.textAlign = x(limit) > width / 2 ? "right" : "left";
  g.fillText(` 95 %: ${num(limit)} `, x(limit), 11);
  canvas.ariaLabel = `Distribution of gradient norms from ${num(norms[0])} to ${num(norms[norms.length - 1])}; 95 percent are under ${num(limit)}`;
}
