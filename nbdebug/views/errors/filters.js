// @ts-check
/** @import { Store } from "./store.js" */
import { h, num, press } from "../kit.js";
import { pick } from "../tabs.js";
import { queryChips } from "./query.js";

/** What is asked for, in words to take off, and the ways to ask for more: sort, right or wrong, columns, tags. @param {Store} store */
export function filtersBar(store) {
  const { state } = store, chips = h("div.e-chips", { role: "group", ariaLabel: "what is shown" }), judged = h("div.tabs", { role: "group", ariaLabel: "right or wrong" });
  const choice = (/** @type {string} */ label, /** @type {() => void} */ onchange) => /** @type {HTMLSelectElement} */ (h("select.e-pick", { ariaLabel: label, title: label, onchange }));
  const option = (/** @type {string} */ value, text = value) => h("option", { value }, text), names = Object.keys(state.columns);
  const sort = choice("sort by", () => store.change({ sort: sort.value })), side = press("e-side", "", () => store.change({ descending: !store.query.descending }));
  const column = choice("filter by a column", open), tags = choice("filter by a tag", () => store.change({ tag: tags.value })), editor = h("div.e-editor", { hidden: true });
  sort.append(...names.map((name) => option(name, `by ${name}`)), option("", "as in the data"));
  column.append(option("", "filter…"), ...names.map((name) => option(name)));

  function open() {
    const name = column.value;
    column.value = "";
    if (name) editor.replaceChildren(filtersEditor(store, name, state.columns[name], () => { editor.hidden = true; column.focus(); }));
    editor.hidden = !name;
    /** @type {HTMLElement | null} */ (editor.querySelector("input"))?.focus();
  }

  function judge() {
    const now = store.query.right === null ? "all" : store.query.right ? "right" : "wrong";
    pick(judged, { wrong: "✕ wrong", right: "✓ right", all: "all" }, now, (name) => store.change({ right: name === "all" ? null : name === "right" }));
  }

  function draw() {
    const all = queryChips(store.query, store.words, store.named), { query } = store;
    chips.replaceChildren(...all.map(({ text, off }) => press("e-chip", text, () => drop(text, off), { ariaLabel: `remove ${text}` })));
    if (!all.length) chips.append(h("span.soft", {}, `all ${state.samples.toLocaleString("en")} samples`));
    sort.value = query.sort ?? state.sort;
    const [up, down] = state.columns[sort.value]?.kind === "text" ? ["A to Z", "Z to A"] : ["lowest first", "highest first"];
    Object.assign(side, { textContent: query.descending ? "↓" : "↑", ariaLabel: query.descending ? down : up, title: query.descending ? down : up, hidden: !sort.value });
    judged.hidden = !state.judged;
    judge();
    counts();
  }

  /** @param {string} text @param {any} off */
  function drop(text, off) {
    if (store.named?.label === text) store.named = null;
    void store.change(off);
    chips.querySelector("button")?.focus();
  }

  function counts() {
    const all = Object.entries(store.tagged).filter(([, n]) => n > 0);
    tags.replaceChildren(option("", "tags…"), ...(all.length ? [option("any", "any tag")] : []), ...all.map(([name, n]) => option(name, `${name} (${n})`)));
    tags.hidden = !all.length && !store.query.tag;
    tags.value = store.query.tag;
  }

  store.hear((news) => {
    if (news === "query" || news === "there") draw();
    if (news === "marks") counts();
    if (news === "open") editor.hidden = true;
  });
  draw();
  return h("div.e-filters", {}, chips, h("div.tools", {}, judged, h("span.e-sort", {}, sort, side), column, tags), editor);
}

/** How to restrict one column. @param {Store} store @param {string} name @param {any} about @param {() => void} close */
function filtersEditor(store, name, about, close) {
  const done = press("e-close", "✕", close, { ariaLabel: "close the filter" }), inside = about.kind === "number" ? filtersRange(store, name, about) : filtersTexts(store, name, about);
  const node = h("div.e-range", { role: "group", ariaLabel: `filter by ${name}` }, h("b", {}, name), ...inside, done);
  node.onkeydown = (event) => { if (event.key === "Escape") close(); };
  return node;
}

/** @param {Store} store @param {string} name @param {any} about */
function filtersRange(store, name, about) {
  const now = store.query.ranges[name] ?? [null, null], field = (/** @type {string} */ label, /** @type {number | null} */ value, /** @type {number | null} */ hint) =>
    /** @type {HTMLInputElement} */ (h("input.e-number", { type: "number", step: "any", ariaLabel: `${label} ${name}`, value: value ?? "", placeholder: hint === null ? "" : num(hint), onchange: take }));
  const low = field("lowest", now[0], about.low), high = field("highest", now[1], about.high);
  function take() {
    const range = [low, high].map((one) => (one.value === "" ? null : Number(one.value))), ranges = { ...store.query.ranges, [name]: range };
    if (range[0] === null && range[1] === null) delete ranges[name];
    void store.change({ ranges });
  }
  return [filtersBars(about, (from, to) => { low.value = String(from); high.value = String(to); take(); }), low, h("span.soft", {}, "to"), high];
}

/** How often which values are; a click takes those of a bar. @param {any} about @param {(low: number, high: number) => void} take */
function filtersBars({ bins, low, high }, take) {
  const top = Math.max(1, ...bins), edge = (/** @type {number} */ i) => Number((low + ((high - low) * i) / bins.length).toPrecision(4));
  return h("span.e-bars", { role: "img", ariaLabel: "how often which values are" }, ...bins.map((/** @type {number} */ n, /** @type {number} */ i) =>
    h("i", { style: `--nb-part: ${Math.sqrt(n / top)}`, title: `${num(edge(i))} to ${num(edge(i + 1))}: ${n.toLocaleString("en")}`, onclick: () => take(edge(i), edge(i + 1)) })));
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
