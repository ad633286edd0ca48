// @ts-check
/** @import { Model, Props } from "./kit.js" */
import { brief, follow, h, heading, keep, num, press, root } from "./kit.js";
import { chart } from "./chart.js";
import { code } from "./code.js";
import { handle } from "./handle.js";
import { asking } from "./answers.js";
import { rangeChart } from "./range_chart.js";
import { rateTrial } from "./rate_trial.js";
import { reading } from "./sweeps.js";

/** @typedef {{name: string, value: number | null, low: number | null, high: number | null, label: string, each: (number | null)[]}} Suggestion */

/** @type {Record<string, [string, string]>} */
const SIGNS = { clear: ["✓", "good"], "diverges at once": ["✕", "error"] };

/** @param {any} state @param {Record<string, any>} row */
function add(state, row) {
  const trains = row.training !== undefined, line = trains ? state.trained[row.training ?? 0] : state.lines[row.sweep ?? 0];
  line.x.push(trains ? row.step : row.value);
  line.y.push(row.smooth);
  line.raw.push(row.loss);
}

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable), banner = h("div"), rest = h("div");
  root(el, node, banner);
  const grip = handle((value) => below.read(value)), below = choice(model, grip.value, draw);
  const picture = chart(el, (x) => { if (!model.get("live")) grip.put(x); });
  el.querySelector(".nb-plot")?.append(grip.node);
  el.append(...below.nodes);
  const trial = rateTrial(el, grip.put);
  el.append(rest);
  let key = "";

  function draw() {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    grip.span(state, chosen(state));
    picture(rangeChart(state, el, grip.place));
    trial(state);
    if (key === (key = JSON.stringify([state.verdict, state.suggestions, state.judgement]))) return;
    banner.replaceChildren(...verdict(state));
    rest.replaceChildren(...(state.verdict ? [table(state, grip.put), recipes(state)] : []).flatMap((one) => one || []));
  }

  follow(model, draw);
}

/** What the curves say at the handle, and how to use that value. @param {Model} model @param {() => number} value @param {() => void} used */
function choice(model, value, used) {
  const said = h("div.reading", { ariaLive: "polite" }), answer = h("span", { role: "status" }), line = h("code");
  const use = press("use", "", take, { hidden: true }), without = h("div.note", { hidden: model.get("live") }, "To use it, write ", line);
  const ask = asking(model, (there) => {
    use.hidden = !there || !model.get("state").usable;
    without.hidden = !use.hidden;
    if (!there) tell("");
  });

  /** @param {string} text @param {string} [kind] */
  function tell(text, kind = "") {
    use.ariaDisabled = null;
    Object.assign(answer, { textContent: text, className: kind });
  }

  async function take() {
    if (use.ariaDisabled) return;
    tell("");
    use.ariaDisabled = "true";
    const late = setTimeout(() => { if (!use.hidden) answer.textContent = "Waiting for the cell…"; }, 600);
    const { trouble, said, current } = await ask({ kind: "use", value: value() });
    clearTimeout(late);
    if (trouble) return tell(trouble, "nb-wrong");
    tell(said, "nb-right");
    Object.assign(model.get("state"), { current, judgement: "" });
    used();
  }

  /** The curves at a value, in words. @param {number} at */
  function read(at) {
    const state = model.get("state"), { loss, low, high, slope, count } = reading(state.lines, at, state.log_x);
    const over = count > 1 ? ` (${brief(low)} to ${brief(high)} over ${count} seeds)` : "", wide = state.log_x ? "a decade" : "per 1";
    const text = loss === null ? "no loss there" : `loss ${brief(loss)}${over}, slope ${brief(slope)} ${wide}`;
    said.replaceChildren(h("b", {}, `At ${state.x_label} ${num(at)}: `), text);
    use.textContent = `Use ${num(at)}`;
    line.textContent = state.setting.replaceAll("VALUE", String(at));
    return `${num(at)}, ${text}`;
  }

  return { nodes: [h("div.choice", {}, said, use, answer), without], read };
}

/** Where the handle stands at first. @param {any} state @returns {number | null} */
function chosen({ recommended, current, lines, verdict }) {
  if (!verdict) return null;
  const xs = lines.flatMap((/** @type {any} */ line) => line.x);
  return (recommended?.value && Number(recommended.value.toPrecision(2))) ?? current ?? xs[Math.floor(xs.length / 2)] ?? null;
}

/** What came out, why, and what is said of the user's own value. @param {any} state */
function verdict(state) {
  if (!state.verdict) return [];
  const [sign, tone] = SIGNS[state.verdict] ?? ["?", "warning"];
  const list = (/** @type {string[]} */ items) => items.length > 0 && h("ul", {}, ...items.map((item) => h("li", {}, item)));
  return [h(`div.banner.${tone}`, { role: "status" }, h("span.sign", { ariaHidden: "true" }, sign), h("div", {},
    h("b", {}, state.verdict), state.headline,
    list(state.reasons),
    state.judgement && h("div", {}, h("b", {}, "Yours"), state.judgement),
    state.notes.length > 0 && h("details", {}, h("summary", {}, `Part of these curves (${state.notes.length})`), list(state.notes))))];
}

/** The suggestions side by side; each takes the handle to its place. @param {any} state @param {(value: number) => void} go */
function table(state, go) {
  const cell = (/** @type {number | null} */ v) => h("td", {}, brief(v, 2));
  const row = (/** @type {Suggestion & {each: (number | null)[]}} */ one) => h("tr", {},
    h("td", {}, one.value === null ? one.label : press("entry", one.label, () => go(Number(one.value?.toPrecision(2))))), cell(one.value),
    h("td", {}, one.low === null ? "–" : `${brief(one.low, 2)} to ${brief(one.high, 2)}`), ...one.each.map(cell));
  const names = ["read as", state.x_label, "interval", ...state.lines.map((/** @type {any} */ line) => line.name)];
  const all = [state.recommended, ...state.suggestions].filter(Boolean), some = all.some((one) => one.value !== null);
  return some && h("div.scroll", {}, h("table.table.readings", {}, h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...all.map(row))));
}

/** Schedules to paste. @param {any} state */
function recipes({ recipes }) {
  const all = Object.entries(recipes).filter(([, text]) => text);
  return all.length > 0 && h("details.fold", {}, h("summary", {}, "Schedules to paste"), ...all.map(([name, text]) => code(name, text)));
}

export default { initialize: keep(add), render };
