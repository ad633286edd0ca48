// @ts-check
/** Small SVG plots, and the axes of scatter plots on a canvas. */
/** @import { palette, scale } from "./axes.js" */
import { ticks } from "./axes.js";
import { arrowStep, formatNumber, h } from "./kit.js";

/** @typedef {{left: number, right: number, top: number, bottom: number, wide: number, high: number}} PlotFrame */
/** @typedef {{node: HTMLElement, svg: SVGElement, x: (v: number) => number, y: (v: number) => number, invert: (clientX: number) => number, frame: PlotFrame}} SvgPlot */

const SVG_NAMESPACE = /** @type {Element} */ (new DOMParser().parseFromString("<svg>", "text/html").body.firstElementChild).namespaceURI;

/** Create an SVG element. @param {string} tag @param {Record<string, any>} [attributes] @param {...Node} kids */
export function svgElement(tag, attributes = {}, ...kids) {
  const node = /** @type {SVGElement} */ (document.createElementNS(SVG_NAMESPACE, tag));
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  node.append(...kids);
  return node;
}

/**
 * A plot with labeled axes; x runs from 0 to 1, y from 0 to `top`.
 * @param {{label: string, across: string, up: string, wide?: number, high?: number, top?: number, ticks?: number[]}} options
 * @returns {SvgPlot}
 */
export function svgPlot({ label, across, up, wide = 300, high = 250, top = 1, ticks = [0, 0.25, 0.5, 0.75, 1] }) {
  const frame = { left: 36, right: wide - 10, top: 22, bottom: high - 34, wide, high };
  const x = (/** @type {number} */ v) => frame.left + v * (frame.right - frame.left), y = (/** @type {number} */ v) => frame.bottom - (v / top) * (frame.bottom - frame.top);
  const svg = svgElement("svg", { viewBox: `0 0 ${wide} ${high}`, width: wide, height: high, role: "group", "aria-label": label });
  for (const v of ticks) {
    svg.append(svgRule(x(0), y(v * top), x(1), y(v * top), "--nb-faint"), svgText(frame.left - 5, y(v * top) + 4, formatNumber(Number((v * top).toPrecision(3))), "end"));
    if (v % 0.5 === 0) svg.append(svgText(x(v), frame.bottom + 14, formatNumber(v), "middle"));
  }
  svg.append(svgRule(x(0), y(0), x(1), y(0), "--nb-soft"), svgText(0, 11, `↑ ${up}`, "start"), svgText(x(1), high - 5, `${across} →`, "end"));
  const invert = (/** @type {number} */ at) => {
    const box = svg.getBoundingClientRect();
    return (((at - box.left) / box.width) * wide - frame.left) / (frame.right - frame.left);
  };
  return { node: h("div.panelplot", {}, svg), svg, x, y, invert, frame };
}

/** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {string} color @param {string} [dash] */
export function svgRule(x0, y0, x1, y1, color, dash = "none") {
  return svgElement("line", { x1: x0, y1: y0, x2: x1, y2: y1, style: `stroke: var(${color}); stroke-dasharray: ${dash}` });
}

/** @param {number} x @param {number} y @param {string} text @param {string} anchor */
export function svgText(x, y, text, anchor) {
  return svgElement("text", { x, y, "text-anchor": anchor }, document.createTextNode(text));
}

/** The path data of a line; values that are missing or not finite interrupt it. @param {(number | null | undefined)[]} ys @param {(i: number) => number} x @param {(v: number) => number} y */
export function pathData(ys, x, y) {
  let pen = "M";
  return ys.map((v, i) => {
    if (v === null || v === undefined || !Number.isFinite(v)) { pen = "M"; return ""; }
    const step = `${pen}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
    pen = "L";
    return step;
  }).join("");
}

/** A line through points; null values interrupt it. @param {SvgPlot} plot @param {(number | null)[]} xs @param {(number | null)[]} ys @param {string} color @param {string} [dash] */
export function svgLine({ x, y }, xs, ys, color, dash = "none") {
  const d = pathData(xs.map((v, i) => (v === null ? null : ys[i])), (i) => x(xs[i] ?? 0), y);
  return svgElement("path", { d, style: `fill: none; stroke: var(${color}); stroke-width: 2; stroke-linejoin: round; stroke-dasharray: ${dash}` });
}

/** A part of a plot that can be clicked and focused. @param {string} label @param {() => void} click @param {...SVGElement} kids */
export function svgButton(label, click, ...kids) {
  const node = svgElement("g", { class: "nb-spot", role: "button", tabindex: 0, "aria-label": label }, svgElement("title", {}, document.createTextNode(label)), ...kids);
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
 * Describe the point nearest to the pointer or the keyboard focus, in a line below the plot.
 * @param {SvgPlot} plot @param {(number | null)[]} xs @param {(i: number) => string} describe @param {string} rest @param {(i: number) => number} height
 */
export function attachPlotReading(plot, xs, describe, rest, height) {
  const note = h("div.note.reading", { ariaLive: "polite" }, rest), mark = svgElement("circle", { r: 4, visibility: "hidden", style: "fill: var(--nb-ink); stroke: var(--nb-paper)" });
  let now = -1;
  const show = (/** @type {number} */ i) => {
    now = i;
    note.textContent = i < 0 ? rest : describe(i);
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

/** @typedef {{left: number, right: number, top: number, bottom: number, x: ReturnType<typeof scale>, y: ReturnType<typeof scale>}} AxesFrame */

/** Draw the x axis with gridlines and its name; `zero` emphasizes the line at zero. @param {CanvasRenderingContext2D} g @param {Omit<AxesFrame, "y">} f @param {string} name @param {ReturnType<typeof palette>} colors @param {boolean} [zero] */
export function drawXAxis(g, { left, right, top, bottom, x }, name, colors, zero = false) {
  g.fillStyle = colors.soft;
  g.textAlign = "center";
  for (const v of ticks([x.invert(left), x.invert(right)], Math.max(2, (right - left) / 90))) {
    strokeLine(g, zero && v === 0 ? colors.soft : colors.faint, [x(v), top], [x(v), bottom]);
    g.fillText(formatNumber(v), x(v), bottom + 14);
  }
  g.textAlign = "right";
  g.fillText(`${name} →`, right, bottom + 30);
}

/** Draw the y axis with gridlines, zero emphasized, and its name. @param {CanvasRenderingContext2D} g @param {AxesFrame} f @param {string} name @param {ReturnType<typeof palette>} colors */
export function drawYAxis(g, { left, right, top, bottom, y }, name, colors) {
  g.fillStyle = colors.soft;
  g.textAlign = "right";
  for (const v of ticks([y.invert(bottom), y.invert(top)])) {
    strokeLine(g, v === 0 ? colors.soft : colors.faint, [left, y(v)], [right, y(v)]);
    g.fillText(formatNumber(v), left - 5, y(v) + 4);
  }
  g.textAlign = "left";
  g.fillText(`↑ ${name}`, 2, 11);
}

/** @param {CanvasRenderingContext2D} g @param {string} color @param {[number, number]} from @param {[number, number]} to */
function strokeLine(g, color, from, to) {
  g.strokeStyle = color;
  g.beginPath();
  g.moveTo(...from);
  g.lineTo(...to);
  g.stroke();
}
