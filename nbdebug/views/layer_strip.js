// @ts-check
/** @import { Store } from "./layer_store.js" */
/** @import { Row } from "./layer_rows.js" */
/** @import { LayersPlace } from "./layers_place.js" */
import { h, num, press, watch } from "./kit.js";
import { film } from "./layer_films.js";
import { valueAt } from "./layer_store.js";
import { percentOf, pick } from "./tabs.js";

const KINDS = { strip: "Heat strip", bands: "Percentiles", ridge: "Ridge" };
const STATISTICS = ["norm", "mean", "std", "absmax", "zeros", "nonfinite"];

/** One layer over time. @param {() => void} close @param {LayersPlace} place */
export function layerPanel(close, place) {
  const name = h("b"),
    kind = h("span.soft"),
    tabs = h("div.tabs", { role: "group", ariaLabel: "signal" }),
    modes = h("div.tabs", { role: "group", ariaLabel: "picture" });
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })),
    said = h("div"),
    numbers = h("tbody");
  const heads = h(
    "tr",
    {},
    h("th"),
    ...STATISTICS.map((one) => h("th", { scope: "col" }, one === "nonfinite" ? "not finite" : one)),
  );
  const node = h(
    "section.panel",
    { hidden: true, ariaLabel: "layer over time" },
    h("div.head", {}, h("div", {}, name, " ", kind), press("close", "Close", close)),
    said,
    h("div.head", {}, tabs, modes),
    h("div.stage", {}, canvas),
    h("div.scroll", {}, h("table.table.numbers", {}, h("thead", {}, heads), numbers)),
  );
  /** @type {Row | null} */
  let row = null;
  /** @type {Store | null} */
  let store = null;
  let step = 0;

  function draw() {
    node.hidden = !row;
    if (!row || !store) return;
    const now = store,
      { path, params } = row,
      signals = store.words.drawn.filter((one) => params.includes(one.split("|")[1]) || one === `activation|${path}`);
    if (!signals.includes(place.signal))
      place.signal = signals.find((one) => one.split("|")[0] === place.signal.split("|")[0]) ?? signals[0] ?? "";
    const { signal, mode } = place;
    name.textContent = path || row.name;
    kind.textContent = row.kind;
    said.replaceChildren(
      ...row.found.map((one) => h(`div.tone.${one.severity}`, {}, h("b", {}, `${one.code} `), one.message)),
    );
    pick(tabs, Object.fromEntries(signals.map((one) => [one, called(one)])), signal, (one) => {
      place.signal = one;
      draw();
    });
    pick(modes, KINDS, mode, (one) => {
      place.mode = one;
      draw();
    });
    const steps = film(canvas, now, signal, mode, step);
    canvas.ariaLabel = `${called(signal)}: ${steps.length} histograms from step ${num(steps[0])} to ${num(steps.at(-1))}`;
    numbers.replaceChildren(
      ...signals.map((one) => h("tr", {}, h("th", { scope: "row" }, called(one)), ...cells(now, one, step))),
    );
  }

  watch(canvas.parentElement ?? node, draw);
  return {
    node,
    /** @param {Store} now @param {Row | null} one @param {number} at */
    show(now, one, at) {
      [store, row, step] = [now, one, at];
      draw();
    },
  };
}

/** A place in words: a weight by its own name, the rest after it. @param {string} signal */
function called(signal) {
  const [family, place] = signal.split("|"),
    own = place.split(".").at(-1);
  return family === "activation" ? family : family === "weight" ? `${own}` : `${own} ${family}`;
}

/** @param {Store} store @param {string} signal @param {number} step */
function cells({ layers }, signal, step) {
  const [family, place] = signal.split("|");
  return STATISTICS.map((one) => valueAt(layers, `${family}.${one}|${place}`, step)).map((v, i) =>
    h("td", {}, i > 3 ? percentOf(v) : num(v)),
  );
}
