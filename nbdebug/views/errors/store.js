// @ts-check
/** @import { Model } from "../kit.js" */
/** @import { Asked, Card } from "./query.js" */
/** What is asked for, what came, what is selected: the one thing that all parts of the browser look at. */
import { asking } from "../answers.js";
import { queryEmpty, queryHere, queryHolds } from "./query.js";

/** @typedef {ReturnType<typeof errorsStore>} Store */
/** @typedef {"page" | "query" | "there" | "marks" | "chosen" | "open" | "wait"} News */

const LATE = 600;

/** @param {Model} model */
export function errorsStore(model) {
  const state = model.get("state"), first = state.first.cards ?? [];
  /** @type {((news: News) => void)[]} */
  const heard = [];
  let latest = 0, /** @type {() => void} */ release = () => {}, lost = new Promise((done) => { release = () => done({ gone: true }); }), choosing = 0;

  const store = {
    state, query: { ...queryEmpty(), right: state.judged ? false : null }, words: "",
    named: /** @type {{label: string, query: Partial<Asked>} | null} */ (null),
    cards: /** @type {Card[]} */ (first), total: state.first.total ?? 0, start: 0,
    there: false, gone: false, waiting: false, trouble: "",
    tagged: /** @type {Record<string, number>} */ (state.tagged ?? {}),
    selected: /** @type {Map<number, Card>} */ (new Map()), opened: /** @type {Card | null} */ (null),
    hear: (/** @type {(news: News) => void} */ one) => { heard.push(one); },
    tell, ask, go, change, fetch, mark, choose, everything, open,
  };

  const send = asking(model, (there) => {
    const was = store.there;
    store.there = there;
    store.gone = was && !there ? true : store.gone && !there;
    if (!there) {
      release();
      lost = new Promise((done) => { release = () => done({ gone: true }); });
    }
    tell("there");
    if (there) void meet();
    else if (was) void fetch();
  });

  /** @param {News} news */
  function tell(news) {
    for (const one of heard) one(news);
  }

  /** What is written on samples may have changed since this page was saved. */
  async function meet() {
    const answer = await ask({ kind: "mark", rows: [] });
    if (answer?.counts) store.tagged = answer.counts;
    await fetch();
  }

  /** Asks Python; undefined where it is not there, or goes meanwhile. @param {object} content @param {(progress: any) => void} [told] @returns {Promise<any>} */
  async function ask(content, told) {
    if (!store.there) return undefined;
    const answer = await Promise.race([send(content, told), lost]);
    return answer.gone ? undefined : answer;
  }

  /** Shows other rows, from their beginning. @param {Partial<Asked>} query @param {string} [label] */
  function go(query, label = "") {
    const { sort, descending, count } = store.query;
    store.named = label ? { label, query } : null;
    store.query = { ...queryEmpty(), sort, descending, count, ...query };
    store.opened = null;
    tell("open");
    return fetch();
  }

  /** Changes some of what is asked for. @param {Partial<Asked>} part */
  function change(part) {
    store.query = { ...store.query, start: 0, ...part };
    if (store.named && !queryHolds(store.query, store.named.query)) store.named = null;
    if (store.opened) open(null);
    return fetch();
  }

  async function fetch() {
    const mine = ++latest;
    tell("query");
    if (!store.there) return here();
    const late = setTimeout(() => { if (mine === latest) { store.waiting = true; tell("wait"); } }, LATE);
    const answer = await ask({ kind: "rows", query: store.query });
    clearTimeout(late);
    if (mine !== latest) return undefined;
    store.waiting = false;
    if (!answer) return here();
    store.trouble = answer.trouble ?? "";
    if (answer.cards) take(answer.cards, answer.total, answer.start);
    return tell("page");
  }

  function here() {
    const found = queryHere([...first], store.query, state);
    store.waiting = false;
    take(found, found.length, 0);
    tell("page");
  }

  /** @param {Card[]} cards @param {number} total @param {number} start */
  function take(cards, total, start) {
    Object.assign(store, { cards, total, start });
    for (const card of cards) if (store.selected.has(card.row)) store.selected.set(card.row, card);
  }

  /** Writes on samples; gives what went wrong. @param {number[]} rows @param {object} what */
  async function mark(rows, what) {
    const answer = await ask({ kind: "mark", rows, ...what });
    if (!answer || answer.trouble) return answer?.trouble ?? "Python is not there";
    for (const { row, tags, note } of answer.marks) {
      for (const card of [...store.cards, store.selected.get(row), store.opened]) if (card && card.row === row) Object.assign(card, { tags, note });
    }
    store.tagged = answer.counts;
    tell("marks");
    return "";
  }

  /** Selects cards, or lets go of them; without any, of all. @param {Card[]} cards @param {boolean} on */
  function choose(cards, on) {
    for (const card of cards) {
      if (on) store.selected.set(card.row, card);
      else store.selected.delete(card.row);
    }
    tell("chosen");
    clearTimeout(choosing);
    choosing = setTimeout(() => { void ask({ kind: "select", rows: [...store.selected.keys()] }); }, 120);
  }

  /** Selects all that is asked for, on other pages too. */
  async function everything() {
    const answer = await ask({ kind: "everything", query: store.query });
    const here = new Map(store.cards.map((card) => [card.row, card]));
    if (answer?.cards) choose(answer.cards.map((/** @type {Card} */ card) => here.get(card.row) ?? card), true);
  }

  /** Opens one sample in full, or closes it. @param {Card | null} card */
  function open(card) {
    store.opened = card;
    tell("open");
  }

  return store;
}
