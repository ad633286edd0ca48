// @ts-check
/** Gallery of samples. */
/** @import { LongRequest } from "../../views/long_request.js" */
/** @import { Card, Store } from "./store.js" */
import { drawEmbeddedPage } from "../../views/embedded_page.js";
import { codeBlock, h, makeButton } from "../../views/kit.js";
import { longRequest } from "../../views/long_request.js";
import { formatCellValue, sampleContent } from "../../views/sample_card.js";
import { queryCode, tagCode } from "./store.js";

/** The samples that match the query; they can be browsed, selected and opened with pointer or keyboard. @param {Store} store @param {(letter: string, cards: Card[]) => boolean} onTagKey */
export function galleryView(store, onTagKey) {
  const cards = h("div.e-cards", { role: "listbox", ariaMultiSelectable: "true", ariaLabel: "samples", "data-lm-suppress-shortcuts": "true" });
  const pageText = h("span.e-pages", { role: "status" }), empty = h("div.e-empty", { hidden: true }), code = h("div.note", { hidden: true }), lists = h("div.e-lists", { hidden: true });
  const back = makeButton("e-turn", "‹", () => turn(-1), { ariaLabel: "previous page" }), on = makeButton("e-turn", "›", () => turn(1), { ariaLabel: "next page" });
  const size = /** @type {HTMLSelectElement} */ (h("select.e-pick", { ariaLabel: "samples per page", onchange: () => store.change({ count: Number(size.value) }) }, ...["24", "50", "100"].map((n) => h("option", { value: n }, `${n} per page`))));
  /** @type {HTMLElement[]} */
  let nodes = [];
  let active = 0, anchor = 0, before = "";
  const trial = labelTrials(store);

  function draw() {
    const by = store.query.sort ?? store.state.sort, now = JSON.stringify([by, store.cards.map((card) => [card.row, card.shown, card.tags, card.note])]);
    updateStatus();
    if (before === (before = now)) return;
    const hadFocus = cards.contains(document.activeElement);
    nodes = store.cards.map((card) => cardNode(card, by));
    active = Math.min(active, Math.max(0, nodes.length - 1));
    const kinds = store.cards.map((card) => (card.shown ? card.shown.kind : "table"));
    const small = (/** @type {string[]} */ ...which) => kinds.every((kind) => which.includes(kind));
    cards.className = `nb-e-cards${small("image", "trouble") ? "" : small("table", "trouble") ? " nb-e-rows" : " nb-e-broad"}`;
    cards.replaceChildren(...nodes);
    mark();
    if (hadFocus) focus(active);
  }

  function updateStatus() {
    const { start, total, cards: { length }, query } = store, group = (/** @type {number} */ n) => n.toLocaleString("en"), isOverview = query.right === false && !query.cells.length, storedCount = isOverview ? (store.state.first.cards ?? []).length : store.stored.length;
    const every = isOverview ? store.state.first.total : store.state.samples, storedText = every > storedCount ? `${isOverview ? "the first" : "the stored"} ${storedCount} of ${group(every)}` : `${storedCount} samples`, here = length < storedCount ? `${length} of ${storedText}` : `${storedText[0].toUpperCase()}${storedText.slice(1)}`, pages = length ? `${group(start + 1)}–${group(start + length)} of ${group(total)}` : "";
    pageText.textContent = store.waiting ? "Waiting for the cell…" : store.trouble || (store.connected ? pages : here);
    pageText.classList.toggle("nb-wrong", store.trouble !== "" && !store.waiting);
    Object.assign(back, { disabled: start === 0, hidden: !store.connected });
    Object.assign(on, { disabled: start + length >= total, hidden: !store.connected });
    size.hidden = !store.connected;
    size.value = String(query.count);
    const isComplete = store.connected || (store.state.samples <= store.stored.length && query.right === null);
    code.hidden = isComplete;
    const { tag } = query;
    lists.hidden = !tag || tag === "any";
    if (!lists.hidden && lists.dataset.tag !== tag) lists.replaceChildren(codeBlock(`Samples tagged ${tag}`, tagCode(tag, Boolean(store.state.grid))), ...trial(tag));
    lists.dataset.tag = tag;
    code.replaceChildren(store.wasConnected ? "Python is no longer available: run the cell again, or use " : `${store.state.stored_note || "This page holds only the first samples."} For all samples, use `, h("code", {}, queryCode(query)));
    empty.hidden = length > 0 || store.waiting;
    cards.hidden = length === 0;
    empty.textContent = emptyText();
  }

  function emptyText() {
    const isOverview = store.query.right === false && !store.query.cells.length, { first, samples } = store.state;
    const isPart = isOverview ? first.total > (first.cards ?? []).length : samples > store.stored.length;
    if (!store.connected && isPart) return "No sample in this page matches.";
    return isOverview ? "No wrong predictions match." : "No sample matches.";
  }

  /** @param {number} by */
  function turn(by) {
    const { start, query: { count }, total, connected } = store, next = Math.max(0, start + by * count);
    if (!connected || next >= total || next === start) return;
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

  /** Select the samples from the anchor to this one. @param {number} to */
  function selectRange(to) {
    store.choose(store.cards.slice(Math.min(anchor, to), Math.max(anchor, to) + 1), true);
  }

  /** @param {number} i */
  function toggle(i) {
    const card = store.cards[i];
    anchor = i;
    if (card) store.choose([card], !store.selected.has(card.row));
  }

  /** Return the index of the card below or above the focused one; rows may wrap anywhere. @param {number} direction */
  function cardBelow(direction) {
    const from = nodes[active].getBoundingClientRect(), broad = nodes.filter((node) => node.getBoundingClientRect().top === from.top).length;
    return active + direction * broad;
  }

  cards.onclick = (event) => {
    const target = /** @type {HTMLElement} */ (event.target), i = nodes.findIndex((node) => node.contains(target));
    if (i < 0 || target.closest("audio")) return;
    focus(i);
    if (event.shiftKey) return selectRange(i);
    if (event.ctrlKey || event.metaKey || target.closest(".nb-e-check")) return toggle(i);
    anchor = i;
    store.open(store.cards[i]);
  };
  cards.onmousedown = (event) => { if (event.shiftKey) event.preventDefault(); };

  cards.onkeydown = (event) => {
    const go = (/** @type {number} */ to) => {
      if (to < 0 || to >= nodes.length) return;
      focus(to);
      if (event.shiftKey) selectRange(to);
      else anchor = to;
    };
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowLeft: () => go(active - 1), ArrowRight: () => go(active + 1), ArrowUp: () => go(cardBelow(-1)), ArrowDown: () => go(cardBelow(1)), Home: () => go(0), End: () => go(nodes.length - 1),
      PageUp: () => turn(-1), PageDown: () => turn(1), " ": () => toggle(active), Enter: () => store.open(store.cards[active]), Escape: () => store.choose([...store.selected.values()], false),
    };
    const all = event.ctrlKey || event.metaKey;
    if (all && event.key.toLowerCase() === "a") store.choose(store.cards, true);
    else if (all) return;
    else if (Object.hasOwn(acts, event.key)) acts[event.key]();
    else if (!onTagKey(event.key, store.selected.size ? [...store.selected.values()] : store.cards.slice(active, active + 1))) return;
    event.preventDefault();
    event.stopPropagation();
  };

  store.subscribe((event) => {
    if (event === "page") draw();
    else if (event === "wait" || event === "connection") updateStatus();
    else if (event === "marks" || event === "chosen") mark();
  });
  draw();
  return { node: h("div", {}, empty, cards, lists), pages: h("div.e-foot", {}, back, pageText, on, size), code, focus: () => focus(active) };
}

/** The buttons that train copies without the samples of a tag, or with their predicted classes. @param {Store} store @returns {(tag: string) => HTMLElement[]} */
function labelTrials(store) {
  /** @type {Map<string, LongRequest>} */
  const trials = new Map();
  store.subscribe((event) => { if (event === "connection") for (const trial of trials.values()) trial.available(store.connected); });
  return (tag) => {
    if (!store.state.tries_labels) return [];
    const content = (/** @type {string} */ action) => () => ({ kind: "try labels", tag, action });
    const contents = { "Retrain with the predicted classes": content("relabel"), "Retrain without these samples": content("remove") };
    const trial = trials.get(tag) ?? longRequest(() => store.ask, "Training copies…", contents, (answer) => drawEmbeddedPage(answer.page));
    trial.available(store.connected);
    trials.set(tag, trial);
    return [trial.node];
  };
}

/** Whether the prediction is correct, as a sign and a color, and the target and prediction. @param {Card} card */
export function cardPrediction(card) {
  const { target, prediction, ...rest } = card.said, sign = card.right === null ? "" : card.right ? "✓" : "✕";
  const words = target === undefined ? [] : [h("span", {}, target), h("span.soft", {}, " → "), h("span", {}, prediction)];
  for (const name in rest) words.push(h("span.soft", {}, `${words.length ? ", " : ""}${name} `), h("span", {}, rest[name]));
  const title = Object.entries(card.said).map(([name, text]) => `${name} ${text}`).join(", ");
  return h("div.e-said", { title }, sign && h(card.right ? "b.right" : "b.wrong", { ariaLabel: card.right ? "right" : "wrong" }, sign), h("span.e-words", {}, ...words));
}

/** The user's tags and note. @param {Card} card */
export function cardMarks(card) {
  return h("div.e-marks", {}, ...card.tags.map((tag) => h("span.e-tag", {}, tag)), card.note && h("span.e-noted", { title: card.note }, `✎ ${card.note}`));
}

/** One sample in the gallery. @param {Card} card @param {string} by the column that it is sorted by */
export function cardNode(card, by) {
  const box = h("span.e-check", { ariaHidden: "true" }), value = by && by in card.values ? h("div.e-value.soft", {}, `${by} ${formatCellValue(card.values[by])}`) : null;
  return h("div.e-card", { role: "option", tabIndex: -1, ariaSelected: "false" }, h("span.unseen", {}, `sample ${card.key}`), sampleContent(card.shown, Object.fromEntries(Object.entries(card.values).filter(([name]) => name !== by))), box, cardPrediction(card), value, cardMarks(card));
}
