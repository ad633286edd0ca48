// @ts-check
/** Reliability panel: checks of an attribution. */
import { formatRounded, h } from "../../../views/kit.js";
import { svgLine, svgPlot, svgText } from "../../../views/plots.js";
import { methodTitle } from "../display.js";

/** @typedef {"green" | "yellow" | "red" | "gray"} TrustLight */
/** @typedef {{name: string, value: number | null, light: TrustLight, said: string}} TrustMeasure */
/** @typedef {{light: TrustLight, conclusion: string, measures: TrustMeasure[], curves: Record<string, (number | null)[]>, method: string, targetName: string, seconds: number | null}} TrustState */

/** The sign and the word of each light, so that color is not needed. @type {Record<TrustLight, [string, string]>} */
const LIGHT_SIGNS = { green: ["●", "holds"], yellow: ["▲", "unclear"], red: ["■", "fails"], gray: ["○", "not measured"] };
/** @type {Record<string, [string, string, string]>} */
const CURVE_STYLES = { insertion: ["--nb-line0", "none", "insertion"], deletion: ["--nb-line1", "7 3", "deletion"], random: ["--nb-soft", "2 3", "random order"] };

/** @param {TrustState} state */
export function reliabilityPanel(state) {
  const verdict = h("div.trusthead", {}, lightSign(state.light), h("p", {}, state.conclusion));
  const rows = h("dl.trustrows", {}, ...state.measures.map(measureRow));
  const of = `${methodTitle(state.method)}, ${state.targetName}${state.seconds === null ? "" : `; measured in ${formatRounded(state.seconds, 2)} s`}`;
  const parts = h("div.trustparts", {}, rows, Object.keys(state.curves).length > 0 && curvePlot(state.curves));
  return h("div.trust", {}, verdict, h("div.note", {}, of), parts);
}

/** A light as shape, word and color. @param {TrustLight} light */
function lightSign(light) {
  const [form, word] = LIGHT_SIGNS[light];
  return h(`span.trustsign.trust-${light}`, {}, h("span.trustform", { ariaHidden: "true" }, form), word);
}

/** @param {TrustMeasure} measure */
function measureRow({ name, value, light, said: explanation }) {
  const number = h("span.trustnumber", {}, value === null ? "–" : formatRounded(value, 2));
  return h("div.trustrow", {}, h("dt", {}, lightSign(light), h("span.trustname", {}, name), number), h("dd", {}, explanation));
}

/** The score while the sample is replaced by the background, and the reverse. @param {Record<string, (number | null)[]>} curves */
function curvePlot(curves) {
  const values = Object.values(curves).flat().filter((v) => v !== null), low = Math.min(0, ...values), top = Math.max(1, ...values);
  const plot = svgPlot({ label: describeCurves(curves), across: "share replaced or restored", up: "score, from background (0) to sample (1)", wide: 320, high: 220, top: top - low, ticks: [] });
  for (const v of [0, 1]) plot.svg.append(svgLine(plot, [0, 1], [v - low, v - low], "--nb-faint"), svgText(plot.frame.left - 5, plot.y(v - low) + 4, String(v), "end"));
  const shares = curves.share;
  const names = Object.keys(CURVE_STYLES).filter((name) => curves[name]);
  for (const name of names) {
    const [color, dash] = CURVE_STYLES[name];
    plot.svg.append(svgLine(plot, shares, curves[name].map((v) => v === null ? null : v - low), color, dash));
  }
  const keys = names.map((name) => h("span.trustkey", {}, h("i", { ariaHidden: "true", style: `border-top: 2px ${name === "insertion" ? "solid" : name === "deletion" ? "dashed" : "dotted"} var(${CURVE_STYLES[name][0]})` }), CURVE_STYLES[name][2]));
  return h("div.trustplot", {}, plot.node, h("div.trustkeys", {}, ...keys));
}

/** The curves, as text. @param {Record<string, (number | null)[]>} curves */
function describeCurves(curves) {
  const half = Math.floor(curves.share.length / 2);
  const at = (/** @type {string} */ name) => curves[name] ? `${CURVE_STYLES[name][2]} ${formatRounded(curves[name][half])}` : "";
  return `Score with half of the input replaced, from background (0) to sample (1): ${Object.keys(CURVE_STYLES).map(at).filter(Boolean).join(", ")}`;
}
