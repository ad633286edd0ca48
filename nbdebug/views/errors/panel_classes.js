// @ts-check
/** The panel of classes: how well each is told, what it is taken for, and at which threshold. */
/** @import { PanelAsk, PanelGo } from "./panel_kit.js" */
import { h } from "../kit.js";
import { panelCount, panelGauge, panelHead, panelPercent, panelState, panelTable, panelTrouble, panelWay } from "./panel_kit.js";
import { curvesView } from "./panel_curves.js";
import { sweepView } from "./panel_sweep.js";

/** @param {any} state @param {PanelGo} go @param {PanelAsk} ask */
export function classesPanel(state, go, ask) {
  const table = h("div"), curves = h("div"), note = h("div"), count = h("span.note", { role: "status" });
  const find = /** @type {HTMLInputElement} */ (h("input.find", { type: "search", placeholder: "Find a class", ariaLabel: "Find a class", oninput: () => search() }));
  let due = 0;

  /** Classes of the page whose name holds the text at once, all others from Python. */
  function search() {
    list(state.classes.filter((/** @type {any} */ row) => row.name.toLowerCase().includes(find.value.toLowerCase())));
    clearTimeout(due);
    if (state.total > state.classes.length || state.find) due = setTimeout(() => again({ find: find.value, ...(state.curves && { of: state.curves.at }) }, "errors.per_class()"), 250);
  }

  /** @param {object} options @param {string} line */
  async function again(options, line) {
    const wanted = find.value, next = await panelState(ask, "classes", options);
    note.replaceChildren(...(next.trouble === undefined ? [] : [panelTrouble(next.trouble, line)]));
    if (next.trouble !== undefined || wanted !== find.value) return;
    state = next;
    list(state.classes);
    curve();
  }

  /** @param {any[]} rows */
  function list(rows) {
    const all = state.find ? state.matching : state.total;
    count.textContent = rows.length < all ? `${panelCount(rows.length)} of ${panelCount(all)} classes, the lowest F1 first` : "";
    table.replaceChildren(panelTable("Classes", classesColumns(state, go, (row) => again({ of: row.at, find: find.value }, `errors.curves(${JSON.stringify(row.name)})`)), rows));
  }

  function curve() {
    const found = state.curves;
    curves.replaceChildren(...(found ? [panelHead(`Curves of ${found.name}`), curvesView(found), found.sweep && sweepView(found, go)].filter(Boolean) : []));
    if (!found && state.chances) curves.append(h("div.note", {}, "Press the name of a class for its curves."));
  }

  list(state.classes);
  curve();
  return h("div.panelbox", { "data-lm-suppress-shortcuts": "true" }, h("div.panelstats", {}, ...state.overall.map(classesStat)),
    h("div.panelways", {}, h("span.soft", {}, "Show what is"), ...state.ends.map((/** @type {any} */ end) => panelWay(end.label, () => go(end.query, end.label)))),
    h("div.tools", {}, state.total > 8 && find, count), table, note, curves, ...classesPairs(state.pairs, go));
}

/** One number for all classes. @param {any} one */
function classesStat({ name, value: [v, low, high] }) {
  const share = !/corr|kappa|loss/.test(name), text = v === null ? "–" : share ? panelPercent(v) : v.toFixed(3);
  return h("div.panelstat", {}, h("span.label", {}, name), h("b", {}, text), low !== null && h("span.soft", {}, share ? `${panelPercent(low)} to ${panelPercent(high)}` : `${low.toFixed(3)} to ${high.toFixed(3)}`));
}

/** @param {any} state @param {PanelGo} go @param {(row: any) => void} pick @returns {import("./panel_kit.js").PanelColumn[]} */
function classesColumns({ total, chances, apart }, go, pick) {
  const missed = (/** @type {any} */ row) => (apart ? [[row.at, 1]] : others(row.at).map((i) => [row.at, i])), taken = (/** @type {any} */ row) => (apart ? [[row.at, 2]] : others(row.at).map((i) => [i, row.at]));
  const others = (/** @type {number} */ at) => [...Array(total).keys()].filter((i) => i !== at);
  const share = (/** @type {string} */ name, /** @type {string} */ title, /** @type {string} */ hint) => ({ name: title, hint, kind: /** @type {const} */ ("number"), by: (/** @type {any} */ row) => row[name][0], cell: (/** @type {any} */ row) => [panelGauge(row[name])] });
  const way = (/** @type {number} */ n, /** @type {() => void} */ click) => [n ? panelWay(panelCount(n), click) : h("span.soft", {}, "0")];
  return [
    { name: "class", by: (row) => row.name, cell: (row) => [chances ? panelWay(row.name, () => pick(row), "Curves of this class") : h("b", {}, row.name)] },
    share("precision", "precision", "Of the samples that were taken for the class, the share that is of it."),
    share("recall", "recall", "Of the samples of the class, the share that was found."),
    share("f1", "F1", "The harmonic mean of both."),
    { name: "samples", kind: "number", by: (row) => row.support, cell: (row) => [panelCount(row.support)] },
    { name: "missed", hint: "Of the class, and not found.", kind: "number", by: (row) => row.missed, cell: (row) => way(row.missed, () => go({ cells: missed(row) }, apart ? `${row.name}, missed` : `${row.name}, taken for another`)) },
    { name: "false", hint: "Taken for the class, and not of it.", kind: "number", by: (row) => row.taken, cell: (row) => way(row.taken, () => go({ cells: taken(row) }, apart ? `${row.name}, false alarm` : `taken for ${row.name}, but another`)) },
  ];
}

/** @param {any[]} pairs @param {PanelGo} go */
function classesPairs(pairs, go) {
  if (!pairs.length) return [];
  const columns = /** @type {import("./panel_kit.js").PanelColumn[]} */ ([
    { name: "pair", by: (row) => row.names.join(" "), cell: (row) => [panelWay(`${row.names[0]} taken for ${row.names[1]}`, () => go({ cells: [row.cell] }, `${row.names[0]} taken for ${row.names[1]}`))] },
    { name: "samples", kind: "number", by: (row) => row.count, cell: (row) => [panelCount(row.count)] },
    { name: "of its class", kind: "number", by: (row) => row.share[0], cell: (row) => [panelGauge(row.share)] },
    { name: "the other way", kind: "number", by: (row) => row.back, cell: (row) => [row.back ? panelWay(panelCount(row.back), () => go({ cells: [[...row.cell].reverse()] }, `${row.names[1]} taken for ${row.names[0]}`)) : h("span.soft", {}, "0")] },
  ]);
  return [panelHead("Most confused pairs"), panelTable("Most confused pairs", columns, pairs)];
}
