// @ts-check
/** Playground: controls, charts and the observation. Without Python the controls do not move. */
/** @import { Props } from "../views/kit.js" */
import { connectKernel } from "../views/kernel_requests.js";
import { arrowStep, h, heading, makeButton, mountView, redrawOnMessage, statusBanner } from "../views/kit.js";
import { lineChart } from "../views/line_chart.js";

/** @typedef {{name: string, label: string, texts: string[], positions: number[], kind: "slider" | "list" | "drawing"}} Control */
/** @typedef {HTMLInputElement | HTMLSelectElement} Input */

/** @type {Record<string, string>} */
const TONE_SIGNS = { good: "✓", note: "●", warning: "▲", error: "✕" };

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), { node, title, status } = heading(model, false);
  const note = h("div.note", { role: "status" }), guesses = h("div.guesses", { role: "group", ariaLabel: "Causes" }), banner = h("div");
  const titles = state.charts.map(() => h("h4")), hosts = titles.map((/** @type {HTMLElement} */ name) => h("div", {}, name));
  const controls = /** @type {Control[]} */ (state.controls).map((control) => controlNode(control, (positions) => move(control.name, positions)));
  mountView(el, node, h("div.controls", {}, ...controls.map((control) => control.node)), note, banner, guesses, h("div.charts", {}, ...hosts));
  const pictures = hosts.map((/** @type {HTMLElement} */ host) => lineChart(host));
  /** The moves that wait for the answer to an earlier one. @type {Record<string, number[]> | null} */
  let waiting = null;
  let isBusy = false, isAvailable = false;

  const hint = `The controls need Python: run nbdebug.play("${state.name}") in a cell.`;
  note.textContent = hint;
  const ask = connectKernel(model, (available) => {
    isAvailable = available;
    note.textContent = available ? "" : hint;
    if (available) ask({ kind: "state" });
    draw();
  });

  /** Ask for a picture; of the moves meanwhile, only the last of each control is sent. @param {string} name @param {number[]} at */
  async function move(name, at) {
    waiting = { ...waiting, [name]: at };
    if (isBusy) return;
    isBusy = true;
    while (waiting) {
      const positions = waiting;
      waiting = null;
      note.textContent = "Computing…";
      const response = await ask({ kind: "set", positions });
      note.textContent = response?.trouble ?? "";
    }
    isBusy = false;
    draw();
  }

  function draw() {
    title.textContent = state.title;
    status.textContent = state.question;
    state.controls.forEach((/** @type {Control} */ control, /** @type {number} */ i) => controls[i].show(control, isAvailable, isBusy));
    guesses.hidden = !isAvailable;
    guesses.replaceChildren(...state.guesses.map((/** @type {string} */ cause) => makeButton("toggle", cause, () => ask({ kind: "guess", cause }), { ariaPressed: String(cause === state.guess) })));
    banner.replaceChildren(statusBanner(state.tone, TONE_SIGNS[state.tone], h("div", {}, state.headline), h("div", {}, state.explanation)));
    state.charts.forEach((/** @type {any} */ chart, /** @type {number} */ i) => {
      titles[i].textContent = chart.title;
      pictures[i](chart);
    });
  }

  model.on("msg:custom", (message) => { if (message.state) Object.assign(state, message.state); });
  redrawOnMessage(model, draw);
}

/** A slider, a list of words, or a row of sliders. @param {Control} control @param {(positions: number[]) => void} onMove */
function controlNode({ label, texts, positions, kind }, onMove) {
  const value = h("b"), inputs = positions.map((_, i) => sliderOrList(texts, kind, kind === "drawing" && `${label}: point ${i + 1} of ${positions.length}`));
  const showTexts = () => {
    for (const input of inputs) input.ariaValueText = texts[Number(input.value)];
    if (kind === "slider") value.textContent = texts[Number(inputs[0].value)];
  };
  for (const input of inputs) input.oninput = () => {
    showTexts();
    onMove(inputs.map((each) => Number(each.value)));
  };
  const name = h("span", {}, label, value);
  return {
    node: kind === "drawing" ? h("div.control.drawing", { role: "group", ariaLabel: label }, name, drawingBoard(inputs)) : h("label.control", {}, name, ...inputs),
    /** @param {Control} control @param {boolean} isAvailable @param {boolean} isBusy */
    show(control, isAvailable, isBusy) {
      inputs.forEach((input, i) => {
        input.disabled = !isAvailable;
        if (!isBusy) input.value = String(control.positions[i]);
      });
      showTexts();
    },
  };
}

/** @param {string[]} texts @param {Control["kind"]} kind @param {string | false} label */
function sliderOrList(texts, kind, label) {
  const isList = kind === "list";
  const input = /** @type {Input} */ (isList
    ? h("select", {}, ...texts.map((text, i) => h("option", { value: i }, text)))
    : h("input", { type: "range", min: 0, max: texts.length - 1, step: 1, ...(label && { ariaLabel: label }) }));
  // JupyterLab takes the arrow keys of elements that are no text, so that they would not move the slider.
  input.onkeydown = (/** @type {Event} */ event) => {
    const arrow = arrowStep(/** @type {KeyboardEvent} */ (event));
    if (arrow) moveInput(input, Number(input.value) + arrow[1] + (isList ? arrow[0] : -arrow[0]), texts.length);
  };
  return input;
}

/** @param {Input} input @param {number} position @param {number} count */
function moveInput(input, position, count) {
  if (position < 0 || position >= count || position === Number(input.value)) return;
  input.value = String(position);
  input.dispatchEvent(new Event("input"));
}

/** Vertical sliders side by side, across which a pointer draws. @param {Input[]} inputs */
function drawingBoard(inputs) {
  const board = h("div.board", {}, ...inputs), last = Number(inputs[0].getAttribute("max"));
  const draw = (/** @type {PointerEvent} */ event) => {
    const box = board.getBoundingClientRect(), i = Math.floor(((event.clientX - box.left) / box.width) * inputs.length);
    const input = inputs[Math.max(0, Math.min(inputs.length - 1, i))], height = (box.bottom - event.clientY) / box.height;
    if (!input.disabled) moveInput(input, Math.max(0, Math.min(last, Math.round(height * last))), last + 1);
    return input;
  };
  board.onpointerdown = (event) => {
    event.preventDefault();
    board.setPointerCapture(event.pointerId);
    draw(event).focus({ preventScroll: true });
  };
  board.onpointermove = (event) => { if (board.hasPointerCapture(event.pointerId)) draw(event); };
  return board;
}

export default { initialize() {}, render };
