// @ts-check
/** The panel of calibration: confidence against accuracy, and what would mend it. */
/** @import { PanelAsk, PanelGo } from "./panel_kit.js" */
import { brief, h, num, press } from "../kit.js";
import { code } from "../code.js";
import { panelCount, panelHead, panelState, panelTrouble } from "./panel_kit.js";
import { calibrationBars, calibrationBins } from "./panel_bins.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function calibrationPanel(state, go, ask) {
  const node = h("div.panelbox", { "data-lm-suppress-shortcuts": "true" }), note = h("div"), body = h("div.panelbox"), choice = calibrationChoice(state, (of) => again(of === null ? { now: true } : { of }));

  /** @param {object} options */
  async function again(options) {
    node.ariaBusy = "true";
    const next = await panelState(ask, "calibration", options);
    node.ariaBusy = "false";
    note.replaceChildren(...(next.trouble === undefined ? [] : [panelTrouble(next.trouble, "of" in options ? `errors.calibration(${JSON.stringify(options.of)})` : "mend" in options ? "errors.temperature()" : "errors.calibration()")]));
    if (next.trouble !== undefined) return;
    state = next;
    draw();
  }

  function draw() {
    if (state.later) return;
    const after = state.scaling?.helps && state.scaling.after;
    body.replaceChildren(calibrationStats(state), h("div.panelplots", {}, calibrationBins(state, go, after), calibrationBars(state, go)), ...mending());
    if (state.unknown) body.append(h("div.note", {}, `${panelCount(state.unknown)} samples without a target or a score are left out.`));
  }

  /** What a temperature would do. @returns {HTMLElement[]} */
  function mending() {
    const found = state.scaling, head = panelHead("Temperature");
    if (!found) return [];
    if (found.later) return [head, h("div", {}, press("toggle", "Would a temperature help?", () => again({ mend: true })))];
    const change = `calibration error ${brief(found.error[0])} → ${brief(found.error[1])}, loss ${num(found.loss[0])} → ${num(found.loss[1])}, on samples that it was not fitted on (${panelCount(found.rows)}, in two halves)`;
    if (!found.helps) return [head, h("div", {}, `${state.off ? "A temperature would not help" : "No temperature is needed"}; one of ${brief(found.temperature)} would give: ${change}.`)];
    return [head, h("div", {}, h("b", {}, `Divide the logits by ${brief(found.temperature)}`), `: ${change}. Which class is the likeliest stays as it is.`), code("Line", found.code)];
  }

  node.append(choice, note, body);
  draw();
  if (state.later) again({ now: true });
  return node;
}

/** Whose chance is looked at: that of the prediction, or of a class. @param {any} state @param {(of: string | number | null) => void} pick */
function calibrationChoice({ names, total }, pick) {
  if (names.length === 0) return h("div");
  const label = "Look at";
  if (total > names.length) {
    const field = /** @type {HTMLInputElement} */ (h("input.find", { type: "search", placeholder: "all, or the name of a class", ariaLabel: label, onchange: () => pick(field.value || null) }));
    return h("div.tools", {}, h("span.soft", {}, label), field);
  }
  const options = [h("option", { value: "" }, "the confidence of the prediction"), ...names.map((/** @type {string} */ name, /** @type {number} */ i) => h("option", { value: String(i) }, `the chance of ${name}`))];
  const list = /** @type {HTMLSelectElement} */ (h("select.find", { ariaLabel: label, onchange: () => pick(list.value ? Number(list.value) : null) }, ...options));
  return h("div.tools", {}, h("span.soft", {}, label), list);
}

/** The errors, and what they say. @param {any} state */
function calibrationStats({ error, chance, off, over, brier, column }) {
  const sure = column === "confidence", said = !off ? `As sure as it should be, as far as these samples tell.`
    : over ? (sure ? "Too sure: it is right less often than its confidence says." : "The chance is higher than it comes true.")
      : sure ? "Not sure enough: it is right more often than its confidence says." : "The chance is lower than it comes true.";
  return h("div.panelstats", {},
    h("div.panelstat", {}, h("span.label", {}, "calibration error"), h("b", {}, brief(error)), h("span.soft", {}, `up to ${brief(chance)} by chance alone`)),
    brier !== null && h("div.panelstat", {}, h("span.label", {}, "Brier score"), h("b", {}, brief(brier))),
    h("div.panelsaid", { role: "status" }, h("span.sign", { ariaHidden: "true" }, off ? "▲" : "✓"), ` ${said}`));
}
