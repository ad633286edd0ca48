// @ts-check
/** What is said while Python computes, and before it does so for long. */
import { h } from "../kit.js";

/** @typedef {{spent: number, left: number | null}} ExplainProgress seconds of work so far, and to go where that is known */

/** Seconds in words. @param {number} seconds */
function patienceTime(seconds) {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;
}

/** That Python computes, and how far it is; only the first is read aloud. @param {HTMLElement} said @param {ExplainProgress | null} [progress] */
export function explainWaits(said, progress = null) {
  const far = said.querySelector(".nb-x-spent") ?? h("span.x-spent", { ariaHidden: "true" });
  if (!said.contains(far)) said.replaceChildren(h("div.note", {}, "Python computes it… ", far));
  const left = progress?.left ?? null;
  far.textContent = progress && `${patienceTime(progress.spent)}${left === null ? "" : `, about ${patienceTime(left)} to go`}. To stop it, interrupt the kernel.`;
}

/** That an answer takes long. @param {number} seconds @param {string} [what] */
export function explainSlow(seconds, what = "This") {
  return `${what} takes ${patienceTime(seconds)} or more, and until then Python does nothing else.`;
}
