// @ts-check
/** Playground: controls, charts and the observation. Without Python the controls do not move. */
/** @import { Props } from "../views/kit.js" */
import { connectKernel } from "../views/kernel_requests.js";
import { arrowStep, h, heading, makeButton, mountView, redrawOnMessage, statusBanner } from "../views/kit.js";
import { lineChart } from "../views/line_chart.js";

/** @typedef {{name: string, label: string, texts: string[], position: number, is_list: boolean}} Control */

/** @type {Record<string, string>} */
const TONE_SIGNS = { good: "✓", note: "●", warning: "▲", error: "✕" };

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), { node, title, status } = heading(model, false);
  const note = h("div.note", { role: "status" }), guesses = h("div.guesses", { role: "group", ariaLabel: "Causes" }), banner = h("div");
  const titles = state.charts.map(() => h("h4")), hosts = titles.map((/** @type {HTMLElement} */ name) => h("div", {}, name));
  const controls = /** @type {Control[]} */ (state.controls).map((control) => controlNode(control, (position) => move(control.name, position)));
  mountView(el, node, h("div.controls", {}, ...controls.map((control) => control.node)), note, banner, guesses, h("div.charts", {}, ...hosts));
  const pictures = hosts.map((/** @type {HTMLElement} */ host) => lineChart(host));
  /** The moves that wait for the answer to an earlier one. @type {Record<string, number> | null} */
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

  /** Ask for a picture; of the moves meanwhile, only the last of each control is sent. @param {string} name @param {number} position */
  async function move(name, position) {
    waiting = { ...waiting, [name]: position };
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

/** A slider, or a list of words. @param {Control} control @param {(position: number) => void} onMove */
function controlNode({ label, texts, is_list: isList }, onMove) {
  const value = h("b");
  const input = /** @type {HTMLInputElement | HTMLSelectElement} */ (isList
    ? h("select", {}, ...texts.map((text, i) => h("option", { value: i }, text)))
    : h("input", { type: "range", min: 0, max: texts.length - 1, step: 1 }));
  input.oninput = () => {
    value.textContent = texts[Number(input.value)];
    onMove(Number(input.value));
  };
  // JupyterLab takes the arrow keys of elements that are no text, so that they would not move the slider.
  input.onkeydown = (/** @type {Event} */ event) => {
    const arrow = arrowStep(/** @type {KeyboardEvent} */ (event));
    if (!arrow) return;
    const [down, right] = arrow, position = Number(input.value) + right + (isList ? down : -down);
    if (position < 0 || position >= texts.length) return;
    input.value = String(position);
    input.dispatchEvent(new Event("input"));
  };
  return {
    node: h("label.control", {}, h("span", {}, label, !isList && value), input),
    /** @param {Control} control @param {boolean} isAvailable @param {boolean} isBusy */
    show({ position }, isAvailable, isBusy) {
      input.disabled = !isAvailable;
      if (isBusy) return;
      input.value = String(position);
      value.textContent = input.ariaValueText = texts[position];
    },
  };
}

export default { initialize() {}, render };
