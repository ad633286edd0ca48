// @ts-check
/** @import { ExplainLook } from "./look.js" */
/** Text whose tokens are colored by their attributions, and the strongest of them as bars. */
import { brief, h } from "../kit.js";
import { explainBars } from "./bars.js";
import { explainOf, explainUnit } from "./numbers.js";

const TOKENS_LISTED = 8, TOKENS_FULL = 62;

/** @param {any} shown @param {any} found @param {ExplainLook} look @param {boolean} alone */
export function explainTokens(shown, found, look, alone) {
  const tokens = /** @type {[string, number | null][]} */ (shown.tokens), top = Math.max(1e-12, ...tokens.map(([, weight]) => Math.abs(weight ?? 0)));
  const rest = `${tokens.length} tokens; full color at ±${brief(top)} ${explainOf(found)}. Point at one, or walk with the arrow keys.`, note = h("div.note.x-reading", { ariaLive: "polite" }, rest);
  const spans = tokens.map(([token, weight], i) => tokensSpan(token, weight, top, i)), text = h("div.x-text", { role: "group", ariaLabel: "text with attributions" }, ...spans);
  const say = (/** @type {number} */ i) => { note.textContent = i < 0 ? rest : `token ${i}, “${tokens[i][0]}”: ${tokens[i][1] === null ? "no attribution" : explainUnit(tokens[i][1], found)}`; };
  const at = (/** @type {Event} */ event) => spans.indexOf(/** @type {any} */ (event.target));
  text.onpointerover = text.onfocus = (event) => say(at(event));
  text.addEventListener("focusin", (event) => say(at(event)));
  text.onpointerleave = () => say(-1);
  text.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], next = spans[at(event) + (by ?? 0)];
    if (!by || !next) return;
    event.preventDefault();
    event.stopPropagation();
    spans.forEach((span) => { span.tabIndex = -1; });
    next.tabIndex = 0;
    next.focus();
  };
  return [text, note, explainBars(tokensBars(tokens), found, look, alone, TOKENS_LISTED)];
}

/** @param {string} token @param {number | null} weight @param {number} top @param {number} i */
function tokensSpan(token, weight, top, i) {
  const part = Math.round((TOKENS_FULL * Math.abs(weight ?? 0)) / top), kind = (weight ?? 0) < 0 ? "down" : "up";
  return h(`span.x-token.x-${kind}`, { style: `--nb-part: ${part}%`, tabIndex: i ? -1 : 0 }, token);
}

/** Tokens as bars, the strongest first. @param {[string, number | null][]} tokens */
function tokensBars(tokens) {
  const known = tokens.flatMap(([token, weight], i) => (weight === null ? [] : [{ token, weight, i }]));
  known.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  return { bars: known.map(({ token, weight, i }) => [`${token.trim() || "␣"} · ${i}`, "", weight, null]), more: 0, rest: 0 };
}
