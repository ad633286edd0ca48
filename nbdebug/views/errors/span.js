// @ts-check
/** A value with its interval as a dot on a line. */
import { h } from "../kit.js";

/** @typedef {{value: number | null, low: number | null, high: number | null}} Spanned */

/**
 * A dot with its interval on a line from `from` to `to`, and a tick at `mark`; what lies outside is drawn at the end.
 * @param {Spanned} one @param {number} from @param {number} to @param {number | null} [mark]
 */
export function spanLine({ value, low, high }, from, to, mark = null) {
  const at = (/** @type {number} */ v) => Math.min(1, Math.max(0, (v - from) / (to - from || 1)));
  const part = (/** @type {string} */ kind, /** @type {number} */ v, wide = 0) => h(`i.${kind}`, { style: `--nb-at: ${at(v)}; --nb-wide: ${wide}` });
  return h("span.span", { ariaHidden: "true" },
    low !== null && high !== null && part("length", low, at(high) - at(low)),
    mark !== null && part("tick", mark),
    value !== null && part("dot", value));
}
