// @ts-check
/** Numbers with signs, and the bytes of a map. */
import { brief } from "../kit.js";

/** A number with its sign. @param {number | null} v @param {number} [digits] */
export function explainSigned(v, digits = 3) {
  return `${v !== null && v > 0 ? "+" : ""}${brief(v, digits)}`;
}

/** A number with its sign and its unit. @param {number | null} v @param {any} found @param {number} [digits] */
export function explainUnit(v, found, digits = 3) {
  return `${explainSigned(v, digits)} ${explainOf(found)}`.trim();
}

/** The unit of attributions. @param {any} found */
export function explainOf(found) {
  return found.unit ?? found.space ?? "";
}

/** What is explained: a logit of a class, or the one output. @param {any} found */
export function explainNamed({ space, targetName }) {
  return targetName === "output" ? space : `${space} of ${targetName}`;
}

/** @type {Record<string, string>} */
const EXPLAIN_METHODS = { gradcam: "Grad-CAM", lime: "LIME", deepshap: "DeepSHAP", input_x_gradient: "input × gradient" };

/** What people call an engine. @param {string} name */
export function explainMethod(name) {
  return EXPLAIN_METHODS[name] ?? name.replaceAll("_", " ");
}

/** What Python says that went wrong. @param {any} answer */
export function explainTrouble(answer) {
  return String(answer?.trouble ?? "").replace(/^SetupError: /, "");
}

/** A share in percent, few digits. @param {number} v */
export function explainShare(v) {
  const percent = 100 * v;
  return percent !== 0 && percent < 0.01 ? "<0.01 %" : `${percent >= 10 ? Math.round(percent) : Number(percent.toPrecision(2))} %`;
}

/** What a panel shows once Python was asked: its answer, or what was there before, with the reason said. @param {HTMLElement} said @param {any} answer @param {any} before */
export function explainAnswered(said, answer, before) {
  said.textContent = answer.trouble === undefined ? "" : answer.trouble || "No Python is there to be asked: run the cell again.";
  return answer.trouble === undefined ? answer : before;
}

/** Bytes out of text. @param {string} packed */
export function explainBytes(packed) {
  return Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
}
