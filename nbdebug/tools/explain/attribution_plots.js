// @ts-check
/** Plots of an attribution: bars, waterfall, force plot, time series, tokens and class probabilities. */
/** @import { DisplayOptions } from "./display.js" */
/** @import { ExplainChoice } from "./store.js" */
import { palette, parseRgb, prepareCanvas } from "../../views/axes.js";
import { arrowStep, bulletList, codeBlock, formatPercent, formatRounded, h, makeButton, redrawOnResize, renderTabs } from "../../views/kit.js";
import { attributionLegend, displayOptions, formatSigned, formatSmallPercent, formatWithUnit, scoreName, unitName } from "./display.js";
import { heatMap } from "./heat_map.js";

/**
 * Plot all inputs of an attribution. `attribution` has `inputs`, and may have `space` (the unit), `base` and `score`
 * (for a waterfall), `shares`, `targetName`, and `up` and `down`, the labels of positive and negative values.
 * @param {any} attribution @param {DisplayOptions} [display]
 */
export function attributionView(attribution, display = displayOptions()) {
  const isSingle = attribution.inputs.length === 1;
  const parts = attribution.inputs.map((/** @type {any} */ input) => h("section.x-input", {}, input.name && h("div.label", { role: "heading", ariaLevel: "5" }, input.name), ...attributionPart(input, attribution, display, isSingle)));
  return h("div.x-inputs", {}, attribution.shares?.length > 1 && inputShares(attribution), ...parts);
}

/** @param {any} input @param {any} attribution @param {DisplayOptions} display @param {boolean} alone @returns {HTMLElement[]} */
function attributionPart(input, attribution, display, alone) {
  if (input.heat) return [heatMap(input, attribution, display)];
  if (input.tokens) return tokenText(input, attribution, display, alone);
  if (input.weights) return [timeSeries(input, attribution)];
  return [barPlot(input, attribution, display, alone)];
}

/** @typedef {[name: string, value: string, weight: number, error: number | null]} ExplainBar */

const BARS_SHOWN = 12, BAR_STYLES = { waterfall: "waterfall", force: "force", plain: "bars" };

/** @param {any} input @param {any} attribution @param {DisplayOptions} display @param {boolean} alone @param {number} [first] */
export function barPlot(input, attribution, display, alone, first = BARS_SHOWN) {
  const adds = alone && typeof attribution.base === "number" && typeof attribution.score === "number", styleTabs = h("div.tabs", { role: "group", ariaLabel: "plot type" });
  const more = makeButton("x-more", "", () => { all = !all; draw(); }), content = h("div"), node = h("div.x-bars", {}, adds && styleTabs, content, more);
  let all = false;

  function draw() {
    const kind = adds ? display.bars : "plain", visible = all ? input.bars : input.bars.slice(0, first), left = input.bars.slice(visible.length);
    const rest = left.reduce((/** @type {number} */ sum, /** @type {ExplainBar} */ bar) => sum + bar[2], input.rest ?? 0), count = left.length + (input.more ?? 0);
    if (adds) renderTabs(styleTabs, BAR_STYLES, kind, (bars) => display.change({ bars }));
    content.replaceChildren(kind === "force" ? forcePlot(visible, rest, count, attribution) : waterfallPlot(visible, rest, count, attribution, kind === "waterfall"));
    more.hidden = input.bars.length <= first;
    more.textContent = all ? `show the strongest ${first}` : `show all ${input.bars.length}${input.more ? " strongest" : ""}`;
  }

  display.subscribe(node, draw);
  draw();
  return node;
}

/** @param {ExplainBar[]} bars @param {number} rest @param {number} count @param {any} attribution */
export function forcePlot(bars, rest, count, attribution) {
  const all = /** @type {[string, string, number][]} */ ([...bars.map(([name, value, weight]) => [name, value, weight]), ...(count > 0 ? [[`${count} more`, "", rest]] : [])]);
  const up = all.filter(([, , weight]) => weight > 0).sort((a, b) => a[2] - b[2]), down = all.filter(([, , weight]) => weight < 0).sort((a, b) => a[2] - b[2]);
  const sum = (/** @type {[string, string, number][]} */ parts) => parts.reduce((total, [, , weight]) => total + Math.abs(weight), 0), total = attribution.base + sum(up) - sum(down);
  const low = Math.min(total - sum(up), attribution.base), wide = Math.max(total + sum(down), attribution.base) - low || 1, position = (/** @type {number} */ v) => (v - low) / wide;
  let left = total - sum(up), right = total;
  const raised = up.map((part) => { const from = left; left += part[2]; return forcePart(part, position(from), part[2] / wide, "up"); });
  const lowered = down.map((part) => { const from = right; right -= part[2]; return forcePart(part, position(from), -part[2] / wide, "down"); });
  const mark = (/** @type {string} */ name, /** @type {number} */ v, /** @type {string} */ kind) => h(`span.x-mark.x-${kind}`, { style: `--nb-from: ${position(v)}` }, h("span", {}, `${name} ${formatRounded(v, 4)}`));
  return h("div.x-force", { role: "group", ariaLabel: `features that raise or lower the ${attribution.space}` },
    h("div.x-marks", {}, mark(attribution.space, total, position(total) > 0.5 ? "end" : "start")),
    h("div.x-stack", {}, ...raised, ...lowered, h("i.x-at", { style: `--nb-from: ${position(total)}` })),
    h("div.x-marks", {}, mark("base", attribution.base, position(attribution.base) > 0.5 ? "end" : "start")),
    forceList("raise it", up), forceList("lower it", down));
}

/** @param {[string, string, number]} part @param {number} from @param {number} wide @param {string} kind */
function forcePart([name, value, weight], from, wide, kind) {
  return h(`span.x-part.x-${kind}`, { style: `--nb-from: ${from}; --nb-wide: ${wide}`, title: `${featureText(name, value)}: ${formatSigned(weight)}` }, wide > 0.06 && name);
}

/** A feature with its value. @param {string} name @param {string} value */
function featureText(name, value) {
  return value === "" ? name : `${name} = ${value}`;
}

/** @param {string} words @param {[string, string, number][]} features */
function forceList(words, features) {
  const strongest = [...features].sort((a, b) => Math.abs(b[2]) - Math.abs(a[2])).slice(0, 6);
  if (!strongest.length) return null;
  const parts = strongest.map(([name, value, weight]) => `${featureText(name, value)} (${formatSigned(weight)})`);
  return h("div.note", {}, h("b", {}, `${words}: `), parts.join(", "), features.length > 6 && `, ${features.length - 6} more`);
}

const MIN_UNEXPLAINED_SHARE = 0.01; // relative to the longest bar; a smaller residual is not visible

/** @param {ExplainBar[]} bars @param {number} rest @param {number} count @param {any} attribution @param {boolean} steps */
export function waterfallPlot(bars, rest, count, attribution, steps) {
  /** @type {{name: string, value: string, from: number, to: number, error: number | null, kind: string}[]} */
  const rows = [];
  let at = steps ? attribution.base : 0;
  const push = (/** @type {string} */ name, /** @type {string} */ value, /** @type {number} */ weight, /** @type {number | null} */ error, kind = "") => {
    rows.push({ name, value, from: at, to: at + weight, error, kind });
    if (steps) at += weight;
  };
  for (const [name, value, weight, error] of bars) push(name, value, weight, error);
  if (count > 0) push(`${count} more`, "", rest, null, "rest");
  const missed = steps ? attribution.score - at : 0;
  const longest = Math.max(...rows.map((row) => Math.abs(row.to - row.from)), Math.abs(attribution.score - attribution.base));
  if (Math.abs(missed) > MIN_UNEXPLAINED_SHARE * longest) push("not explained", "", missed, null, "missed");
  const ends = [...rows.flatMap(({ from, to, error }) => [from, to - (error ?? 0), to + (error ?? 0)]), ...(steps ? [attribution.base, attribution.score] : [0])];
  const low = Math.min(...ends), wide = Math.max(...ends) - low || 1, position = (/** @type {number} */ v) => (v - low) / wide;
  const end = (/** @type {string} */ name, /** @type {number} */ v, /** @type {string} */ kind) => h(`div.x-row.x-${kind}`, { role: "listitem" }, h("span.x-name", {}, name), h("span.x-track", { ariaHidden: "true" }, h("i.x-at", { style: `--nb-from: ${position(v)}` })), h("span.x-number", {}, formatRounded(v, 4)));
  const rowElements = rows.map((row) => waterfallRow(row, position));
  const label = `attributions in ${unitName(attribution) || "numbers"}`;
  if (!steps) return h("div.x-rows.x-plain", { role: "list", ariaLabel: label, style: `--nb-zero: ${position(0)}` }, ...rowElements);
  return h("div.x-rows.x-steps", { role: "list", ariaLabel: label }, end("base (mean score)", attribution.base, "base"), ...rowElements, end(scoreName(attribution), attribution.score, "score"));
}

/** @param {{name: string, value: string, from: number, to: number, error: number | null, kind: string}} row @param {(v: number) => number} position */
function waterfallRow({ name, value, from, to, error, kind }, position) {
  const up = to >= from, [a, b] = [position(Math.min(from, to)), position(Math.max(from, to))], valueText = formatSigned(to - from) + (error ? ` ± ${formatRounded(error, 2)}` : "");
  const bar = h(`i.x-fill.x-${kind || (up ? "up" : "down")}`, { style: `--nb-from: ${a}; --nb-wide: ${b - a}` });
  const whisker = error ? h("i.x-whisker", { style: `--nb-from: ${position(to - error)}; --nb-wide: ${position(to + error) - position(to - error)}` }) : null;
  const step = h("i.x-step", { style: `--nb-from: ${position(to)}` });
  return h("div.x-row", { role: "listitem", title: error ? `standard error ${formatRounded(error, 2)}` : "" }, h("span.x-name", {}, name, value !== "" && h("span.soft", {}, ` = ${value}`)), h("span.x-track", { ariaHidden: "true" }, step, bar, whisker), h("span.x-number", {}, valueText));
}

const SERIES_SHOWN = 6;

/** @param {any} input @param {any} attribution */
export function timeSeries(input, attribution) {
  const { lines, names, weights, length } = input, isSingle = weights.length === 1, high = isSingle ? 170 : 64;
  const strongest = weights.map((/** @type {number[]} */ line, /** @type {number} */ i) => [i, line.reduce((sum, v) => sum + Math.abs(v), 0)]).sort((/** @type {number[]} */ a, /** @type {number[]} */ b) => b[1] - a[1]).map((/** @type {number[]} */ [i]) => i);
  const linesBox = h("div.x-lines"), note = h("div.note.x-reading", { ariaLive: "polite" }), more = makeButton("x-more", "", () => { all = !all; fill(); });
  let all = false;
  const rest = `${formatRounded(length)} time steps${isSingle ? "" : ", " + weights.length + " channels"}; point at a segment to read it.`;
  const nonneg = weights.every((/** @type {number[]} */ line) => line.every((v) => v >= 0));

  function fill() {
    const visible = all ? strongest : strongest.slice(0, SERIES_SHOWN);
    linesBox.replaceChildren(...[...visible].sort((a, b) => a - b).map((i) => seriesLine(lines[i] ?? [], weights[i], names?.[i] ?? "", { ...input, high, attribution }, (text) => { note.textContent = text || rest; })));
    more.hidden = weights.length <= SERIES_SHOWN;
    more.textContent = all ? `show the strongest ${SERIES_SHOWN}` : `show all ${weights.length} channels`;
  }

  note.textContent = rest;
  fill();
  return h("div.x-series", {}, linesBox, attributionLegend(input.top, nonneg, attribution), note, more);
}

/** @param {(number | null)[]} line @param {number[]} weights @param {string} name @param {any} options @param {(text: string) => void} onReading */
function seriesLine(line, weights, name, { top, length, high, attribution }, onReading) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", tabIndex: 0, ariaLabel: `${name || "series"} with attributions; arrow keys read them` })), node = h("div.x-line", {}, name && h("div.note", {}, name), canvas);
  const values = /** @type {number[]} */ (line.filter((v) => v !== null)), low = Math.min(...values), span = Math.max(...values) - low || 1;
  let now = -1;

  function draw() {
    const wide = node.clientWidth;
    if (!wide) return;
    const g = prepareCanvas(canvas, wide, high), { ink, lines: tones, paper } = palette(node), step = wide / weights.length;
    g.fillStyle = paper;
    g.fillRect(0, 0, wide, high);
    weights.forEach((v, i) => {
      g.fillStyle = `rgb(${parseRgb(tones[v < 0 ? 0 : 1]).join(" ")} / ${(0.8 * Math.min(1, Math.abs(v) / top)).toFixed(3)})`;
      g.fillRect(Math.round(i * step), 0, Math.round((i + 1) * step) - Math.round(i * step), high);
    });
    g.strokeStyle = ink;
    g.lineWidth = 1.6;
    g.lineJoin = "round";
    g.beginPath();
    line.forEach((v, i) => { if (v !== null) g[i && line[i - 1] !== null ? "lineTo" : "moveTo"]((i * wide) / Math.max(1, line.length - 1), 4 + (high - 8) * (1 - (v - low) / span)); });
    g.stroke();
    if (now >= 0) g.strokeRect(now * step + 0.5, 0.5, Math.max(2, step - 1), high - 1);
  }

  /** @param {number} i */
  function show(i) {
    if (i === now) return;
    now = i;
    const from = Math.round((i * length) / weights.length), to = Math.round(((i + 1) * length) / weights.length) - 1;
    onReading(i < 0 ? "" : `${name ? name + ", " : ""}time ${from}${to > from ? " to " + to : ""}: ${formatWithUnit(weights[i], attribution)}`);
    draw();
  }

  canvas.onpointermove = (event) => show(Math.max(0, Math.min(weights.length - 1, Math.floor((event.offsetX / canvas.clientWidth) * weights.length))));
  canvas.onpointerleave = canvas.onblur = () => show(-1);
  canvas.onkeydown = (event) => {
    const step = arrowStep(event, true);
    if (step) show(Math.max(0, Math.min(weights.length - 1, now + step[1])));
  };
  redrawOnResize(node, draw);
  return node;
}

const TOKEN_BARS_SHOWN = 8, MAX_TOKEN_COLOR = 62;

/** @param {any} input @param {any} attribution @param {DisplayOptions} display @param {boolean} alone */
export function tokenText(input, attribution, display, alone) {
  const tokens = /** @type {[string, number | null][]} */ (input.tokens), top = Math.max(1e-12, ...tokens.map(([, weight]) => Math.abs(weight ?? 0)));
  const rest = `${tokens.length} tokens; full color at ±${formatRounded(top)} ${unitName(attribution)}. Point at a token, or use the arrow keys.`, note = h("div.note.x-reading", { ariaLive: "polite" }, rest);
  const spans = tokens.map(([token, weight], i) => tokenSpan(token, weight, top, i)), text = h("div.x-text", { role: "group", ariaLabel: "text with attributions" }, ...spans);
  const showReading = (/** @type {number} */ i) => { note.textContent = i < 0 ? rest : `token ${i}, “${tokens[i][0]}”: ${tokens[i][1] === null ? "no attribution" : formatWithUnit(tokens[i][1], attribution)}`; };
  const at = (/** @type {Event} */ event) => spans.indexOf(/** @type {any} */ (event.target));
  text.onpointerover = text.onfocus = (event) => showReading(at(event));
  text.addEventListener("focusin", (event) => showReading(at(event)));
  text.onpointerleave = () => showReading(-1);
  text.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key], next = spans[at(event) + (by ?? 0)];
    if (!by || !next) return;
    event.preventDefault();
    event.stopPropagation();
    spans.forEach((span) => { span.tabIndex = -1; });
    next.tabIndex = 0;
    next.focus();
  };
  return [text, note, barPlot(strongestTokens(tokens), attribution, display, alone, TOKEN_BARS_SHOWN)];
}

/** @param {string} token @param {number | null} weight @param {number} top @param {number} i */
function tokenSpan(token, weight, top, i) {
  const part = Math.round((MAX_TOKEN_COLOR * Math.abs(weight ?? 0)) / top), kind = (weight ?? 0) < 0 ? "down" : "up";
  return h(`span.x-token.x-${kind}`, { style: `--nb-part: ${part}%`, tabIndex: i ? -1 : 0 }, token);
}

/** Tokens as bars, the strongest first. @param {[string, number | null][]} tokens */
function strongestTokens(tokens) {
  const weighted = tokens.flatMap(([token, weight], i) => (weight === null ? [] : [{ token, weight, i }]));
  weighted.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight));
  return { bars: weighted.map(({ token, weight, i }) => [`${token.trim() || "␣"} · ${i}`, "", weight, null]), more: 0, rest: 0 };
}

/** @param {any} attribution */
export function inputShares(attribution) {
  const line = (/** @type {[string, number, number]} */ [name, sum, share]) => h("div.x-share", { role: "listitem" }, h("span.x-name", {}, name), h("span.x-track", { ariaHidden: "true" }, h("i.x-fill", { style: `--nb-from: 0; --nb-wide: ${share}` })), h("span.x-number", {}, `${formatSmallPercent(share)}`), h("span.x-number", { title: "sum of its attributions" }, formatSigned(sum)));
  return h("div", { role: "list", ariaLabel: "share of each input" }, h("div.x-share.note", { ariaHidden: "true" }, h("span", {}, "input"), h("span", {}, "share of absolute attribution"), h("span", {}), h("span.x-number", {}, "sum")), ...attribution.shares.map(line));
}

/** @param {any} attribution */
export function exactnessLine(attribution) {
  const { kind, sign, words } = convergenceVerdict(attribution), { notes } = attribution;
  const facts = [sumText(attribution), attribution.error !== null && `standard error about ${formatSmallPercent(attribution.error)} of the total`, referenceText(attribution), `in ${formatRounded(attribution.seconds, 2)} s`];
  return h("div.x-exact", {},
    h(`div.x-verdict.${kind}`, {}, h("span.sign", { ariaHidden: "true" }, sign), h("span", {}, h("b", {}, `${words}: `), facts.filter(Boolean).join("; "), ".")),
    notes.length > 0 && h("details.fold", { open: !attribution.converged }, h("summary", {}, `Notes (${notes.length})`), bulletList(notes)),
    h("details.fold", {}, h("summary", {}, "Python"), codeBlock("in Python", `${attribution.code}.attribution`)));
}

/** @param {any} attribution */
function convergenceVerdict({ completeness, converged }) {
  if (!converged) return { kind: "warning", sign: "▲", words: "Not converged, values are approximate" };
  if (completeness === null) return { kind: "note", sign: "○", words: "This method gives a ranking; the values do not sum to the prediction" };
  return { kind: "good", sign: "✓", words: "Completeness" };
}

/** @param {any} attribution */
function sumText(attribution) {
  const { completeness, base, sum, score } = attribution, of = scoreName(attribution);
  if (completeness === null || base === null) return `the ${of} is ${formatRounded(score, 4)}`;
  return `base ${formatRounded(base, 4)} plus attributions ${formatSigned(sum, 4)} is ${formatRounded(base + sum, 4)}; the ${of} is ${formatRounded(score, 4)}, a gap of ${formatSmallPercent(completeness)}`;
}

/** @param {any} attribution */
function referenceText({ against, lines }) {
  return against && `compared with ${lines > 1 ? lines + " " : ""}${against}`;
}

const PROBABILITIES_SHOWN = 3, MIN_SHOWN_PROBABILITY = 0.01;

/** @param {any} sample @param {number | null} explained the class @param {(part: Partial<ExplainChoice>) => void} change */
export function classProbabilities(sample, explained, change) {
  if (sample.predicted === null) return valueReadout(sample);
  const rows = sample.outputs.map((/** @type {any} */ output, /** @type {number} */ i) => {
    const marks = outputMarks(output, sample, explained), row = probabilityRow(output, marks, output.class === explained, () => change({ target: output.class }));
    row.hidden = i >= PROBABILITIES_SHOWN && output.chance < MIN_SHOWN_PROBABILITY && marks.length === 0;
    return row;
  });
  const hidden = rows.filter((/** @type {HTMLElement} */ row) => row.hidden), more = makeButton("x-more", `${hidden.length} more`, () => {
    for (const row of hidden) row.hidden = false;
    hidden[0].focus();
    more.remove();
  });
  return h("div.x-chances", { role: "group", ariaLabel: `predicted classes of ${sample.name}; click a class to explain it` }, ...rows, hidden.length > 0 && more);
}

/** @param {any} output @param {any} sample @param {number | null} explained */
function outputMarks(output, sample, explained) {
  const words = { predicted: output.class === sample.predicted, true: output.class === sample.truth, explained: output.class === explained };
  return Object.entries(words).filter(([, is]) => is).map(([word]) => word);
}

/** @param {any} output @param {string[]} marks @param {boolean} on @param {() => void} click */
function probabilityRow({ name, chance, score, class: number }, marks, on, click) {
  const button = makeButton("x-chance", "", click, { ariaPressed: String(on), title: `output ${formatRounded(score, 4)}: explain ${name}`, "data-class": number });
  button.append(h("span.x-name", {}, name), h("span.x-track", { ariaHidden: "true" }, h("i.x-fill", { style: `--nb-from: 0; --nb-wide: ${chance ?? 0}` })), h("span.x-number", {}, chance === null ? formatRounded(score) : formatPercent(chance)), ...(marks.length ? [h("span.x-is", {}, ...marks.map((word) => h(`span.x-pill.x-${word}`, {}, word)))] : []));
  return button;
}

/** A single predicted number, and the true one. @param {any} sample */
function valueReadout({ outputs, truthName }) {
  return h("div.x-value", {}, h("span", {}, h("span.label", {}, "predicted"), h("b", {}, formatRounded(outputs[0].score, 4))), truthName !== null && h("span", {}, h("span.label", {}, "true"), h("b", {}, truthName)));
}
