// @ts-check
/** @import { Window } from "./layer_cells.js" */
import { h, num } from "./kit.js";
import { magnitude } from "./layer_cells.js";
import { FAMILIES } from "./layer_rows.js";

/** Names of the columns, and the ends of the axes that their rows share. */
export function columnHeads() {
  const heads = FAMILIES.map((name) => h("div", {}, name, h("span.scale"))),
    band = h("div", {}, "update / weight", h("span.scale", {}, h("i", {}, "1e−6 to 1, band: 1e−3")));
  const parts = [h("div", {}, "layer"), h("div.pics", {}, ...heads, band), h("div.share", {}, "dead, sat.")];
  return {
    node: h("div.columns", { ariaHidden: "true" }, ...parts),
    /** @param {Window[]} windows */
    show: (windows) => windows.forEach((one, i) => scaleOf(heads[i], one)),
  };
}

/**
 * What an axis shows: both ends, and under which magnitude all stands in the middle.
 * @param {HTMLElement} node @param {Window} window
 */
function scaleOf(node, [lo, hi]) {
  const [far, near] = [hi, lo - 1].map((j) => num(Number(magnitude(j).toPrecision(1)))),
    text = [`−${far}`, `±${near}`, far];
  const line = /** @type {HTMLElement} */ (node.lastChild);
  if (line.textContent === text.join("")) return;
  line.replaceChildren(...text.map((one) => h("i", {}, one)));
  node.title = `By magnitude, from −${far} to ${far}; what is under ${near} stands in the middle.`;
}
