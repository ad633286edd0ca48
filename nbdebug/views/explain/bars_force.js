// @ts-check
/** @import { ExplainBar } from "./bars.js" */
/** One stacked bar: what raises the score pushes from the left, what lowers it from the right, and they meet at it. */
import { brief, h } from "../kit.js";
import { explainSigned } from "./numbers.js";

/** @param {ExplainBar[]} bars @param {number} rest @param {number} count @param {any} found */
export function barsForce(bars, rest, count, found) {
  const all = /** @type {[string, string, number][]} */ ([...bars.map(([name, value, weight]) => [name, value, weight]), ...(count > 0 ? [[`${count} more`, "", rest]] : [])]);
  const up = all.filter(([, , weight]) => weight > 0).sort((a, b) => a[2] - b[2]), down = all.filter(([, , weight]) => weight < 0).sort((a, b) => a[2] - b[2]);
  const sum = (/** @type {[string, string, number][]} */ some) => some.reduce((total, [, , weight]) => total + Math.abs(weight), 0), meet = found.base + sum(up) - sum(down);
  const low = Math.min(meet - sum(up), found.base), wide = Math.max(meet + sum(down), found.base) - low || 1, place = (/** @type {number} */ v) => (v - low) / wide;
  let left = meet - sum(up), right = meet;
  const raised = up.map((one) => { const from = left; left += one[2]; return forcePart(one, place(from), one[2] / wide, "up"); });
  const lowered = down.map((one) => { const from = right; right -= one[2]; return forcePart(one, place(from), -one[2] / wide, "down"); });
  const mark = (/** @type {string} */ name, /** @type {number} */ v, /** @type {string} */ kind) => h(`span.x-mark.x-${kind}`, { style: `--nb-from: ${place(v)}` }, h("span", {}, `${name} ${brief(v, 4)}`));
  return h("div.x-force", { role: "group", ariaLabel: `what raises and what lowers the ${found.space}` },
    h("div.x-marks", {}, mark(found.space, meet, place(meet) > 0.5 ? "end" : "start")),
    h("div.x-stack", {}, ...raised, ...lowered, h("i.x-at", { style: `--nb-from: ${place(meet)}` })),
    h("div.x-marks", {}, mark("base", found.base, place(found.base) > 0.5 ? "end" : "start")),
    forceList("raise it", up), forceList("lower it", down));
}

/** @param {[string, string, number]} one @param {number} from @param {number} wide @param {string} kind */
function forcePart([name, value, weight], from, wide, kind) {
  return h(`span.x-part.x-${kind}`, { style: `--nb-from: ${from}; --nb-wide: ${wide}`, title: `${forceWords(name, value)}: ${explainSigned(weight)}` }, wide > 0.06 && name);
}

/** A feature with its value. @param {string} name @param {string} value */
function forceWords(name, value) {
  return value === "" ? name : `${name} = ${value}`;
}

/** @param {string} words @param {[string, string, number][]} some */
function forceList(words, some) {
  const strongest = [...some].sort((a, b) => Math.abs(b[2]) - Math.abs(a[2])).slice(0, 6);
  if (!strongest.length) return null;
  const parts = strongest.map(([name, value, weight]) => `${forceWords(name, value)} (${explainSigned(weight)})`);
  return h("div.note", {}, h("b", {}, `${words}: `), parts.join(", "), some.length > 6 && `, ${some.length - 6} more`);
}
