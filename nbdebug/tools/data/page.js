// @ts-check
/** The data under a model: tables and sample cards in tabs. */
/** @import { Props } from "../../views/kit.js" */
import { renderTable } from "../../views/foldable_table.js";
import { bulletList, codeBlock, h, heading, mountView, redrawOnMessage, renderTabs, statusBanner, trackState } from "../../views/kit.js";
import { sampleContent } from "../../views/sample_card.js";

/** @typedef {{caption: string, detail: string, shown: any}} DataCard */
/** @typedef {{kind: string, title: string, note: string, hidden: number, rows: {text: string, cards: DataCard[]}[]}} CardGroup */
/** @typedef {{name: string, title: string, sections: any[]}} DataPanel */

const TONE_SIGNS = { good: "✓", note: "●", warning: "▲" };

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  const banner = h("div"), tabs = h("div.tabs.d-tabs", { role: "group", ariaLabel: "panels" }), content = h("div.d-content"), notes = h("div");
  let open = "", drawn = "";

  /** @param {DataPanel[]} panels @param {string} name */
  function show(panels, name) {
    const panel = panels.find((item) => item.name === name) ?? panels[0];
    tabs.hidden = panels.length < 2;
    if (!panel) return;
    open = panel.name;
    renderTabs(tabs, Object.fromEntries(panels.map((item) => [item.name, item.title])), open, (other) => show(panels, other));
    const key = JSON.stringify(panel);
    if (key !== drawn) content.replaceChildren(...panel.sections.map(sectionNode));
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

/** @param {any} section */
function sectionNode(section) {
  if (section.kind === "table") {
    const node = h("div.d-table"), get = (/** @type {string} */ name) => (name === "state" ? section.state : undefined);
    renderTable({ model: { get, on() {}, send() {} }, el: node });
    return node;
  }
  return section.kind === "code" ? codeBlock(section.label, section.source) : groupNode(section);
}

/** Rows of samples that belong together. @param {CardGroup} group */
function groupNode({ title, note, rows, hidden }) {
  const more = hidden > 0 && h("div.note", {}, `… and ${hidden.toLocaleString("en-US")} more.`);
  const lines = rows.map((row) => h("div.d-row", { role: "group", ariaLabel: row.text }, row.text && h("div.d-text", {}, row.text), h("div.d-cards", {}, ...row.cards.map(cardNode))));
  return h("section.d-group", {}, h("div.d-heading", { role: "heading", ariaLevel: "4" }, title), note && h("div.note", {}, note), h("div.d-rows", {}, ...lines), more);
}

/** @param {DataCard} card */
function cardNode({ caption, detail, shown }) {
  return h("figure.d-card", {}, shown && sampleContent(shown, {}), h("figcaption", {}, h("span", {}, caption), detail && h("span.soft", {}, ` ${detail}`)));
}

export default { initialize: trackState(() => {}), render };
