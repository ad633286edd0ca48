// @ts-check
/** Path panel: class similarity and activation size, layer by layer. */
import { formatPercent, formatRounded, h, renderTabs } from "../../../views/kit.js";
import { layerChart, noteList } from "./kit.js";

const MAX_Z_SCORE = 6; // the plot ends at this many standard deviations
const Z_SCORE_BAND = 2;

/** @param {any} state */
export function pathPanel(state) {
  const counts = state.classes.map((/** @type {any} */ classItem) => `${classItem.name}: ${classItem.count}`).join(", ");
  return h("div.panelbox.i-path", {}, h("div.i-verdict", {}, state.said),
    state.classes.length && similarityChart(state), state.classes.length && h("div.note", {}, `Samples per mean: ${counts}, from the ${state.who}. Gray: layers that do not separate these classes better than chance.`),
    state.beside.length && activationSizes(state), noteList(state.notes));
}

/** Cosine similarity to the class means. @param {any} state */
function similarityChart(state) {
  const { layers, classes, cosines, apart, readable } = state, plain = ["--nb-line0", "--nb-line3", "--nb-line4", "--nb-line5", "--nb-soft"];
  let others = 0;
  const lines = classes.map((/** @type {any} */ classItem, /** @type {number} */ at) => {
    const values = cosines.map((/** @type {any[]} */ row) => row[at]), named = { name: classItem.role ? `${classItem.name} (${classItem.role})` : classItem.name, values };
    if (classItem.role.startsWith("true")) return { ...named, color: "--nb-good", width: 2.5, dots: true };
    if (classItem.role === "predicted") return { ...named, color: "--nb-line1", width: 2.5, dots: true };
    return { ...named, color: plain[others++ % plain.length], dash: others > plain.length ? "2 3" : undefined };
  });
  const order = (/** @type {any} */ item) => (item.width ? 1 : 0), ordered = [...lines].sort((a, b) => order(a) - order(b));
  const describeLayer = (/** @type {number} */ at) => {
    const ranking = classes.map((/** @type {any} */ classItem, /** @type {number} */ i) => ({ name: classItem.name, v: cosines[at][i] })).filter((/** @type {any} */ classItem) => classItem.v !== null).sort((/** @type {any} */ a, /** @type {any} */ b) => b.v - a.v);
    const separation = apart[at] === null ? "" : `; ${formatPercent(apart[at])} of other samples are most similar to their own class here`;
    return `${layers[at].title} (${layers[at].kind}): ${ranking.slice(0, 4).map((/** @type {any} */ item) => `${item.name} ${item.v.toFixed(2)}`).join(", ")}${separation}`;
  };
  return layerChart({ label: "cosine to the mean of each class along the layers", up: "cosine to the class mean", layers, lines: ordered, range: [-1, 1], faint: readable.map((/** @type {boolean} */ item) => !item), describe: describeLayer, rest: "Similarity of the sample to each class, layer by layer. Point at a layer to read it, or use the arrow keys." });
}

/** The activation sizes compared with other samples, in standard deviations. @param {any} state */
function activationSizes(state) {
  const node = h("div.i-block"), tabs = h("div.tabs", { role: "group", ariaLabel: "measure" });
  let measure = 0;
  const draw = () => {
    renderTabs(tabs, Object.fromEntries(state.measures.map((/** @type {string} */ measureItem, /** @type {number} */ i) => [i, measureItem])), String(measure), (name) => { measure = Number(name); draw(); });
    node.replaceChildren(tabs, sizeChart(state, measure));
  };
  draw();
  return node;
}

/** @param {any} state @param {number} measure */
function sizeChart(state, measure) {
  const { layers, mine: sizes, beside } = state, colors = ["--nb-line0", "--nb-line1", "--nb-good"];
  const zScore = (/** @type {any} */ group, /** @type {number} */ at) => {
    const [value, mean, spread] = [sizes[at][measure], group.mean[at][measure], group.spread[at][measure]];
    if (value === null || mean === null || !spread) return null;
    return Math.max(-MAX_Z_SCORE, Math.min(MAX_Z_SCORE, (value - mean) / spread));
  };
  const lines = beside.map((/** @type {any} */ group, /** @type {number} */ i) => ({ name: `from ${group.name}, ${group.count} samples`, values: layers.map((/** @type {any} */ _, /** @type {number} */ at) => zScore(group, at)), color: group.name.endsWith("(true class)") ? colors[2] : colors[i], width: 2, dots: true }));
  const describeLayer = (/** @type {number} */ at) => `${layers[at].title}: ${formatRounded(sizes[at][measure])}; ${beside.map((/** @type {any} */ group) => `${group.name} ${formatRounded(group.mean[at][measure])} ± ${formatRounded(group.spread[at][measure])}`).join("; ")}`;
  const limit = Math.max(3, ...lines.flatMap((/** @type {any} */ line) => line.values).map((/** @type {any} */ v) => Math.abs(v ?? 0)));
  return layerChart({ label: `${state.measures[measure]} along the layers`, up: "standard deviations from others", layers, lines, range: [-limit, limit], band: [-Z_SCORE_BAND, Z_SCORE_BAND], describe: describeLayer, rest: "Activation size compared with other samples. The band contains about 95% of samples." });
}
