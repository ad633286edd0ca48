// @ts-check
/** Code to take along. */
import { h, press } from "./kit.js";

/** A piece of code under a label, with a button that copies it. @param {string} label @param {string} source */
export function code(label, source) {
  const button = press("copy", "Copy", async () => {
    button.textContent = (await copy(source)) ? "Copied" : "Select and copy";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }, { ariaLabel: `Copy the ${label.toLowerCase()}` });
  return h("div", {}, h("div.fix", {}, h("span.label", {}, label), button), h("pre.code", {}, source));
}

/** The clipboard, or the old way where a page may not use it. @param {string} source */
async function copy(source) {
  try {
    await navigator.clipboard.writeText(source);
    return true;
  } catch {
    const area = /** @type {HTMLTextAreaElement} */ (h("textarea.unseen", { value: source }));
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
