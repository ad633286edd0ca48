// @ts-check
/** @import { Props } from "../kit.js" */
/** What the model goes by: bars with intervals, a beeswarm, dependence of attributions on values, maps. */
import { h, root } from "../kit.js";
import { pick } from "../tabs.js";
import { importanceBars } from "./bars.js";
import { importanceDependence } from "./dependence.js";
import { importanceMaps } from "./maps.js";
import { importanceSwarm } from "./swarm.js";

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), tabs = h("div.tabs.m-tabs", { role: "group", ariaLabel: "views" }), place = h("div");
  const dependence = state.swarms.length ? importanceDependence(state) : null;
  /** @param {number} feature */
  const go = (feature) => {
    if (!dependence || feature >= state.swarms.length) return;
    dependence.choose(feature);
    open("dependence");
  };
  /** @type {Record<string, () => HTMLElement>} */
  const makers = {
    ...(state.maps.length && { maps: () => importanceMaps(state.maps) }),
    bars: () => importanceBars(state, go),
    ...(dependence && { swarm: () => importanceSwarm(state, go), dependence: () => dependence.node }),
  };
  const names = { maps: "Map", bars: "Bars", swarm: "Beeswarm", dependence: "Dependence" }, shown = Object.fromEntries(Object.entries(names).filter(([name]) => makers[name]));
  /** @type {Record<string, HTMLElement>} */
  const made = {};

  /** @param {string} name */
  function open(name) {
    made[name] ??= makers[name]();
    pick(tabs, shown, name, open);
    place.replaceChildren(made[name]);
  }

  const head = h("div.m-head", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline), h("div.note", {}, state.said));
  const notes = state.notes.length > 0 && h("ul.m-notes", {}, ...state.notes.map((/** @type {string} */ one) => h("li", {}, one)));
  root(el, head, ...(Object.keys(shown).length > 1 ? [tabs] : []), place, ...(notes ? [notes] : []));
  open(Object.keys(shown)[0]);
}

export default { initialize() {}, render };
