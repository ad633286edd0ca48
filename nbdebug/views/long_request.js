// @ts-check
/** A request that takes long: a button, the progress, a Stop button, and what Python answers. */
/** @import { Ask } from "./kernel_requests.js" */
import { h, makeButton } from "./kit.js";

/** @typedef {{available: (isAvailable: boolean) => void, node: HTMLElement}} LongRequest */

/**
 * Buttons of which each makes a request, and below them the progress with a Stop button, then the answer. They are hidden
 * until `available` says that Python is.
 * @param {() => Ask} getAsk @param {string} status while there is no progress yet @param {Record<string, () => object>} contents of the request of each button, by its text
 * @param {(answer: any) => Node | Promise<Node>} draw returns the answer as an element
 * @returns {LongRequest}
 */
export function longRequest(getAsk, status, contents, draw) {
  const text = h("span", { role: "status" }), stop = makeButton("stop", "■ Stop", halt), line = h("div.tools", { hidden: true }, text, stop), answer = h("div");
  const buttons = Object.entries(contents).map(([name, content]) => makeButton("try", name, () => run(content())));
  const bar = h("div.tools", { hidden: true }, ...buttons);
  let current = /** @type {object | null} */ (null);

  function halt() {
    if (!current || stop.ariaDisabled) return;
    Object.assign(stop, { ariaDisabled: "true", textContent: "Stopping…" });
    getAsk().stop(current);
  }

  /** @param {object} content */
  async function run(content) {
    if (current) return;
    current = content;
    for (const button of buttons) button.ariaDisabled = "true";
    Object.assign(stop, { ariaDisabled: null, textContent: "■ Stop" });
    text.textContent = status;
    answer.replaceChildren();
    line.hidden = false;
    const response = await getAsk()(content, (progress) => { if (progress.text) text.textContent = progress.text; });
    current = null;
    line.hidden = true;
    for (const button of buttons) button.ariaDisabled = null;
    const trouble = response ? response.trouble : "Python is no longer available.";
    answer.replaceChildren(trouble ? h("div.note", { role: "status" }, trouble) : await draw(response));
  }

  return { node: h("div.trial", {}, bar, line, answer), available: (isAvailable) => { bar.hidden = !isAvailable; } };
}
