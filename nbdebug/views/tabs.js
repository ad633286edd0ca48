// @ts-check
/** Buttons of which one is down, and shares in words. */
import { press } from "./kit.js";

/**
 * Buttons of which one is down; made anew only when they are others.
 * @param {HTMLElement} node @param {Record<string, string>} names @param {string} now
 * @param {(name: string) => void} click
 */
export function pick(node, names, now, click) {
  const keys = Object.keys(names),
    key = keys.join("\n");
  if (node.dataset.key !== key) node.replaceChildren(...keys.map((one) => press("tab", names[one], () => click(one))));
  node.dataset.key = key;
  [...node.children].forEach((one, i) => {
    one.ariaPressed = String(keys[i] === now);
  });
}

/** A share in percent. @param {number} v */
export function percentOf(v) {
  return v !== v ? "–" : `${v > 0 && v < 0.01 ? "<1" : Math.round(100 * v)}%`;
}
