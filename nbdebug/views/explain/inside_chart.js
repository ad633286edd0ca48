// @ts-check
/** Lines along the layers of a model, with their names at the bottom where there is room. */
import { arrowStep, h, num, watch } from "../kit.js";
import { scale, ticks } from "../axes.js";
import { panelSvg } from "../errors/panel_plot.js";

/** @typedef {{name: string, values: (number | null)[], color: string, width?: number, dash?: string, dots?: boolean}} InsideLine */

const INSIDE_FRAME = { left: 40, right: 8, top: 20 };

/**
 * @param {{label: string, up: string, layers: {title: string}[], lines: InsideLine[], range: [number, number], band?: [number, number], faint?: boolean[], said: (at: number) => string, rest: string}} given
 */
export function insideChart(given) {
  const { layers, lines, range } = given, note = h("div.note.i-reading", { ariaLive: "polite" }, given.rest), place = h("div.i-chart", { tabIndex: 0, role: "img", ariaLabel: given.label });
  let now = -1, x = scale([0, 1], [0, 1]);

  function draw() {
    const wide = Math.max(200, place.clientWidth || 600), room = (wide - INSIDE_FRAME.left - INSIDE_FRAME.right) / layers.length, every = Math.max(1, Math.ceil(14 / room));
    const longest = Math.min(18, Math.max(...layers.map((one) => one.title.length))), foot = 14 + 6.6 * longest, high = 190 + foot;
    const y = scale(range, [high - foot, INSIDE_FRAME.top]);
    x = scale([-0.5, layers.length - 0.5], [INSIDE_FRAME.left, wide - INSIDE_FRAME.right]);
    const svg = panelSvg("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, "aria-hidden": "true" });
    const rule = (/** @type {number} */ x0, /** @type {number} */ y0, /** @type {number} */ x1, /** @type {number} */ y1, /** @type {string} */ color) => svg.append(panelSvg("line", { x1: x0, y1: y0, x2: x1, y2: y1, style: `stroke: var(${color})` }));
    const write = (/** @type {string} */ text, /** @type {Record<string, any>} */ at) => { const node = panelSvg("text", at); node.textContent = text; svg.append(node); };
    const box = (/** @type {number} */ left, /** @type {number} */ top, /** @type {number} */ right, /** @type {number} */ bottom, /** @type {string} */ style) => svg.append(panelSvg("rect", { x: left, y: top, width: right - left, height: bottom - top, style }));
    if (given.band) box(x(-0.5), y(given.band[1]), x(layers.length - 0.5), y(given.band[0]), "fill: var(--nb-ink); opacity: .08");
    given.faint?.forEach((faint, at) => { if (faint) box(x(at - 0.5), INSIDE_FRAME.top, x(at + 0.5), high - foot, "fill: var(--nb-soft); opacity: .16"); });
    for (const v of ticks(range, 4)) {
      rule(x(-0.5), y(v), x(layers.length - 0.5), y(v), v === 0 ? "--nb-soft" : "--nb-faint");
      write(num(v), { x: INSIDE_FRAME.left - 5, y: y(v) + 4, "text-anchor": "end" });
    }
    write(`↑ ${given.up}`, { x: 0, y: 11 });
    layers.forEach(({ title }, at) => {
      if (at % every) return;
      const text = title.length > 18 ? `…${title.slice(-17)}` : title;
      write(text, { transform: `translate(${x(at) + 4} ${high - foot + 8}) rotate(-90)`, "text-anchor": "end" });
    });
    for (const one of lines) insideLine(svg, one, x, y);
    if (now >= 0) rule(x(now), INSIDE_FRAME.top, x(now), high - foot, "--nb-ink");
    place.replaceChildren(svg);
  }

  const show = (/** @type {number} */ at) => {
    now = at >= 0 && at < layers.length ? at : -1;
    note.textContent = now < 0 ? given.rest : given.said(now);
    draw();
  };
  place.onpointermove = (event) => { const at = Math.round(x.invert(event.clientX - place.getBoundingClientRect().left)); if (at !== now) show(at); };
  place.onpointerleave = place.onblur = () => show(-1);
  place.onkeydown = (event) => {
    const step = arrowStep(event, true);
    if (step) show(Math.max(0, Math.min(layers.length - 1, now + step[1])));
  };
  watch(place, draw);
  return h("div.i-block", {}, place, insideLegend(lines), note);
}

/** @param {SVGElement} svg @param {InsideLine} line @param {(v: number) => number} x @param {(v: number) => number} y */
function insideLine(svg, { values, color, width = 1.2, dash = "none", dots = false }, x, y) {
  let pen = "M";
  const d = values.map((v, at) => {
    if (v === null) { pen = "M"; return ""; }
    const step = `${pen}${x(at).toFixed(1)} ${y(v).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
  svg.append(panelSvg("path", { d, style: `fill: none; stroke: var(${color}); stroke-width: ${width}; stroke-dasharray: ${dash}; stroke-linejoin: round` }));
  if (dots) values.forEach((v, at) => { if (v !== null) svg.append(panelSvg("circle", { cx: x(at), cy: y(v), r: 2.5, style: `fill: var(${color})` })); });
}

/** @param {InsideLine[]} lines */
function insideLegend(lines) {
  return h("div.i-legend", {}, ...lines.map(({ name, color, dash, width }) => h("span", {}, h("i", { ariaHidden: "true", style: `border-top: ${(width ?? 1.2) > 1.5 ? 3 : 2}px ${dash ? "dashed" : "solid"} var(${color})` }), name)));
}
