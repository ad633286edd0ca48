// @ts-check
/** Overfit test: verdict, loss curves and predictions per example. */
/** @import { Props } from "../../views/kit.js" */
import { extent, lineSegments, palette, prepareCanvas, scale } from "../../views/axes.js";
import { bulletList, fadeLowerEdge, formatNumber, h, heading, mountView, redrawOnMessage, redrawOnResize, statusBanner, trackState } from "../../views/kit.js";
import { lineChart, strokePath } from "../../views/line_chart.js";
import { stepSlider } from "../../views/step_slider.js";

/** @typedef {{attempt: number, step: number, score: (number | null)[], prediction: (number | null)[]}} Frame */
/** @typedef {{name: string, target: number | string, called: string, image: string | null}} Example */

/** @type {Record<string, [string, string]>} */
const SIGNS = { pass: ["✓", "good"], fail: ["✕", "error"], "cannot tell": ["?", "warning"] };

/** @param {any} state @param {Record<string, any>} row */
function appendRow(state, row) {
  const { attempt = 0, step, loss } = row, line = state.lines[attempt];
  if (line && loss !== undefined) {
    line.x.push(step);
    line.y.push(loss);
    line.bad += Number(loss === null);
  }
  if (!("score 0" in row)) return;
  const list = (/** @type {string} */ name) => state.examples.map((/** @type {Example} */ _, /** @type {number} */ i) => row[`${name} ${i}`] ?? null);
  state.frames.push({ attempt, step, score: list("score"), prediction: list("prediction") });
}

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  const banner = h("div"), columns = h("tr"), body = h("tbody");
  const slider = stepSlider((index) => { heldFrame = index === model.get("state").frames.length - 1 ? -1 : index; draw(); });
  mountView(el, node, banner);
  const picture = lineChart(el), below = h("div", {}, slider.node, fadeLowerEdge(h("div.scroll", { tabIndex: 0, role: "group", ariaLabel: "examples" },
    h("table.table.examples", {}, h("thead", {}, columns), body))));
  el.append(below);
  /** @type {ReturnType<typeof exampleRow>[]} */
  let rows = [];
  let heldFrame = -1, key = "";

  function draw() {
    const state = model.get("state"), last = state.frames.length - 1, at = heldFrame < 0 ? last : Math.min(heldFrame, last), frame = state.frames[at];
    title.textContent = state.title;
    status.textContent = state.status;
    banner.replaceChildren(...verdictBanner(state));
    const axis = picture({ ...state, pin: heldFrame < 0 ? undefined : frame?.step });
    if (key !== (key = JSON.stringify(state.examples))) fillTable(state);
    if (!frame) return;
    const text = [state.lines.length > 1 && state.lines[frame.attempt].name, `step ${frame.step}`].filter(Boolean).join(", "), isOnAxis = state.frames[0].attempt === frame.attempt && state.frames[last].attempt === frame.attempt;
    slider.show(state.frames.map((/** @type {Frame} */ item, /** @type {number} */ i) => (isOnAxis ? item.step : i)), at, text, isOnAxis ? axis() : undefined);
    const colors = palette(el);
    rows.forEach((row, i) => row.show(state, i, at, colors));
  }

  /** Recreate the table; called if the examples changed. @param {any} state */
  function fillTable(state) {
    columns.replaceChildren(...["example", "target", "prediction", state.quantity, "by step"].map((name) => h("th", { scope: "col" }, name)));
    rows = state.examples.map(exampleRow);
    body.replaceChildren(...rows.map((row) => row.node));
    below.hidden = !rows.length;
  }

  redrawOnMessage(model, draw);
  redrawOnResize(body, draw);
}

/** The verdict, the reasons and the causes that were ruled out. @param {any} state */
function verdictBanner(state) {
  const [sign, tone] = SIGNS[state.verdict] ?? [];
  if (!sign) return [];
  const ruledOut = state.ruled_out.length > 0 && h("details", {}, h("summary", {}, `Ruled out (${state.ruled_out.length})`), bulletList(state.ruled_out));
  return [statusBanner(tone, sign, h("b", {}, state.verdict), state.headline, bulletList(state.reasons), ruledOut)];
}

/** A row of the table. @param {Example} example */
function exampleRow(example) {
  const line = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })), predictionCell = h("td"), value = h("td");
  const node = h("tr", {}, h("td", {}, example.image && h("img.thumb", { src: example.image, alt: "" }), example.name), h("td", {}, example.called), predictionCell, value, h("td", {}, line));
  return {
    node,
    /** @param {any} state @param {number} i @param {number} at @param {ReturnType<typeof palette>} colors */
    show(state, i, at, colors) {
      const { score, prediction } = /** @type {Frame} */ (state.frames[at]), right = prediction[i] === example.target;
      predictionCell.textContent = `${state.exact && prediction[i] !== null ? (right ? "✓ " : "✕ ") : ""}${state.class_names?.[prediction[i] ?? -1] ?? formatNumber(prediction[i])}`;
      predictionCell.className = state.exact ? (right ? "nb-right" : "nb-wrong") : "";
      value.textContent = formatNumber(score[i]);
      sparkline(line, state, i, at, colors);
    },
  };
}

/** The score of example `i` by step, within one attempt. @param {HTMLCanvasElement} node @param {any} state @param {number} i @param {number} at @param {ReturnType<typeof palette>} colors */
function sparkline(node, state, i, at, colors) {
  const now = state.frames[at], frames = /** @type {Frame[]} */ (state.frames).filter((frame) => frame.attempt === now.attempt);
  const xs = frames.map((frame) => frame.step), ys = frames.map((frame) => frame.score[i]);
  const width = Math.max(40, node.parentElement?.clientWidth ?? 0), g = prepareCanvas(node, width, 26);
  const x = scale(extent(xs), [3, width - 3]), y = scale(state.exact ? [0, 1] : extent(ys), [23, 3]);
  g.strokeStyle = colors.faint;
  g.strokeRect(x(now.step), 0, 0, 26);
  g.strokeStyle = g.fillStyle = colors.lines[now.attempt % 6];
  for (const points of lineSegments(xs, ys, x, y)) strokePath(g, points);
  if (now.score[i] !== null) g.fillRect(x(now.step) - 2, y(now.score[i]) - 2, 4, 4);
  node.ariaLabel = `${state.quantity}: first ${formatNumber(ys[0])}, last ${formatNumber(ys.at(-1))}`;
}

export default { initialize: trackState(appendRow), render };
