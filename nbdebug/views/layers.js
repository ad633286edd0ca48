// @ts-check
/** @import { Props } from "./kit.js" */
/** @import { Store } from "./layer_store.js" */
/** @import { Row } from "./layer_rows.js" */
import { palette } from "./axes.js";
import { h, heading, press, root, watch } from "./kit.js";
import { empty, take, unpack } from "./layer_store.js";
import { FAMILIES, listed, ranked, rowsOf, wordsOf } from "./layer_rows.js";
import { columnHeads } from "./layer_heads.js";
import { pictures, windowOf } from "./layer_cells.js";
import { rowList } from "./layer_list.js";
import { layerPanel } from "./layer_strip.js";
import { pick } from "./tabs.js";
import { runCurves } from "./run_curves.js";
import { runControls } from "./run_controls.js";
import { keepFocus, layersPlace, resumeFocus } from "./layers_place.js";

/** @param {Props} props */
async function render({ model, el }) {
  const { node, title, status } = heading(model, false),
    controls = model.get("state").controls && model.get("live") ? runControls(model) : null,
    place = layersPlace(model.get("state").run);
  let store = empty(),
    step = 0,
    due = 0,
    /** @type {any[]} */ before = [],
    asked = false;
  /** @type {Row[]} */
  let rows = [],
    /** @type {Row[]} */ worst = [],
    /** @type {Row | null} */ opened = null;
  /** @type {[number, number][]} */
  let windows = [],
    colors = palette(el);

  const find = /** @type {HTMLInputElement} */ (
    h("input.find", { type: "search", placeholder: "Filter layers", ariaLabel: "Filter layers", value: place.find })
  );
  find.oninput = () => {
    place.find = find.value;
    list();
  };
  const orders = h("div.tabs", { role: "group", ariaLabel: "order" }),
    count = h("span.note", { role: "status" });
  const folds = press("folds", "Fold all", () => {
    const open = rows.some((row) => row.kids && !row.folded);
    for (const row of rows) if (row.kids) keepFold(row, open);
    list();
  });
  const slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: 0, ariaLabel: "recorded step" })),
    said = h("span");
  const columns = columnHeads();
  const curves = runCurves((at) => scrub(at), model.get("state").names ?? {}, place);
  const panel = layerPanel(() => {
    opened = null;
    lines.close();
    panel.show(store, null, step);
    lines.grid.focus();
  }, place);
  const lines = rowList(columns.node, place, {
    say: (row) => wordsOf(store, row, step),
    paint: (g, row, width, height) => pictures(g, store, row, step, width, height, colors, windows),
    open: (row) => {
      opened = row;
      panel.show(store, row, step);
      if (row) panel.node.scrollIntoView({ block: "nearest" });
    },
    fold: (row, on) => {
      keepFold(row, on);
      list();
    },
  });
  root(
    el,
    node,
    curves.node,
    h("div.scrub", {}, slider, said),
    h("div.tools", {}, find, orders, folds, count),
    lines.frame,
    panel.node,
  );
  const parts = { find, list: lines.grid, slider };
  if (controls) node.append(controls.node);
  keepFocus(el, place, parts);

  /** @param {Row} row @param {boolean} on */
  function keepFold(row, on) {
    row.folded = on;
    if (on) place.folded.add(row.path);
    else place.folded.delete(row.path);
  }

  function list() {
    const { tree } = place,
      shown = listed(tree ? rows : worst, find.value, tree);
    count.textContent = [shown.length < rows.length && find.value && `${shown.length} of`, worst.length, "layers"]
      .filter(Boolean)
      .join(" ");
    folds.hidden = !tree || find.value !== "" || !rows.some((row) => row.kids);
    folds.textContent = rows.some((row) => row.kids && !row.folded) ? "Fold all" : "Unfold all";
    pick(orders, { worst: "Worst first", tree: "By module" }, tree ? "tree" : "worst", (name) => {
      place.tree = name === "tree";
      list();
    });
    lines.set(shown, tree);
  }

  /** Order and texts are made anew only when the layers or the findings are others, or the run has doubled. */
  function renew() {
    const { words, layers } = store,
      now = [words.layers, words.findings, words.drawn, Math.ceil(Math.log2(layers.have + 1))];
    if (now.every((one, i) => one === before[i])) return;
    before = now;
    rows = rowsOf(store, place.folded);
    worst = ranked(store, rows);
    opened = rows.find((row) => row.path === place.opened) ?? null;
    list();
  }

  function draw() {
    const state = model.get("state"),
      steps = looks(store),
      last = steps.length - 1,
      at = place.held === null ? last : closestTo(steps, place.held);
    step = steps[at] ?? 0;
    title.textContent = state.title;
    status.textContent = [state.status, store.lost && `${store.lost} rows lost on the way`].filter(Boolean).join(" · ");
    Object.assign(slider, { max: Math.max(0, last), value: at });
    slider.ariaValueText =
      said.textContent = `step ${step.toLocaleString("en-US")}${place.held === null && model.get("live") ? " · live" : ""}`;
    windows = FAMILIES.map((family) => windowOf(store.shapes.tops[family]));
    columns.show(windows);
    renew();
    lines.draw();
    curves.show(store, step, place.held !== null);
    panel.show(store, opened, step);
    controls?.show();
  }

  /** Draws at most once a frame. */
  function soon() {
    due ||= requestAnimationFrame(() => {
      due = 0;
      draw();
    });
  }

  /** @param {number} at */
  function scrub(at) {
    const steps = looks(store);
    place.held = at >= steps[steps.length - 1] ? null : at;
    soon();
  }

  let ready = unpack(model.get("state")).then((found) => {
    store = found;
  });
  slider.oninput = () => scrub(looks(store)[Number(slider.value)]);
  model.on("msg:custom", (message, buffers) => {
    const state = model.get("state");
    Object.assign(state, message.state, message.head);
    ready = ready.then(async () => {
      if (message.state) store = await unpack(state);
      else await grow(store, message, buffers[0]);
      if (store.lost && !asked) model.send({ kind: "whole" });
      asked = store.lost > 0;
      soon();
    });
  });
  await ready;
  colors = palette(el);
  watch(el, () => {
    colors = palette(el);
    soon();
  });
  draw();
  lines.resume();
  resumeFocus(place, parts);
}

/** @param {Store} store @param {any} message @param {DataView | undefined} wire */
async function grow(store, { parts, words }, wire) {
  Object.assign(store.words, words);
  if (wire && parts) await take(store, parts, new Uint8Array(wire.buffer, wire.byteOffset, wire.byteLength));
}

/** The steps at which the slider stops. @param {Store} store */
function looks({ layers, shapes, run }) {
  return layers.steps.length ? layers.steps : shapes.steps.length ? shapes.steps : run.steps;
}

/** @param {number[]} steps @param {number} want */
function closestTo(steps, want) {
  return steps.reduce((best, one, i) => (Math.abs(one - want) < Math.abs(steps[best] - want) ? i : best), 0);
}

export default { render };
