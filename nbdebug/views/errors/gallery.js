// @ts-check
/** @import { Store } from "./store.js" */
/** @import { Card } from "./query.js" */
import { h, press } from "../kit.js";
import { cardMarks, cardNode } from "./card.js";
import { queryCode } from "./query.js";

/** The samples that are asked for: looked through by pointer or keys, selected, opened. @param {Store} store @param {(letter: string, cards: Card[]) => boolean} tagged */
export function galleryView(store, tagged) {
  const cards = h("div.e-cards", { role: "listbox", ariaMultiSelectable: "true", ariaLabel: "samples", "data-lm-suppress-shortcuts": "true" });
  const said = h("span.e-pages", { role: "status" }), empty = h("div.e-empty", { hidden: true }), code = h("div.note", { hidden: true });
  const back = press("e-turn", "‹", () => turn(-1), { ariaLabel: "previous page" }), on = press("e-turn", "›", () => turn(1), { ariaLabel: "next page" });
  const size = /** @type {HTMLSelectElement} */ (h("select.e-pick", { ariaLabel: "samples a page", onchange: () => store.change({ count: Number(size.value) }) }, ...["24", "50", "100"].map((n) => h("option", { value: n }, `${n} a page`))));
  /** @type {HTMLElement[]} */
  let nodes = [];
  let active = 0, anchor = 0, before = "";

  function draw() {
    const by = store.query.sort ?? store.state.sort, now = JSON.stringify([by, store.cards.map((card) => [card.row, card.shown, card.tags, card.note])]);
    say();
    if (before === (before = now)) return;
    const held = cards.contains(document.activeElement);
    nodes = store.cards.map((card) => cardNode(card, by));
    active = Math.min(active, Math.max(0, nodes.length - 1));
    const kinds = store.cards.map((card) => (card.shown ? card.shown.kind : "table"));
    const small = (/** @type {string[]} */ ...which) => kinds.every((kind) => which.includes(kind));
    cards.className = `nb-e-cards${small("image", "trouble") ? "" : small("table", "trouble") ? " nb-e-rows" : " nb-e-broad"}`;
    cards.replaceChildren(...nodes);
    mark();
    if (held) focus(active);
  }

  function say() {
    const { start, total, cards: { length }, query } = store, group = (/** @type {number} */ n) => n.toLocaleString("en"), held = (store.state.first.cards ?? []).length;
    const every = store.state.first.total, kept = every > held ? `the first ${held} of ${group(every)}` : `${held} samples`, here = length < held ? `${length} of ${kept}` : `${kept[0].toUpperCase()}${kept.slice(1)}`, pages = length ? `${group(start + 1)}–${group(start + length)} of ${group(total)}` : "";
    said.textContent = store.waiting ? "Waiting for the cell…" : store.trouble || (store.there ? pages : here);
    said.classList.toggle("nb-wrong", store.trouble !== "" && !store.waiting);
    Object.assign(back, { disabled: start === 0, hidden: !store.there });
    Object.assign(on, { disabled: start + length >= total, hidden: !store.there });
    size.hidden = !store.there;
    size.value = String(query.count);
    const known = store.there || (store.state.samples <= (store.state.first.cards ?? []).length && query.right === null);
    code.hidden = known;
    code.replaceChildren(store.gone ? "Python is no longer there: run the cell again, or write " : "This page holds only the first samples. For all, write ", h("code", {}, queryCode(query)));
    empty.hidden = length > 0 || store.waiting;
    cards.hidden = length === 0;
    empty.textContent = nothing();
  }

  function nothing() {
    if (!store.there && store.state.first.total > (store.state.first.cards ?? []).length) return "None of the samples in this page.";
    return store.query.right === false && !store.query.cells.length ? "Nothing here is wrong." : "No sample is like that.";
  }

  /** @param {number} by */
  function turn(by) {
    const { start, query: { count }, total, there } = store, next = Math.max(0, start + by * count);
    if (!there || next >= total || next === start) return;
    active = 0;
    void store.change({ start: next });
  }

  function mark() {
    nodes.forEach((node, i) => {
      const chosen = store.selected.has(store.cards[i].row);
      node.ariaSelected = String(chosen);
      node.tabIndex = i === active ? 0 : -1;
      node.querySelector(".nb-e-marks")?.replaceWith(cardMarks(store.cards[i]));
    });
  }

  /** @param {number} i */
  function focus(i) {
    active = Math.min(nodes.length - 1, Math.max(0, i));
    nodes.forEach((node, at) => { node.tabIndex = at === active ? 0 : -1; });
    nodes[active]?.focus();
  }

  /** Selects from the last place to this one. @param {number} to */
  function stretch(to) {
    store.choose(store.cards.slice(Math.min(anchor, to), Math.max(anchor, to) + 1), true);
  }

  /** @param {number} i */
  function toggle(i) {
    const card = store.cards[i];
    anchor = i;
    if (card) store.choose([card], !store.selected.has(card.row));
  }

  /** The card under or over one, in rows that may be broken anywhere. @param {number} way */
  function below(way) {
    const from = nodes[active].getBoundingClientRect(), broad = nodes.filter((node) => node.getBoundingClientRect().top === from.top).length;
    return active + way * broad;
  }

  cards.onclick = (event) => {
    const target = /** @type {HTMLElement} */ (event.target), i = nodes.findIndex((node) => node.contains(target));
    if (i < 0 || target.closest("audio")) return;
    focus(i);
    if (event.shiftKey) return stretch(i);
    if (event.ctrlKey || event.metaKey || target.closest(".nb-e-check")) return toggle(i);
    anchor = i;
    store.open(store.cards[i]);
  };
  cards.onmousedown = (event) => { if (event.shiftKey) event.preventDefault(); };

  cards.onkeydown = (event) => {
    const go = (/** @type {number} */ to) => {
      if (to < 0 || to >= nodes.length) return;
      focus(to);
      if (event.shiftKey) stretch(to);
      else anchor = to;
    };
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowLeft: () => go(active - 1), ArrowRight: () => go(active + 1), ArrowUp: () => go(below(-1)), ArrowDown: () => go(below(1)), Home: () => go(0), End: () => go(nodes.length - 1),
      PageUp: () => turn(-1), PageDown: () => turn(1), " ": () => toggle(active), Enter: () => store.open(store.cards[active]), Escape: () => store.choose([...store.selected.values()], false),
    };
    const all = event.ctrlKey || event.metaKey;
    if (all && event.key.toLowerCase() === "a") store.choose(store.cards, true);
    else if (all) return;
    else if (Object.hasOwn(acts, event.key)) acts[event.key]();
    else if (!tagged(event.key, store.selected.size ? [...store.selected.values()] : store.cards.slice(active, active + 1))) return;
    event.preventDefault();
    event.stopPropagation();
  };

  store.hear((news) => {
    if (news === "page") draw();
    else if (news === "wait" || news === "there") say();
    else if (news === "marks" || news === "chosen") mark();
  });
  draw();
  return { node: h("div", {}, empty, cards), pages: h("div.e-foot", {}, back, said, on, size), code, focus: () => focus(active) };
}
