// @ts-check
/** @import { Store } from "./layer_store.js" */
/** @import { Row } from "./layer_rows.js" */
import { extent, palette, roomy, scale, sharp, ticks } from "./axes.js";
import { rule, trace } from "./chart.js";
import { h, num, press, watch } from "./kit.js";
import { BINS, MIDDLE, upto, valueAt } from "./layer_store.js";
import { FAMILIES } from "./layer_rows.js";
import { HUES, bars, magnitude, windowOf } from "./layer_cells.js";

/** @typedef {{steps: number[], rows: Uint8Array[], lists: Float32Array[], window: [number, number], hue: number}} Film */

const KINDS = { strip: "Heat strip", bands: "Percentiles", ridge: "Ridge" };
const STATISTICS = ["norm", "mean", "std", "absmax", "zeros", "nonfinite"];
const HIGH = 240, LEFT = 52, FOOT = 20, RIDGES = 16, PEAK = 58;

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
    (mode === "strip" ? heat : mode === "bands" ? bands : ridge)(g, film, width, colors);
    if (mode !== "ridge") moments(g, film, width, step, colors, mode === "strip");
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

/** A place in words: a weight by its own name, the rest after it. @param {string} signal */
function called(signal) {
  const [family, place] = signal.split("|"), own = place.split(".").at(-1);
  return family === "activation" ? family : family === "weight" ? `${own}` : `${own} ${family}`;
}

/** Buttons of which one is down; made anew only when they are others. @param {HTMLElement} node @param {Record<string, string>} names @param {string} now @param {(name: string) => void} click */
export function pick(node, names, now, click) {
  const keys = Object.keys(names), key = keys.join("\n");
  if (node.dataset.key !== key) node.replaceChildren(...keys.map((one) => press("tab", names[one], () => click(one))));
  node.dataset.key = key;
  [...node.children].forEach((one, i) => { one.ariaPressed = String(keys[i] === now); });
}

/** A share in percent. @param {number} v */
export function percentOf(v) {
  return v !== v ? "–" : `${v > 0 && v < 0.01 ? "<1" : Math.round(100 * v)}%`;
}

/** @param {Store} store @param {string} signal @param {number} step */
function cells({ layers }, signal, step) {
  const [family, place] = signal.split("|");
  return STATISTICS.map((one) => valueAt(layers, `${family}.${one}|${place}`, step)).map((v, i) => h("td", {}, i > 3 ? percentOf(v) : num(v)));
}

/** The histograms of one place over the steps. @param {Store} store @param {number} at @param {string} signal @returns {Film} */
function filmOf({ shapes }, at, signal) {
  const rows = shapes.rows.map((row) => row.subarray(at * BINS, (at + 1) * BINS)), seen = rows.map((row) => row.some((v) => v > 0));
  const top = new Uint8Array(MIDDLE + 1);
  for (const row of rows) for (let j = 1; j <= MIDDLE; j++) top[j] = Math.max(top[j], row[MIDDLE + j] ?? 0, row[MIDDLE - j] ?? 0);
  const window = windowOf(top, 12), kept = rows.filter((_, i) => seen[i]);
  return { window, steps: shapes.steps.filter((_, i) => seen[i]), rows: kept, lists: kept.map((row) => bars(row, window)), hue: HUES[FAMILIES.indexOf(signal.split("|")[0])] };
}

/** Left edge of each histogram, and the right one of the last. @param {number[]} steps @param {number} width */
function edgesOf(steps, width) {
  const from = steps[0], span = (steps[steps.length - 1] - from) || 1, right = width - 4;
  const at = steps.map((step) => LEFT + ((step - from) / span) * (right - LEFT));
  return [LEFT, ...at.slice(1).map((x, i) => (x + at[i]) / 2), right];
}

/** Share as color: fastai's colorful dimension. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {ReturnType<typeof palette>} colors */
function heat(g, film, width, colors) {
  const { steps, lists, hue } = film, map = ramp(colors, hue), x = edgesOf(steps, width), high = (HIGH - FOOT) / lists[0].length;
  lists.forEach((list, i) => list.forEach((v, j) => {
    if (v < 3) return;
    g.fillStyle = map[Math.min(255, Math.round(v * 1.4))];
    g.fillRect(x[i], HIGH - FOOT - (j + 1) * high, Math.ceil(x[i + 1] - x[i] + 0.3), Math.ceil(high + 0.3));
  }));
  magnitudes(g, film, colors);
}

/** 256 colors from paper through a hue to ink. @param {ReturnType<typeof palette>} colors @param {number} hue */
function ramp(colors, hue) {
  const [paper, middle, ink] = [colors.paper, colors.lines[hue], colors.ink].map((text) => (text.match(/[\d.]+/g) ?? []).map(Number));
  return Array.from({ length: 256 }, (_, i) => {
    const t = i / 255, [a, b, part] = t < 0.6 ? [paper, middle, t / 0.6] : [middle, ink, (t - 0.6) / 0.8];
    return `rgb(${[0, 1, 2].map((k) => Math.round(a[k] + (b[k] - a[k]) * part)).join(" ")})`;
  });
}

/** The value under which the given share of a histogram lies. @param {Uint8Array} bytes @param {number} share */
function quantile(bytes, share) {
  let rest = bytes.reduce((sum, v) => sum + v * v, 0) * share, i = 0;
  while (i < BINS - 1 && rest > bytes[i] ** 2) rest -= bytes[i++] ** 2;
  const part = bytes[i] ? Math.min(1, rest / bytes[i] ** 2) : 0, size = Math.abs(i - MIDDLE);
  if (!size) return 0;
  const [a, b] = [magnitude(size - 1), magnitude(size)];
  return i > MIDDLE ? a + part * (b - a) : part * (b - a) - b;
}

/** The signature of a place: its median, and what 50 and 90 percent lie in. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {ReturnType<typeof palette>} colors */
function bands(g, { steps, rows, hue }, width, colors) {
  const lines = [0.05, 0.25, 0.5, 0.75, 0.95].map((share) => rows.map((row) => quantile(row, share)));
  const range = roomy(extent(lines.flat().concat(0))), x = scale(extent(steps), [LEFT, width - 4]), y = scale(range, [HIGH - FOOT, 6]);
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of ticks(range, 4)) {
    g.fillText(num(v), LEFT - 6, y(v) + 4);
    rule(g, LEFT, y(v), width - 4, y(v), colors.faint);
  }
  Object.assign(g, { fillStyle: colors.lines[hue], strokeStyle: colors.lines[hue], lineWidth: 2 });
  for (const [low, up, alpha] of [[0, 4, 0.2], [1, 3, 0.35]]) {
    g.globalAlpha = alpha;
    g.beginPath();
    lines[up].forEach((v, i) => g.lineTo(x(steps[i]), y(v)));
    for (let i = steps.length - 1; i >= 0; i--) g.lineTo(x(steps[i]), y(lines[low][i]));
    g.fill();
  }
  g.globalAlpha = 1;
  trace(g, lines[2].map((v, i) => [x(steps[i]), y(v)]));
}

/** Magnitudes at the left. @param {CanvasRenderingContext2D} g @param {Film} film @param {ReturnType<typeof palette>} colors */
function magnitudes(g, film, colors) {
  const high = (HIGH - FOOT) / film.lists[0].length;
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const [text, place] of decades(film)) {
    const y = HIGH - FOOT - place * high;
    if (y > 6) g.fillText(text, LEFT - 6, y + 4);
    g.fillRect(LEFT - 4, y, 4, 1);
  }
}

/** Steps below, and where the slider is. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {number} step @param {ReturnType<typeof palette>} colors @param {boolean} columns */
function moments(g, { steps }, width, step, colors, columns) {
  const x = edgesOf(steps, width), at = Math.max(0, upto(steps, step)), right = columns ? x[at + 1] : scale(extent(steps), [LEFT, width - 4])(steps[at]);
  g.fillStyle = colors.soft;
  g.textAlign = "left";
  g.fillText(`step ${num(steps[0])}`, LEFT, HIGH - 5);
  g.textAlign = "right";
  g.fillText(num(steps.at(-1)), width - 4, HIGH - 5);
  if (!columns) return rule(g, right, 4, right, HIGH - FOOT, colors.soft);
  Object.assign(g, { strokeStyle: colors.ink, lineWidth: 1 });
  g.strokeRect(Math.round(x[at]) - 0.5, 0.5, Math.max(3, Math.round(right - x[at])), HIGH - FOOT - 1);
}

/** Powers of ten with their places in bars, far enough apart to be labeled. @param {Film} film @returns {[string, number][]} */
function decades({ window: [lo, hi], lists }) {
  const every = Math.ceil((hi - lo) / 33) || 1, zero = lists[0].length / 2;
  /** @type {[string, number][]} */
  const out = [["0", zero]];
  for (let e = -9; e <= 4; e++) {
    const j = 2 * (e * Math.log2(10) + 30), at = j - lo + 1.5, text = num(Number(`1e${e}`));
    if (j > lo && j <= hi && e % every === 0) out.push([text, zero + at], [`−${text}`, zero - at]);
  }
  return out;
}

/** Histograms one before the other, the last in front. @param {CanvasRenderingContext2D} g @param {Film} film @param {number} width @param {ReturnType<typeof palette>} colors */
function ridge(g, film, width, colors) {
  const { steps, lists, hue } = film, count = Math.min(RIDGES, steps.length), zero = lists[0].length >> 1;
  const top = Math.max(1, ...lists.flatMap((list) => [...list].filter((_, i) => i !== zero))), one = (width - LEFT - 8) / lists[0].length;
  const room = HIGH - FOOT - PEAK - 4, color = colors.lines[hue];
  for (let k = 0; k < count; k++) {
    const i = Math.round((k * (steps.length - 1)) / Math.max(1, count - 1)), base = PEAK + 2 + (room * k) / Math.max(1, count - 1);
    g.beginPath();
    g.moveTo(LEFT, base);
    lists[i].forEach((v, j) => g.lineTo(LEFT + (j + 0.5) * one, base - Math.min(1, v / top) * PEAK));
    g.lineTo(width - 8, base);
    g.fillStyle = colors.paper;
    g.fill();
    g.globalAlpha = 0.15 + (0.5 * k) / count;
    g.fillStyle = color;
    g.fill();
    g.globalAlpha = 1;
    Object.assign(g, { strokeStyle: color, lineWidth: 1, fillStyle: colors.soft, textAlign: "right" });
    g.stroke();
    if (k % 3 === 0) g.fillText(num(steps[i]), LEFT - 6, base + 3);
  }
  g.textAlign = "center";
  for (const [text, place] of decades(film)) g.fillText(text, LEFT + place * one, HIGH - 5);
}
