// @ts-check
/** How attributions are looked at: what all views of a page share, so that two samples are seen alike. */

/** @typedef {ReturnType<typeof explainLook>} ExplainLook */

/** A look of its own. */
export function explainLook() {
  /** @type {[HTMLElement, () => void][]} */
  let heard = [];
  const look = {
    limits: /** @type {Map<HTMLElement, number>} */ (new Map()), heat: 0.6, sign: "both", full: "strong", bars: "waterfall", alone: false,
    hear: (/** @type {HTMLElement} */ node, /** @type {() => void} */ one) => { heard.push([node, one]); },
    change: (/** @type {Partial<{heat: number, sign: string, full: string, bars: string, alone: boolean}>} */ part) => {
      Object.assign(look, part);
      heard = heard.filter(([node]) => node.isConnected);
      for (const node of look.limits.keys()) if (!node.isConnected) look.limits.delete(node);
      for (const [, one] of heard) one();
    },
  };
  return look;
}
