// @ts-check
/** The data under a model: tables and sample cards in tabs. */
/** @import { Ask } from "../../views/kernel_requests.js" */
/** @import { Model, Props } from "../../views/kit.js" */
/** @import { LongRequest } from "../../views/long_request.js" */
import { drawEmbeddedPage } from "../../views/embedded_page.js";
import { renderTable } from "../../views/foldable_table.js";
import { connectKernel } from "../../views/kernel_requests.js";
import { bulletList, codeBlock, h, heading, makeButton, mountView, redrawOnMessage, renderTabs, statusBanner, trackState } from "../../views/kit.js";
import { histogramGroup } from "./histograms.js";
import { longRequest } from "../../views/long_request.js";
import { sampleContent } from "../../views/sample_card.js";

/** @typedef {{caption: string, detail: string, shown: any}} DataCard */
/** @typedef {{kind: string, title: string, note: string, hidden: number, number: number, samples: [string, number][], rows: {text: string, cards: DataCard[]}[]}} CardGroup */
/** The button that shows the samples of a group in the error browser. @typedef {(group: CardGroup) => HTMLElement | null} BrowseButton */
/** @typedef {{name: string, title: string, sections: any[]}} DataPanel */

const TONE_SIGNS = { good: "✓", note: "●", warning: "▲" };
/** @type {Record<string, string>} */
const SPLIT_TITLES = { train: "training", val: "validation" };

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  const banner = h("div"), tabs = h("div.tabs.d-tabs", { role: "group", ariaLabel: "panels" }), content = h("div.d-content"), notes = h("div"), browse = browseButtons(model);
  let open = "", drawn = "";

  /** @param {DataPanel[]} panels @param {string} name */
  function show(panels, name) {
    const panel = panels.find((item) => item.name === name) ?? panels[0];
    tabs.hidden = panels.length < 2;
    if (!panel) return;
    open = panel.name;
    renderTabs(tabs, Object.fromEntries(panels.map((item) => [item.name, item.title])), open, (other) => show(panels, other));
    const key = JSON.stringify(panel);
    if (key !== drawn) content.replaceChildren(...panel.sections.map((section) => sectionNode(section, browse)));
    drawn = key;
  }

  mountView(el, node, banner, tabs, content, notes);
  redrawOnMessage(model, () => {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    const sign = TONE_SIGNS[/** @type {"good"} */ (state.tone)];
    banner.replaceChildren(...(state.headline ? [statusBanner(state.tone, sign, state.headline, bulletList(state.reasons))] : []));
    show(state.panels, open);
    notes.replaceChildren(...state.notes.map((/** @type {string} */ text) => h("div.note", {}, text)));
  });
}

/** @param {any} section @param {BrowseButton} browse */
function sectionNode(section, browse) {
  if (section.kind === "table") {
    const node = h("div.d-table"), get = (/** @type {string} */ name) => (name === "state" ? section.state : undefined);
    renderTable({ model: { get, on() {}, send() {} }, el: node });
    return node;
  }
  if (section.kind === "histograms") return histogramGroup(section);
  return section.kind === "code" ? codeBlock(section.label, section.source) : groupNode(section, browse(section));
}

/** Rows of samples that belong together. @param {CardGroup} group @param {HTMLElement | null} browse */
function groupNode({ title, note, rows, hidden }, browse) {
  const more = hidden > 0 && h("div.note", {}, `… and ${hidden.toLocaleString("en-US")} more.`);
  const lines = rows.map((row) => h("div.d-row", { role: "group", ariaLabel: row.text }, row.text && h("div.d-text", {}, row.text), h("div.d-cards", {}, ...row.cards.map(cardNode))));
  return h("section.d-group", {}, h("div.d-heading", { role: "heading", ariaLevel: "4" }, title), note && h("div.note", {}, note), browse, h("div.d-rows", {}, ...lines), more);
}

/** @param {DataCard} card */
function cardNode({ caption, detail, shown }) {
  return h("figure.d-card", {}, shown && sampleContent(shown, {}), h("figcaption", {}, h("span", {}, caption), detail && h("span.soft", {}, ` ${detail}`)));
}

/**
 * The buttons that show the samples of a group in the error browser, below them; hidden unless Python is available.
 * @param {Model} model @returns {BrowseButton}
 */
function browseButtons(model) {
  /** @type {Map<number, LongRequest>} */
  const requests = new Map();
  /** @type {((kind: string) => void)[]} */
  const listeners = [];
  let isAvailable = false;
  const ask = connectKernel(model, (available) => {
    isAvailable = available;
    for (const request of requests.values()) request.available(available);
    for (const listener of listeners) listener(available ? "opened" : "closed");
  });

  /** @param {CardGroup} group @param {string[]} splits */
  function create({ number, samples }, splits) {
    /** @type {Record<string, () => object>} */
    const contents = {};
    let chosen = "";
    for (const [split, count] of samples.filter(([name]) => splits.includes(name)))
      contents[`Show ${count.toLocaleString("en-US")} of ${SPLIT_TITLES[split]} in the error browser`] = () => ({ kind: "browse", group: number, split: (chosen = split) });
    return longRequest(() => ask, "Predicting the split…", contents, async (answer) => {
      const page = await drawEmbeddedPage(answer.page, browserModel(answer.page.state, chosen, ask, () => isAvailable, listeners)), frame = h("div.d-browser", {}, page);
      page.before(h("div.tools", {}, makeButton("close", "✕ Close the error browser", () => frame.remove())));
      return frame;
    });
  }

  return (group) => {
    const splits = model.get("state").browsable ?? [];
    if (!group.samples?.some(([split]) => splits.includes(split))) return null;
    const request = requests.get(group.number) ?? create(group, splits);
    request.available(isAvailable);
    requests.set(group.number, request);
    return request.node;
  };
}

/**
 * The model of an error browser inside this page, whose requests this page passes on.
 * @param {any} state @param {string} split @param {Ask} ask @param {() => boolean} isAvailable @param {((kind: string) => void)[]} connections listeners of the connection to Python
 * @returns {Model}
 */
function browserModel(state, split, ask, isAvailable, connections) {
  /** @type {((message: any, buffers: DataView[]) => void)[]} */
  const listeners = [];
  /** @type {Map<number, object>} */
  const requests = new Map();
  const emit = (/** @type {object} */ message) => { for (const listener of listeners) listener(message, []); };

  /** @param {any} request */
  async function send({ ask: id, stops, ...content }) {
    await null; // the page that asks is not drawn yet
    if (stops !== undefined) return ask.stop(requests.get(stops) ?? {});
    if (content.kind === "hello") return isAvailable() && emit({ kind: "hello" });
    const request = { kind: "browser", split, content };
    requests.set(id, request);
    const answer = await ask(request, (progress) => emit({ ...progress, kind: "progress", ask: id }));
    requests.delete(id);
    if (answer) emit({ ...answer, kind: content.kind, ask: id });
  }

  connections.push((kind) => emit({ kind }));
  return { get: (name) => (name === "state" ? state : undefined), on: (_, listener) => { listeners.push(listener); }, send };
}

export default { initialize: trackState(() => {}), render };
