// @ts-check
/** @import { Model, Props } from "./kit.js" */
import { follow, h, heading, keep, num, press, root, stop } from "./kit.js";
import { code } from "./code.js";

/** @typedef {{severity: string, code: string, name: string, message: string, cause: string, fix: string, place: string, where: any, evidence: Record<string, any>, under: number | null}} Card */

/** @type {Record<string, [string, string]>} */
const SIGNS = { error: ["✕", "errors"], warning: ["▲", "warnings"], note: ["●", "notes"] };

/** What a reader may be about to click is made once and stays. @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, false), counts = h("div.counts", { role: "group", ariaLabel: "Filter by severity" });
  const bar = h("progress", { ariaLabel: "checks done" }), said = h("span", { role: "status" });
  const progress = h("div.progress", {}, bar, said, model.get("live") && stop(model));
  const news = h("div"), cards = h("div.cards"), rest = h("div");
  /** @type {Set<string>} */
  const hidden = new Set();
  let drawn = "";
  node.append(counts);
  root(el, node, progress, news, cards, rest);

  function list() {
    const { findings, not_checked, more } = model.get("state"), key = JSON.stringify([findings, not_checked, [...hidden]]);
    if (drawn === (drawn = key)) return;
    filters(counts, findings, hidden, list);
    cards.replaceChildren(...tree(findings, hidden));
    rest.replaceChildren(...left(not_checked, more));
  }

  follow(model, () => {
    const state = model.get("state"), now = state.progress;
    title.textContent = state.title;
    status.textContent = state.subtitle;
    progress.hidden = !now;
    if (now) Object.assign(bar, { max: now.total || 1, value: now.done });
    if (now) said.textContent = `${now.done} of ${now.total} · ${now.name}${pace(now.seconds_left)}`;
    news.replaceChildren(...good(state));
    list();
  });
}

/** Counts by severity; a click shows or hides. @param {HTMLElement} node @param {Card[]} findings @param {Set<string>} hidden @param {() => void} list */
function filters(node, findings, hidden, list) {
  const held = /** @type {HTMLElement | null} */ (document.activeElement)?.title;
  node.replaceChildren(...Object.entries(SIGNS).flatMap(([severity, [sign, words]]) => {
    const n = findings.filter((one) => one.severity === severity).length;
    return n ? [press(`count.${severity}`, `${sign} ${n} ${n > 1 ? words : severity}`, () => {
      if (!hidden.delete(severity)) hidden.add(severity);
      list();
    }, { ariaPressed: !hidden.has(severity), title: `Show or hide ${words}` })] : [];
  }));
  for (const one of node.children) if (one instanceof HTMLElement && one.title === held) one.focus();
}

/** @param {number | null} seconds */
function pace(seconds) {
  return seconds == null ? "" : ` · about ${num(Math.ceil(seconds))} s left`;
}

/** The good news, or that the checkup was cut short. @param {any} state */
function good(state) {
  if (state.progress) return [];
  if (state.stopped) return [h("div.banner.warning", {}, `Stopped after ${state.checked} checks; what was found is kept.`)];
  if (state.findings.length || !state.checked) return [];
  const checks = state.checked === 1 ? "1 check" : `${state.checked} checks`;
  return [h("div.banner.good", {}, h("span.sign", { ariaHidden: "true" }, "✓"), h("b", {}, `Nothing found by ${checks}.`))];
}

/** Cards, consequences under their causes; what hides a cause brings its consequences to the top. @param {Card[]} cards @param {Set<string>} hidden */
function tree(cards, hidden) {
  const seen = (/** @type {Card} */ card) => !hidden.has(card.severity);
  /** @param {number | null} index @returns {number | null} */
  const above = (index) => (index === null || seen(cards[index]) ? index : above(cards[index].under));
  /** @param {number | null} index @returns {HTMLElement[]} */
  const under = (index) => cards.flatMap((card, i) => (seen(card) && above(card.under) === index ? [draw(card, under(i))] : []));
  return under(null);
}

/** @param {Card} card @param {HTMLElement[]} consequences */
function draw(card, consequences) {
  const [sign] = SIGNS[card.severity] ?? ["●"], rows = Object.entries(card.evidence);
  return h(`article.card.${card.severity}`, { ariaLabel: `${card.severity} ${card.code} ${card.name}` },
    h("div.tag", {}, h("span.pill", {}, `${sign} ${card.severity}`), h("b", {}, card.code), h("span.soft", {}, card.name)),
    h("div.message", {}, card.message),
    where(card),
    card.cause && h("div", {}, h("span.label", {}, "Cause"), card.cause),
    card.fix && code("Fix", card.fix),
    rows.length > 0 && fold(`Evidence (${rows.length})`, table(rows.map(([name, value]) => [name, text(value)]))),
    consequences.length > 0 && fold(`Explains ${consequences.length} more`, ...consequences));
}

/** The place and the user's own line with its neighbors. @param {Card} card */
function where({ where: at, place }) {
  const module = /^\d+$/.test(at.module ?? "") ? `module ${at.module}` : at.module;
  const model = [at.parameter ?? module, at.sample != null && `sample ${at.sample}`, at.step != null && `step ${at.step}`].filter(Boolean);
  /** @type {[number | null, string][]} */
  const lines = at.context?.length ? framed(at.context) : at.source ? [[at.line, at.source]] : [];
  return (place || model.length > 0 || lines.length > 0) && h("div.where", {},
    h("div.place", { title: at.file ?? "" }, h("b", {}, place), place && model.length > 0 && " · ", model.join(" · ")),
    lines.length > 0 && h("pre.code", {}, ...lines.map(([number, line]) =>
      h(number === at.line ? "div.hit" : "div", {}, h("span.number", {}, number == null ? "" : String(number)), line.trimEnd()))));
}

/** Lines without those at either end that are blank. @param {[number | null, string][]} lines */
function framed(lines) {
  const full = lines.map(([, line]) => line.trim() !== "");
  return lines.slice(full.indexOf(true), full.lastIndexOf(true) + 1);
}

/** What was left out. @param {any[]} skipped @param {number} more */
function left(skipped, more) {
  return [
    more > 0 && h("div.note", {}, `and ${more} more, of lower rank`),
    skipped.length > 0 && fold(`Not checked (${skipped.length})`, table(skipped.map((one) => [`${one.code} ${one.name}`, one.why]))),
  ].filter((node) => node !== false);
}

/** @param {string} title @param {...Node} kids */
function fold(title, ...kids) {
  return h("details.fold", {}, h("summary", {}, title), ...kids);
}

/** @param {string[][]} rows */
function table(rows) {
  return h("table.table", {}, h("tbody", {}, ...rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))));
}

/** A value of the evidence in one line. @param {any} value @returns {string} */
function text(value) {
  if (typeof value === "number") return num(value);
  if (Array.isArray(value)) return value.map(text).join(", ");
  if (value && typeof value === "object") return Object.entries(value).map(([name, one]) => `${name}: ${text(one)}`).join(", ");
  return value === null ? "not finite" : String(value);
}

export default { initialize: keep(() => {}), render };
