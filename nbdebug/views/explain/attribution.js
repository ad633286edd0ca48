// @ts-check
/** @import { ExplainLook } from "./look.js" */
/** One attribution: each input as its kind is shown. */
import { h } from "../kit.js";
import { explainLook } from "./look.js";
import { explainBars } from "./bars.js";
import { explainHeat } from "./heat.js";
import { explainSeries } from "./series.js";
import { explainShares } from "./shares.js";
import { explainTokens } from "./tokens.js";

/**
 * All inputs of an attribution. `found` has `inputs`; and may have `space` (the unit), `base` and `score` (for a waterfall),
 * `shares`, `targetName`, and `up` and `down`, words for what positive and negative numbers say.
 * @param {any} found @param {ExplainLook} [look]
 */
export function attributionView(found, look = explainLook()) {
  const one = found.inputs.length === 1;
  const parts = found.inputs.map((/** @type {any} */ shown) => h("section.x-input", {}, shown.name && h("div.label", { role: "heading", ariaLevel: "5" }, shown.name), ...attributionPart(shown, found, look, one)));
  return h("div.x-inputs", {}, found.shares?.length > 1 && explainShares(found), ...parts);
}

/** @param {any} shown @param {any} found @param {ExplainLook} look @param {boolean} alone @returns {HTMLElement[]} */
function attributionPart(shown, found, look, alone) {
  if (shown.heat) return [explainHeat(shown, found, look)];
  if (shown.tokens) return explainTokens(shown, found, look, alone);
  if (shown.weights) return [explainSeries(shown, found)];
  return [explainBars(shown, found, look, alone)];
}
