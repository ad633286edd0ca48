// @ts-check
/** Error browser: overview and panels, and the samples that match the current query. */
/** @import { Props } from "../../views/kit.js" */
/** @import { Card, Query, Store } from "./store.js" */
import { bulletList, formatNumber, h, makeButton, mountView, renderTabs, replaceKeepingFocus } from "../../views/kit.js";
import { matrixView } from "./confusion_matrix.js";
import { formatCellShare } from "./confusion_matrix_canvas.js";
import { galleryView } from "./gallery.js";
import { baselinesPanel } from "./panels/baselines.js";
import { calibrationPanel } from "./panels/calibration.js";
import { classesPanel } from "./panels/classes.js";
import { fairnessPanel } from "./panels/fairness.js";
import { flipsPanel } from "./panels/flips.js";
import { neighborsPanel } from "./panels/neighbors.js";
import { residualsPanel } from "./panels/residuals.js";
import { slicesPanel } from "./panels/slices.js";
import { detailView } from "./sample_detail.js";
import { errorsStore, queryChips } from "./store.js";

/** @typedef {(query: Partial<Query>, label: string) => void} Go */
/** @typedef {(state: any, go: Go, ask: (content: object) => Promise<any>) => HTMLElement} PanelView */

/** The function that draws each panel. @type {Record<string, PanelView>} */
const PANELS = {
  baselines: baselinesPanel, calibration: calibrationPanel, classes: classesPanel, fairness: fairnessPanel, flips: flipsPanel,
  neighbors: neighborsPanel, residuals: residualsPanel, slices: slicesPanel,
};

/** @param {Props} props */
function render({ model, el }) {
  const store = errorsStore(model), { state } = store, overview = pageOverview(store), panels = pagePanels(store, overview);
  const bar = selectionBar(store), gallery = galleryView(store, bar.typed), detail = detailView(store, bar.typed, gallery.focus);
  const list = h("div", {}, filtersBar(store), gallery.pages, bar.node, gallery.node, gallery.code), samples = h("div.e-samples", {}, list, detail);
  const head = h("div.e-head", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline));
  const notes = state.notes.length > 0 && h("details.fold", {}, h("summary", {}, `Notes (${state.notes.length})`), bulletList(state.notes));
  mountView(el, head, ...(notes ? [notes] : []), h(panels ? "div.e-both" : "div", {}, ...(panels ? [panels] : []), samples));
  store.subscribe((event) => { if (event === "open") list.hidden = store.opened !== null; });
}

/** The confusion matrix; null for tasks without one, such as regression. @param {Store} store */
function pageOverview(store) {
  const { state } = store;
  if (state.grid) return h("div", {}, matrixView(state.grid, store), pairsList(state.grid, store));
  return null;
}

/** The overview and the panels as tabs. @param {Store} store @param {HTMLElement | null} overview */
function pagePanels(store, overview) {
  const { state } = store, tabs = h("div.tabs.e-tabs", { role: "group", ariaLabel: "views" }), content = h("div.e-panel", {});
  const available = state.panels.filter((/** @type {any} */ panel) => Object.hasOwn(PANELS, panel.name)), names = { ...(overview && { "": "Overview" }), ...Object.fromEntries(available.map((/** @type {any} */ panel) => [panel.name, panel.title])) };
  /** @type {Record<string, HTMLElement>} */
  const built = overview ? { "": overview } : {};

  /** @param {string} name */
  function open(name) {
    built[name] ??= pagePanel(store, available.find((/** @type {any} */ panel) => panel.name === name));
    renderTabs(tabs, names, name, open);
    content.replaceChildren(built[name]);
  }

  if (!overview && !available.length) return null;
  open(Object.keys(names)[0]);
  tabs.hidden = Object.keys(names).length < 2;
  return h("div.e-overview", {}, tabs, content);
}

/** One panel; a panel that Python must compute first waits for a click. @param {Store} store @param {{name: string, title: string, state: any}} panel */
function pagePanel(store, panel) {
  const go = (/** @type {Partial<Query>} */ query, /** @type {string} */ label) => { void store.go(query, label); };
  const draw = () => PANELS[panel.name](panel.state, go, store.ask), statusText = h("div.note", { role: "status" });
  if (panel.state !== null) return h("div", {}, draw());
  const button = makeButton("use", `Compute ${panel.title.toLowerCase()}`, async () => {
    statusText.textContent = "Computing…";
    const answer = await store.ask({ kind: "panel", name: panel.name, options: {} });
    if (answer?.state) {
      panel.state = answer.state;
      replaceKeepingFocus(node, draw());
    } else statusText.textContent = answer?.trouble ?? "Python is not available: run the cell again.";
  });
  const node = h("div", { role: "group", ariaLabel: panel.title }, button, statusText);
  return node;
}

export default { initialize() {}, render };

/** The current query as removable chips, and the controls that change it: order, correctness, columns and tags. @param {Store} store */
export function filtersBar(store) {
  const { state } = store, chips = h("div.e-chips", { role: "group", ariaLabel: "current filters" }), correctTabs = h("div.tabs", { role: "group", ariaLabel: "right or wrong" });
  const choice = (/** @type {string} */ label, /** @type {() => void} */ onchange) => /** @type {HTMLSelectElement} */ (h("select.e-pick", { ariaLabel: label, title: label, onchange }));
  const option = (/** @type {string} */ value, text = value) => h("option", { value }, text), names = Object.keys(state.columns);
  const sort = choice("sort by", () => store.change({ sort: sort.value })), side = makeButton("e-side", "", () => store.change({ descending: !store.query.descending }));
  const column = choice("filter by a column", open), tags = choice("filter by a tag", () => store.change({ tag: tags.value })), editor = h("div.e-editor", { hidden: true });
  sort.append(...names.map((name) => option(name, `by ${name}`)), option("", "in dataset order"));
  column.append(option("", "filter…"), ...names.map((name) => option(name)));

  function open() {
    const name = column.value;
    column.value = "";
    if (name) editor.replaceChildren(filtersEditor(store, name, state.columns[name], () => { editor.hidden = true; column.focus(); }));
    editor.hidden = !name;
    /** @type {HTMLElement | null} */ (editor.querySelector("input"))?.focus();
  }

  function updateCorrectTabs() {
    const now = store.query.right === null ? "all" : store.query.right ? "right" : "wrong";
    renderTabs(correctTabs, { wrong: "✕ wrong", right: "✓ right", all: "all" }, now, (name) => store.change({ right: name === "all" ? null : name === "right" }));
  }

  function draw() {
    const all = queryChips(store.query, store.words, store.labeled), { query } = store;
    chips.replaceChildren(...all.map(({ text, off }) => makeButton("e-chip", text, () => drop(text, off), { ariaLabel: `remove ${text}` })));
    if (!all.length) chips.append(h("span.soft", {}, `all ${state.samples.toLocaleString("en")} samples`));
    sort.value = query.sort ?? state.sort;
    const [up, down] = state.columns[sort.value]?.kind === "text" ? ["A to Z", "Z to A"] : ["lowest first", "highest first"];
    Object.assign(side, { textContent: query.descending ? "↓" : "↑", ariaLabel: query.descending ? down : up, title: query.descending ? down : up, hidden: !sort.value });
    correctTabs.hidden = !state.judged;
    updateCorrectTabs();
    updateTagCounts();
  }

  /** @param {string} text @param {any} off */
  function drop(text, off) {
    if (store.labeled?.label === text) store.labeled = null;
    void store.change(off);
    chips.querySelector("button")?.focus();
  }

  function updateTagCounts() {
    const all = Object.entries(store.tagged).filter(([, n]) => n > 0);
    tags.replaceChildren(option("", "tags…"), ...(all.length ? [option("any", "any tag")] : []), ...all.map(([name, n]) => option(name, `${name} (${n})`)));
    tags.hidden = !all.length && !store.query.tag;
    tags.value = store.query.tag;
  }

  store.subscribe((event) => {
    if (event === "query" || event === "connection") draw();
    if (event === "marks") updateTagCounts();
    if (event === "open") editor.hidden = true;
  });
  draw();
  return h("div.e-filters", {}, chips, h("div.tools", {}, correctTabs, h("span.e-sort", {}, sort, side), column, tags), editor);
}

/** The controls that filter by one column. @param {Store} store @param {string} name @param {any} about @param {() => void} close */
function filtersEditor(store, name, about, close) {
  const done = makeButton("e-close", "✕", close, { ariaLabel: "close the filter" }), inside = about.kind === "number" ? filtersRange(store, name, about) : filtersTexts(store, name, about);
  const node = h("div.e-range", { role: "group", ariaLabel: `filter by ${name}` }, h("b", {}, name), ...inside, done);
  node.onkeydown = (event) => { if (event.key === "Escape") close(); };
  return node;
}

/** @param {Store} store @param {string} name @param {any} about */
function filtersRange(store, name, about) {
  const now = store.query.ranges[name] ?? [null, null], field = (/** @type {string} */ label, /** @type {number | null} */ value, /** @type {number | null} */ hint) =>
    /** @type {HTMLInputElement} */ (h("input.e-number", { type: "number", step: "any", ariaLabel: `${label} ${name}`, value: value ?? "", placeholder: hint === null ? "" : formatNumber(hint), onchange: take }));
  const low = field("lowest", now[0], about.low), high = field("highest", now[1], about.high);
  function take() {
    const range = [low, high].map((input) => (input.value === "" ? null : Number(input.value))), ranges = { ...store.query.ranges, [name]: range };
    if (range[0] === null && range[1] === null) delete ranges[name];
    void store.change({ ranges });
  }
  return [filtersBars(about, (from, to) => { low.value = String(from); high.value = String(to); take(); }), low, h("span.soft", {}, "to"), high];
}

/** A histogram of a column; a click on a bar filters by its range. @param {any} about @param {(low: number, high: number) => void} take */
function filtersBars({ bins, low, high }, take) {
  const top = Math.max(1, ...bins), edge = (/** @type {number} */ i) => Number((low + ((high - low) * i) / bins.length).toPrecision(4));
  return h("span.e-bars", { role: "img", ariaLabel: "histogram of the values" }, ...bins.map((/** @type {number} */ n, /** @type {number} */ i) =>
    h("i", { style: `--nb-part: ${Math.sqrt(n / top)}`, title: `${formatNumber(edge(i))} to ${formatNumber(edge(i + 1))}: ${n.toLocaleString("en")}`, onclick: () => take(edge(i), edge(i + 1)) })));
}

/** @param {Store} store @param {string} name @param {any} about */
function filtersTexts(store, name, about) {
  const now = new Set(store.query.values[name] ?? []), texts = [...new Set([...about.choices.map((/** @type {[string, number]} */ [text]) => text), ...now])], counts = new Map(about.choices);
  const take = () => {
    const values = { ...store.query.values, [name]: boxes.filter(([, box]) => box.checked).map(([text]) => text) };
    if (!values[name].length) delete values[name];
    void store.change({ values });
  };
  const boxes = texts.map((text) => /** @type {[string, HTMLInputElement]} */ ([text, h("input", { type: "checkbox", checked: now.has(text), onchange: take })]));
  const list = boxes.map(([text, box]) => h("label.e-choice", {}, box, text || "(empty)", h("span.soft", {}, counts.has(text) && !about.part ? ` ${counts.get(text)}` : "")));
  return [h("div.e-choices", {}, ...list, about.more > 0 && h("span.soft", {}, `${about.more} more`))];
}

/** The largest number of samples that Python returns at once. */
const MAX_SELECTED = 20000;

/** The bar for selected samples: tags with their shortcut keys, a new tag and a note. @param {Store} store */
export function selectionBar(store) {
  const countText = h("b", {}), trouble = h("span.wrong", { role: "status" }), buttons = h("span.e-tags", { role: "group", ariaLabel: "tags" });
  const ownTag = field("own tag", (text) => { names.add(text); void tag(text, chosen(), true); }), note = field("note", (text) => writeMarks({ note: text }, chosen()));
  const clear = makeButton("e-clear", "×", () => store.choose([...store.selected.values()], false), { title: "Escape", ariaLabel: "Clear the selection" }), line = h("span.note", {}), all = makeButton("link", "", () => { void store.everything(); });
  const node = h("div.e-selection", { role: "region", ariaLabel: "selection" }, countText, clear, all, buttons, ownTag, note, trouble, line);
  /** @type {Set<string>} */
  const names = new Set(store.state.tags);
  const chosen = () => [...store.selected.values()];

  /** @param {string} label @param {(text: string) => void} done */
  function field(label, done) {
    const node = /** @type {HTMLInputElement} */ (h("input.e-own", { type: "text", maxLength: 500, placeholder: `${label}…`, ariaLabel: label }));
    node.onkeydown = (event) => {
      if (event.key !== "Enter" || !node.value.trim()) return;
      done(node.value.trim());
      node.value = "";
    };
    return node;
  }

  /** Map shortcut keys to tags; the key is the first unused character of the tag. @returns {Map<string, string>} */
  function letters() {
    const tagByLetter = new Map();
    for (const name of names) {
      const letter = [...name.toLowerCase()].find((character) => /[a-z0-9]/.test(character) && !tagByLetter.has(character));
      if (letter) tagByLetter.set(letter, name);
    }
    return tagByLetter;
  }

  /** @param {object} what @param {Card[]} cards */
  async function writeMarks(what, cards) {
    trouble.textContent = cards.length ? await store.mark(cards.map((card) => card.row), what) : "";
  }

  /** @param {string} name @param {Card[]} cards @param {boolean} on */
  function tag(name, cards, on) {
    return writeMarks({ tag: name, on }, cards);
  }

  /** Add the tag of a key to samples, or remove it if all of them have it. @param {string} key @param {Card[]} cards */
  function onTagKey(key, cards) {
    const name = letters().get(key.toLowerCase());
    if (!name || !store.connected) return false;
    void tag(name, cards, !cards.every((card) => card.tags.includes(name)));
    return true;
  }

  function draw() {
    const cards = chosen(), { size } = store.selected;
    for (const name of Object.keys(store.tagged)) names.add(name);
    const letterByTag = new Map([...letters()].map(([letter, name]) => [name, letter]));
    countText.textContent = size ? `${size.toLocaleString("en")} selected` : "";
    for (const element of [buttons, ownTag, note]) element.hidden = !size || !store.connected;
    clear.hidden = !size;
    const limit = Math.min(store.total, MAX_SELECTED);
    all.hidden = !store.connected || !size || limit <= Math.max(size, store.cards.length);
    all.textContent = `Select ${limit < store.total ? "the first" : "all"} ${limit.toLocaleString("en")}`;
    buttons.replaceChildren(...[...names].map((name) => {
      const all = size > 0 && cards.every((card) => card.tags.includes(name)), letter = letterByTag.get(name);
      return h("button.toggle", { type: "button", ariaPressed: String(all), onclick: () => tag(name, chosen(), !all), title: all ? "remove this tag" : "add this tag" }, name, letter && h("kbd", {}, letter));
    }));
    line.hidden = size > 0 && store.connected;
    const keys = cards.slice(0, 12).map((card) => card.key).join(", ");
    line.replaceChildren(...(size ? ["To tag them, use ", h("code", {}, `result.tag([${keys}${size > 12 ? ", …" : ""}], "${store.state.tags[0] ?? "tag"}")`)] : ["Arrow keys move, Space selects, Enter opens, letters add tags. Shift or Ctrl selects several."]));
  }

  store.subscribe((event) => { if (event === "chosen" || event === "marks" || event === "connection" || event === "page") draw(); });
  draw();
  return { node, typed: onTagKey, names };
}

const PAIRS_SHOWN = 6;

/** The most frequent confusions; a click shows their samples. @param {any} data @param {Store} store */
export function pairsList(data, store) {
  const { rows, row_title: title, pairs } = data, columns = data.columns ?? rows, largestCount = Math.max(1, ...pairs.map((/** @type {number[]} */ pair) => pair[2]));
  if (!pairs.length) return h("div", {});
  const lines = pairs.map((/** @type {any[]} */ [i, j, count, share, low, high, back]) => {
    const words = `${title} ${rows[i]} → ${columns[j]}`;
    const go = () => {
      store.words = words;
      void store.go({ cells: [[i, j]], ranges: store.query.ranges, values: store.query.values, tag: store.query.tag });
    };
    const node = h("button.e-pair", { type: "button", onclick: go, title: `${words}: ${formatCellShare(share)}of the class, ${formatCellShare(low)} to ${formatCellShare(high)} (95%)` },
      h("span.e-who", {}, h("b", {}, rows[i]), " → ", h("b", {}, columns[j])), h("span.e-part", { style: `--nb-part: ${count / largestCount}` }), h("span.e-count", {}, count.toLocaleString("en")),
      h("span.e-share.soft", {}, `${formatCellShare(share)} (${formatCellShare(low).slice(0, -1)}–${formatCellShare(high)})`), h("span.e-back.soft", {}, back === null ? "" : `${back.toLocaleString("en")} back`));
    return { node, cell: `${i},${j}` };
  });
  const list = h("div.e-pairs", {}, ...lines.map((/** @type {{node: HTMLElement}} */ { node }, /** @type {number} */ i) => { node.hidden = i >= PAIRS_SHOWN; return node; }));
  const more = h("button.e-more", { type: "button", hidden: lines.length <= PAIRS_SHOWN, onclick: () => { for (const { node } of lines) node.hidden = false; more.hidden = true; } }, `${lines.length - PAIRS_SHOWN} more`);
  store.subscribe((event) => {
    if (event !== "query") return;
    const chosen = store.query.cells.map((cell) => cell.join());
    for (const { node, cell } of lines) node.ariaCurrent = chosen.length === 1 && chosen[0] === cell ? "true" : null;
  });
  return h("div", {}, h("div.label", {}, data.diagonal ? "Most often confused" : "Most frequent errors"), list, more);
}
