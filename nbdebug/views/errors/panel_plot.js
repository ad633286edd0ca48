// @ts-check
/** Small plots of panels, in SVG. */
import { arrowStep, h, num } from "../kit.js";

/** @typedef {{left: number, right: number, top: number, bottom: number, wide: number, high: number}} PanelFrame */
/** @typedef {{node: HTMLElement, svg: SVGElement, x: (v: number) => number, y: (v: number) => number, invert: (clientX: number) => number, frame: PanelFrame}} PanelPlot */

const PANEL_SPACE = /** @type {Element} */ (Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstElementChild).namespaceURI;

/** An element of SVG. @param {string} tag @param {Record<string, any>} [given] @param {...Node} kids */
export function panelSvg(tag, given = {}, ...kids) {
  const node = /** @type {SVGElement} */ (document.createElementNS(PANEL_SPACE, tag));
  for (const key in given) node.setAttribute(key, given[key]);
  node.append(...kids);
  return node;
}

/**
 * A plot with axes from 0 to 1, or up to `top`, with words at both.
 * @param {{label: string, across: string, up: string, wide?: number, high?: number, top?: number, ticks?: number[]}} given
 * @returns {PanelPlot}
 */
export function panelPlot({ label, across, up, wide = 300, high = 250, top = 1, ticks = [0, 0.25, 0.5, 0.75, 1] }) {
  const frame = { left: 36, right: wide - 10, top: 22, bottom: high - 34, wide, high };
  const x = (/** @type {number} */ v) => frame.left + v * (frame.right - frame.left), y = (/** @type {number} */ v) => frame.bottom - (v / top) * (frame.bottom - frame.top);
  const svg = panelSvg("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "group", "aria-label": label });
  for (const v of ticks) {
    svg.append(panelRule(x(0), y(v * top), x(1), y(v * top), "--nb-faint"), panelText(frame.left - 5, y(v * top) + 4, num(Number((v * top).toPrecision(3))), "end"));
    if (v % 0.5 === 0) svg.append(panelText(x(v), frame.bottom + 14, num(v), "middle"));
  }
  svg.append(panelRule(x(0), y(0), x(1), y(0), "--nb-soft"), panelText(0, 11, `↑ ${up}`, "start"), panelText(x(1), high - 5, `${across} →`, "end"));
  const invert = (/** @type {number} */ at) => {
    const box = svg.getBoundingClientRect();
    return (((at - box.left) / box.width) * wide - frame.left) / (frame.right - frame.left);
  };
  return { node: h("div.panelplot", {}, svg), svg, x, y, invert, frame };
}

/** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} color @param {string} [dash] */
export function panelRule(x0, y0, x1, y1, color, dash = "none") {
  return panelSvg("line", { x1: x0, y1: y0, x2: x1, y2: y1, style: `stroke: var(${color}); stroke-dasharray: ${dash}` });
}

/** @param {number} x @param {number} y @param {string} text @param {string} anchor */
export function panelText(x, y, text, anchor) {
  return panelSvg("text", { x, y, "text-anchor": anchor }, document.createTextNode(text));
}

/** A line through points; null breaks it. @param {PanelPlot} plot @param {(number | null)[]} xs @param {(number | null)[]} ys @param {string} color @param {string} [dash] */
export function panelLine({ x, y }, xs, ys, color, dash = "none") {
  let pen = "M";
  const d = xs.map((v, i) => {
    const w = ys[i];
    if (v === null || w === null || w === undefined) { pen = "M"; return ""; }
    const step = `${pen}${x(v).toFixed(1)} ${y(w).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
  return panelSvg("path", { d, style: `fill: none; stroke: var(${color}); stroke-width: 2; stroke-linejoin: round; stroke-dasharray: ${dash}` });
}

/** A part of a plot that can be clicked and reached by keys. @param {string} label @param {() => void} click @param {...SVGElement} kids */
export function panelSpot(label, click, ...kids) {
  const node = panelSvg("g", { class: "nb-spot", role: "button", tabindex: 0, "aria-label": label }, panelSvg("title", {}, document.createTextNode(label)), ...kids);
  node.onclick = click;
  node.onkeydown = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    click();
  };
  return node;
}

/**
 * Reads the points of a plot under the pointer or by the arrow keys, in a line below it.
 * @param {PanelPlot} plot @param {(number | null)[]} xs @param {(i: number) => string} said @param {string} rest @param {(i: number) => number} height
 */
export function panelReading(plot, xs, said, rest, height) {
  const note = h("div.note.reading", { ariaLive: "polite" }, rest), mark = panelSvg("circle", { r: 4, visibility: "hidden", style: "fill: var(--nb-ink); stroke: var(--nb-paper)" });
  let now = -1;
  const show = (/** @type {number} */ i) => {
    now = i;
    note.textContent = i < 0 ? rest : said(i);
    mark.setAttribute("visibility", i < 0 ? "hidden" : "visible");
    if (i >= 0) Object.entries({ cx: plot.x(xs[i] ?? 0), cy: plot.y(height(i)) }).forEach(([name, v]) => mark.setAttribute(name, String(v)));
  };
  const nearest = (/** @type {number} */ v) => xs.reduce((/** @type {number} */ best, x, i) => (Math.abs((x ?? 9) - v) < Math.abs((xs[best] ?? 9) - v) ? i : best), 0);
  plot.svg.append(mark);
  plot.svg.setAttribute("tabindex", "0");
  plot.svg.onpointermove = (event) => show(nearest(plot.invert(event.clientX)));
  plot.svg.onpointerleave = plot.svg.onblur = () => show(-1);
  plot.svg.onkeydown = (event) => {
    const step = arrowStep(event, true);
    if (step) show(Math.max(0, Math.min(xs.length - 1, now + step[1])));
  };
  plot.node.append(note);
}
