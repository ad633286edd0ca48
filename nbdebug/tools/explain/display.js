// @ts-check
/** Number formats, color legend, select elements and display options. */
import { formatRounded, h } from "../../views/kit.js";

/** Format a number with its sign. @param {number | null} v @param {number} [digits] */
export function formatSigned(v, digits = 3) {
  return `${v !== null && v > 0 ? "+" : ""}${formatRounded(v, digits)}`;
}

/** Format a number with its sign and unit. @param {number | null} v @param {any} attribution @param {number} [digits] */
export function formatWithUnit(v, attribution, digits = 3) {
  return `${formatSigned(v, digits)} ${unitName(attribution)}`.trim();
}

/** The unit of an attribution. @param {any} attribution */
export function unitName(attribution) {
  return attribution.unit ?? attribution.space ?? "";
}

/** The name of the explained score: the logit of a class, or the only output. @param {any} attribution */
export function scoreName({ space, targetName }) {
  return targetName === "output" ? space : `${space} of ${targetName}`;
}

/** @type {Record<string, string>} */
const METHOD_TITLES = { gradcam: "Grad-CAM", lime: "LIME", deepshap: "DeepSHAP", input_x_gradient: "input × gradient" };

/** The display name of a method. @param {string} name */
export function methodTitle(name) {
  return METHOD_TITLES[name] ?? name.replaceAll("_", " ");
}

/** The error message in an answer. @param {any} answer */
export function errorText(answer) {
  return String(answer?.trouble ?? "").replace(/^SetupError: /, "");
}

/** Format a share as a percentage with few digits. @param {number} v */
export function formatSmallPercent(v) {
  const percent = 100 * v;
  return percent !== 0 && percent < 0.01 ? "<0.01 %" : `${percent >= 10 ? Math.round(percent) : Number(percent.toPrecision(2))} %`;
}

/** Return Python's answer; if it failed, show the reason and return the previous state. @param {HTMLElement} statusText @param {any} answer @param {any} before */
export function answerOrPrevious(statusText, answer, before) {
  statusText.textContent = answer.trouble === undefined ? "" : answer.trouble || "Python is not available: run the cell again.";
  return answer.trouble === undefined ? answer : before;
}

/** Decode base64 to bytes. @param {string} packed */
export function decodeBytes(packed) {
  return Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
}

/** A color scale with numbers. @param {number} limit @param {boolean} oneSided @param {any} attribution @param {boolean} [over] whether some lie beyond */
export function attributionLegend(limit, oneSided, attribution, over = false) {
  const unit = unitName(attribution), end = `${over ? "≥ " : "+"}${formatRounded(limit)}`, lowEnd = `${over ? "≤ " : ""}−${formatRounded(limit)}`;
  const raises = attribution.up ?? (oneSided ? "supports it" : "raises it"), lowers = attribution.down ?? "lowers it";
  return h("div.x-legend", { role: "img", ariaLabel: `colors: orange ${raises}, up to ${end}${oneSided ? "" : "; blue " + lowers + ", down to " + lowEnd}` },
    h("div.x-words", { ariaHidden: "true" }, h("span", {}, oneSided ? "" : lowers), h("span", {}, raises)),
    h(oneSided ? "i.x-strip.x-one" : "i.x-strip", {}),
    h("div.x-words", { ariaHidden: "true" }, !oneSided && h("span", {}, lowEnd), h("span", {}, oneSided ? "0" : `0 ${unit}`), h("span", {}, end)));
}

/** @typedef {ReturnType<typeof displayOptions>} DisplayOptions */

/** Display options that are not shared with other views. */
export function displayOptions() {
  /** @type {[HTMLElement, () => void][]} */
  let listeners = [];
  const options = {
    limits: /** @type {Map<HTMLElement, number>} */ (new Map()), heat: 0.6, sign: "both", full: "strong", bars: "waterfall", alone: false,
    subscribe: (/** @type {HTMLElement} */ node, /** @type {() => void} */ listener) => { listeners.push([node, listener]); },
    change: (/** @type {Partial<{heat: number, sign: string, full: string, bars: string, alone: boolean}>} */ part) => {
      Object.assign(options, part);
      listeners = listeners.filter(([node]) => node.isConnected);
      for (const node of options.limits.keys()) if (!node.isConnected) options.limits.delete(node);
      for (const [, listener] of listeners) listener();
    },
  };
  return options;
}

/** A select element with a label above. @param {string} label @param {string[][]} options @param {(value: string) => void} change */
export function controlSelect(label, options, change) {
  const list = /** @type {HTMLSelectElement} */ (h("select.x-pick", { ariaLabel: label, onchange: () => change(list.value) }, ...options.map(([value, text]) => h("option", { value }, text))));
  const set = (/** @type {string} */ value) => {
    if (![...list.options].some((option) => option.value === value)) list.append(h("option", { value }, value));
    list.value = value;
  };
  return { node: h("label.x-control", {}, h("span.label", { ariaHidden: "true" }, label), list), set };
}

/** The options of a select element for all classes but the predicted one. @param {string[]} classes @param {number} predicted */
export function otherClasses(classes, predicted) {
  return classes.map((name, at) => [String(at), name]).filter((_, at) => at !== predicted);
}
