// @ts-check
/** A slider below a chart, on the scale of its x axis, that stops at recorded steps. */
import { h } from "./kit.js";

/** @typedef {{left: number, right: number, x: {(v: number): number, invert: (px: number) => number}}} ChartAxis */

const THUMB_WIDTH = 16, STEPS_PER_PAGE_KEY = 10;

/** The index of the step nearest to `target`. @param {number[]} steps @param {number} target */
export function closestStepIndex(steps, target) {
  return steps.reduce((best, step, i) => (Math.abs(step - target) < Math.abs(steps[best] - target) ? i : best), 0);
}

/** A slider with a label under its thumb; `onStep` receives the index of the step at which it stops. @param {(index: number) => void} onStep */
export function stepSlider(onStep) {
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "range", step: "any", ariaLabel: "recorded step" }));
  const label = h("span"), node = h("div.scrub", {}, input, label);
  /** @type {number[]} */
  let steps = [];
  let at = 0;
  input.oninput = () => onStep(closestStepIndex(steps, Number(input.value)));
  input.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -STEPS_PER_PAGE_KEY, PageUp: STEPS_PER_PAGE_KEY, Home: -Infinity, End: Infinity }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    onStep(Math.max(0, Math.min(steps.length - 1, at + by)));
  };
  return {
    node,
    input,
    /** Show that it stands at a step; without an axis it spans the whole width. @param {number[]} all @param {number} index @param {string} text @param {ChartAxis} [axis] */
    show(all, index, text, axis) {
      [steps, at] = [all, index];
      const left = axis?.left ?? THUMB_WIDTH / 2, right = axis?.right ?? Math.max(left + 1, node.clientWidth - THUMB_WIDTH / 2);
      const [low, high] = axis ? [axis.x.invert(left), axis.x.invert(right)] : [all[0] ?? 0, all[all.length - 1] ?? 1];
      Object.assign(input, { min: low, max: high, value: all[index] ?? low });
      Object.assign(input.style, { marginLeft: `${left - THUMB_WIDTH / 2}px`, width: `${right - left + THUMB_WIDTH}px` });
      input.ariaValueText = label.textContent = text;
      const center = left + (((all[index] ?? low) - low) / (high - low || 1)) * (right - left), room = node.clientWidth - label.offsetWidth;
      label.style.marginLeft = `${Math.max(0, Math.min(room, center - label.offsetWidth / 2))}px`;
    },
  };
}
