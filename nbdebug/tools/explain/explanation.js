// @ts-check
/** The explanation of samples: columns, comparison and controls. The error browser embeds it too. */
/** @import { ExplainPanel } from "./panels/kit.js" */
/** @import { ExplainAsk, ExplainColumn, ExplainStore } from "./store.js" */
import { h, makeButton, renderTabs } from "../../views/kit.js";
import { attributionView, classProbabilities, exactnessLine } from "./attribution_plots.js";
import { controlSelect, methodTitle, scoreName } from "./display.js";
import { attentionPanel } from "./panels/attention.js";
import { contrastPanel } from "./panels/contrast.js";
import { counterfactualPanel } from "./panels/counterfactuals.js";
import { examplesPanel } from "./panels/examples.js";
import { featuresPanel } from "./panels/features.js";
import { panelTabs } from "./panels/kit.js";
import { pathPanel } from "./panels/path.js";
import { reliabilityPanel } from "./panels/reliability.js";
import { explainStore, showProgress, slowWarning } from "./store.js";

/** @param {ExplainStore} store @param {ExplainColumn} column @param {boolean} second */
export function sampleColumn(store, column, second) {
  const sample = store.state.samples[column.sample], chances = h("div"), why = h("div.x-why"), exact = h("div"), statusBox = h("div.x-wait", { role: "status" });
  const close = second && makeButton("x-close", "×", () => store.drop(), { ariaLabel: `close ${sample.name}`, title: "close" });
  const node = h("section.x-column", { ariaLabel: sample.name }, columnHead(sample, close), h("div.x-body", {}, h("div.x-side", {}, h("div.label", {}, "prediction"), chances), h("div.x-main", {}, statusBox, why, exact)));
  /** @type {any} */
  let drawnAttribution = null;

  function draw() {
    showColumnStatus(statusBox, store, column);
    node.ariaBusy = String(column.waiting);
    if (drawnAttribution === column.attribution && drawnAttribution) return;
    drawnAttribution = column.attribution;
    const focusedClass = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.class, inside = chances.contains(document.activeElement);
    chances.replaceChildren(classProbabilities(sample, drawnAttribution?.target ?? null, store.change));
    if (inside) /** @type {HTMLElement | null} */ (chances.querySelector(`[data-class="${focusedClass}"]`))?.focus({ preventScroll: true });
    why.replaceChildren(...(drawnAttribution ? [columnCaption(drawnAttribution), attributionView(drawnAttribution, store.display)] : []));
    exact.replaceChildren(...(drawnAttribution ? [exactnessLine(drawnAttribution)] : []));
    requestAnimationFrame(() => store.display.change({}));
  }

  store.subscribe(() => { if (store.columns.includes(column) && store.state.samples[column.sample] === sample) draw(); });
  draw();
  return node;
}

/** @param {any} sample @param {HTMLElement | false} close */
function columnHead({ name, right, truthName }, close) {
  const verdict = right === true ? h("span.x-verdict.good", {}, "✓ right") : right === false ? h("span.x-verdict.error", {}, `✗ wrong, true class ${truthName}`) : null;
  return h("div.x-head", {}, h("b", { role: "heading", ariaLevel: "4" }, name), verdict, close);
}

/** @param {any} attribution */
function columnCaption(attribution) {
  return h("div.x-caption", {}, "Attribution of the ", h("b", {}, scoreName(attribution)), ` (${methodTitle(attribution.method)})`);
}

/** Show progress, a confirmation, an error, or how to get the attribution without Python. @param {HTMLElement} statusBox @param {ExplainStore} store @param {ExplainColumn} column */
function showColumnStatus(statusBox, store, column) {
  const { waiting, progress, slow, trouble, line } = column;
  if (waiting) return showProgress(statusBox, progress);
  if (slow !== null) return statusBox.replaceChildren(h("div.x-compute", {}, h("div", {}, slowWarning(slow, `Computing this with ${methodTitle(store.choice.method)}`)), makeButton("use", "Compute it", () => void store.loadAttribution(column, true))));
  if (trouble) return statusBox.replaceChildren(h("div.x-trouble.error", {}, h("b", {}, "▲ "), trouble));
  statusBox.replaceChildren(...(line ? [missingKernelNote(line), ...storedButtons(store, column)] : []));
}

/** The message if Python is not available. @param {string} line */
export function missingKernelNote(line) {
  return h("div.x-trouble.note", {}, "This page does not hold that explanation, and Python is not available. Run the cell again, or use ", h("code", {}, line));
}

/** Buttons for the attributions that the page holds. @param {ExplainStore} store @param {ExplainColumn} column */
function storedButtons(store, { sample }) {
  const stored = store.state.attributions[sample];
  if (!stored.length) return [];
  const buttons = stored.map((/** @type {any} */ attribution) => makeButton("x-kept", [attribution.targetName, methodTitle(attribution.method), attribution.against && `against ${attribution.against}`, attribution.space].filter(Boolean).join(", "), () => store.change({ method: attribution.method, target: attribution.target, background: attribution.background, space: attribution.asked.space, layer: attribution.asked.layer ?? "" })));
  return [h("div.x-keeps", {}, h("span.note", {}, "Available in this page:"), ...buttons)];
}

/** The function that draws each panel. @type {Record<string, ExplainPanel>} */
const EXPLAIN_PANELS = {
  attention: attentionPanel, counterfactuals: counterfactualPanel, contrast: contrastPanel, examples: examplesPanel, features: featuresPanel,
  path: pathPanel, reliability: reliabilityPanel,
};

/** The whole explanation; `ask` resolves to undefined if Python is not available. @param {any} state @param {ExplainAsk} ask */
export function explanationPage(state, ask) {
  const store = explainStore(state, ask), columns = h("div.x-columns"), panels = panelTabs(store, EXPLAIN_PANELS);
  /** @type {[number, HTMLElement][]} */
  let drawnColumns = [];

  function draw() {
    drawnColumns = store.columns.map((column, at) => (drawnColumns[at]?.[0] === column.sample ? drawnColumns[at] : [column.sample, sampleColumn(store, column, at > 0)]));
    columns.classList.toggle("nb-x-two", drawnColumns.length > 1);
    if (drawnColumns.some(([, node], at) => columns.children[at] !== node) || columns.children.length !== drawnColumns.length) columns.replaceChildren(...drawnColumns.map(([, node]) => node));
  }

  store.subscribe(draw);
  draw();
  const head = h("div.x-top", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline));
  const keep = (/** @type {KeyboardEvent} */ event) => { if (event.key !== "Escape" && /** @type {Element} */ (event.target).closest("input, select")) event.stopPropagation(); };
  return h("div.x-page", { onkeydown: keep, "data-lm-suppress-shortcuts": "true" }, h("div.x-open", {}, head, comparisonBar(store)), controlsBar(store), columns, panels);
}

const MAX_COMPARE_TABS = 12;

/** @param {ExplainStore} store */
export function comparisonBar(store) {
  const { state } = store, tabs = h("div.tabs", { role: "group", ariaLabel: "samples" }), others = h("span.tabs"), statusBox = h("div", { role: "status" });
  const key = /** @type {HTMLInputElement} */ (h("input.x-place", { type: "number", min: "0", step: "1", ariaLabel: "dataset index of the sample to compare with", placeholder: "index" }));
  const form = h("form.x-beside", { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); if (key.value === "") return; void store.addSample(Number(key.value)); key.value = ""; } }, h("span.note", {}, "compare with"), others, state.places && key, state.places && h("button.x-go", { type: "submit" }, "show"));
  const requestedCount = state.samples.filter((/** @type {any} */ sample) => !sample.beside).length;

  function draw() {
    const named = Object.fromEntries(state.samples.slice(0, MAX_COMPARE_TABS).map((/** @type {any} */ sample, /** @type {number} */ i) => [i, sample.name])), first = store.columns[0].sample, second = store.columns[1]?.sample;
    tabs.hidden = requestedCount < 2 && Object.keys(named).length < 3;
    if (!tabs.hidden) renderTabs(tabs, named, String(first), (i) => compareFirst(store, Number(i)));
    const rest = Object.fromEntries(Object.entries(named).filter(([i]) => Number(i) !== first));
    renderTabs(others, rest, String(second ?? ""), (i) => (Number(i) === second ? store.drop() : void store.show(1, Number(i))));
    form.hidden = !state.places && Object.keys(rest).length === 0;
    statusBox.replaceChildren(...(store.line ? [missingKernelNote(store.line)] : store.status ? [h("div.note", {}, store.status)] : []));
  }

  store.subscribe(draw);
  draw();
  return h("div", {}, h("div.x-samples", {}, tabs, form), statusBox);
}

/** Show another sample in the first column; never show the same sample twice. @param {ExplainStore} store @param {number} sample */
function compareFirst(store, sample) {
  if (store.columns[1]?.sample === sample) void store.show(1, store.columns[0].sample);
  void store.show(0, sample);
}

/** @param {ExplainStore} store */
export function controlsBar(store) {
  const { targets, methods, backgrounds, layers } = store.state.controls, opened = store.columns[0].attribution, logitUnit = opened?.asked.space === "logits" ? opened.space : "logit";
  const hasTruth = (/** @type {any} */ item) => item.truth !== null && item.truth !== undefined, classes = targets.length > 0;
  const target = controlSelect("class", [["predicted", "the predicted class"], ...(store.state.samples.some(hasTruth) ? [["true", "the true class"]] : []), ...targets.map((/** @type {any} */ targetItem) => [String(targetItem.class), targetItem.name])], (value) => store.change({ target: /^\d+$/.test(value) ? Number(value) : value }));
  const method = controlSelect("method", methods.map((/** @type {any} */ methodItem) => [methodItem.name, methodTitle(methodItem.name)]), (value) => store.change({ method: value, layer: "" }));
  const background = controlSelect("background", backgrounds.map((/** @type {any} */ backgroundItem) => [backgroundItem.name, backgroundItem.says]), (value) => store.change({ background: value }));
  const layer = controlSelect("layer", [["", "last suitable layer"], ...layers.map((/** @type {string} */ layerItem) => [layerItem, layerItem])], (value) => store.change({ layer: value }));
  const units = h("span.tabs", { role: "group", ariaLabel: "unit" }), unit = h("span.x-control", {}, h("span.label", { ariaHidden: "true" }, "unit"), units), methodNote = h("div.note");
  const node = h("div.x-controls", {}, classes && target.node, method.node, background.node, layer.node, classes && ["logit", "log-probability"].includes(logitUnit) && unit);

  function draw() {
    const { choice } = store, engine = methods.find((/** @type {any} */ option) => option.name === choice.method);
    target.set(String(choice.target));
    method.set(choice.method);
    background.set(choice.background);
    layer.set(choice.layer);
    background.node.hidden = engine?.background === false || backgrounds.length < 2;
    layer.node.hidden = choice.method !== "gradcam";
    renderTabs(units, { logits: logitUnit, probability: "probability" }, choice.space, (space) => store.change({ space }));
    methodNote.textContent = engine ? `${methodTitle(choice.method)}: ${engine.says}` : "";
  }

  store.subscribe(draw);
  draw();
  return h("div", {}, node, methodNote);
}
