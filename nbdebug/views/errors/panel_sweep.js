// @ts-check
/** The thresholds of one class: a slider that tells what each comes to, and leads to the rows that flip there. */
/** @import { PanelGo } from "./panel_kit.js" */
import { h, num, press } from "../kit.js";
import { panelCount, panelHead, panelPercent, panelWay } from "./panel_kit.js";
import { panelLine, panelPlot, panelRule, panelSvg } from "./panel_plot.js";

/** @typedef {{column: string, at: number[], below: (number | null)[], hits: number[], alarms: number[], usual: number}} PanelSweep */

/** @param {{name: string, of: number, others: number, sweep: PanelSweep}} curves @param {PanelGo} go */
export function sweepView({ name, of, others, sweep }, go) {
  const last = sweep.at.length - 1;
  let now = sweep.usual, alarm = 1, miss = 1;
  const slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: "0", max: String(last), value: String(now), ariaLabel: `threshold on ${sweep.column}`, oninput: () => set(Number(slider.value)) }));
  const said = h("b"), words = h("div", { role: "status" }), ways = h("div.panelways"), plot = panelPlot({ label: `Thresholds of ${name}`, across: "threshold", up: "share", wide: Math.max(280, Math.min(440, innerWidth - 40)), high: 210 });
  const hand = panelSvg("line", { y1: plot.frame.top, y2: plot.frame.bottom, style: "stroke: var(--nb-ink); stroke-width: 1.5" }), costs = panelSvg("g");
  const precision = sweep.hits.map((hits, i) => (hits + sweep.alarms[i] ? hits / (hits + sweep.alarms[i]) : null)), recall = sweep.hits.map((hits) => (of ? hits / of : null));
  const f1 = sweep.hits.map((hits, i) => (hits + sweep.alarms[i] + of ? (2 * hits) / (hits + sweep.alarms[i] + of) : null));
  const cost = (/** @type {number} */ i) => alarm * sweep.alarms[i] + miss * (of - sweep.hits[i]);
  const lowest = () => sweep.at.reduce((/** @type {number} */ best, _, i) => (cost(i) < cost(best) ? i : best), 0), best = f1.reduce((/** @type {number} */ top, v, i) => ((v ?? -1) > (f1[top] ?? -1) ? i : top), 0);

  /** @param {number} i */
  function set(i) {
    now = i;
    slider.value = String(i);
    slider.ariaValueText = num(sweep.at[i]);
    said.textContent = num(sweep.at[i]);
    const hits = sweep.hits[i], alarms = sweep.alarms[i], px = plot.x(Math.min(1, sweep.at[i]));
    hand.setAttribute("x1", String(px));
    hand.setAttribute("x2", String(px));
    words.textContent = `${panelCount(hits)} of ${panelCount(of)} found, ${panelCount(of - hits)} missed; ${panelCount(alarms)} of ${panelCount(others)} others are false alarms. Precision ${panelPercent(precision[i])}, recall ${panelPercent(recall[i])}, F1 ${panelPercent(f1[i])}, cost ${num(cost(i))}.`;
    ways.replaceChildren(...shown(i));
  }

  /** The ways to rows at a threshold. @param {number} i */
  function shown(i) {
    const rows = (/** @type {number} */ at) => sweep.hits[at] + sweep.alarms[at], [low, high] = [Math.min(i, sweep.usual), Math.max(i, sweep.usual)], flips = rows(low) - rows(high);
    const flipped = i === sweep.usual ? h("span.note", {}, "Move the threshold to see who flips.")
      : panelWay(`${panelCount(flips)} flip against ${num(sweep.at[sweep.usual])}`, () => go({ ranges: { [sweep.column]: [sweep.at[low], sweep.below[high]] } }, `${sweep.column} from ${num(sweep.at[low])} to below ${num(sweep.at[high])}`));
    const near = (/** @type {string} */ text, /** @type {object} */ range, /** @type {boolean} */ descending) => panelWay(text, () => go({ ranges: { [sweep.column]: range }, sort: sweep.column, descending }, text));
    return [flips > 0 || i === sweep.usual ? flipped : h("span.note", {}, "Nobody flips."), rows(i) > 0 && near("nearest above", [sweep.at[i], null], false), sweep.below[i] !== null && near("nearest below", [null, sweep.below[i]], true)].flatMap((one) => one || []);
  }

  function draw() {
    const all = sweep.at.map((_, i) => cost(i)), most = Math.max(...all, 1);
    costs.replaceChildren(panelLine(plot, sweep.at, all.map((v) => v / most), "--nb-line3", "5 3"));
    cheap.textContent = `lowest cost: ${num(sweep.at[lowest()])}`;
    set(now);
  }

  const cheap = press("toggle", "", () => set(lowest())), fine = press("toggle", `best F1: ${num(sweep.at[best])}`, () => set(best)), usual = press("toggle", num(sweep.at[sweep.usual]), () => set(sweep.usual));
  const price = (/** @type {string} */ text, /** @type {(v: number) => void} */ put) => h("label.panelprice", {}, text, h("input.find", { type: "number", min: "0", step: "any", value: "1", oninput: (/** @type {any} */ event) => { put(Math.max(0, Number(event.target.value) || 0)); draw(); } }));
  plot.svg.append(panelRule(plot.x(sweep.at[sweep.usual]), plot.frame.top, plot.x(sweep.at[sweep.usual]), plot.frame.bottom, "--nb-soft", "2 3"),
    panelLine(plot, sweep.at, precision, "--nb-line0"), panelLine(plot, sweep.at, recall, "--nb-line1"), panelLine(plot, sweep.at, f1, "--nb-line2"), costs, hand);
  const key = [["precision", 0], ["recall", 1], ["F1", 2], ["cost, share of the highest", 3]].map(([text, i]) => h("span.panelkey", {}, h("i.swatch", { style: `border-top: 3px ${i === 3 ? "dashed" : "solid"} var(--nb-line${i})` }), String(text)));
  plot.svg.onclick = (event) => {
    const want = plot.invert(event.clientX);
    set(sweep.at.reduce((/** @type {number} */ best, v, i) => (Math.abs(v - want) < Math.abs(sweep.at[best] - want) ? i : best), 0));
  };
  draw();
  return h("div", {}, panelHead(`Threshold on the chance of ${name}`), h("div.panelways", {}, ...key), plot.node,
    h("div.scrub.panelscrub", {}, slider, h("span", {}, "from ", said)), h("div.tools", {}, usual, fine, cheap, price("a false alarm costs", (v) => { alarm = v; }), price("a miss costs", (v) => { miss = v; })), words, ways);
}
