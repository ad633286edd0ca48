// @ts-check
/** What colors stand for. */
import { brief, h } from "../kit.js";
import { explainOf } from "./numbers.js";

/** A strip of all colors with numbers. @param {number} limit @param {boolean} oneSided @param {any} found @param {boolean} [over] whether some lie beyond */
export function explainScale(limit, oneSided, found, over = false) {
  const unit = explainOf(found), end = `${over ? "≥ " : "+"}${brief(limit)}`, least = `${over ? "≤ " : ""}−${brief(limit)}`;
  const raises = found.up ?? (oneSided ? "speaks for it" : "raises it"), lowers = found.down ?? "lowers it";
  return h("div.x-legend", { role: "img", ariaLabel: `colors: orange ${raises}, up to ${end}${oneSided ? "" : "; blue " + lowers + ", down to " + least}` },
    h("div.x-words", { ariaHidden: "true" }, h("span", {}, oneSided ? "" : lowers), h("span", {}, raises)),
    h(oneSided ? "i.x-strip.x-one" : "i.x-strip", {}),
    h("div.x-words", { ariaHidden: "true" }, !oneSided && h("span", {}, least), h("span", {}, oneSided ? "0" : `0 ${unit}`), h("span", {}, end)));
}
