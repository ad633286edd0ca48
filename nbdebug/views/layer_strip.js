// @ts-check
/** @import { Store } from "./layer_store.js" */
/** @import { Row } from "./layer_rows.js" */
import { palette, sharp } from "./axes.js";
import { h, num, press, watch } from "./kit.js";
import { BINS, MIDDLE, upto, valueAt } from "./layer_store.js";
import { FAMILIES } from "./layer_rows.js";
import { HUES, bars, magnitude, windowOf } from "./layer_cells.js";

/** @typedef {{steps: number[], lists: Float32Array[], window: [number, number], hue: number}} Film */

const KINDS = { strip: "Heat strip", bands: "Percentiles", ridge: "Ridge" };
const STATISTICS = ["norm", "mean", "std", "absmax", "zeros", "nonfinite"];
const HIGH = 240, LEFT = 52, FOOT = 20, RIDGES = 16;
const SPREADS = [[0.05, 0.95, 0.2], [0.25, 0.75, 0.45]];

/** One layer over time. @param {() => void} close */
export function layerPanel(close) {
  const name = h("b"), kind = h("span.soft"), tabs = h("div.tabs", { role: "group", ariaLabel: "signal" }), modes = h("div.tabs", { role: "group", ariaLabel: "picture" });
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })), said = h("div"), numbers = h("tbody");
  const heads = h("tr", {}, h("th"), ...STATISTICS.map((one) => h("th", { scope: "col" }, one === "nonfinite" ? "not finite" : one)));
  const node = h("section.panel", { hidden: true, ariaLabel: "layer over time" },
    h("div.head", {}, h("div", {}, name, " ", kind), press("close", "Close", close)), said,
    h("div.head", {}, tabs, modes), h("div.stage", {}, canvas), h("div.scroll", {}, h("table.table.numbers", {}, h("thead", {}, heads), numbers)));
  /** @type {Row | null} */
  let row = null;
  /** @type {Store | null} */
  let store = null;
  let step = 0, signal = "", mode = "strip";

  function draw() {
    node.hidden = !row;
    if (!row || !store) return;
    const now = store, { path, params } = row, signals = store.words.drawn.filter((one) => params.includes(one.split("|")[1]) || one === `activation|${path}`);
    if (!signals.includes(signal)) signal = signals.find((one) => one.split("|")[0] === signal.split("|")[0]) ?? signals[0] ?? "";
    name.textContent = path || row.name;
    kind.textContent = row.kind;
    said.replaceChildren(...row.found.map((one) => h(`div.tone.${one.severity}`, {}, h("b", {}, `${one.code} `), one.message)));
    pick(tabs, Object.fromEntries(signals.map((one) => [one, called(one)])), signal, (one) => { signal = one; draw(); });
    pick(modes, KINDS, mode, (one) => { mode = one; draw(); });
    picture(store, store.words.drawn.indexOf(signal));
    numbers.replaceChildren(...signals.map((one) => h("tr", {}, h("th", { scope: "row" }, called(one)), ...cells(now, one, step))));
  }

  /** @param {Store} store @param {number} at */
  function picture(store, at) {
    const width = canvas.parentElement?.clientWidth ?? 0;
    if (!width) return;
    const g = sharp(canvas, width, HIGH), colors = palette(node), film = filmOf(store, at, signal);
    g.font = `11px ${getComputedStyle(node).fontFamily}`;
    canvas.ariaLabel = `${called(signal)}: ${film.steps.length} histograms from step ${num(film.steps[0])} to ${num(film.steps.at(-1))}`;
    if (!film.steps.length) return void g.fillText("No histogram was drawn.", LEFT, 40);
    if (mode === "ridge") return ridge(g, film, width, colors);
    (mode === "strip" ? heat : bands)(g, film, width, colors);
    frameOf(g, film, width, step, colors);
  }

  watch(canvas.parentElement ?? node, draw);
  return {
    node,
    /** @param {Store} now @param {Row | null} one @param {number} at */
    show(now, one, at) {
      [store, row, step] = [now, one, at];
      draw();
    },
  };
}

/** A place in words: what of it, and which parameter. @param {string} signal */
function called(signal) {
  const [family, place] = signal.split("|");
  return family === "activation" ? family : `${family} · ${place.split(".").at(-1)}`;
}

/** Buttons of which one is down; made anew only when they are others. @param {HTMLElement} node @param {Record<string, string>} names @param {string} now @param {(name: string) => void} click */
export function pick(node, names, now, click) {
  const keys = Object.keys(names), key = keys.join("\n");
  if (node.dataset.key !== key) node.replaceChildren(...keys.map((one) => press("tab", names[one], () => click(one))));
  node.dataset.key = key;
  [...node.children].forEach((one, i) => { one.ariaPressed = String(keys[i] === now); });
}

/** @param {Store} store @param {string} signal @param {number} step */
function cells({ layers }, signal, step) {
  const [family, place] = signal.split("|");
  return STATISTICS.map((one) => valueAt(layers, `${family}.${one}|${place}`, step)).map((v, i) => h("td", {}, i > 3 && v === v ? `${num(100 * v)}%` : num(v)));
}

/** The histograms of one place over the steps. @param {Store} store @param {number} at @param {string} signal @returns {Film} */
function filmOf({ shapes }, at, signal) {
  const rows = shapes.rows.map((row) => row.subarray(at * BINS, (at + 1) * BINS)), seen = rows.map((row) => row.some((v) => v > 0));
  const top = new Uint8Array(MIDDLE + 1);
  for (const row of rows) for (let j = 1; j <= MIDDLE; j++) top[j] = Math.max(top[j], row[MIDDLE + j] ?? 0, row[MIDDLE - j] ?? 0);
  const window = windowOf(top, 12);
  return { window, steps: shapes.steps.filter((_, i) => seen[i]), lists: rows.filter((_, i) => seen[i]).map((row) => bars(row, window)), hue: HUES[FAMILIES.indexOf(signal.split("|")[0])] };
}

/** Left edge of each histogram, and the right one of the last. @param {number[]} steps @param {number} width */
function edgesOf(steps, width) {
  const from = steps[0], span = (steps[steps.length - 1] - from) || 1, right = width - 4;
  const at = steps.map((step) => LEFT + ((step - from) / span) * (right - LEFT));
  return [LEFT, ...at.slice(1).map((x, i) => (x + at[i]) / 2), right];
}

/** Share as color: fastai's colorful dimension. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {ReturnType<typeof palette>} colors */
function heat(g, { steps, lists, hue }, width, colors) {
  const map = ramp(colors, hue), x = edgesOf(steps, width), high = (HIGH - FOOT) / lists[0].length;
  lists.forEach((list, i) => list.forEach((v, j) => {
    if (v < 3) return;
    g.fillStyle = map[Math.min(255, Math.round(v * 1.4))];
    g.fillRect(x[i], HIGH - FOOT - (j + 1) * high, Math.ceil(x[i + 1] - x[i] + 0.3), Math.ceil(high + 0.3));
  }));
}

/** 256 colors from paper through a hue to ink. @param {ReturnType<typeof palette>} colors @param {number} hue */
function ramp(colors, hue) {
  const [paper, middle, ink] = [colors.paper, colors.lines[hue], colors.ink].map((text) => (text.match(/[\d.]+/g) ?? []).map(Number));
  return Array.from({ length: 256 }, (_, i) => {
    const t = i / 255, [a, b, part] = t < 0.6 ? [paper, middle, t / 0.6] : [middle, ink, (t - 0.6) / 0.8];
    return `rgb(${[0, 1, 2].map((k) => Math.round(a[k] + (b[k] - a[k]) * part)).join(" ")})`;
  });
}

/** Where the given share of a histogram lies, in bars. @param {Float32Array} list @param {number} share */
function quantile(list, share) {
  let sum = list.reduce((all, v) => all + v * v, 0) * share, j = 0;
  while (j < list.length - 1 && sum > list[j] ** 2) sum -= list[j++] ** 2;
  return j + Math.min(1, sum / (list[j] ** 2 || 1));
}

/** The signature of a place: its median, and what 50 and 90 percent lie in. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {ReturnType<typeof palette>} colors */
function bands(g, { steps, lists, hue }, width, colors) {
  const x = edgesOf(steps, width), high = (HIGH - FOOT) / lists[0].length, line = (/** @type {number} */ share) => lists.map((list) => HIGH - FOOT - quantile(list, share) * high);
  Object.assign(g, { fillStyle: colors.lines[hue], strokeStyle: colors.lines[hue], lineWidth: 2 });
  for (const [low, up, alpha] of SPREADS) {
    const lower = line(low), upper = line(up);
    g.globalAlpha = alpha;
    g.beginPath();
    steps.forEach((_, i) => { g.lineTo(x[i], upper[i]); g.lineTo(x[i + 1], upper[i]); });
    for (let i = steps.length - 1; i >= 0; i--) { g.lineTo(x[i + 1], lower[i]); g.lineTo(x[i], lower[i]); }
    g.fill();
  }
  g.globalAlpha = 1;
  g.beginPath();
  line(0.5).forEach((y, i) => { g.lineTo(x[i], y); g.lineTo(x[i + 1], y); });
  g.stroke();
}

/** Magnitudes at the left, steps below, and where the slider is. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {number} step @param {ReturnType<typeof palette>} colors */
function frameOf(g, { steps, window: [lo, hi], lists }, width, step, colors) {
  const high = (HIGH - FOOT) / lists[0].length, zero = lists[0].length / 2, x = edgesOf(steps, width);
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  g.fillText("0", LEFT - 6, HIGH - FOOT - zero * high + 4);
  for (const [j, way] of decades(lo, hi).flatMap((j) => [[j, 1], [j, -1]])) {
    const y = HIGH - FOOT - (zero + way * (j - lo + 1.5)) * high;
    if (y > 6) g.fillText(`${way < 0 ? "−" : ""}${num(Number(magnitude(j).toPrecision(1)))}`, LEFT - 6, y + 4);
    g.fillRect(LEFT - 4, y, 4, 1);
  }
  g.textAlign = "left";
  g.fillText(`step ${num(steps[0])}`, LEFT, HIGH - 5);
  g.textAlign = "right";
  g.fillText(num(steps.at(-1)), width - 4, HIGH - 5);
  const at = Math.max(0, upto(steps, step));
  g.strokeStyle = colors.ink;
  g.lineWidth = 1;
  g.strokeRect(x[at] - 0.5, 0.5, Math.max(3, x[at + 1] - x[at]), HIGH - FOOT - 1);
}

/** Bins near powers of ten, far enough apart to be labeled. @param {number} lo @param {number} hi */
function decades(lo, hi) {
  const every = Math.ceil((hi - lo) / 2 / 3.32 / 5) || 1, out = [];
  for (let e = -9; e <= 4; e++) {
    const j = Math.round(2 * (e * Math.log2(10) + 30));
    if (j > lo + 1 && j <= hi && e % every === 0) out.push(j);
  }
  return out;
}

/** Histograms one before the other, the last in front. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {ReturnType<typeof palette>} colors */
function ridge(g, { steps, lists, hue }, width, colors) {
  const count = Math.min(RIDGES, steps.length), top = Math.max(...lists.flatMap((list) => [...list].map((v, i) => (i === list.length >> 1 ? 0 : v))), 1);
  for (let k = 0; k < count; k++) {
    const i = Math.round((k * (steps.length - 1)) / Math.max(1, count - 1)), base = 62 + ((HIGH - 66) * (k + 0.5)) / count, one = (width - LEFT - 8) / lists[i].length;
    g.beginPath();
    g.moveTo(LEFT, base);
    lists[i].forEach((v, j) => g.lineTo(LEFT + (j + 0.5) * one, base - Math.min(1, v / top) * 58));
    g.lineTo(width - 8, base);
    g.fillStyle = colors.paper;
    g.fill();
    g.globalAlpha = 0.15 + (0.5 * k) / count;
    g.fillStyle = colors.lines[hue];
    g.fill();
    g.globalAlpha = 1;
    Object.assign(g, { strokeStyle: colors.lines[hue], lineWidth: 1, fillStyle: colors.soft, textAlign: "right" });
    g.stroke();
    if (k % 3 === 0 || k === count - 1) g.fillText(num(steps[i]), LEFT - 6, base + 3);
  }
}
