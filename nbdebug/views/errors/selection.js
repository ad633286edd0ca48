// @ts-check
/** @import { Store } from "./store.js" */
/** @import { Card } from "./query.js" */
import { h, press } from "../kit.js";

/** As many as Python gives at once. */
const SELECTION_MOST = 20000;

/** What can be written on samples: tags with their letters, own ones, a note; and what is selected. @param {Store} store */
export function selectionBar(store) {
  const said = h("b", {}), trouble = h("span.wrong", { role: "status" }), buttons = h("span.e-tags", { role: "group", ariaLabel: "tags" });
  const own = field("own tag", (text) => { names.add(text); void tag(text, chosen(), true); }), note = field("note", (text) => write({ note: text }, chosen()));
  const clear = press("e-clear", "×", () => store.choose([...store.selected.values()], false), { title: "Escape", ariaLabel: "Clear the selection" }), line = h("span.note", {}), all = press("link", "", () => { void store.everything(); });
  const node = h("div.e-selection", { role: "region", ariaLabel: "selection" }, said, clear, all, buttons, own, note, trouble, line);
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

  /** Which letter stands for which tag: the first of its letters that is free. @returns {Map<string, string>} */
  function letters() {
    const found = new Map();
    for (const name of names) {
      const letter = [...name.toLowerCase()].find((one) => /[a-z0-9]/.test(one) && !found.has(one));
      if (letter) found.set(letter, name);
    }
    return found;
  }

  /** @param {object} what @param {Card[]} cards */
  async function write(what, cards) {
    trouble.textContent = cards.length ? await store.mark(cards.map((card) => card.row), what) : "";
  }

  /** @param {string} name @param {Card[]} cards @param {boolean} on */
  function tag(name, cards, on) {
    return write({ tag: name, on }, cards);
  }

  /** Puts the tag of a letter on samples, or takes it off where all have it. @param {string} key @param {Card[]} cards */
  function typed(key, cards) {
    const name = letters().get(key.toLowerCase());
    if (!name || !store.there) return false;
    void tag(name, cards, !cards.every((card) => card.tags.includes(name)));
    return true;
  }

  function draw() {
    const cards = chosen(), { size } = store.selected;
    for (const name of Object.keys(store.tagged)) names.add(name);
    const held = new Map([...letters()].map(([letter, name]) => [name, letter]));
    said.textContent = size ? `${size.toLocaleString("en")} selected` : "";
    for (const one of [buttons, own, note]) one.hidden = !size || !store.there;
    clear.hidden = !size;
    const most = Math.min(store.total, SELECTION_MOST);
    all.hidden = !store.there || !size || most <= Math.max(size, store.cards.length);
    all.textContent = `Select ${most < store.total ? "the first" : "all"} ${most.toLocaleString("en")}`;
    buttons.replaceChildren(...[...names].map((name) => {
      const all = size > 0 && cards.every((card) => card.tags.includes(name)), letter = held.get(name);
      return h("button.toggle", { type: "button", ariaPressed: String(all), onclick: () => tag(name, chosen(), !all), title: all ? "take it off" : "put it on" }, name, letter && h("kbd", {}, letter));
    }));
    line.hidden = size > 0 && store.there;
    const keys = cards.slice(0, 12).map((card) => card.key).join(", ");
    line.replaceChildren(...(size ? ["To tag them, write ", h("code", {}, `result.tag([${keys}${size > 12 ? ", …" : ""}], "${store.state.tags[0] ?? "tag"}")`)] : ["Arrows walk, Space selects, Enter opens, letters tag; Shift or Ctrl takes several."]));
  }

  store.hear((news) => { if (news === "chosen" || news === "marks" || news === "there" || news === "page") draw(); });
  draw();
  return { node, typed, names };
}
