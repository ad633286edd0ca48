// @ts-check
/** Live page of a watched run. */
/** @import { Model, Props } from "../views/kit.js" */
/** @import { Row } from "./layer_rows.js" */
/** @import { Store } from "./store.js" */
import { palette } from "../views/axes.js";
import { filterRows, formatNumber, h, heading, makeButton, mountView, redrawOnResize, renderTabs, stopButton } from "../views/kit.js";
import { closestStepIndex, stepSlider } from "../views/step_slider.js";
import { drawPictures, visibleBins } from "./layer_cells.js";
import { layerDetail } from "./layer_detail.js";
import { columnHeads, layerList } from "./layer_list.js";
import { buildRows, describeRow, FAMILIES, rankRows } from "./layer_rows.js";
import { runCurves } from "./run_curves.js";
import { addParts, emptyStore, layersViewState, rememberFocus, restoreFocus, unpack } from "./store.js";

/** @param {Props} props */
async function render({ model, el }) {
  const { node, title, status } = heading(model, false),
    controls = model.get("state").controls && model.get("live") ? runControls(model) : null,
    viewState = layersViewState(model.get("state").run);
  let store = emptyStore(),
    step = 0,
    frameRequest = 0,
    /** @type {any[]} */ before = [],
    resyncRequested = false;
  /** @type {Row[]} */
  let rows = [],
    /** @type {Row[]} */ worst = [],
    /** @type {Row | null} */ opened = null;
  /** @type {[number, number][]} */
  let windows = [],
    colors = palette(el);

  const find = /** @type {HTMLInputElement} */ (
    h("input.find", { type: "search", placeholder: "Filter layers", ariaLabel: "Filter layers", value: viewState.find })
  );
  find.oninput = () => {
    viewState.find = find.value;
    updateList();
  };
  const orders = h("div.tabs", { role: "group", ariaLabel: "order" }),
    count = h("span.note", { role: "status" });
  const folds = makeButton("folds", "Fold all", () => {
    const open = rows.some((row) => row.kids && !row.folded);
    for (const row of rows) if (row.kids) setFolded(row, open);
    updateList();
  });
  const slider = stepSlider((index) => goToStep(recordedSteps(store)[index])),
    tools = h("div.tools", {}, find, orders, folds, count);
  const columns = columnHeads();
  const curves = runCurves((at) => goToStep(at), model.get("state").names ?? {}, viewState);
  const panel = layerDetail(() => {
    opened = null;
    lines.close();
    panel.show(store, null, step);
    lines.grid.focus();
  }, viewState);
  const lines = layerList(columns.node, viewState, {
    describe: (row) => describeRow(store, row, step),
    paint: (g, row, width, height) => drawPictures(g, store, row, step, width, height, colors, windows),
    open: (row) => {
      opened = row;
      panel.show(store, row, step);
      if (row) bringIntoSight(panel.node, lines.frame);
    },
    fold: (row, on) => {
      setFolded(row, on);
      updateList();
    },
  });
  mountView(
    el,
    node,
    curves.node,
    slider.node,
    tools,
    lines.frame,
    panel.node,
  );
  const parts = { find, list: lines.grid, slider: slider.input };
  if (controls) node.append(controls.node);
  rememberFocus(el, viewState, parts);

  /** @param {Row} row @param {boolean} on */
  function setFolded(row, on) {
    row.folded = on;
    if (on) viewState.folded.add(row.path);
    else viewState.folded.delete(row.path);
  }

  function updateList() {
    const { tree } = viewState,
      visibleRows = filterRows(tree ? rows : worst, find.value, tree);
    tools.hidden = worst.length < 2;
    count.textContent = [visibleRows.length < rows.length && find.value && `${visibleRows.length} of`, worst.length, "layers"]
      .filter(Boolean)
      .join(" ");
    folds.hidden = !tree || find.value !== "" || !rows.some((row) => row.kids);
    folds.textContent = rows.some((row) => row.kids && !row.folded) ? "Fold all" : "Unfold all";
    renderTabs(orders, { worst: "Worst first", tree: "By module" }, tree ? "tree" : "worst", (name) => {
      viewState.tree = name === "tree";
      updateList();
    });
    lines.set(visibleRows, tree);
  }

  /** Update order and texts only if the layers or the findings changed, or the run doubled in length. */
  function refreshRows() {
    const { words, layers } = store,
      now = [words.layers, words.findings, words.drawn, Math.ceil(Math.log2(layers.have + 1))];
    if (now.every((part, i) => part === before[i])) return;
    before = now;
    rows = buildRows(store, viewState.folded);
    worst = rankRows(store, rows);
    opened = rows.find((row) => row.path === viewState.opened) ?? null;
    updateList();
  }

  function draw() {
    const state = model.get("state"),
      steps = recordedSteps(store),
      last = steps.length - 1,
      at = viewState.selectedStep === null ? last : closestStepIndex(steps, viewState.selectedStep);
    step = steps[at] ?? 0;
    title.textContent = [state.title, store.words.model].filter(Boolean).join(" of ");
    status.textContent = [state.status, store.lost && `${store.lost} rows lost in transmission`].filter(Boolean).join(" · ");
    windows = FAMILIES.map((family) => visibleBins(store.shapes.tops[family]));
    columns.show(windows);
    refreshRows();
    lines.draw();
    curves.show(store, step, viewState.selectedStep !== null);
    slider.node.hidden = steps.length < 2;
    slider.show(steps, at, `step ${step.toLocaleString("en-US")}${viewState.selectedStep === null && model.get("live") ? " · live" : ""}`, curves.axis());
    panel.show(store, opened, step);
    controls?.show();
  }

  /** Draw at most once per frame. */
  function scheduleDraw() {
    frameRequest ||= requestAnimationFrame(() => {
      frameRequest = 0;
      draw();
    });
  }

  /** @param {number} at */
  function goToStep(at) {
    const steps = recordedSteps(store);
    viewState.selectedStep = at >= steps[steps.length - 1] ? null : at;
    scheduleDraw();
  }

  let ready = unpack(model.get("state")).then((loaded) => {
    store = loaded;
  });
  model.on("msg:custom", (message, buffers) => {
    const state = model.get("state");
    Object.assign(state, message.state, message.head);
    ready = ready.then(async () => {
      if (message.state) store = await unpack(state);
      else await applyUpdate(store, message, buffers[0]);
      if (store.lost && !resyncRequested) model.send({ kind: "whole" });
      resyncRequested = store.lost > 0;
      scheduleDraw();
    });
  });
  await ready;
  colors = palette(el);
  redrawOnResize(el, () => {
    colors = palette(el);
    scheduleDraw();
  });
  draw();
  lines.resume();
  restoreFocus(viewState, parts);
}

/** @param {Store} store @param {any} message @param {DataView | undefined} wire */
async function applyUpdate(store, { parts, words }, wire) {
  Object.assign(store.words, words);
  if (wire && parts) await addParts(store, parts, new Uint8Array(wire.buffer, wire.byteOffset, wire.byteLength));
}

/** The steps at which the slider stops. @param {Store} store */
function recordedSteps({ layers, shapes, run }) {
  return layers.steps.length ? layers.steps : shapes.steps.length ? shapes.steps : run.steps;
}

/**
 * Scroll until the details of a layer are in sight, and as much as possible of the list above them.
 * @param {HTMLElement} panel @param {HTMLElement} list
 */
function bringIntoSight(panel, list) {
  requestAnimationFrame(() => {
    panel.scrollIntoView({ block: panel.clientHeight > innerHeight ? "start" : "nearest" });
    if (list.getBoundingClientRect().top > 0) return;
    list.lastElementChild?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });
}

export default { render };

const WAITING_TEXT = "Waiting for the cell…";

/**
 * Buttons that pause, change the learning rate and stop; each shows that it waits until the loop has reacted.
 * @param {Model} model
 */
export function runControls(model) {
  const rate = h("span.soft"),
    node = h("div.controls", { role: "group", ariaLabel: "the running cell" });
  let sent = model.get("state").heard.clicks,
    /** @type {HTMLElement | null} */ waiting = null;

  /** @param {HTMLElement} button @param {object} content */
  function ask(button, content) {
    if (waiting) return;
    waiting = button;
    sent++;
    model.send(content);
    show();
  }
  const pause = makeButton("pause", "", () => ask(pause, { kind: model.get("state").heard.paused ? "resume" : "pause" }));
  const rateButton = (/** @type {string} */ text, /** @type {number} */ factor) => {
    const button = makeButton("rate", text, () => ask(button, { kind: "rate", factor }), {
      title: `Learning rate ${text}`,
      ariaLabel: `learning rate ${text}`,
    });
    return button;
  };
  const half = rateButton("×½", 0.5),
    twice = rateButton("×2", 2);
  node.append(pause, h("span.pair", {}, rate, half, twice), stopButton(model));

  function show() {
    const { clicks, paused, factor } = model.get("state").heard;
    if (clicks >= sent) waiting = null;
    sent = Math.max(sent, clicks);
    pause.textContent = waiting === pause ? WAITING_TEXT : paused ? "▶ Resume" : "❚❚ Pause";
    rate.textContent = waiting === half || waiting === twice ? WAITING_TEXT : factor === 1 ? "rate" : `rate ×${formatNumber(factor)}`;
    for (const button of [pause, half, twice]) button.ariaDisabled = waiting ? "true" : null;
    node.title = waiting ? "The notebook's own interrupt button stops at once." : "";
  }
  show();
  return { node, show };
}
