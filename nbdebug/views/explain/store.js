// @ts-check
/** @import { ExplainProgress } from "./patience.js" */
/** What is asked for, of which samples, and what has come: the one thing that all parts of the page look at. */
import { explainLook } from "./look.js";
import { explainTrouble } from "./numbers.js";

/** @typedef {(content: object, told?: (progress: any) => void) => Promise<any>} ExplainAsk undefined where no Python is there; `told` hears how far it is */
/** @typedef {{method: string, target: string | number, background: string, space: string, layer: string}} ExplainChoice */
/** @typedef {{sample: number, found: any, waiting: boolean, far: ExplainProgress | null, slow: number | null, trouble: string, line: string, turn: number}} ExplainColumn */
/** @typedef {ReturnType<typeof explainStore>} ExplainStore */

/** @param {any} state @param {ExplainAsk} ask */
export function explainStore(state, ask) {
  /** @type {(() => void)[]} */
  const heard = [];
  const store = {
    state, ask, look: explainLook(), choice: explainFirst(state), columns: /** @type {ExplainColumn[]} */ ([]), said: "", line: "",
    hear: (/** @type {() => void} */ one) => { heard.push(one); },
    tell: () => heard.forEach((one) => one()),
    change, show, drop, place, seek,
  };

  /** Asks for something else of all samples in sight. @param {Partial<ExplainChoice>} part */
  function change(part) {
    store.choice = { ...store.choice, ...part };
    for (const column of store.columns) void seek(column);
  }

  /** Puts a sample in sight, at a place of its own or beside. @param {number} at @param {number} sample */
  function show(at, sample) {
    const column = (store.columns[at] ??= { sample, found: null, waiting: false, far: null, slow: null, trouble: "", line: "", turn: 0 });
    Object.assign(column, { sample, found: null });
    return seek(column);
  }

  /** Leaves the first sample alone. */
  function drop() {
    store.columns.length = 1;
    store.tell();
  }

  /** Finds an attribution in the page or in Python; what takes long only where it is `sure`. @param {ExplainColumn} column @param {boolean} [sure] */
  async function seek(column, sure = false) {
    const sample = state.samples[column.sample], kept = state.attributions[column.sample], turn = ++column.turn;
    Object.assign(column, { found: explainKept(kept, sample, store.choice) ?? column.found, far: null, slow: null, trouble: "", line: "" });
    column.waiting = !column.found || !explainIs(column.found, sample, store.choice);
    store.tell();
    if (!column.waiting) return;
    const answer = await ask({ kind: "attribution", ...explainPlace(sample), ...store.choice, sure }, (progress) => {
      column.far = progress;
      if (turn === column.turn) store.tell();
    });
    if (answer?.attribution) kept.push(answer.attribution);
    if (turn !== column.turn) return;
    column.waiting = false;
    if (answer?.attribution) column.found = answer.attribution;
    else if (answer?.slow !== undefined) column.slow = answer.slow;
    else Object.assign(column, { trouble: explainTrouble(answer), line: explainLine(sample, store.choice) });
    store.tell();
  }

  /** Puts the sample at a place of the data set beside the first. @param {number} key */
  async function place(key) {
    const here = state.samples.findIndex((/** @type {any} */ one) => one.key === key);
    if (here >= 0) return show(1, here);
    Object.assign(store, { said: `Python explains sample ${key}…`, line: "" });
    store.tell();
    const answer = await ask({ kind: "sample", key });
    Object.assign(store, { said: answer?.sample ? "" : explainTrouble(answer), line: answer ? "" : `dbg.explain([${state.samples[0].key}, ${key}])` });
    if (!answer?.sample) return store.tell();
    state.samples.push({ ...answer.sample, beside: true });
    state.attributions.push([answer.attribution]);
    await show(1, state.samples.length - 1);
  }

  for (const kept of state.attributions) for (const found of kept) explainFilled(found, kept[0]);
  void show(0, 0);
  if (state.samples.length === 2 && state.attributions[1].length) void show(1, 1);
  return store;
}

/** What the page opens with. @param {any} state @returns {ExplainChoice} */
function explainFirst(state) {
  const found = state.attributions[0]?.[0] ?? {}, asked = found.asked ?? {};
  return { method: found.method ?? "auto", target: asked.target ?? "predicted", background: found.background ?? "data", space: asked.space ?? "logits", layer: asked.layer ?? "" };
}

/** A picture stands in a page but once. @param {any} found @param {any} first */
function explainFilled(found, first) {
  found.inputs.forEach((/** @type {any} */ shown, /** @type {number} */ i) => { shown.src ??= first.inputs[i]?.src; });
}

/** Where Python finds a sample. @param {any} sample */
export function explainPlace(sample) {
  return sample.beside ? { key: sample.key } : { row: sample.row };
}

/** The class of a sample that is meant. @param {any} sample @param {string | number} target */
export function explainClass(sample, target) {
  return target === "predicted" ? sample.predicted ?? 0 : target === "true" ? sample.truth : target;
}

/** @param {any[]} kept @param {any} sample @param {ExplainChoice} choice */
function explainKept(kept, sample, choice) {
  return kept.find((one) => explainIs(one, sample, choice));
}

/** Whether an attribution is what is asked for. @param {any} found @param {any} sample @param {ExplainChoice} choice */
function explainIs(found, sample, choice) {
  const { space, layer } = found.asked, { method, background } = choice;
  return found.method === method && found.target === explainClass(sample, choice.target) && space === choice.space && (!found.against || found.background === background) && (method !== "gradcam" || (layer ?? "") === choice.layer);
}

/** The line of Python that asks the same. @param {any} sample @param {ExplainChoice} choice */
export function explainLine(sample, choice) {
  const usual = { method: "auto", target: "predicted", background: "data", space: "logits", layer: "" };
  const given = Object.entries(usual).filter(([name, value]) => choice[/** @type {keyof ExplainChoice} */ (name)] !== value && (name !== "layer" || choice.method === "gradcam"));
  const parts = given.map(([name]) => [name, choice[/** @type {keyof ExplainChoice} */ (name)]]).map(([name, value]) => `${name}=${typeof value === "number" ? value : "'" + value + "'"}`);
  return `dbg.explain(${[sample.key ?? "sample", ...parts].join(", ")})`;
}
