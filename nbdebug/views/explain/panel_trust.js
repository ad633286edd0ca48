// @ts-check
/** Whether to believe an attribution: a light for each of five numbers, and the curves that one of them is read from. */
import { h, brief } from "../kit.js";
import { panelLine, panelPlot, panelText } from "../errors/panel_plot.js";
import { explainMethod } from "./numbers.js";

/** @typedef {"green" | "yellow" | "red" | "gray"} TrustLight */
/** @typedef {{name: string, value: number | null, light: TrustLight, said: string}} TrustMeasure */
/** @typedef {{light: TrustLight, conclusion: string, measures: TrustMeasure[], curves: Record<string, (number | null)[]>, method: string, targetName: string, seconds: number | null}} TrustState */

/** The sign and the word of each light, so that no color is needed. @type {Record<TrustLight, [string, string]>} */
const TRUST_SIGNS = { green: ["●", "holds"], yellow: ["▲", "unclear"], red: ["■", "fails"], gray: ["○", "not measured"] };
/** @type {Record<string, [string, string, string]>} */
const TRUST_LINES = { insertion: ["--nb-line0", "none", "insertion"], deletion: ["--nb-line1", "7 3", "deletion"], random: ["--nb-soft", "2 3", "random order"] };

/** @param {TrustState} state */
export function trustPanel(state) {
  const verdict = h("div.trusthead", {}, trustSign(state.light), h("p", {}, state.conclusion));
  const rows = h("dl.trustrows", {}, ...state.measures.map(trustRow));
  const of = `${explainMethod(state.method)}, ${state.targetName}${state.seconds === null ? "" : `; measured in ${brief(state.seconds, 2)} s`}`;
  const parts = h("div.trustparts", {}, rows, Object.keys(state.curves).length > 0 && trustCurves(state.curves));
  return h("div.trust", {}, verdict, h("div.note", {}, of), parts);
}

/** A light as form, word and color. @param {TrustLight} light */
function trustSign(light) {
  const [form, word] = TRUST_SIGNS[light];
  return h(`span.trustsign.trust-${light}`, {}, h("span.trustform", { ariaHidden: "true" }, form), word);
}

/** @param {TrustMeasure} measure */
function trustRow({ name, value, light, said }) {
  const number = h("span.trustnumber", {}, value === null ? "–" : brief(value, 2));
  return h("div.trustrow", {}, h("dt", {}, trustSign(light), h("span.trustname", {}, name), number), h("dd", {}, said));
}

/** The score on its way from the sample to the background and back. @param {Record<string, (number | null)[]>} curves */
function trustCurves(curves) {
  const values = Object.values(curves).flat().filter((v) => v !== null), low = Math.min(0, ...values), top = Math.max(1, ...values);
  const plot = panelPlot({ label: trustSpoken(curves), across: "share exchanged or put back", up: "share of the way from background to sample", wide: 320, high: 220, top: top - low, ticks: [] });
  for (const v of [0, 1]) plot.svg.append(panelLine(plot, [0, 1], [v - low, v - low], "--nb-faint"), panelText(plot.frame.left - 5, plot.y(v - low) + 4, String(v), "end"));
  const shares = curves.share;
  const names = Object.keys(TRUST_LINES).filter((name) => curves[name]);
  for (const name of names) {
    const [color, dash] = TRUST_LINES[name];
    plot.svg.append(panelLine(plot, shares, curves[name].map((v) => v === null ? null : v - low), color, dash));
  }
  const keys = names.map((name) => h("span.trustkey", {}, h("i", { ariaHidden: "true", style: `border-top: 2px ${name === "insertion" ? "solid" : name === "deletion" ? "dashed" : "dotted"} var(${TRUST_LINES[name][0]})` }), TRUST_LINES[name][2]));
  return h("div.trustplot", {}, plot.node, h("div.trustkeys", {}, ...keys));
}

/** The curves in words. @param {Record<string, (number | null)[]>} curves */
function trustSpoken(curves) {
  const half = Math.floor(curves.share.length / 2);
  const at = (/** @type {string} */ name) => curves[name] ? `${TRUST_LINES[name][2]} ${brief(curves[name][half])}` : "";
  return `Share of the way from the background's score to the sample's with half exchanged: ${Object.keys(TRUST_LINES).map(at).filter(Boolean).join(", ")}`;
}
