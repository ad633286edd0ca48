// @ts-check
/** The opened sample: predictions, explanation and neighbors. */
/** @import { Card, Store } from "./store.js" */
import { explanationPage } from "../explain/explanation.js";
import { showProgress, slowWarning } from "../explain/store.js";
import { h, makeButton, replaceKeepingFocus } from "../../views/kit.js";
import { formatCellValue, sampleContent } from "../../views/sample_card.js";
import { formatCellShare } from "./confusion_matrix_canvas.js";
import { cardMarks, cardPrediction } from "./gallery.js";
import { neighborsDetail } from "./panels/neighbors.js";

/** The functions that add a section to the opened sample. Each gets the page state, the card and a function that asks Python. @type {Record<string, (state: any, card: Card, ask: (content: object) => Promise<any>) => HTMLElement | null>} */
const DETAILS = { explain: explainDetail, neighbors: neighborsDetail };

/** One opened sample in full; it replaces the gallery. @param {Store} store @param {(letter: string, cards: Card[]) => boolean} onTagKey @param {() => void} onClosed */
export function detailView(store, onTagKey, onClosed) {
  const node = h("div.e-detail", { hidden: true, tabIndex: -1, role: "region", ariaLabel: "sample", "data-lm-suppress-shortcuts": "true" });
  const step = (/** @type {number} */ by) => {
    const next = store.cards[position() + by];
    if (next) store.open(next);
  };
  const position = () => store.cards.findIndex((card) => card.row === store.opened?.row), close = () => { store.open(null); onClosed(); };

  async function draw() {
    const card = store.opened;
    node.hidden = !card;
    if (!card) return;
    const update = show(card);
    if (!node.contains(document.activeElement)) node.focus({ preventScroll: true });
    const answer = await store.ask({ kind: "sample", row: card.row });
    if (store.opened !== card || !answer?.card) return;
    Object.assign(card, { tags: answer.card.tags, note: answer.card.note });
    update({ ...card, ...answer.card });
  }

  /** Show a sample, and return a function that updates it. An update keeps the note and the sections, since the user may be working in them. @param {Card} card */
  function show(card) {
    const at = position(), focusedAction = node.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.act : "";
    const act = (/** @type {string} */ name, /** @type {string} */ text, /** @type {() => void} */ done, attributes = {}) => makeButton("e-act", text, done, { "data-act": name, ...attributes });
    const note = /** @type {HTMLTextAreaElement} */ (h("textarea.e-note", { rows: 2, placeholder: store.connected ? "note…" : "", ariaLabel: "note", value: card.note, disabled: !store.connected, onchange: () => store.mark([card.row], { note: note.value.trim() }) }));
    const facts = h("div.e-known"), values = h("tbody");
    let sampleView = h("div"), savedNote = card.note;

    /** @param {Card} now */
    function update(now) {
      const newView = sampleContent(now.shown, now.values, true);
      sampleView.replaceWith(newView);
      sampleView = newView;
      facts.replaceChildren(...[cardPrediction(now), topClasses(now), cardMarks({ ...now, note: "" })].flatMap((item) => item ?? []));
      if (note.value === savedNote) note.value = savedNote = now.note;
      values.replaceChildren(...Object.entries({ ...now.said, ...now.values }).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, formatCellValue(value)))));
    }

    node.replaceChildren(
      h("div.e-top", {}, act("close", "‹ back", close, { title: "Escape" }), h("b.e-key", {}, `sample ${card.key}`), act("back", "‹", () => step(-1), { ariaLabel: "previous sample", disabled: at <= 0 }), act("on", "›", () => step(1), { ariaLabel: "next sample", disabled: at < 0 || at >= store.cards.length - 1 })),
      h("div.e-body", {}, sampleView, h("div.e-facts", {}, facts, note)),
      ...Object.values(DETAILS).map((add) => add(store.state, card, store.ask) ?? ""),
      h("table.table", {}, values),
    );
    update(card);
    if (focusedAction) /** @type {HTMLElement | null} */ (node.querySelector(`[data-act="${focusedAction}"]`))?.focus({ preventScroll: true });
    return update;
  }

  node.onkeydown = (event) => {
    if (/** @type {Element} */ (event.target).closest("textarea") && event.key !== "Escape") return;
    /** @type {Record<string, () => void>} */
    const acts = { Escape: close, ArrowLeft: () => step(-1), ArrowRight: () => step(1) };
    if (event.ctrlKey || event.metaKey) return;
    if (Object.hasOwn(acts, event.key)) acts[event.key]();
    else if (!store.opened || !onTagKey(event.key, [store.opened])) return;
    event.preventDefault();
    event.stopPropagation();
  };
  store.subscribe((event) => {
    if (event === "open") void draw();
    if (event === "marks" && store.opened) node.querySelector(".nb-e-facts .nb-e-marks")?.replaceWith(cardMarks({ ...store.opened, note: "" }));
  });
  return node;
}

/** The most likely classes with their probabilities. @param {Card} card */
function topClasses({ top, said: prediction }) {
  if (!top) return null;
  const line = ([name, chance] = /** @type {[string, number]} */ (["", 0])) => h("tr", {}, h("th", { scope: "row" }, name, name === prediction.target && h("span.soft", {}, " (target)")), h("td.e-chance", {}, h("i", { style: `--nb-part: ${chance}` })), h("td", {}, formatCellShare(chance)));
  return h("table.e-top-k", { ariaLabel: "most likely classes" }, h("tbody", {}, ...top.map(line)));
}

/** A button, then the explanation; null if there is no model to explain. @param {any} state @param {Card} card @param {(content: object, onProgress?: (progress: any) => void) => Promise<any>} ask */
export function explainDetail(state, card, ask) {
  if (!state.explains) return null;
  const statusText = h("div.note", { role: "status" }), button = makeButton("use", "Explain this prediction", () => { void explain(); });
  const node = h("section.e-explain", { ariaLabel: "explanation" }, button, statusText);

  let confirmed = false;

  async function explain() {
    button.setAttribute("aria-disabled", "true");
    showProgress(statusText);
    const answer = await ask({ kind: "explain", row: card.row, sure: confirmed }, (progress) => showProgress(statusText, progress));
    button.removeAttribute("aria-disabled");
    if (answer?.page) return replaceKeepingFocus(node, explanationPage(answer.page, (content, onProgress) => ask({ kind: "explain", row: card.row, content }, onProgress)));
    confirmed = answer?.slow !== undefined;
    if (confirmed) statusText.textContent = `${slowWarning(answer.slow)} Click again to compute it.`;
    else statusText.textContent = answer?.trouble ?? `Python is not available: run dbg.explain(${card.key}) in a new cell.`;
  }

  return node;
}
