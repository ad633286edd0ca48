// @ts-check
/** @import { Card } from "./query.js" */
import { h } from "../kit.js";
import { kindShown, kindValue } from "./kinds.js";

/** Right or wrong, and what was said of a sample: a sign beside the color. @param {Card} card */
export function cardSaid(card) {
  const { target, prediction, ...rest } = card.said, sign = card.right === null ? "" : card.right ? "✓" : "✕";
  const words = target === undefined ? [] : [h("span", {}, target), h("span.soft", {}, " → "), h("span", {}, prediction)];
  for (const name in rest) words.push(h("span.soft", {}, `${words.length ? ", " : ""}${name} `), h("span", {}, rest[name]));
  const title = Object.entries(card.said).map(([name, text]) => `${name} ${text}`).join(", ");
  return h("div.e-said", { title }, sign && h(card.right ? "b.right" : "b.wrong", { ariaLabel: card.right ? "right" : "wrong" }, sign), h("span.e-words", {}, ...words));
}

/** What the user wrote on a sample. @param {Card} card */
export function cardMarks(card) {
  return h("div.e-marks", {}, ...card.tags.map((tag) => h("span.e-tag", {}, tag)), card.note && h("span.e-noted", { title: card.note }, `✎ ${card.note}`));
}

/** One sample in the gallery. @param {Card} card @param {string} by the column that it is sorted by */
export function cardNode(card, by) {
  const box = h("span.e-check", { ariaHidden: "true" }), value = by && by in card.values ? h("div.e-value.soft", {}, `${by} ${kindValue(card.values[by])}`) : null;
  const said = Object.entries(card.said).map(([name, text]) => `${name} ${text}`).join(", "), judged = card.right === null ? "" : card.right ? "right, " : "wrong, ";
  return h("div.e-card", { role: "option", tabIndex: -1, ariaSelected: "false", "aria-label": `sample ${card.key}, ${judged}${said}` }, kindShown(card.shown, Object.fromEntries(Object.entries(card.values).filter(([name]) => name !== by))), box, cardSaid(card), value, cardMarks(card));
}
