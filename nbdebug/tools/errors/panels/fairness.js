// @ts-check
/** Fairness panel: rates by group and their gaps. */
/** @import { PanelAsk, PanelGo } from "./kit.js" */
import { h } from "../../../views/kit.js";
import { fallbackNote, formatCount, intervalLine, panelHeading, panelPercent, panelSelect, panelTable, requestState, samplesButton } from "./kit.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function fairnessPanel(state, go, ask) {
  const results = h("div.panelbox"), note = h("div");
  const by = panelSelect("Group by", ["", ...state.columns], refresh), positive = panelSelect("Positive class", ["", ...state.classes], refresh);

  async function refresh() {
    if (!by.value) return;
    const options = { by: by.value, positive: positive.value || null }, next = await requestState(ask, "fairness", options);
    note.replaceChildren(...(next.trouble === undefined ? [] : [fallbackNote(next.trouble, `errors.fairness(${JSON.stringify(options.by)})`)]));
    if (next.trouble !== undefined || by.value !== options.by) return;
    state = next;
    draw();
  }

  function draw() {
    Object.assign(by, { value: state.by });
    Object.assign(positive, { value: state.positive });
    results.replaceChildren(...(state.by ? fairnessResults(state, go) : [h("div.note", {}, "Choose a column to compare its groups.")]));
  }

  draw();
  const picker = h("div.picker", {}, h("label", {}, "Group by", by), state.classes.length > 0 && h("label", {}, "Positive class", positive));
  return h("div.panelbox", {}, state.columns.length > 0 && picker, note, results);
}

/** @param {any} state @param {PanelGo} go */
function fairnessResults(state, go) {
  const names = Object.keys(state.groups[0]?.rates ?? {}), small = state.groups.some((/** @type {any} */ group) => group.small);
  const hasConfidence = state.groups.some((/** @type {any} */ group) => group.confidence[0] !== null);
  return [h("div.status", { role: "status" }, state.headline),
    h("div.rates", {}, ...names.map((name) => fairnessRate(state, name, go)), hasConfidence && confidenceGaps(state, go)),
    small && h("div.note", {}, `Groups with fewer than ${state.fewest} samples are faint.`),
    Object.keys(state.gaps).length > 0 && fairnessGaps(state)].filter(Boolean);
}

/** One rate for all groups. @param {any} state @param {string} name @param {PanelGo} go */
function fairnessRate(state, name, go) {
  const lines = state.groups.map((/** @type {any} */ group) => {
    const [value, low, high, rows] = group.rates[name], text = `${panelPercent(low)} to ${panelPercent(high)}, of ${formatCount(rows)}`;
    return { group, value, low, high, faint: rows < state.fewest, text: panelPercent(value), title: rows ? text : "no samples" };
  });
  return fairnessLines(state, name, lines, [0, 1, null], go);
}

/** Mean confidence minus accuracy for all groups. @param {any} state @param {PanelGo} go */
function confidenceGaps(state, go) {
  const lines = state.groups.map((/** @type {any} */ group) => {
    const [value, low, high] = group.confidence, text = `${panelPercent(low)} to ${panelPercent(high)}; calibration error ${panelPercent(group.error)}, up to ${panelPercent(group.chance)} expected by chance`;
    return { group, value, low, high, faint: group.small, text: panelPercent(value), title: value === null ? "no confidences" : text };
  });
  const limit = Math.max(0.05, ...lines.flatMap((/** @type {any} */ line) => [Math.abs(line.low), Math.abs(line.high)]));
  return fairnessLines(state, "confidence minus accuracy", lines, [-limit, limit, 0], go);
}

/** @param {any} state @param {string} name @param {any[]} lines @param {[number, number, number | null]} scale @param {PanelGo} go */
function fairnessLines(state, name, lines, [from, to, mark], go) {
  const gap = state.gaps[name], apart = gap && `${panelPercent(gap.difference)} apart`;
  return h("div.rate", { role: "group", ariaLabel: name }, h("div.ratehead", {}, h("b", {}, name), apart && h("span.soft", {}, apart)),
    ...lines.flatMap(({ group, value, low, high, faint, text, title }) => [
      h("span", {}, samplesButton(group.name, () => go(group.query, `${state.by} ${group.name}`))),
      h(faint ? "span.small" : "span", { title }, intervalLine({ value, low, high }, from, to, mark)),
      h(faint ? "span.small" : "span", { title }, text, h("span.unseen", {}, `, ${title}`))]));
}

/** @param {any} state */
function fairnessGaps(state) {
  const share = (/** @type {number | null} */ v) => (v === null ? "–" : v.toFixed(2));
  const columns = /** @type {import("./kit.js").PanelColumn[]} */ ([
    { name: "rate", cell: (item) => [h("b", {}, item.rate)] },
    { name: "lowest", cell: (item) => [item.lowest] },
    { name: "highest", cell: (item) => [item.highest] },
    { name: "difference", kind: "number", by: (item) => item.difference, cell: (item) => [`${panelPercent(item.difference)} (${panelPercent(item.low)} to ${panelPercent(item.high)})`] },
    { name: "ratio", hint: "Lowest rate divided by highest rate; below 0.8 fails the four-fifths rule.", kind: "number", by: (item) => item.ratio, cell: (item) => [`${share(item.ratio)} (${share(item.ratio_low)} to ${share(item.ratio_high)})`] },
    { name: "significant", cell: (item) => [item.real ? "yes" : "no"] },
  ]);
  const criteria = Object.entries(state.criteria).map(([name, value]) => `${name} ${panelPercent(Number(value))}`);
  return h("div", {}, panelHeading("Largest gaps"), panelTable("Largest gaps", columns, Object.values(state.gaps)), h("div.note", {}, criteria.join(" · ")));
}
