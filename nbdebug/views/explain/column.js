// @ts-check
/** @import { ExplainColumn, ExplainStore } from "./store.js" */
/** One sample: what is said of it, why, how exact that is. */
import { h, press } from "../kit.js";
import { attributionView } from "./attribution.js";
import { explainChances } from "./chances.js";
import { explainExactness } from "./exactness.js";
import { explainMethod, explainNamed } from "./numbers.js";
import { explainSlow, explainWaits } from "./patience.js";

/** @param {ExplainStore} store @param {ExplainColumn} column @param {boolean} second */
export function explainColumn(store, column, second) {
  const sample = store.state.samples[column.sample], chances = h("div"), why = h("div.x-why"), exact = h("div"), said = h("div.x-wait", { role: "status" });
  const close = second && press("x-close", "×", () => store.drop(), { ariaLabel: `close ${sample.name}`, title: "close" });
  const node = h("section.x-column", { ariaLabel: sample.name }, columnHead(sample, close), h("div.x-body", {}, h("div.x-side", {}, h("div.label", {}, "what the model says"), chances), h("div.x-main", {}, said, why, exact)));
  /** @type {any} */
  let drawn = null;

  function draw() {
    columnSaid(said, store, column);
    node.ariaBusy = String(column.waiting);
    if (drawn === column.found && drawn) return;
    drawn = column.found;
    const held = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.class, inside = chances.contains(document.activeElement);
    chances.replaceChildren(explainChances(sample, drawn?.target ?? null, store.change));
    if (inside) /** @type {HTMLElement | null} */ (chances.querySelector(`[data-class="${held}"]`))?.focus({ preventScroll: true });
    why.replaceChildren(...(drawn ? [columnCaption(drawn), attributionView(drawn, store.look)] : []));
    exact.replaceChildren(...(drawn ? [explainExactness(drawn)] : []));
    requestAnimationFrame(() => store.look.change({}));
  }

  store.hear(() => { if (store.columns.includes(column) && store.state.samples[column.sample] === sample) draw(); });
  draw();
  return node;
}

/** @param {any} sample @param {HTMLElement | false} close */
function columnHead({ name, right, truthName }, close) {
  const said = right === true ? h("span.x-verdict.good", {}, "✓ right") : right === false ? h("span.x-verdict.error", {}, `✗ wrong: it is ${truthName}`) : null;
  return h("div.x-head", {}, h("b", { role: "heading", ariaLevel: "4" }, name), said, close);
}

/** @param {any} found */
function columnCaption(found) {
  return h("div.x-caption", {}, "What contributes to the ", h("b", {}, explainNamed(found)), ` (${explainMethod(found.method)})`);
}

/** That Python works, that it could not, or that it is not there. @param {HTMLElement} said @param {ExplainStore} store @param {ExplainColumn} column */
function columnSaid(said, store, column) {
  const { waiting, far, slow, trouble, line } = column;
  if (waiting) return explainWaits(said, far);
  if (slow !== null) return said.replaceChildren(h("div.x-compute", {}, h("div", {}, explainSlow(slow, `By ${explainMethod(store.choice.method)} this`)), press("use", "Compute it", () => void store.seek(column, true))));
  if (trouble) return said.replaceChildren(h("div.x-trouble.error", {}, h("b", {}, "▲ "), trouble));
  said.replaceChildren(...(line ? [explainAbsent(line), ...columnKept(store, column)] : []));
}

/** What to write where nobody answers. @param {string} line */
export function explainAbsent(line) {
  return h("div.x-trouble.note", {}, "This page does not hold that, and no Python is there to be asked. Run the cell again, or write ", h("code", {}, line));
}

/** What the page holds instead. @param {ExplainStore} store @param {ExplainColumn} column */
function columnKept(store, { sample }) {
  const kept = store.state.attributions[sample];
  if (!kept.length) return [];
  const buttons = kept.map((/** @type {any} */ one) => press("x-kept", [one.targetName, explainMethod(one.method), one.against && `against ${one.against}`, one.space].filter(Boolean).join(", "), () => store.change({ method: one.method, target: one.target, background: one.background, space: one.asked.space, layer: one.asked.layer ?? "" })));
  return [h("div.x-keeps", {}, h("span.note", {}, "It holds"), ...buttons)];
}
