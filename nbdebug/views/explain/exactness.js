// @ts-check
/** How exact an attribution is, in one line that is always there, and the line of Python that gives it. */
import { brief, h } from "../kit.js";
import { code } from "../code.js";
import { explainNamed, explainShare, explainSigned } from "./numbers.js";

/** @param {any} found */
export function explainExactness(found) {
  const { kind, sign, words } = exactnessVerdict(found), { notes } = found;
  const facts = [exactnessSum(found), found.error !== null && `each off by about ${explainShare(found.error)} of the whole`, exactnessAgainst(found), `in ${brief(found.seconds, 2)} s`];
  return h("div.x-exact", {},
    h(`div.x-verdict.${kind}`, {}, h("span.sign", { ariaHidden: "true" }, sign), h("span", {}, h("b", {}, `${words}: `), facts.filter(Boolean).join("; "), ".")),
    notes.length > 0 && h("details.fold", { open: !found.converged }, h("summary", {}, `Notes (${notes.length})`), h("ul", {}, ...notes.map((/** @type {string} */ one) => h("li", {}, one)))),
    h("details.fold", {}, h("summary", {}, "Python"), code("in Python", `${found.code}.attribution`)));
}

/** @param {any} found */
function exactnessVerdict({ completeness, converged }) {
  if (!converged) return { kind: "warning", sign: "▲", words: "Not converged, take the numbers as rough" };
  if (completeness === null) return { kind: "note", sign: "○", words: "These numbers add up to nothing in particular" };
  return { kind: "good", sign: "✓", words: "Adds up" };
}

/** @param {any} found */
function exactnessSum(found) {
  const { completeness, base, sum, score } = found, of = explainNamed(found);
  if (completeness === null || base === null) return `the ${of} is ${brief(score, 4)}`;
  return `base ${brief(base, 4)} and attributions of ${explainSigned(sum, 4)} make ${brief(base + sum, 4)}; the ${of} is ${brief(score, 4)}, so ${explainShare(completeness)} is missed`;
}

/** @param {any} found */
function exactnessAgainst({ against, lines }) {
  return against && `compared with ${lines > 1 ? lines + " " : ""}${against}`;
}
