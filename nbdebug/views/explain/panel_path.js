// @ts-check
/** The path of a sample through the layers: which class it looks like where, and how large it is beside others. */
import { brief, h } from "../kit.js";
import { percentOf, pick } from "../tabs.js";
import { insideChart } from "./inside_chart.js";
import { insideNotes } from "./inside_paint.js";

const PATH_FARTHEST = 6; // standard deviations that are drawn
const PATH_BAND = 2;

/** @param {any} state */
export function pathPanel(state) {
  const counts = state.classes.map((/** @type {any} */ one) => `${one.name}: ${one.count}`).join(", ");
  return h("div.panelbox.i-path", {}, h("div.i-verdict", {}, state.said),
    state.classes.length && pathLooks(state), state.classes.length && h("div.note", {}, `Behind each mean: ${counts}, of the ${state.who}. Gray: layers that do not tell these classes apart by more than chance.`),
    state.beside.length && pathSizes(state), insideNotes(state.notes));
}

/** Cosines to the means of classes. @param {any} state */
function pathLooks(state) {
  const { layers, classes, cosines, apart, readable } = state, plain = ["--nb-line0", "--nb-line3", "--nb-line4", "--nb-line5", "--nb-soft"];
  let others = 0;
  const lines = classes.map((/** @type {any} */ one, /** @type {number} */ at) => {
    const values = cosines.map((/** @type {any[]} */ row) => row[at]), named = { name: one.role ? `${one.name} (${one.role})` : one.name, values };
    if (one.role.startsWith("true")) return { ...named, color: "--nb-good", width: 2.5, dots: true };
    if (one.role === "predicted") return { ...named, color: "--nb-line1", width: 2.5, dots: true };
    return { ...named, color: plain[others++ % plain.length], dash: others > plain.length ? "2 3" : undefined };
  });
  const order = (/** @type {any} */ one) => (one.width ? 1 : 0), drawn = [...lines].sort((a, b) => order(a) - order(b));
  const said = (/** @type {number} */ at) => {
    const near = classes.map((/** @type {any} */ one, /** @type {number} */ i) => ({ name: one.name, v: cosines[at][i] })).filter((/** @type {any} */ one) => one.v !== null).sort((/** @type {any} */ a, /** @type {any} */ b) => b.v - a.v);
    const told = apart[at] === null ? "" : `; ${percentOf(apart[at])} of the others look most like their own class here`;
    return `${layers[at].title} (${layers[at].kind}): ${near.slice(0, 4).map((/** @type {any} */ one) => `${one.name} ${one.v.toFixed(2)}`).join(", ")}${told}`;
  };
  return insideChart({ label: "cosine to the mean of each class along the layers", up: "looks like (cosine to the mean of a class)", layers, lines: drawn, range: [-1, 1], faint: readable.map((/** @type {boolean} */ one) => !one), said, rest: "Which class it looks like, layer by layer. Point at a layer to read it, or use the arrow keys." });
}

/** How far a measure lies from that of others. @param {any} state */
function pathSizes(state) {
  const node = h("div.i-block"), tabs = h("div.tabs", { role: "group", ariaLabel: "measure" });
  let measure = 0;
  const draw = () => {
    pick(tabs, Object.fromEntries(state.measures.map((/** @type {string} */ one, /** @type {number} */ i) => [i, one])), String(measure), (name) => { measure = Number(name); draw(); });
    node.replaceChildren(tabs, pathMeasure(state, measure));
  };
  draw();
  return node;
}

/** @param {any} state @param {number} measure */
function pathMeasure(state, measure) {
  const { layers, mine, beside } = state, colors = ["--nb-line0", "--nb-line1", "--nb-good"];
  const far = (/** @type {any} */ group, /** @type {number} */ at) => {
    const [value, mean, spread] = [mine[at][measure], group.mean[at][measure], group.spread[at][measure]];
    if (value === null || mean === null || !spread) return null;
    return Math.max(-PATH_FARTHEST, Math.min(PATH_FARTHEST, (value - mean) / spread));
  };
  const lines = beside.map((/** @type {any} */ group, /** @type {number} */ i) => ({ name: `from ${group.name}, ${group.count} samples`, values: layers.map((/** @type {any} */ _, /** @type {number} */ at) => far(group, at)), color: group.name.endsWith("(true class)") ? colors[2] : colors[i], width: 2, dots: true }));
  const said = (/** @type {number} */ at) => `${layers[at].title}: ${brief(mine[at][measure])}; ${beside.map((/** @type {any} */ group) => `${group.name} ${brief(group.mean[at][measure])} ± ${brief(group.spread[at][measure])}`).join("; ")}`;
  const most = Math.max(3, ...lines.flatMap((/** @type {any} */ one) => one.values).map((/** @type {any} */ v) => Math.abs(v ?? 0)));
  return insideChart({ label: `${state.measures[measure]} along the layers`, up: "standard deviations from others", layers, lines, range: [-most, most], band: [-PATH_BAND, PATH_BAND], said, rest: "How unusual the size of its activations is. The band holds about 95 of 100 samples." });
}
