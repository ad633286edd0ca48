// @ts-check
/** @import { ExplainLook } from "./look.js" */
/** Attributions of a table: a waterfall from the base to the score, one stacked bar, or plain bars. */
import { h, press } from "../kit.js";
import { pick } from "../tabs.js";
import { barsForce } from "./bars_force.js";
import { barsWaterfall } from "./bars_waterfall.js";

/** @typedef {[name: string, value: string, weight: number, error: number | null]} ExplainBar */

const BARS_FIRST = 12, BARS_LOOKS = { waterfall: "waterfall", force: "force", plain: "bars" };

/** @param {any} shown @param {any} found @param {ExplainLook} look @param {boolean} alone @param {number} [first] */
export function explainBars(shown, found, look, alone, first = BARS_FIRST) {
  const adds = alone && typeof found.base === "number" && typeof found.score === "number", looks = h("div.tabs", { role: "group", ariaLabel: "way to draw" });
  const more = press("x-more", "", () => { all = !all; draw(); }), place = h("div"), node = h("div.x-bars", {}, adds && looks, place, more);
  let all = false;

  function draw() {
    const kind = adds ? look.bars : "plain", some = all ? shown.bars : shown.bars.slice(0, first), left = shown.bars.slice(some.length);
    const rest = left.reduce((/** @type {number} */ sum, /** @type {ExplainBar} */ one) => sum + one[2], shown.rest ?? 0), count = left.length + (shown.more ?? 0);
    if (adds) pick(looks, BARS_LOOKS, kind, (bars) => look.change({ bars }));
    place.replaceChildren(kind === "force" ? barsForce(some, rest, count, found) : barsWaterfall(some, rest, count, found, kind === "waterfall"));
    more.hidden = shown.bars.length <= first;
    more.textContent = all ? `show the strongest ${first}` : `show all ${shown.bars.length}${shown.more ? " strongest" : ""}`;
  }

  look.hear(node, draw);
  draw();
  return node;
}
