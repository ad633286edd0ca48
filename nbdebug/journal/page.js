// @ts-check
/** Journal: the problem, hypotheses with their status, experiments with their conclusion, and forms that add to them. */
/** @import { Props } from "../views/kit.js" */
import { foldable } from "../views/finding_cards.js";
import { connectKernel } from "../views/kernel_requests.js";
import { h, heading, makeButton, mountView, redrawOnMessage } from "../views/kit.js";

/** @typedef {{name: string, claim: string, about: string, status: string}} Hypothesis */
/** @typedef {{name: string, changes: string[], about: string, after: string, conclusion: string, hypothesis: string}} Experiment */
/** @typedef {(texts: Record<string, string>) => Promise<boolean>} Send */

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), { node, title, status } = heading(model, false);
  const problem = h("div.problem"), note = h("div.note", { role: "status" });
  const hypotheses = h("ol.entries", { ariaLabel: "Hypotheses" }), experiments = h("ol.entries", { ariaLabel: "Experiments" });
  const others = h("ul.entries"), othersFold = foldable("", others), tested = h("select", { name: "hypothesis" });
  const forms = [
    entryForm("State the problem", send("problem"), textField("text", "Problem", { required: true })),
    entryForm("Add a hypothesis", send("hypothesis"), textField("claim", "Claim", { required: true }), numberField("prior", "Prior (0 to 1)"), textField("prediction", "Predicts")),
    entryForm("Add an experiment", send("experiment"), linesField("change", "The one change"), textField("before", "Before"), textField("after", "After"), labeled("Tests", tested), textField("conclusion", "Conclusion")),
    entryForm("Add a note", send("note"), textField("text", "Note", { required: true })),
  ];
  const [stateProblem, addHypothesis, addExperiment, addNote] = forms.map((form) => foldable(form.ariaLabel ?? "", form));
  const drawn = /** @type {Map<string, {key: string, node: HTMLElement}>} */ (new Map());
  let isAvailable = false;
  mountView(el, node, note, problem, stateProblem, sectionTitle("Hypotheses"), hypotheses, addHypothesis, sectionTitle("Experiments"), experiments, addExperiment, othersFold, addNote);

  const ask = connectKernel(model, (available) => {
    isAvailable = available;
    if (available) ask({ kind: "state" });
    draw();
  });

  /** A function that sends a form, and returns whether its entry was written. @param {string} kind @returns {Send} */
  function send(kind) {
    return async (texts) => {
      const response = await ask({ ...texts, kind });
      note.textContent = response ? response.trouble ?? "" : "Python is not available; nothing was written.";
      return Boolean(response && !response.trouble);
    };
  }

  /** The node of an entry; one that has not changed is kept, with what was typed into it. @param {string} name @param {any} content @param {() => HTMLElement} make */
  function entry(name, content, make) {
    const key = JSON.stringify([content, isAvailable, state.is_open]), before = drawn.get(name);
    if (before?.key === key) return before.node;
    const node = make();
    drawn.set(name, { key, node });
    return node;
  }

  function draw() {
    const focused = /** @type {HTMLElement | null} */ (el.contains(document.activeElement) ? document.activeElement : null), writes = isAvailable && state.is_open;
    title.textContent = state.title;
    status.textContent = state.status;
    problem.textContent = state.problem;
    for (const fold of [stateProblem, addHypothesis, addExperiment, addNote]) fold.hidden = !writes;
    hypotheses.replaceChildren(...state.hypotheses.map((/** @type {Hypothesis} */ item) => entry(item.name, item, () => hypothesisEntry(item, state.signs, writes && send("decide")))));
    experiments.replaceChildren(...state.experiments.map((/** @type {Experiment} */ item) => entry(item.name, item, () => experimentEntry(item, state.signs, writes && send("conclude")))));
    updateOptions(tested, ["", ...state.hypotheses.map((/** @type {Hypothesis} */ item) => item.name)]);
    othersFold.hidden = !state.others.length;
    /** @type {HTMLElement} */ (othersFold.querySelector("summary")).textContent = `Results and notes (${state.others.length})`;
    others.replaceChildren(...state.others.map((/** @type {{time: string, text: string}} */ item) => h("li", {}, h("span.soft", {}, `${item.time.slice(0, 16).replace("T", " ")} `), item.text)));
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  }

  model.on("msg:custom", (message) => { if (message.state) Object.assign(state, message.state); });
  redrawOnMessage(model, draw);
}

/** @param {string} text */
function sectionTitle(text) {
  return h("div.label", { role: "heading", ariaLevel: "4" }, text);
}

/** @param {Hypothesis} item @param {Record<string, string>} signs @param {false | Send} decide */
function hypothesisEntry(item, signs, decide) {
  const line = h("div", {}, h("b", {}, item.name), " ", h(`span.pill.status-${item.status}`, {}, `${signs[item.status]} ${item.status}`), " ", item.claim);
  const node = h("li", {}, line, h("div.note", {}, item.about));
  if (!decide) return node;
  const status = statusField(`Status of ${item.name}`, Object.keys(signs), item.status), reason = textField("reason", "Reason");
  const form = entryForm(`Decide ${item.name}`, (texts) => decide({ ...texts, name: item.name }), status, reason);
  const rest = [reason, /** @type {HTMLElement} */ (form.lastElementChild)];
  const select = /** @type {HTMLSelectElement} */ (status.querySelector("select"));
  select.onchange = () => rest.forEach((part) => { part.hidden = select.value === item.status; });
  rest.forEach((part) => { part.hidden = true; });
  node.append(form);
  return node;
}

/** @param {Experiment} item @param {Record<string, string>} signs @param {false | Send} conclude */
function experimentEntry(item, signs, conclude) {
  const flag = item.changes.length > 1 && h("div.banner.warning", {}, h("span.sign", { ariaHidden: "true" }, "!"), "Two things changed at once, so their effects cannot be told apart.");
  const node = h("li", {}, h("div", {}, h("b", {}, item.name), " ", item.changes.join("; ")), h("div.note", {}, item.about), flag, item.conclusion && h("div", {}, `Conclusion: ${item.conclusion}`));
  if (!conclude || item.conclusion) return node;
  const fields = [...(item.after ? [] : [textField("after", "After")]), textField("conclusion", "Conclusion", { required: true }), ...(item.hypothesis ? [statusField(`${item.hypothesis} is now`, ["", ...Object.keys(signs)], "")] : [])];
  node.append(entryForm(`Conclude ${item.name}`, (texts) => conclude({ ...texts, name: item.name }), ...fields));
  return node;
}

/** A form with one button; `send` receives the texts of its fields, and it is emptied if that succeeds. @param {string} name @param {Send} send @param {...HTMLElement} fields */
function entryForm(name, send, ...fields) {
  const form = /** @type {HTMLFormElement} */ (h("form.entry-form", { ariaLabel: name }, ...fields, makeButton("add", name, () => {}, { type: "submit" })));
  form.onsubmit = async (event) => {
    event.preventDefault();
    const texts = Object.fromEntries([...new FormData(form)].map(([field, text]) => [field, String(text)]));
    if (await send(texts)) form.reset();
  };
  form.onkeydown = (event) => { if (event.key !== "Escape") event.stopPropagation(); };
  return form;
}

/** @param {string} text @param {HTMLElement} control */
function labeled(text, control) {
  return h("label.field", {}, h("span.note", {}, text), control);
}

/** @param {string} name @param {string} label @param {Record<string, any>} [properties] */
function textField(name, label, properties = {}) {
  return labeled(label, h("input", { type: "text", name, ...properties }));
}

/** @param {string} name @param {string} label */
function numberField(name, label) {
  return labeled(label, h("input", { type: "number", name, min: "0", max: "1", step: "any" }));
}

/** @param {string} name @param {string} label */
function linesField(name, label) {
  return labeled(label, h("textarea", { name, rows: 1, required: true, title: "a second line is a second change, and is flagged" }));
}

/** @param {string} label @param {string[]} statuses @param {string} now */
function statusField(label, statuses, now) {
  return labeled(label, h("select", { name: "status" }, ...statuses.map((status) => h("option", { value: status, selected: status === now, defaultSelected: status === now }, status || "–"))));
}

/** @param {HTMLElement} select @param {string[]} names */
function updateOptions(select, names) {
  if (select.dataset.names === names.join()) return;
  const value = /** @type {HTMLSelectElement} */ (select).value;
  select.replaceChildren(...names.map((name) => h("option", { value: name }, name || "none")));
  select.dataset.names = names.join();
  if (names.includes(value)) /** @type {HTMLSelectElement} */ (select).value = value;
}

export default { initialize() {}, render };
