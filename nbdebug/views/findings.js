// @ts-check
/** @import { Model, Props } from "./kit.js" */
import { codeBlock, formatNumber, h, heading, makeButton, mountView, redrawOnMessage, stopButton, trackState } from "./kit.js";

/** @typedef {{place: string, removed: string[], added: string[]}} LineChange */
/** @typedef {{severity: string, code: string, name: string, message: string, cause: string, fix: string, is_code: boolean, changes: LineChange[], trial: string, place: string, where: any, evidence: Record<string, any>, under: number | null}} Card */

/** @type {Record<string, [string, string]>} */
const SIGNS = { error: ["✕", "errors"], warning: ["▲", "warnings"], note: ["●", "notes"] };

/** Elements that the user may be about to click are created once and kept. @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, false), counts = h("div.counts", { role: "group", ariaLabel: "Filter by severity" });
  const bar = h("progress", { ariaLabel: "checks done" }), progressText = h("span", { role: "status" });
  const progress = h("div.progress", {}, bar, progressText, model.get("live") && stopButton(model));
  const banner = h("div"), cards = h("div.cards"), rest = h("div");
  /** @type {Set<string>} */
  const hidden = new Set();
  let drawnKey = "";
  node.append(counts);
  mountView(el, node, progress, banner, cards, rest);

  function updateCards() {
    const { findings, not_checked, more, times } = model.get("state"), key = JSON.stringify([findings, not_checked, times, [...hidden]]);
    if (drawnKey === (drawnKey = key)) return;
    updateFilters(counts, findings, hidden, updateCards);
    cards.replaceChildren(...cardTree(findings, hidden));
    rest.replaceChildren(...skippedChecks(not_checked, more), ...timesOfParts(times));
  }

  redrawOnMessage(model, () => {
    const state = model.get("state"), now = state.progress;
    title.textContent = state.title;
    status.textContent = state.subtitle;
    progress.hidden = !now;
    if (now) Object.assign(bar, { max: now.total || 1, value: now.done });
    if (now) progressText.textContent = `${now.done} of ${now.total} · ${now.name}${remainingTime(now.seconds_left)}`;
    banner.replaceChildren(...resultBanner(state));
    updateCards();
  });
}

/** Counts by severity; a click shows or hides that severity. @param {HTMLElement} node @param {Card[]} findings @param {Set<string>} hidden @param {() => void} update */
function updateFilters(node, findings, hidden, update) {
  const focusedTitle = /** @type {HTMLElement | null} */ (document.activeElement)?.title;
  node.replaceChildren(...Object.entries(SIGNS).flatMap(([severity, [sign, words]]) => {
    const n = findings.filter((finding) => finding.severity === severity).length;
    return n ? [makeButton(`count.${severity}`, `${sign} ${n} ${n > 1 ? words : severity}`, () => {
      if (!hidden.delete(severity)) hidden.add(severity);
      update();
    }, { ariaPressed: !hidden.has(severity), title: `Show or hide ${words}` })] : [];
  }));
  for (const button of node.children) if (button instanceof HTMLElement && button.title === focusedTitle) button.focus();
}

/** @param {number | null} seconds */
function remainingTime(seconds) {
  return seconds == null ? "" : ` · about ${formatNumber(Math.ceil(seconds))} s left`;
}

/** The message that nothing was found, or that the checkup was stopped. @param {any} state */
function resultBanner(state) {
  if (state.progress) return [];
  if (state.stopped) return [h("div.banner.warning", {}, `Stopped after ${state.checked} checks. The findings so far are listed.`)];
  if (state.findings.length || !state.checked) return [];
  const checks = state.checked === 1 ? "1 check" : `${state.checked} checks`;
  return [h("div.banner.good", {}, h("span.sign", { ariaHidden: "true" }, "✓"), h("b", {}, `Nothing found by ${checks}.`))];
}

/** Cards as a tree, consequences under their causes; if a cause is hidden, its consequences move up. @param {Card[]} cards @param {Set<string>} hidden */
function cardTree(cards, hidden) {
  const isVisible = (/** @type {Card} */ card) => !hidden.has(card.severity);
  /** @param {number | null} index @returns {number | null} */
  const above = (index) => (index === null || isVisible(cards[index]) ? index : above(cards[index].under));
  /** @param {number | null} index @returns {HTMLElement[]} */
  const under = (index) => cards.flatMap((card, i) => (isVisible(card) && above(card.under) === index ? [findingCard(card, under(i))] : []));
  return under(null);
}

/** @param {Card} card @param {HTMLElement[]} consequences */
function findingCard(card, consequences) {
  const [sign] = SIGNS[card.severity] ?? ["●"], rows = Object.entries(card.evidence);
  return h(`article.card.${card.severity}`, { ariaLabel: `${card.severity} ${card.code} ${card.name}` },
    h("div.tag", {}, h("span.pill", {}, `${sign} ${card.severity}`), h("b", {}, card.code), h("span.soft", {}, card.name)),
    h("div.message", {}, card.message),
    locationBlock(card),
    card.cause && h("div", {}, h("span.label", {}, "Cause"), card.cause),
    ...fixBlock(card),
    card.trial && h("div.soft.trial", {}, `Tried: ${card.trial}.`),
    rows.length > 0 && foldable(`Evidence (${rows.length})`, nameValueTable(rows.map(([name, value]) => [name, formatValue(value)]))),
    consequences.length > 0 && foldable(`Explains ${consequences.length} more`, ...consequences));
}

/** The fix as changed lines, as code, or as a sentence in which code stands between backticks. @param {Card} card */
function fixBlock({ fix, is_code: isCode, changes }) {
  if (changes.length) return changes.map((change) => diffBlock(change));
  if (!fix) return [];
  if (isCode) return [codeBlock("Fix", fix)];
  return [h("div", {}, h("span.label", {}, "Fix"), ...fix.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part)))];
}

/** The lines before and after a change; the button copies the new ones. @param {LineChange} change */
function diffBlock({ place, removed, added }) {
  const lines = [...removed.map((line) => h("div.removed", {}, `- ${line}`)), ...added.map((line) => h("div.added", {}, `+ ${line}`))];
  return codeBlock("Fix", added.join("\n"), h("span.place", {}, place), h("pre.code.diff", {}, ...lines));
}

/** The location, and the user's code around it. @param {Card} card */
function locationBlock({ where: at, place: location }) {
  const module = /^\d+$/.test(at.module ?? "") ? `module ${at.module}` : at.module;
  const model = [at.parameter ?? module, at.sample != null && `sample ${at.sample}`, at.step != null && `step ${at.step}`].filter(Boolean);
  /** @type {[number | null, string][]} */
  const lines = at.context?.length ? trimBlankLines(at.context) : at.source ? [[at.line, at.source]] : [];
  return (location || model.length > 0 || lines.length > 0) && h("div.where", {},
    h("div.place", { title: at.file ?? "" }, h("b", {}, location), location && model.length > 0 && " · ", model.join(" · ")),
    lines.length > 0 && h("pre.code", {}, ...lines.map(([number, line]) =>
      h(number === at.line ? "div.hit" : "div", {}, h("span.number", {}, number == null ? "" : String(number)), line.trimEnd()))));
}

/** Remove blank lines at both ends. @param {[number | null, string][]} lines */
function trimBlankLines(lines) {
  const full = lines.map(([, line]) => line.trim() !== "");
  return lines.slice(full.indexOf(true), full.lastIndexOf(true) + 1);
}

/** Checks that were skipped, and findings that were left out. @param {any[]} skipped @param {number} more */
function skippedChecks(skipped, more) {
  return [
    more > 0 && h("div.note", {}, `and ${more} more with lower severity or rank`),
    skipped.length > 0 && foldable(`Not checked (${skipped.length})`, nameValueTable(skipped.map((check) => [`${check.code} ${check.name}`, check.why]))),
  ].filter((node) => node !== false);
}

/** The slowest parts of the checkup, and the total. @param {[string, string][] | undefined} times */
function timesOfParts(times) {
  return times?.length ? [foldable("Time of each part", nameValueTable(times))] : [];
}

/** @param {string} title @param {...Node} kids */
function foldable(title, ...kids) {
  return h("details.fold", {}, h("summary", {}, title), ...kids);
}

/** @param {string[][]} rows */
function nameValueTable(rows) {
  return h("table.table", {}, h("tbody", {}, ...rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))));
}

/** A value of the evidence on one line. @param {any} value @returns {string} */
function formatValue(value) {
  if (typeof value === "number") return formatNumber(value);
  if (Array.isArray(value)) return value.map(formatValue).join(", ");
  if (value && typeof value === "object") return Object.entries(value).map(([name, item]) => `${name}: ${formatValue(item)}`).join(", ");
  return value === null ? "not finite" : String(value);
}

export default { initialize: trackState(() => {}), render };
