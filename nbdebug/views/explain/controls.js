// @ts-check
/** @import { ExplainStore } from "./store.js" */
/** What is explained and how: class, engine, background, layer, unit. */
import { h } from "../kit.js";
import { pick } from "../tabs.js";
import { explainMethod } from "./numbers.js";

/** @param {ExplainStore} store */
export function explainControls(store) {
  const { targets, methods, backgrounds, layers } = store.state.controls, opened = store.columns[0].found, given = opened?.asked.space === "logits" ? opened.space : "logit";
  const known = (/** @type {any} */ one) => one.truth !== null && one.truth !== undefined, classes = targets.length > 0;
  const target = controlsSelect("class", [["predicted", "the predicted class"], ...(store.state.samples.some(known) ? [["true", "the true class"]] : []), ...targets.map((/** @type {any} */ one) => [String(one.class), one.name])], (value) => store.change({ target: /^\d+$/.test(value) ? Number(value) : value }));
  const method = controlsSelect("method", methods.map((/** @type {any} */ one) => [one.name, explainMethod(one.name)]), (value) => store.change({ method: value, layer: "" }));
  const background = controlsSelect("compared with", backgrounds.map((/** @type {any} */ one) => [one.name, one.says]), (value) => store.change({ background: value }));
  const layer = controlsSelect("layer", [["", "the last that fits"], ...layers.map((/** @type {string} */ one) => [one, one])], (value) => store.change({ layer: value }));
  const units = h("span.tabs", { role: "group", ariaLabel: "unit" }), unit = h("span.x-control", {}, h("span.label", { ariaHidden: "true" }, "unit"), units), says = h("div.note");
  const node = h("div.x-controls", {}, classes && target.node, method.node, background.node, layer.node, classes && ["logit", "log-probability"].includes(given) && unit);

  function draw() {
    const { choice } = store, engine = methods.find((/** @type {any} */ one) => one.name === choice.method);
    target.set(String(choice.target));
    method.set(choice.method);
    background.set(choice.background);
    layer.set(choice.layer);
    background.node.hidden = engine?.background === false || backgrounds.length < 2;
    layer.node.hidden = choice.method !== "gradcam";
    pick(units, { logits: given, probability: "probability" }, choice.space, (space) => store.change({ space }));
    says.textContent = engine ? `${explainMethod(choice.method)}: ${engine.says}` : "";
  }

  store.hear(draw);
  draw();
  return h("div", {}, node, says);
}

/** A choice with its name above. @param {string} label @param {string[][]} options @param {(value: string) => void} change */
function controlsSelect(label, options, change) {
  const list = /** @type {HTMLSelectElement} */ (h("select.x-pick", { ariaLabel: label, onchange: () => change(list.value) }, ...options.map(([value, text]) => h("option", { value }, text))));
  const set = (/** @type {string} */ value) => {
    if (![...list.options].some((one) => one.value === value)) list.append(h("option", { value }, value));
    list.value = value;
  };
  return { node: h("label.x-control", {}, h("span.label", { ariaHidden: "true" }, label), list), set };
}
