// @ts-check
/** Heat map drawn over an image. */
/** @import { DisplayOptions } from "./display.js" */
import { palette, parseRgb, prepareCanvas } from "../../views/axes.js";
import { arrowStep, h, makeButton, redrawOnResize, renderTabs } from "../../views/kit.js";
import { attributionLegend, decodeBytes, formatWithUnit } from "./display.js";

const HEAT_SIGNS = { both: "both", up: "+ only", down: "− only" }, COLOR_RANGES = { strong: "strongest 1 %", top: "the largest", same: "same for all samples" };
const MAX_WIDTH = 440, MAX_COARSE_WIDTH = 320, MAX_COARSE_CELLS = 96;

/** @param {any} input @param {any} attribution @param {DisplayOptions} display */
export function heatMap(input, attribution, display) {
  const bytes = new Int8Array(decodeBytes(input.heat).buffer), oneSided = bytes.every((v) => v >= 0), { rows, columns, top, strong } = input;
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", tabIndex: 0, ariaLabel: `heat map of ${rows} × ${columns} cells over the image; arrow keys read it` }));
  const note = h("div.note.x-reading", { ariaLive: "polite" }), legend = h("div"), stage = h("div.x-stage", {}, canvas), picture = heatPicture(input.src, draw);
  const rest = bytes.every((v) => v === 0) ? "All values are zero: nothing in the image supports it." : `${rows} × ${columns} cells${input.sum === undefined || attribution.base === null ? "" : ", sum " + formatWithUnit(input.sum, attribution)}. Point at a cell to read it.`;
  const node = h("div.x-heat", {}, stage, h("div.x-under", {}, legend, note, heatTools(display, oneSided)));
  const maxWidth = Math.max(rows, columns) > MAX_COARSE_CELLS / 2 ? MAX_WIDTH : MAX_COARSE_WIDTH, size = { rows, columns, coarse: Math.max(rows, columns) <= MAX_COARSE_CELLS };
  let now = -1;
  node.style.setProperty("--nb-most", `${maxWidth}px`);

  const full = () => (display.full === "top" ? top : display.full === "same" ? Math.max(strong, ...[...display.limits].filter(([limit]) => limit.isConnected).map(([, v]) => v)) : strong);

  function draw() {
    const ratio = (input.height || rows) / (input.width || columns), wide = Math.min(stage.clientWidth, maxWidth, maxWidth / ratio);
    if (!wide) return;
    const limit = full();
    heatPaint(canvas, [wide, wide * ratio], { ...size, bytes, share: top / limit, now }, picture, display.alone ? { ...display, heat: 0 } : display);
  }

  function change() {
    const limit = full();
    legend.replaceChildren(attributionLegend(limit, oneSided, attribution, limit < top));
    draw();
  }

  /** @param {number} i */
  function show(i) {
    if (i === now) return;
    now = i;
    note.textContent = i < 0 ? rest : `row ${Math.floor(i / columns)}, column ${i % columns}: ${formatWithUnit((bytes[i] * top) / 127, attribution, 2)}`;
    draw();
  }

  const inside = (/** @type {number} */ v, /** @type {number} */ count) => Math.max(0, Math.min(count - 1, v));
  canvas.onpointermove = ({ offsetX, offsetY }) => show(inside(Math.floor((offsetY / canvas.clientHeight) * rows), rows) * columns + inside(Math.floor((offsetX / canvas.clientWidth) * columns), columns));
  canvas.onpointerleave = canvas.onblur = () => show(-1);
  canvas.onkeydown = (event) => {
    const by = arrowStep(event);
    if (!by) return;
    const at = Math.max(0, now);
    show(now < 0 ? 0 : inside(Math.floor(at / columns) + by[0], rows) * columns + inside((at % columns) + by[1], columns));
  };
  note.textContent = rest;
  display.limits.set(node, strong);
  display.subscribe(node, change);
  redrawOnResize(stage, draw);
  change();
  return node;
}

/** Controls: signs, opacity, color range, and a button that hides the heat map while it is held. @param {DisplayOptions} display @param {boolean} oneSided */
function heatTools(display, oneSided) {
  const signs = h("span.tabs", { role: "group", ariaLabel: "signs" }), fulls = h("span.tabs", { role: "group", ariaLabel: "full color at" });
  const slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: "0", max: "1", step: "0.05", ariaLabel: "opacity of the heat map", oninput: () => display.change({ heat: Number(slider.value) }) }));
  const hold = makeButton("toggle", "hold: image only", () => {}), only = (/** @type {boolean} */ on) => { if (display.alone !== on) display.change({ alone: on }); };
  const node = h("div.x-tools", {}, h("label.x-slide", {}, h("span", {}, "image"), slider, h("span", {}, "heat")), !oneSided && signs, h("span.x-choice", {}, h("span.note", {}, "full color at"), fulls), hold);
  hold.onpointerdown = () => only(true);
  hold.onpointerup = hold.onpointerleave = hold.onpointercancel = hold.onblur = hold.onkeyup = () => only(false);
  hold.onkeydown = ({ key }) => { if (key === " " || key === "Enter") only(true); };
  const draw = () => {
    slider.value = String(display.heat);
    renderTabs(signs, HEAT_SIGNS, display.sign, (sign) => display.change({ sign }));
    const { same, ...alone } = COLOR_RANGES;
    renderTabs(fulls, display.limits.size > 1 ? { ...alone, same } : alone, display.full === "same" && display.limits.size < 2 ? "strong" : display.full, (full) => display.change({ full }));
    hold.ariaPressed = String(display.alone);
  };
  display.subscribe(node, draw);
  draw();
  return node;
}

/** Load an image; only data URLs are allowed. Call `then` once it is loaded. @param {string | undefined} src @param {() => void} then */
export function heatPicture(src, then) {
  if (!String(src ?? "").startsWith("data:image/")) return null;
  const image = new Image();
  image.onload = then;
  image.src = String(src);
  return image;
}

/**
 * @param {HTMLCanvasElement} canvas @param {[number, number]} size
 * @param {{rows: number, columns: number, coarse: boolean, bytes: Int8Array, share: number, now: number}} map `share` is how many times full color the largest is
 * @param {HTMLImageElement | null} picture @param {{heat: number, sign: string}} display
 */
export function heatPaint(canvas, [wide, high], map, picture, display) {
  const g = prepareCanvas(canvas, wide, high), { ink, paper, lines } = palette(/** @type {HTMLElement} */ (canvas.parentElement));
  g.imageSmoothingEnabled = !map.coarse;
  g.fillStyle = paper;
  g.fillRect(0, 0, wide, high);
  if (picture?.complete && picture.naturalWidth) {
    g.globalAlpha = display.heat ? Math.max(0, 1 - display.heat) : 1;
    g.drawImage(display.heat ? heatGray(picture) : picture, 0, 0, wide, high);
    g.globalAlpha = 1;
  }
  if (display.heat) {
    g.globalAlpha = Math.min(1, 1.6 * display.heat);
    g.drawImage(heatLayer(map, parseRgb(lines[1]), parseRgb(lines[0]), display.sign), 0, 0, wide, high);
    g.globalAlpha = 1;
  }
  if (map.now < 0) return;
  const [x, y] = [wide / map.columns, high / map.rows], [left, top] = [(map.now % map.columns) * x, Math.floor(map.now / map.columns) * y];
  g.strokeStyle = ink;
  g.strokeRect(left + 0.5, top + 0.5, Math.max(4, x) - 1, Math.max(4, y) - 1);
}

/** The image in gray, so that colors show only the heat map. @param {HTMLImageElement} picture */
function heatGray(picture) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: picture.naturalWidth, height: picture.naturalHeight })), g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.drawImage(picture, 0, 0);
  g.globalCompositeOperation = "saturation";
  g.fillStyle = "#808080";
  g.fillRect(0, 0, canvas.width, canvas.height);
  g.globalCompositeOperation = "destination-in";
  g.drawImage(picture, 0, 0);
  return canvas;
}

/** The colors of the map; zero is transparent. @param {{rows: number, columns: number, bytes: Int8Array, share: number}} map @param {number[]} up @param {number[]} down @param {string} sign */
function heatLayer({ rows, columns, bytes, share }, up, down, sign) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: columns, height: rows })), g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), pixels = g.createImageData(columns, rows);
  bytes.forEach((v, i) => {
    const hidden = (sign === "up" && v < 0) || (sign === "down" && v > 0);
    pixels.data.set([...(v < 0 ? down : up), hidden ? 0 : Math.min(255, (255 * share * Math.abs(v)) / 127)], 4 * i);
  });
  g.putImageData(pixels, 0, 0);
  return canvas;
}
