// @ts-check
/** @import { Props } from "../kit.js" */
/** @import { Store } from "./store.js" */
/** @import { Asked } from "./query.js" */
/** The error browser: an overview and panels, and beside them the samples behind whatever is clicked. */
import { h, instead, press, root } from "../kit.js";
import { pick } from "../tabs.js";
import { errorsStore } from "./store.js";
import { matrixView } from "./matrix.js";
import { pairsList } from "./pairs.js";
import { filtersBar } from "./filters.js";
import { galleryView } from "./gallery.js";
import { selectionBar } from "./selection.js";
import { detailView } from "./detail.js";
import { baselinesPanel } from "./panel_baselines.js";
import { calibrationPanel } from "./panel_calibration.js";
import { classesPanel } from "./panel_classes.js";
import { fairnessPanel } from "./panel_fairness.js";
import { flipsPanel } from "./panel_flips.js";
import { neighborsPanel } from "./panel_neighbors.js";
import { scatterPanel } from "./panel_scatter.js";
import { slicesPanel } from "./panel_slices.js";

/** @typedef {(query: Partial<Asked>, label: string) => void} Go */
/** @typedef {(state: any, go: Go, ask: (content: object) => Promise<any>) => HTMLElement} PanelView */

/** What draws the panel of a name. @type {Record<string, PanelView>} */
const PANELS = {
  baselines: baselinesPanel, calibration: calibrationPanel, classes: classesPanel, fairness: fairnessPanel, flips: flipsPanel,
  neighbors: neighborsPanel, scatter: scatterPanel, slices: slicesPanel,
};

/** @param {Props} props */
function render({ model, el }) {
  const store = errorsStore(model), { state } = store, overview = pageOverview(store), panels = pagePanels(store, overview);
  const bar = selectionBar(store), gallery = galleryView(store, bar.typed), detail = detailView(store, bar.typed, gallery.focus);
  const list = h("div", {}, filtersBar(store), gallery.pages, bar.node, gallery.node, gallery.code), samples = h("div.e-samples", {}, list, detail);
  const head = h("div.e-head", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline));
  const notes = state.notes.length > 0 && h("details.fold", {}, h("summary", {}, `Notes (${state.notes.length})`), h("ul", {}, ...state.notes.map((/** @type {string} */ one) => h("li", {}, one))));
  root(el, head, ...(notes ? [notes] : []), h(panels ? "div.e-both" : "div", {}, ...(panels ? [panels] : []), samples));
  store.hear((news) => { if (news === "open") list.hidden = store.opened !== null; });
}

/** The overview of a table with cells; one without, such as of real numbers, has its own here. @param {Store} store */
function pageOverview(store) {
  const { state } = store;
  if (state.grid) return h("div", {}, matrixView(state.grid, store), pairsList(state.grid, store));
  return null;
}

/** The overview and the panels, one of them in sight. @param {Store} store @param {HTMLElement | null} overview */
function pagePanels(store, overview) {
  const { state } = store, tabs = h("div.tabs.e-tabs", { role: "group", ariaLabel: "views" }), place = h("div.e-panel", {});
  const known = state.panels.filter((/** @type {any} */ one) => Object.hasOwn(PANELS, one.name)), names = { ...(overview && { "": "Overview" }), ...Object.fromEntries(known.map((/** @type {any} */ one) => [one.name, one.title])) };
  /** @type {Record<string, HTMLElement>} */
  const made = overview ? { "": overview } : {};

  /** @param {string} name */
  function open(name) {
    made[name] ??= pagePanel(store, known.find((/** @type {any} */ one) => one.name === name));
    pick(tabs, names, name, open);
    place.replaceChildren(made[name]);
  }

  if (!overview && !known.length) return null;
  open(Object.keys(names)[0]);
  tabs.hidden = Object.keys(names).length < 2;
  return h("div.e-overview", {}, tabs, place);
}

/** One panel; what Python must compute first waits for a click. @param {Store} store @param {{name: string, title: string, state: any}} one */
function pagePanel(store, one) {
  const go = (/** @type {Partial<Asked>} */ query, /** @type {string} */ label) => { void store.go(query, label); };
  const draw = () => PANELS[one.name](one.state, go, store.ask), said = h("div.note", { role: "status" });
  if (one.state !== null) return h("div", {}, draw());
  const button = press("use", `Compute ${one.title.toLowerCase()}`, async () => {
    said.textContent = "Computing…";
    const answer = await store.ask({ kind: "panel", name: one.name, options: {} });
    if (answer?.state) {
      one.state = answer.state;
      instead(node, draw());
    } else said.textContent = answer?.trouble ?? "Python is not there: run the cell again.";
  });
  const node = h("div", { role: "group", ariaLabel: one.title }, button, said);
  return node;
}

export default { initialize() {}, render };
