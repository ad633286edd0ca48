// @ts-check
/** @import { Props } from "./kit.js" */
import { extent, palette, scale, sharp, stretches } from "./axes.js";
import { fading, follow, h, heading, keep, num, root, watch } from "./kit.js";
import { chart, trace } from "./chart.js";

/** @typedef {{attempt: number, step: number, score: (number | null)[], prediction: (number | null)[]}} Frame */
/** @typedef {{name: string, target: number | string, called: string, image: string | null}} Example */

/** @type {Record<string, [string, string]>} */
const SIGNS = { pass: ["✓", "good"], fail: ["✕", "error"], "cannot tell": ["?", "warning"] };

/** @param {any} state @param {Record<string, any>} row */
function add(state, row) {
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
  const banner = h("div"), said = h("span"), columns = h("tr"), body = h("tbody");
  const slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", ariaLabel: "recorded step" }));
  root(el, node, banner);
  const picture = chart(el), below = h("div", {}, h("div.scrub", {}, slider, said), fading(h("div.scroll", { tabIndex: 0, role: "group", ariaLabel: "examples" },
    h("table.table.examples", {}, h("thead", {}, columns), body))));
  el.append(below);
  /** @type {ReturnType<typeof example>[]} */
  let rows = [];
  let held = -1, key = "";

  function draw() {
    const state = model.get("state"), last = state.frames.length - 1, at = held < 0 ? last : Math.min(held, last), frame = state.frames[at];
    title.textContent = state.title;
    status.textContent = state.status;
    banner.replaceChildren(...verdict(state));
    picture({ ...state, pin: held < 0 ? undefined : frame?.step });
    if (key !== (key = JSON.stringify(state.examples))) fill(state);
    if (!frame) return;
    Object.assign(slider, { max: last, value: at });
    slider.ariaValueText = said.textContent = [state.lines.length > 1 && state.lines[frame.attempt].name, `step ${frame.step}`].filter(Boolean).join(", ");
    const colors = palette(el);
    rows.forEach((row, i) => row.show(state, i, at, colors));
  }

  /** The table, made anew when the examples are others. @param {any} state */
  function fill(state) {
    columns.replaceChildren(...["example", "target", "prediction", state.quantity, "over the steps"].map((name) => h("th", { scope: "col" }, name)));
    rows = state.examples.map(example);
    body.replaceChildren(...rows.map((row) => row.node));
    below.hidden = !rows.length;
  }

  slider.oninput = () => { held = slider.value === slider.max ? -1 : Number(slider.value); draw(); };
  follow(model, draw);
  watch(body, draw);
}

/** What came out, why, and what was ruled out. @param {any} state */
function verdict(state) {
  const [sign, tone] = SIGNS[state.verdict] ?? [];
  if (!sign) return [];
  const list = (/** @type {string[]} */ items) => items.length > 0 && h("ul", {}, ...items.map((item) => h("li", {}, item)));
  return [h(`div.banner.${tone}`, { role: "status" }, h("span.sign", { ariaHidden: "true" }, sign), h("div", {},
    h("b", {}, state.verdict), state.headline,
    list(state.reasons),
    state.ruled_out.length > 0 && h("details", {}, h("summary", {}, `Ruled out (${state.ruled_out.length})`), list(state.ruled_out))))];
}

/** A row of the table. @param {Example} one */
function example(one) {
  const line = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })), said = h("td"), value = h("td");
  const node = h("tr", {}, h("td", {}, one.image && h("img.thumb", { src: one.image, alt: "" }), one.name), h("td", {}, one.called), said, value, h("td", {}, line));
  return {
    node,
    /** @param {any} state @param {number} i @param {number} at @param {ReturnType<typeof palette>} colors */
    show(state, i, at, colors) {
      const { score, prediction } = /** @type {Frame} */ (state.frames[at]), right = prediction[i] === one.target;
      said.textContent = `${state.exact && prediction[i] !== null ? (right ? "✓ " : "✕ ") : ""}${state.class_names?.[prediction[i] ?? -1] ?? num(prediction[i])}`;
      said.className = state.exact ? (right ? "nb-right" : "nb-wrong") : "";
      value.textContent = num(score[i]);
      sparkline(line, state, i, at, colors);
    },
  };
}

/** The score of example `i` over the steps of one attempt. @param {HTMLCanvasElement} node @param {any} state @param {number} i @param {number} at @param {ReturnType<typeof palette>} colors */
function sparkline(node, state, i, at, colors) {
  const now = state.frames[at], frames = /** @type {Frame[]} */ (state.frames).filter((frame) => frame.attempt === now.attempt);
  const xs = frames.map((frame) => frame.step), ys = frames.map((frame) => frame.score[i]);
  const width = Math.max(40, node.parentElement?.clientWidth ?? 0), g = sharp(node, width, 26);
  const x = scale(extent(xs), [3, width - 3]), y = scale(state.exact ? [0, 1] : extent(ys), [23, 3]);
  g.strokeStyle = colors.faint;
  g.strokeRect(x(now.step), 0, 0, 26);
  g.strokeStyle = g.fillStyle = colors.lines[now.attempt % 6];
  for (const points of stretches(xs, ys, x, y)) trace(g, points);
  if (now.score[i] !== null) g.fillRect(x(now.step) - 2, y(now.score[i]) - 2, 4, 4);
  node.ariaLabel = `${state.quantity}: first ${num(ys[0])}, last ${num(ys.at(-1))}`;
}

export default { initialize: keep(add), render };
