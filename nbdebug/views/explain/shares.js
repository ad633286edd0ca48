// @ts-check
/** What each of several inputs adds up to. */
import { h } from "../kit.js";
import { explainShare, explainSigned } from "./numbers.js";

/** @param {any} found */
export function explainShares(found) {
  const line = (/** @type {[string, number, number]} */ [name, sum, share]) => h("div.x-share", { role: "listitem" }, h("span.x-name", {}, name), h("span.x-track", { ariaHidden: "true" }, h("i.x-fill", { style: `--nb-from: 0; --nb-wide: ${share}` })), h("span.x-number", {}, `${explainShare(share)}`), h("span.x-number", { title: "what its attributions add up to" }, explainSigned(sum)));
  return h("div", { role: "list", ariaLabel: "share of each input" }, h("div.x-share.note", { ariaHidden: "true" }, h("span", {}, "input"), h("span", {}, "share of all sizes"), h("span", {}), h("span.x-number", {}, "sum")), ...found.shares.map(line));
}
