// @ts-check
/** @import { Store } from "./store.js" */
import { h } from "../kit.js";
import { matrixShare } from "./matrix_grid.js";

const PAIRS_FIRST = 6;

/** What is most often taken for what, each a click away from its samples. @param {any} given @param {Store} store */
export function pairsList(given, store) {
  const { rows, row_title: title, pairs } = given, columns = given.columns ?? rows, most = Math.max(1, ...pairs.map((/** @type {number[]} */ one) => one[2]));
  if (!pairs.length) return h("div", {});
  const lines = pairs.map((/** @type {any[]} */ [i, j, count, share, low, high, back]) => {
    const words = `${title} ${rows[i]} → ${columns[j]}`;
    const go = () => {
      store.words = words;
      void store.go({ cells: [[i, j]], ranges: store.query.ranges, values: store.query.values, tag: store.query.tag });
    };
    const node = h("button.e-pair", { type: "button", onclick: go, title: `${words}: ${matrixShare(share)} of them, ${matrixShare(low)} to ${matrixShare(high)} (95%)` },
      h("span.e-who", {}, h("b", {}, rows[i]), " → ", h("b", {}, columns[j])), h("span.e-part", { style: `--nb-part: ${count / most}` }), h("span.e-count", {}, count.toLocaleString("en")),
      h("span.e-share.soft", {}, `${matrixShare(share)} (${matrixShare(low).slice(0, -1)}–${matrixShare(high)})`), h("span.e-back.soft", {}, back === null ? "" : `${back.toLocaleString("en")} back`));
    return { node, cell: `${i},${j}` };
  });
  const list = h("div.e-pairs", {}, ...lines.map((/** @type {{node: HTMLElement}} */ { node }, /** @type {number} */ i) => { node.hidden = i >= PAIRS_FIRST; return node; }));
  const more = h("button.e-more", { type: "button", hidden: lines.length <= PAIRS_FIRST, onclick: () => { for (const { node } of lines) node.hidden = false; more.hidden = true; } }, `${lines.length - PAIRS_FIRST} more`);
  store.hear((news) => {
    if (news !== "query") return;
    const chosen = store.query.cells.map((one) => one.join());
    for (const { node, cell } of lines) node.ariaCurrent = chosen.length === 1 && chosen[0] === cell ? "true" : null;
  });
  return h("div", {}, h("div.label", {}, given.diagonal ? "Most often confused" : "Most often wrong"), list, more);
}
