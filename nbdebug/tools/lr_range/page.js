// @ts-check
/** Learning rate range test: verdict, curves, draggable rate, suggestions and confirmation runs. */
/** @import { Model, Props } from "../../views/kit.js" */
import { connectKernel } from "../../views/kernel_requests.js";
import { bulletList, codeBlock, formatNumber, formatRounded, h, heading, makeButton, mountView, redrawOnMessage, statusBanner, tableHead, trackState } from "../../views/kit.js";
import { lineChart } from "../../views/line_chart.js";
import { axisLosses, dragHandle, lossLabel, rangeChart, readCurves } from "./range_chart.js";

/** @typedef {{name: string, value: number | null, low: number | null, high: number | null, label: string, each: (number | null)[]}} Suggestion */

/** @type {Record<string, [string, string]>} */
const SIGNS = { clear: ["✓", "good"], "diverges at once": ["✕", "error"] };

/** @param {any} state @param {Record<string, any>} row */
function appendRow(state, row) {
  const trains = row.training !== undefined, line = trains ? state.trained[row.training ?? 0] : state.lines[row.sweep ?? 0];
  line.x.push(trains ? row.step : row.value);
  line.y.push(row.smooth);
  line.raw.push(row.loss);
}

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable), banner = h("div"), rest = h("div");
  mountView(el, node, banner);
  const rateHandle = dragHandle((value) => choiceView.describeAt(value)), choiceView = rateChoice(model, rateHandle.value, draw);
  const picture = lineChart(el, (x) => { if (!model.get("live")) rateHandle.setValue(x); });
  el.querySelector(".nb-plot")?.append(rateHandle.node);
  el.append(...choiceView.nodes);
  const trial = confirmationRuns(el, rateHandle.setValue);
  el.append(rest);
  let key = "";

  function draw() {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    rateHandle.setRange(state, initialValue(state));
    picture(rangeChart(state, el, rateHandle.setLayout));
    trial(state);
    if (key === (key = JSON.stringify([state.verdict, state.suggestions, state.judgement]))) return;
    banner.replaceChildren(...verdictBanner(state));
    rest.replaceChildren(...(state.verdict ? [suggestionTable(state, rateHandle.setValue), scheduleRecipes(state)] : []).flatMap((element) => element || []));
  }

  redrawOnMessage(model, draw);
}

/** The values of the curves at the handle, and a button that uses the rate. @param {Model} model @param {() => number} value @param {() => void} onApplied */
function rateChoice(model, value, onApplied) {
  const readout = h("div.reading", { ariaLive: "polite" }), response = h("span", { role: "status" }), line = h("code");
  const use = makeButton("use", "", applyRate, { hidden: true }), without = h("div.note", { hidden: model.get("live") }, "To use it, run ", line);
  const ask = connectKernel(model, (available) => {
    use.hidden = !available || !model.get("state").usable;
    without.hidden = !use.hidden;
    if (!available) showResponse("");
  });

  /** @param {string} text @param {string} [kind] */
  function showResponse(text, kind = "") {
    use.ariaDisabled = null;
    Object.assign(response, { textContent: text, className: kind });
  }

  async function applyRate() {
    if (use.ariaDisabled) return;
    showResponse("");
    use.ariaDisabled = "true";
    const waitTimer = setTimeout(() => { if (!use.hidden) response.textContent = "Waiting for the cell…"; }, 600);
    const answer = await ask({ kind: "use", value: value() });
    clearTimeout(waitTimer);
    if (!answer) return;
    if (answer.trouble) return showResponse(answer.trouble, "nb-wrong");
    showResponse(answer.said, "nb-right");
    Object.assign(model.get("state"), { current: answer.current, judgement: "" });
    onApplied();
  }

  /** The curves at a value, as text. @param {number} at */
  function describeAt(at) {
    const state = model.get("state"), { loss, low, high, slope, count } = readCurves(state.lines, at, state.log_x);
    const over = count > 1 ? ` (${formatRounded(low)} to ${formatRounded(high)} over ${count} seeds)` : "", wide = state.log_x ? "per decade" : "per 1";
    const text = loss === null ? "no loss measured" : `loss ${formatRounded(loss)}${over}, slope ${formatRounded(slope)} ${wide}`;
    readout.replaceChildren(h("b", {}, `At ${state.x_label} ${formatNumber(at)}: `), text);
    use.textContent = `Use ${formatNumber(at)}`;
    line.textContent = state.setting.replaceAll("VALUE", String(at));
    return `${formatNumber(at)}, ${text}`;
  }

  return { nodes: [h("div.choice", {}, readout, use, response), without], describeAt };
}

/** The initial position of the handle. @param {any} state @returns {number | null} */
function initialValue({ recommended, current, lines, verdict }) {
  if (!verdict) return null;
  const xs = lines[0]?.x ?? [], isMeasured = current >= xs[0] && current <= xs[xs.length - 1];
  return (recommended?.value && Number(recommended.value.toPrecision(2))) ?? (isMeasured ? current : xs[Math.floor(xs.length / 2)]) ?? null;
}

/** The verdict, the reasons and the judgement of the current value. @param {any} state */
function verdictBanner(state) {
  if (!state.verdict) return [];
  const [sign, tone] = SIGNS[state.verdict] ?? ["?", "warning"];
  const notes = state.notes.length > 0 && h("details", {}, h("summary", {}, `Notes on these curves (${state.notes.length})`), bulletList(state.notes));
  const judgement = state.judgement && h("div", {}, h("b", {}, "Your value"), state.judgement);
  return [statusBanner(tone, sign, h("b", {}, state.verdict), state.headline, bulletList(state.reasons), judgement, notes)];
}

/** The suggestions; a click moves the handle to a suggestion. @param {any} state @param {(value: number) => void} go */
function suggestionTable(state, go) {
  const cell = (/** @type {number | null} */ v) => h("td", {}, formatRounded(v, 2));
  const row = (/** @type {Suggestion & {each: (number | null)[]}} */ suggestion) => h("tr", {},
    h("td", {}, suggestion.value === null ? suggestion.label : makeButton("entry", suggestion.label, () => go(Number(suggestion.value?.toPrecision(2))))), cell(suggestion.value),
    h("td", {}, suggestion.low === null ? "–" : `${formatRounded(suggestion.low, 2)} to ${formatRounded(suggestion.high, 2)}`), ...suggestion.each.map(cell));
  const names = ["criterion", state.x_label, "interval", ...state.lines.map((/** @type {any} */ line) => line.name)];
  const all = [state.recommended, ...state.suggestions].filter(Boolean), hasValue = all.some((item) => item.value !== null);
  return hasValue && h("div.scroll", {}, h("table.table.readings", {}, tableHead(names), h("tbody", {}, ...all.map(row))));
}

/** Code of learning rate schedules. @param {any} state */
function scheduleRecipes({ recipes }) {
  const all = Object.entries(recipes).filter(([, text]) => text);
  return all.length > 0 && h("details.fold", {}, h("summary", {}, "Code for schedules"), ...all.map(([name, text]) => codeBlock(name, text)));
}

export default { initialize: trackState(appendRow), render };

/** @typedef {{rate: number, schedule: string, end: number | null, gap: string, word: string}} Standing */

/** @type {Record<string, string>} */
const OUTCOMES = { kept: "✓ kept", lowest: "lowest", "as good": "≈ as good", "clearly worse": "clearly worse", lost: "✕ diverged", stopped: "stopped" };

/** The confirmation runs below `host`, hidden until there are any; `go` is called with a clicked rate. @param {HTMLElement} host @param {(value: number) => void} go */
export function confirmationRuns(host, go) {
  const title = h("div.title", { role: "heading", ariaLevel: "4" }, "Training at these rates, on the same batches");
  const box = h("div.trial", { hidden: true }, title), table = h("div.scroll");
  host.append(box);
  /** @type {ReturnType<typeof lineChart> | undefined} */
  let picture;
  let key = "";
  return (/** @type {any} */ { trained, standings, title: of }) => {
    box.hidden = !trained.length;
    if (box.hidden) return;
    if (!picture) {
      picture = lineChart(box);
      box.append(table);
    }
    const more = { title: `${of}: trainings`, marks: [], limits: [], log: false, log_x: false };
    picture({ ...more, lines: trained, x_label: "step", y_label: lossLabel(trained, "loss"), high: axisLosses(trained) });
    if (key === (key = JSON.stringify(standings))) return;
    table.replaceChildren(...(standings.length ? [standingsTable(standings, go)] : []));
  };
}

/** @param {Standing[]} standings @param {(value: number) => void} go */
function standingsTable(standings, go) {
  const names = ["rate", "final loss", "above the lowest", ""];
  const row = (/** @type {Standing} */ { rate, schedule, end, gap, word }) => h("tr", {},
    h("td", {}, schedule === "one-cycle" && "one-cycle, peak ", makeButton("entry", formatRounded(rate), () => go(rate))), h("td", {}, end === null ? "–" : formatNumber(end)),
    h("td", {}, gap || "–"), h("td", {}, word === "kept" ? h("b", {}, OUTCOMES[word]) : OUTCOMES[word] ?? word));
  return h("table.table.readings", {}, tableHead(names), h("tbody", {}, ...standings.map(row)));
}
