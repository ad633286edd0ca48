// @ts-check
/** Series: each line over bands that are colored by what that stretch of time contributes. */
import { arrowStep, brief, h, press, watch } from "../kit.js";
import { palette, rgbOf, sharp } from "../axes.js";
import { explainUnit } from "./numbers.js";
import { explainScale } from "./legend.js";

const SERIES_FIRST = 6;

/** @param {any} shown @param {any} found */
export function explainSeries(shown, found) {
  const { lines, names, weights, length } = shown, one = weights.length === 1, high = one ? 170 : 64;
  const strongest = weights.map((/** @type {number[]} */ line, /** @type {number} */ i) => [i, line.reduce((sum, v) => sum + Math.abs(v), 0)]).sort((/** @type {number[]} */ a, /** @type {number[]} */ b) => b[1] - a[1]).map((/** @type {number[]} */ [i]) => i);
  const place = h("div.x-lines"), note = h("div.note.x-reading", { ariaLive: "polite" }), more = press("x-more", "", () => { all = !all; fill(); });
  let all = false;
  const rest = `${brief(length)} steps of time${one ? "" : ", " + weights.length + " channels"}; point at a stretch to read it.`;
  const nonneg = weights.every((/** @type {number[]} */ line) => line.every((v) => v >= 0));

  function fill() {
    const some = all ? strongest : strongest.slice(0, SERIES_FIRST);
    place.replaceChildren(...[...some].sort((a, b) => a - b).map((i) => seriesLine(lines[i] ?? [], weights[i], names?.[i] ?? "", { ...shown, high, found }, (text) => { note.textContent = text || rest; })));
    more.hidden = weights.length <= SERIES_FIRST;
    more.textContent = all ? `show the strongest ${SERIES_FIRST}` : `show all ${weights.length} channels`;
  }

  note.textContent = rest;
  fill();
  return h("div.x-series", {}, place, explainScale(shown.top, nonneg, found), note, more);
}

/** @param {(number | null)[]} line @param {number[]} weights @param {string} name @param {any} given @param {(text: string) => void} say */
function seriesLine(line, weights, name, { top, length, high, found }, say) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", tabIndex: 0, ariaLabel: `${name || "series"} with attributions; arrow keys read them` })), node = h("div.x-line", {}, name && h("div.note", {}, name), canvas);
  const values = /** @type {number[]} */ (line.filter((v) => v !== null)), low = Math.min(...values), span = Math.max(...values) - low || 1;
  let now = -1;

  function draw() {
    const wide = node.clientWidth;
    if (!wide) return;
    const g = sharp(canvas, wide, high), { ink, lines: tones, paper } = palette(node), step = wide / weights.length;
    g.fillStyle = paper;
    g.fillRect(0, 0, wide, high);
    weights.forEach((v, i) => {
      g.fillStyle = `rgb(${rgbOf(tones[v < 0 ? 0 : 1]).join(" ")} / ${(0.8 * Math.min(1, Math.abs(v) / top)).toFixed(3)})`;
      g.fillRect(Math.round(i * step), 0, Math.round((i + 1) * step) - Math.round(i * step), high);
    });
    g.strokeStyle = ink;
    g.lineWidth = 1.6;
    g.lineJoin = "round";
    g.beginPath();
    line.forEach((v, i) => { if (v !== null) g[i && line[i - 1] !== null ? "lineTo" : "moveTo"]((i * wide) / Math.max(1, line.length - 1), 4 + (high - 8) * (1 - (v - low) / span)); });
    g.stroke();
    if (now >= 0) g.strokeRect(now * step + 0.5, 0.5, Math.max(2, step - 1), high - 1);
  }

  /** @param {number} i */
  function show(i) {
    if (i === now) return;
    now = i;
    const from = Math.round((i * length) / weights.length), to = Math.round(((i + 1) * length) / weights.length) - 1;
    say(i < 0 ? "" : `${name ? name + ", " : ""}time ${from}${to > from ? " to " + to : ""}: ${explainUnit(weights[i], found)}`);
    draw();
  }

  canvas.onpointermove = (event) => show(Math.max(0, Math.min(weights.length - 1, Math.floor((event.offsetX / canvas.clientWidth) * weights.length))));
  canvas.onpointerleave = canvas.onblur = () => show(-1);
  canvas.onkeydown = (event) => {
    const step = arrowStep(event, true);
    if (step) show(Math.max(0, Math.min(weights.length - 1, now + step[1])));
  };
  watch(node, draw);
  return node;
}
