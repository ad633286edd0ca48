// @ts-check
/** @import { ExplainChoice, ExplainStore } from "./store.js" */
/** Panels below: each looks at a sample in a way of its own. */
import { h, instead, press } from "../kit.js";
import { pick } from "../tabs.js";
import { explainTrouble } from "./numbers.js";
import { explainSlow, explainWaits } from "./patience.js";
import { explainPlace } from "./store.js";

/** @typedef {(state: any, ask: (options: object) => Promise<any>) => HTMLElement} ExplainPanel */

/** The panels that there are, one of them in sight. @param {ExplainStore} store @param {Record<string, ExplainPanel>} table */
export function explainPanels(store, table) {
  const { state } = store, known = state.panels.filter((/** @type {any} */ one) => Object.hasOwn(table, one.name));
  const tabs = h("div.tabs.x-tabs", { role: "group", ariaLabel: "more about the sample" }), whose = h("div.tabs.x-whose", { role: "group", ariaLabel: "sample of the panel" }), place = h("div.x-panel"), names = Object.fromEntries(known.map((/** @type {any} */ one) => [one.name, one.title]));
  /** @type {Map<string, HTMLElement>} */
  const made = new Map();
  const first = store.choice;
  let name = known[0]?.name ?? "", at = 0;

  function draw() {
    if (!store.columns[at]) at = 0;
    const sample = store.columns[at].sample, one = known.find((/** @type {any} */ one) => one.name === name), key = JSON.stringify([name, sample, panelsAsked(one, store.choice)]);
    pick(tabs, names, name, (one) => { name = one; draw(); });
    whose.hidden = store.columns.length < 2;
    pick(whose, Object.fromEntries(store.columns.map((column, i) => [i, state.samples[column.sample].name])), String(at), (one) => { at = Number(one); draw(); });
    const node = made.get(key) ?? panelsOne(store, table[name], one, sample, first);
    made.set(key, node);
    if (place.firstChild !== node) place.replaceChildren(node);
  }

  if (!known.length) return null;
  store.hear(draw);
  draw();
  return h("section.x-panels", { ariaLabel: "more about the sample" }, h("div.x-bar", {}, tabs, whose), place);
}

/** What the controls say, as far as a panel follows them. @param {any} one @param {ExplainChoice} choice */
function panelsAsked(one, choice) {
  return Object.fromEntries(Object.entries(choice).filter(([name]) => one.follows.includes(name)));
}

/**
 * One panel of one sample; what Python must compute first waits for a click. One that follows the controls is of what they say.
 * @param {ExplainStore} store @param {ExplainPanel} view @param {any} one @param {number} at @param {ExplainChoice} first what the page opened with
 */
function panelsOne(store, view, one, at, first) {
  const sample = store.state.samples[at], said = h("div.note", { role: "status" }), asked = panelsAsked(one, store.choice);
  let sure = false;
  const ask = async (/** @type {object} */ options) => {
    const answer = await store.ask({ kind: "panel", name: one.name, ...explainPlace(sample), options: { ...asked, ...options }, sure }, (progress) => explainWaits(said, progress));
    sure ||= answer?.slow !== undefined;
    return answer?.state ?? { trouble: answer?.slow === undefined ? explainTrouble(answer) : `${explainSlow(answer.slow)} Ask again to have it computed.` };
  };
  const held = at === 0 && one.state !== null && JSON.stringify(asked) === JSON.stringify(panelsAsked(one, first));
  if (held) return h("div", {}, view(one.state, ask));
  const compute = async () => {
    explainWaits(said);
    const found = await ask({});
    if (found.trouble === undefined) {
      node.className = "";
      return instead(node, view(found, ask));
    }
    said.textContent = found.trouble || "No Python is there to be asked: run the cell again.";
  };
  const node = h("div.x-compute", { role: "group", ariaLabel: one.title }, press("use", "Compute", () => void compute(), { ariaLabel: `Compute ${one.title.toLowerCase()}` }), said);
  if (one.state !== null) void compute();
  return node;
}
