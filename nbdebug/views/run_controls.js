// @ts-check
/** @import { Model } from "./kit.js" */
import { h, num, press, stop } from "./kit.js";

const WAITING = "Waiting for the cell…";

/**
 * Pause, a change of the rate, and stop; each says that it waits until the loop has heard.
 * @param {Model} model
 */
export function runControls(model) {
  const rate = h("span.soft"),
    node = h("div.controls", { role: "group", ariaLabel: "the running cell" });
  let sent = model.get("state").heard.clicks,
    /** @type {HTMLElement | null} */ waiting = null;

  /** @param {HTMLElement} button @param {object} content */
  function ask(button, content) {
    if (waiting) return;
    waiting = button;
    sent++;
    model.send(content);
    show();
  }
  const pause = press("pause", "", () => ask(pause, { kind: model.get("state").heard.paused ? "resume" : "pause" }));
  const times = (/** @type {string} */ text, /** @type {number} */ factor) => {
    const one = press("rate", text, () => ask(one, { kind: "rate", factor }), {
      title: `Learning rate ${text}`,
      ariaLabel: `learning rate ${text}`,
    });
    return one;
  };
  const half = times("×½", 0.5),
    twice = times("×2", 2);
  node.append(pause, h("span.pair", {}, rate, half, twice), stop(model));

  function show() {
    const { clicks, paused, factor } = model.get("state").heard;
    if (clicks >= sent) waiting = null;
    sent = Math.max(sent, clicks);
    pause.textContent = waiting === pause ? WAITING : paused ? "▶ Resume" : "❚❚ Pause";
    rate.textContent = waiting === half || waiting === twice ? WAITING : factor === 1 ? "rate" : `rate ×${num(factor)}`;
    for (const one of [pause, half, twice]) one.ariaDisabled = waiting ? "true" : null;
    node.title = waiting ? "The notebook's own interrupt button stops at once." : "";
  }
  show();
  return { node, show };
}
