// @ts-check
/** @import { Store } from "./store.js" */
/** @import { Card } from "./query.js" */
import { h, press } from "../kit.js";
import { explainDetail } from "./detail_explain.js";
import { cardMarks, cardSaid } from "./card.js";
import { kindShown, kindValue } from "./kinds.js";
import { matrixShare } from "./matrix_grid.js";
import { neighborsDetail } from "./panel_neighbors.js";

/** What adds a section to the open sample, such as an explanation: a function of the card and the way to ask Python. @type {Record<string, (state: any, card: Card, ask: (content: object) => Promise<any>) => HTMLElement | null>} */
const DETAILS = { explain: explainDetail, neighbors: neighborsDetail };

/** One sample in full, in the place of the gallery. @param {Store} store @param {(letter: string, cards: Card[]) => boolean} tagged @param {() => void} closed */
export function detailView(store, tagged, closed) {
  const node = h("div.e-detail", { hidden: true, tabIndex: -1, role: "region", ariaLabel: "sample", "data-lm-suppress-shortcuts": "true" });
  const step = (/** @type {number} */ by) => {
    const next = store.cards[place() + by];
    if (next) store.open(next);
  };
  const place = () => store.cards.findIndex((card) => card.row === store.opened?.row), close = () => { store.open(null); closed(); };

  async function draw() {
    const card = store.opened;
    node.hidden = !card;
    if (!card) return;
    const tell = put(card);
    if (!node.contains(document.activeElement)) node.focus({ preventScroll: true });
    const answer = await store.ask({ kind: "sample", row: card.row });
    if (store.opened !== card || !answer?.card) return;
    Object.assign(card, { tags: answer.card.tags, note: answer.card.note });
    tell({ ...card, ...answer.card });
  }

  /** Puts a sample there, and gives what tells more of it: the note and the sections stay, as someone may be at work in them by then. @param {Card} card */
  function put(card) {
    const at = place(), held = node.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.act : "";
    const act = (/** @type {string} */ name, /** @type {string} */ text, /** @type {() => void} */ done, given = {}) => press("e-act", text, done, { "data-act": name, ...given });
    const note = /** @type {HTMLTextAreaElement} */ (h("textarea.e-note", { rows: 2, placeholder: store.there ? "note…" : "", ariaLabel: "note", value: card.note, disabled: !store.there, onchange: () => store.mark([card.row], { note: note.value.trim() }) }));
    const known = h("div.e-known"), values = h("tbody");
    let shown = h("div"), written = card.note;

    /** @param {Card} now */
    function tell(now) {
      const drawn = kindShown(now.shown, now.values, true);
      shown.replaceWith(drawn);
      shown = drawn;
      known.replaceChildren(...[cardSaid(now), detailTop(now), cardMarks({ ...now, note: "" })].flatMap((one) => one ?? []));
      if (note.value === written) note.value = written = now.note;
      values.replaceChildren(...Object.entries({ ...now.said, ...now.values }).map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, kindValue(value)))));
    }

    node.replaceChildren(
      h("div.e-top", {}, act("close", "‹ back", close, { title: "Escape" }), h("b.e-key", {}, `sample ${card.key}`), act("back", "‹", () => step(-1), { ariaLabel: "previous sample", disabled: at <= 0 }), act("on", "›", () => step(1), { ariaLabel: "next sample", disabled: at < 0 || at >= store.cards.length - 1 })),
      h("div.e-body", {}, shown, h("div.e-facts", {}, known, note)),
      ...Object.values(DETAILS).map((add) => add(store.state, card, store.ask) ?? ""),
      h("table.table", {}, values),
    );
    tell(card);
    if (held) /** @type {HTMLElement | null} */ (node.querySelector(`[data-act="${held}"]`))?.focus({ preventScroll: true });
    return tell;
  }

  node.onkeydown = (event) => {
    if (/** @type {Element} */ (event.target).closest("textarea") && event.key !== "Escape") return;
    /** @type {Record<string, () => void>} */
    const acts = { Escape: close, ArrowLeft: () => step(-1), ArrowRight: () => step(1) };
    if (event.ctrlKey || event.metaKey) return;
    if (Object.hasOwn(acts, event.key)) acts[event.key]();
    else if (!store.opened || !tagged(event.key, [store.opened])) return;
    event.preventDefault();
    event.stopPropagation();
  };
  store.hear((news) => {
    if (news === "open") void draw();
    if (news === "marks" && store.opened) node.querySelector(".nb-e-facts .nb-e-marks")?.replaceWith(cardMarks({ ...store.opened, note: "" }));
  });
  return node;
}

/** The likeliest classes with their chances. @param {Card} card */
function detailTop({ top, said }) {
  if (!top) return null;
  const line = ([name, chance] = /** @type {[string, number]} */ (["", 0])) => h("tr", {}, h("th", { scope: "row" }, name, name === said.target && h("span.soft", {}, " (target)")), h("td.e-chance", {}, h("i", { style: `--nb-part: ${chance}` })), h("td", {}, matrixShare(chance)));
  return h("table.e-top-k", { ariaLabel: "likeliest classes" }, h("tbody", {}, ...top.map(line)));
}
