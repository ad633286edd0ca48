// @ts-check
/** Page state: selected samples and options, attributions, requests and their progress. */
import { h } from "../../views/kit.js";
import { displayOptions, errorText } from "./display.js";

/** @typedef {(content: object, onProgress?: (progress: any) => void) => Promise<any>} ExplainAsk resolves to undefined if Python is not available */
/** @typedef {{method: string, target: string | number, background: string, space: string, layer: string}} ExplainChoice */
/** @typedef {{sample: number, attribution: any, waiting: boolean, progress: ExplainProgress | null, slow: number | null, trouble: string, line: string, turn: number}} ExplainColumn */
/** @typedef {ReturnType<typeof explainStore>} ExplainStore */

/** @param {any} state @param {ExplainAsk} ask */
export function explainStore(state, ask) {
  /** @type {(() => void)[]} */
  const listeners = [];
  const store = {
    state, ask, display: displayOptions(), choice: initialChoice(state), columns: /** @type {ExplainColumn[]} */ ([]), status: "", line: "",
    subscribe: (/** @type {() => void} */ item) => { listeners.push(item); },
    notify: () => listeners.forEach((item) => item()),
    change, show, drop, addSample, loadAttribution,
  };

  /** Change the choice for all visible samples. @param {Partial<ExplainChoice>} part */
  function change(part) {
    store.choice = { ...store.choice, ...part };
    for (const column of store.columns) void loadAttribution(column);
  }

  /** Show a sample in a column. @param {number} at @param {number} sample */
  function show(at, sample) {
    const column = (store.columns[at] ??= { sample, attribution: null, waiting: false, progress: null, slow: null, trouble: "", line: "", turn: 0 });
    Object.assign(column, { sample, attribution: null });
    return loadAttribution(column);
  }

  /** Close the second column. */
  function drop() {
    store.columns.length = 1;
    store.notify();
  }

  /** Find an attribution in the page or ask Python; Python computes a slow one only if `confirmed`. @param {ExplainColumn} column @param {boolean} [confirmed] */
  async function loadAttribution(column, confirmed = false) {
    const sample = state.samples[column.sample], stored = state.attributions[column.sample], turn = ++column.turn;
    Object.assign(column, { attribution: findStored(stored, sample, store.choice) ?? column.attribution, progress: null, slow: null, trouble: "", line: "" });
    column.waiting = !column.attribution || !matchesChoice(column.attribution, sample, store.choice);
    store.notify();
    if (!column.waiting) return;
    const answer = await ask({ kind: "attribution", ...sampleAddress(sample), ...store.choice, sure: confirmed }, (progress) => {
      column.progress = progress;
      if (turn === column.turn) store.notify();
    });
    if (answer?.attribution) stored.push(answer.attribution);
    if (turn !== column.turn) return;
    column.waiting = false;
    if (answer?.attribution) column.attribution = answer.attribution;
    else if (answer?.slow !== undefined) column.slow = answer.slow;
    else Object.assign(column, { trouble: errorText(answer), line: pythonLine(sample, store.choice) });
    store.notify();
  }

  /** Add the sample at a dataset index as the second column. @param {number} key */
  async function addSample(key) {
    const existing = state.samples.findIndex((/** @type {any} */ sample) => sample.key === key);
    if (existing >= 0) return show(1, existing);
    Object.assign(store, { status: `Python is explaining sample ${key}…`, line: "" });
    store.notify();
    const answer = await ask({ kind: "sample", key });
    Object.assign(store, { status: answer?.sample ? "" : errorText(answer), line: answer ? "" : `dbg.explain([${state.samples[0].key}, ${key}])` });
    if (!answer?.sample) return store.notify();
    state.samples.push({ ...answer.sample, beside: true });
    state.attributions.push([answer.attribution]);
    await show(1, state.samples.length - 1);
  }

  for (const stored of state.attributions) for (const attribution of stored) fillImages(attribution, stored[0]);
  void show(0, 0);
  if (state.samples.length === 2 && state.attributions[1].length) void show(1, 1);
  return store;
}

/** The initial choice. @param {any} state @returns {ExplainChoice} */
function initialChoice(state) {
  const attribution = state.attributions[0]?.[0] ?? {}, request = attribution.asked ?? {};
  return { method: attribution.method ?? "auto", target: request.target ?? "predicted", background: attribution.background ?? "data", space: request.space ?? "logits", layer: request.layer ?? "" };
}

/** Copy image sources from the first attribution; the page holds each image only once. @param {any} attribution @param {any} first */
function fillImages(attribution, first) {
  attribution.inputs.forEach((/** @type {any} */ input, /** @type {number} */ i) => { input.src ??= first.inputs[i]?.src; });
}

/** The address of a sample for requests. @param {any} sample */
export function sampleAddress(sample) {
  return sample.beside ? { key: sample.key } : { row: sample.row };
}

/** The class index that a target stands for. @param {any} sample @param {string | number} target */
export function targetClass(sample, target) {
  return target === "predicted" ? sample.predicted ?? 0 : target === "true" ? sample.truth : target;
}

/** @param {any[]} stored @param {any} sample @param {ExplainChoice} choice */
function findStored(stored, sample, choice) {
  return stored.find((attribution) => matchesChoice(attribution, sample, choice));
}

/** Check whether an attribution matches the choice. @param {any} attribution @param {any} sample @param {ExplainChoice} choice */
function matchesChoice(attribution, sample, choice) {
  const { space, layer } = attribution.asked, { method, background } = choice;
  return attribution.method === method && attribution.target === targetClass(sample, choice.target) && space === choice.space && (!attribution.against || attribution.background === background) && (method !== "gradcam" || (layer ?? "") === choice.layer);
}

/** The Python call that computes the same attribution. @param {any} sample @param {ExplainChoice} choice */
export function pythonLine(sample, choice) {
  const defaults = { method: "auto", target: "predicted", background: "data", space: "logits", layer: "" };
  const changed = Object.entries(defaults).filter(([name, value]) => choice[/** @type {keyof ExplainChoice} */ (name)] !== value && (name !== "layer" || choice.method === "gradcam"));
  const parts = changed.map(([name]) => [name, choice[/** @type {keyof ExplainChoice} */ (name)]]).map(([name, value]) => `${name}=${typeof value === "number" ? value : "'" + value + "'"}`);
  return `dbg.explain(${[sample.key ?? "sample", ...parts].join(", ")})`;
}

/** @typedef {{spent: number, left: number | null}} ExplainProgress seconds spent so far, and seconds left if known */

/** Format a duration. @param {number} seconds */
function formatDuration(seconds) {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;
}

/** Show that Python computes, and the progress; screen readers announce only the first message. @param {HTMLElement} statusBox @param {ExplainProgress | null} [progress] */
export function showProgress(statusBox, progress = null) {
  const progressText = statusBox.querySelector(".nb-x-spent") ?? h("span.x-spent", { ariaHidden: "true" });
  if (!statusBox.contains(progressText)) statusBox.replaceChildren(h("div.note", {}, "Python is computing… ", progressText));
  const left = progress?.left ?? null;
  progressText.textContent = progress && `${formatDuration(progress.spent)}${left === null ? "" : `, about ${formatDuration(left)} left`}. To stop it, interrupt the kernel.`;
}

/** The warning that an answer takes long. @param {number} seconds @param {string} [subject] */
export function slowWarning(seconds, subject = "This") {
  return `${subject} takes ${formatDuration(seconds)} or more and blocks Python meanwhile.`;
}
