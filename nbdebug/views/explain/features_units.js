// @ts-check
/** Units of a layer without places: a bar each, beside what it is on other samples. */
import { brief, h } from "../kit.js";

/** @param {any} state */
export function featuresUnits(state) {
  const values = state.units.flatMap((/** @type {any[]} */ one) => [one[3], one[4], one[6]]).filter((/** @type {any} */ v) => v !== null);
  const low = Math.min(0, ...values), high = Math.max(0, ...values), at = (/** @type {number} */ v) => (100 * (v - low)) / (high - low || 1);
  const beside = state.beside ? `│ mean of ${state.beside} other samples, shaded one standard deviation to each side` : "";
  const of = state.members ? `◆ mean of the ${state.members} that are ${state.class}` : "";
  return h("div.i-block", {}, h("div.i-units", { role: "list", ariaLabel: "units" }, ...state.units.map((/** @type {any[]} */ one) => unitsRow(one, at))),
    h("div.note", {}, [`▬ this sample, from ${brief(low)} to ${brief(high)}`, beside, of].filter(Boolean).join("; ")));
}

/** @param {any[]} unit @param {(v: number) => number} at */
function unitsRow([, name, mark, value, mean, spread, of], at) {
  const [from, to] = [Math.min(0, value), Math.max(0, value)], said = [`${name}: ${brief(value)}`, mark, mean !== null && `others ${brief(mean)} ± ${brief(spread)}`, of !== null && `its class ${brief(of)}`].filter(Boolean).join(", ");
  const span = (/** @type {string} */ kind, /** @type {number} */ low, /** @type {number} */ high) => h(`i.${kind}`, { style: `left: ${at(low)}%; width: ${Math.max(0, at(high) - at(low))}%` });
  const left = Math.max(0, at(mean - spread)), right = Math.min(100, at(mean + spread));
  return h("div.i-unit", { role: "listitem", title: said, ariaLabel: said }, h("span.i-name", {}, name), h("span.i-track", {},
    mean !== null && spread !== null && h("i.i-spread", { style: `left: ${left}%; width: ${right - left}%` }), span(value < 0 ? "i-less" : "i-more", from, to), h("i.i-zero", { style: `left: ${at(0)}%` }),
    mean !== null && h("i.i-mean", { style: `left: ${at(mean)}%` }), of !== null && h("i.i-of", { style: `left: ${at(of)}%` })), h("span.i-value", {}, mark || brief(value)));
}
