// @ts-check
/** The panel of fairness: the rates of each group of a column, and how far they lie apart. */
/** @import { PanelAsk, PanelGo } from "./panel_kit.js" */
import { h } from "../kit.js";
import { panelCount, panelHead, panelPercent, panelState, panelTable, panelTrouble, panelWay } from "./panel_kit.js";
import { slicesPercent } from "./panel_slices.js";
import { slicesSelect } from "./slices_own.js";
import { spanLine } from "./span.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function fairnessPanel(state, go, ask) {
  const found = h("div.panelbox"), note = h("div");
  const by = slicesSelect("Groups by", ["", ...state.columns], again), positive = slicesSelect("Wanted class", ["", ...state.classes], again);

  async function again() {
    if (!by.value) return;
    const options = { by: by.value, positive: positive.value || null }, next = await panelState(ask, "fairness", options);
    note.replaceChildren(...(next.trouble === undefined ? [] : [panelTrouble(next.trouble, `errors.fairness(${JSON.stringify(options.by)})`)]));
    if (next.trouble !== undefined || by.value !== options.by) return;
    state = next;
    draw();
  }

  function draw() {
    Object.assign(by, { value: state.by });
    Object.assign(positive, { value: state.positive });
    found.replaceChildren(...(state.by ? fairnessFound(state, go) : [h("div.note", {}, "Choose the column whose groups are to be compared.")]));
  }

  draw();
  const picker = h("div.picker", {}, h("label", {}, "Groups by", by), state.classes.length > 0 && h("label", {}, "Wanted class", positive));
  return h("div.panelbox", {}, state.columns.length > 0 && picker, note, found);
}

/** @param {any} state @param {PanelGo} go */
function fairnessFound(state, go) {
  const names = Object.keys(state.groups[0]?.rates ?? {}), small = state.groups.some((/** @type {any} */ one) => one.small);
  const surely = state.groups.some((/** @type {any} */ one) => one.confidence[0] !== null);
  return [h("div.status", { role: "status" }, state.headline),
    h("div.rates", {}, ...names.map((name) => fairnessRate(state, name, go)), surely && fairnessSure(state, go)),
    small && h("div.note", {}, `Groups of less than ${state.fewest} samples are drawn faint.`),
    Object.keys(state.gaps).length > 0 && fairnessGaps(state)].filter(Boolean);
}

/** One rate of all groups. @param {any} state @param {string} name @param {PanelGo} go */
function fairnessRate(state, name, go) {
  const lines = state.groups.map((/** @type {any} */ one) => {
    const [value, low, high, rows] = one.rates[name], text = `${panelPercent(low)} to ${panelPercent(high)}, of ${panelCount(rows)}`;
    return { one, value, low, high, faint: rows < state.fewest, said: panelPercent(value), title: rows ? text : "no samples" };
  });
  return fairnessLines(state, name, lines, [0, 1, null], go);
}

/** How far confidence lies above accuracy. @param {any} state @param {PanelGo} go */
function fairnessSure(state, go) {
  const lines = state.groups.map((/** @type {any} */ one) => {
    const [value, low, high] = one.confidence, text = `${slicesPercent(low)} to ${slicesPercent(high)}; calibration error ${panelPercent(one.error)}, by chance up to ${panelPercent(one.chance)}`;
    return { one, value, low, high, faint: one.small, said: slicesPercent(value), title: value === null ? "no confidences" : text };
  });
  const far = Math.max(0.05, ...lines.flatMap((/** @type {any} */ one) => [Math.abs(one.low), Math.abs(one.high)]));
  return fairnessLines(state, "confidence above accuracy", lines, [-far, far, 0], go);
}

/** @param {any} state @param {string} name @param {any[]} lines @param {[number, number, number | null]} scale @param {PanelGo} go */
function fairnessLines(state, name, lines, [from, to, mark], go) {
  const gap = state.gaps[name], apart = gap && `${panelPercent(gap.difference)} apart`;
  return h("div.rate", { role: "group", ariaLabel: name }, h("div.ratehead", {}, h("b", {}, name), apart && h("span.soft", {}, apart)),
    ...lines.flatMap(({ one, value, low, high, faint, said, title }) => [
      h("span", {}, panelWay(one.name, () => go(one.query, `${state.by} ${one.name}`))),
      h(faint ? "span.small" : "span", { title }, spanLine({ value, low, high }, from, to, mark)),
      h(faint ? "span.small" : "span", { title }, said, h("span.unseen", {}, `, ${title}`))]));
}

/** @param {any} state */
function fairnessGaps(state) {
  const share = (/** @type {number | null} */ v) => (v === null ? "–" : v.toFixed(2));
  const columns = /** @type {import("./panel_kit.js").PanelColumn[]} */ ([
    { name: "rate", cell: (one) => [h("b", {}, one.rate)] },
    { name: "lowest", cell: (one) => [one.lowest] },
    { name: "highest", cell: (one) => [one.highest] },
    { name: "difference", kind: "number", by: (one) => one.difference, cell: (one) => [`${panelPercent(one.difference)} (${panelPercent(one.low)} to ${panelPercent(one.high)})`] },
    { name: "ratio", hint: "The lowest over the highest; under 0.8 it fails the four-fifths rule.", kind: "number", by: (one) => one.ratio, cell: (one) => [`${share(one.ratio)} (${share(one.ratio_low)} to ${share(one.ratio_high)})`] },
    { name: "beyond chance", cell: (one) => [one.real ? "yes" : "no"] },
  ]);
  const criteria = Object.entries(state.criteria).map(([name, value]) => `${name} ${panelPercent(Number(value))}`);
  return h("div", {}, panelHead("Largest gaps"), panelTable("Largest gaps", columns, Object.values(state.gaps)), h("div.note", {}, criteria.join(" · ")));
}
