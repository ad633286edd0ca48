// @ts-check
/** Cards of findings, consequences under their causes, and lists that fold. */
import { codeBlock, formatNumber, h } from "./kit.js";

/** @typedef {{place: string, removed: string[], added: string[]}} LineChange */
/** @typedef {{place: string, role: string, file: string | null, line: number | null, source: string}} RelatedLine */
/** @typedef {{severity: string, code: string, name: string, message: string, cause: string, fix: string, is_code: boolean, try_line: string, changes: LineChange[], trial: string, place: string, where: any, related: RelatedLine[], evidence: Record<string, any>, under: number | null}} Card */

/** The sign and the plural of each severity. @type {Record<string, [string, string]>} */
export const SEVERITY_SIGNS = { error: ["✕", "errors"], warning: ["▲", "warnings"], note: ["●", "notes"] };

/**
 * Cards as a tree, consequences under their causes; if a cause is hidden, its consequences move up. `trial` returns the
 * node below the line that tries the fix of a card, by its index.
 * @param {Card[]} cards @param {Set<string>} hidden @param {(index: number) => HTMLElement | null} [trial]
 */
export function cardTree(cards, hidden, trial = () => null) {
  const isVisible = (/** @type {Card} */ card) => !hidden.has(card.severity);
  /** @param {number | null} index @returns {number | null} */
  const above = (index) => (index === null || isVisible(cards[index]) ? index : above(cards[index].under));
  /** @param {number | null} index @returns {HTMLElement[]} */
  const under = (index) => cards.flatMap((card, i) => (isVisible(card) && above(card.under) === index ? [findingCard(card, under(i), trial(i))] : []));
  return under(null);
}

/** @param {Card} card @param {HTMLElement[]} consequences @param {HTMLElement | null} trial */
function findingCard(card, consequences, trial) {
  const [sign] = SEVERITY_SIGNS[card.severity] ?? ["●"], rows = Object.entries(card.evidence);
  return h(`article.card.${card.severity}`, { ariaLabel: `${card.severity} ${card.code} ${card.name}` },
    h("div.tag", {}, h("span.pill", {}, `${sign} ${card.severity}`), h("b", {}, card.code), h("span.soft", {}, card.name)),
    h("div.message", {}, card.message),
    locationBlock(card),
    card.cause && h("div", {}, h("span.label", {}, "Cause"), card.cause),
    ...fixBlock(card),
    card.trial && h("div.soft.trial", {}, `Tried: ${card.trial}.`),
    card.try_line && codeBlock("Train with it", card.try_line),
    card.try_line && trial,
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

/** The location with the user's code around it, and the other lines that the finding is about. @param {Card} card */
function locationBlock({ where: at, place: location, related }) {
  const module = /^\d+$/.test(at.module ?? "") ? `module ${at.module}` : at.module;
  const model = [at.parameter ?? module, at.sample != null && `sample ${at.sample}`, at.step != null && `step ${at.step}`].filter(Boolean);
  /** @type {[number | null, string][]} */
  const lines = at.context?.length ? trimBlankLines(at.context) : at.source ? [[at.line, at.source]] : [];
  return (location || model.length > 0 || lines.length > 0 || related.length > 0) && h("div.where", {},
    h("div.place", { title: at.file ?? "" }, h("b", {}, location), location && model.length > 0 && " · ", model.join(" · ")),
    lines.length > 0 && h("pre.code", {}, ...lines.map(([number, line]) => codeLine(number === at.line ? "div.hit" : "div", number, line))),
    ...related.flatMap(relatedLine));
}

/** @param {string} element @param {number | null} number @param {string} source */
function codeLine(element, number, source) {
  return h(element, {}, h("span.number", {}, number == null ? "" : String(number)), source.trimEnd());
}

/** The place and the role of another line, and its source. @param {RelatedLine} other */
function relatedLine({ place, role, file, line, source }) {
  return [h("div.place", { title: file ?? "" }, h("b", {}, place), ` · ${role}`), source && h("pre.code", {}, codeLine("div", line, source))];
}

/** Remove blank lines at both ends. @param {[number | null, string][]} lines */
function trimBlankLines(lines) {
  const full = lines.map(([, line]) => line.trim() !== "");
  return lines.slice(full.indexOf(true), full.lastIndexOf(true) + 1);
}

/** Checks that were skipped, and findings that were left out. @param {any[]} skipped @param {number} more */
export function skippedChecks(skipped, more) {
  return [
    more > 0 && h("div.note", {}, `and ${more} more with lower severity or rank`),
    skipped.length > 0 && foldable(`Not checked (${skipped.length})`, nameValueTable(skipped.map((check) => [`${check.code} ${check.name}`, check.why]))),
  ].filter((node) => node !== false);
}

/** @param {string} title @param {...Node} kids */
export function foldable(title, ...kids) {
  return h("details.fold", {}, h("summary", {}, title), ...kids);
}

/** @param {string[][]} rows */
export function nameValueTable(rows) {
  return h("table.table", {}, h("tbody", {}, ...rows.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))));
}

/** A value of the evidence on one line. @param {any} value @returns {string} */
function formatValue(value) {
  if (typeof value === "number") return formatNumber(value);
  if (Array.isArray(value)) return value.map(formatValue).join(", ");
  if (value && typeof value === "object") return Object.entries(value).map(([name, item]) => `${name}: ${formatValue(item)}`).join(", ");
  return value === null ? "not finite" : String(value);
}
