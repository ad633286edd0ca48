// @ts-check
/** Guide: the steps of the checklist, and the open one with its answer. */
/** @import { Props } from "../views/kit.js" */
/** @import { Card } from "../views/finding_cards.js" */
import { cardTree, foldable } from "../views/finding_cards.js";
import { connectKernel } from "../views/kernel_requests.js";
import { codeBlock, h, heading, makeButton, mountView, redrawOnMessage, statusBanner } from "../views/kit.js";

/** @typedef {{title: string, summary: string, sections: [string, string][]}} RulePage */
/** @typedef {{name: string, question: string, why: string, duration: string, loop: string, code: string, status: string, sign: string, headline: string, meaning: string, text: string, findings: Card[], pages: RulePage[]}} GuideStep */

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), { node, title, status } = heading(model, false);
  const list = h("ol.steps", { ariaLabel: "Steps" }), panel = h("section.open-step", { ariaLabel: "Open step" });
  const note = h("div.status", { role: "status" }), exporting = makeButton("export", "Export to the journal", () => send({ kind: "export" }, "Exported to the journal."));
  let position = state.position, isAvailable = false, running = "", started = 0, trouble = "";
  mountView(el, node, h("div.walk", {}, list, panel));
  node.append(h("div.actions", {}, note, exporting));
  const steps = () => /** @type {GuideStep[]} */ (state.steps);

  const ask = connectKernel(model, (available) => {
    isAvailable = available;
    if (!available) running = "";
    else ask({ kind: "state" });
    draw();
  });

  /** @param {object} request @param {string} [done] */
  async function send(request, done = "") {
    const response = await ask(request);
    note.textContent = response?.trouble ?? (response ? done : "");
    return response;
  }

  /** @param {string} name */
  function open(name) {
    position = name;
    trouble = "";
    draw();
    if (!running) send({ kind: "open", step: name });
  }

  /** @param {GuideStep} step */
  async function run(step) {
    if (running) return;
    [running, started, trouble] = [step.name, Date.now(), ""];
    const clock = setInterval(draw, 1000);
    draw();
    const response = await ask({ kind: "run", step: step.name });
    clearInterval(clock);
    running = "";
    trouble = response?.trouble ?? "";
    draw();
  }

  /** @param {GuideStep} step */
  async function skip(step) {
    const response = await send({ kind: "skip", step: step.name });
    if (response?.state) position = response.state.position;
    draw();
  }

  /** The buttons of a step; without Python there are none. @param {GuideStep} step @param {number} at */
  function actions(step, at) {
    const isDone = step.text !== "", following = steps()[at + 1];
    const name = running === step.name ? `Running… ${Math.round((Date.now() - started) / 1000)} s` : step.loop ? "Read the run" : isDone ? "Repeat" : `Run ${step.code}`;
    const runButton = makeButton("run", name, () => run(step), running ? { ariaDisabled: "true" } : {});
    return h("div.actions", {}, isAvailable && runButton,
      isAvailable && !isDone && !running && makeButton("skip", step.status === "skipped" ? "Do not skip" : "Skip", () => skip(step)),
      following && makeButton("next", `Next: ${following.name} →`, () => open(following.name)),
      !isDone && h("span.note", {}, `takes ${step.duration}`));
  }

  function draw() {
    title.textContent = state.title;
    status.textContent = state.status;
    exporting.hidden = !isAvailable;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement?.closest?.("[data-action]"))?.dataset.action;
    list.replaceChildren(...steps().map((step) => h("li", {}, stepButton(step, step.name === position, () => open(step.name)))));
    const at = Math.max(0, steps().findIndex((step) => step.name === position)), step = steps()[at];
    const openFolds = new Set([...panel.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
    panel.replaceChildren(h("div.question", {}, step.question), h("div", {}, step.why), codeBlock("Code", step.code), actions(step, at), ...stepAnswer(step, trouble));
    for (const summary of panel.querySelectorAll("details > summary")) if (openFolds.has(summary.textContent)) summary.parentElement?.setAttribute("open", "");
    if (focused) /** @type {HTMLElement | null} */ (el.querySelector(`[data-action="${focused}"]`))?.focus({ preventScroll: true });
  }

  model.on("msg:custom", (message) => { if (message.state) Object.assign(state, message.state); });
  redrawOnMessage(model, draw);
}

/** @param {GuideStep} step @param {boolean} isOpen @param {() => void} onclick */
function stepButton(step, isOpen, onclick) {
  const properties = { "data-action": `open ${step.name}`, title: step.question, ...(isOpen && { "aria-current": "step" }) };
  return h(`button.step.${step.status}`, { type: "button", onclick, ariaLabel: `${step.name}: ${step.status}`, ...properties }, h("span", { ariaHidden: "true" }, step.sign), step.name);
}

/** The answer: what it says and means, its findings, the pages of their rules, and the whole text. @param {GuideStep} step @param {string} trouble */
function stepAnswer(step, trouble) {
  const [tone, sign] = step.text ? [step.status, step.sign] : ["note", "●"];
  return [
    ...(trouble ? [statusBanner("error", "✕", h("div", { style: "white-space:pre-line" }, trouble))] : []),
    ...(step.headline ? [statusBanner(tone, sign, h("div", {}, step.headline), h("div.meaning", {}, step.meaning))] : []),
    ...cardTree(step.findings, new Set()),
    ...step.pages.map((page) => foldable(`Rule ${page.title}`, rulePage(page))),
    ...(step.text ? [foldable("The whole answer", h("pre.code", { style: "white-space:pre-wrap" }, step.text))] : []),
  ];
}

/** @param {RulePage} page */
function rulePage({ summary, sections }) {
  return h("div.rule", {}, h("p", {}, summary), ...sections.flatMap(([name, text]) => [h("h4", {}, name), h("p", {}, unwrap(text))]));
}

/** Join the lines of each paragraph. @param {string} text */
function unwrap(text) {
  return text.trim().split(/\n\n+/).map((paragraph) => paragraph.replace(/\n(?![-*|] )/g, " ")).join("\n\n");
}

export default { initialize() {}, render };
