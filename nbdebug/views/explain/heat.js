// @ts-check
/** @import { ExplainLook } from "./look.js" */
/** A heat map over the picture, and how to look at it. */
import { arrowStep, h, press, watch } from "../kit.js";
import { pick } from "../tabs.js";
import { explainScale } from "./legend.js";
import { explainBytes, explainUnit } from "./numbers.js";
import { heatPaint, heatPicture } from "./heat_paint.js";

const HEAT_SIGNS = { both: "both", up: "+ only", down: "− only" }, HEAT_FULLS = { strong: "strongest 1 %", top: "the largest", same: "same for all" };
const HEAT_WIDEST = 440, HEAT_TINY = 320, HEAT_COARSE = 96;

/** @param {any} shown @param {any} found @param {ExplainLook} look */
export function explainHeat(shown, found, look) {
  const bytes = new Int8Array(explainBytes(shown.heat).buffer), oneSided = bytes.every((v) => v >= 0), { rows, columns, top, strong } = shown;
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", tabIndex: 0, ariaLabel: `heat map of ${rows} × ${columns} places over the picture; arrow keys read it` }));
  const note = h("div.note.x-reading", { ariaLive: "polite" }), legend = h("div"), stage = h("div.x-stage", {}, canvas), picture = heatPicture(shown.src, draw);
  const rest = bytes.every((v) => v === 0) ? "Every place is zero: nothing here speaks for it." : `${rows} × ${columns} places${shown.sum === undefined || found.base === null ? "" : ", together " + explainUnit(shown.sum, found)}. Point at one to read it.`;
  const node = h("div.x-heat", {}, stage, h("div.x-under", {}, legend, note, heatTools(look, oneSided)));
  const most = Math.max(rows, columns) > HEAT_COARSE / 2 ? HEAT_WIDEST : HEAT_TINY, size = { rows, columns, coarse: Math.max(rows, columns) <= HEAT_COARSE };
  let now = -1;
  node.style.setProperty("--nb-most", `${most}px`);

  const full = () => (look.full === "top" ? top : look.full === "same" ? Math.max(strong, ...[...look.limits].filter(([one]) => one.isConnected).map(([, v]) => v)) : strong);

  function draw() {
    const ratio = (shown.height || rows) / (shown.width || columns), wide = Math.min(stage.clientWidth, most, most / ratio);
    if (!wide) return;
    const limit = full();
    heatPaint(canvas, [wide, wide * ratio], { ...size, bytes, share: top / limit, now }, picture, look.alone ? { ...look, heat: 0 } : look);
  }

  function change() {
    const limit = full();
    legend.replaceChildren(explainScale(limit, oneSided, found, limit < top));
    draw();
  }

  /** @param {number} i */
  function show(i) {
    if (i === now) return;
    now = i;
    note.textContent = i < 0 ? rest : `row ${Math.floor(i / columns)}, column ${i % columns}: ${explainUnit((bytes[i] * top) / 127, found, 2)}`;
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
  look.limits.set(node, strong);
  look.hear(node, change);
  watch(stage, draw);
  change();
  return node;
}

/** Which signs, how strong, and the picture alone while a button is held. @param {ExplainLook} look @param {boolean} oneSided */
function heatTools(look, oneSided) {
  const signs = h("span.tabs", { role: "group", ariaLabel: "signs" }), fulls = h("span.tabs", { role: "group", ariaLabel: "full color at" });
  const slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: "0", max: "1", step: "0.05", ariaLabel: "picture to heat map", oninput: () => look.change({ heat: Number(slider.value) }) }));
  const hold = press("toggle", "hold: picture alone", () => {}), only = (/** @type {boolean} */ on) => { if (look.alone !== on) look.change({ alone: on }); };
  const node = h("div.x-tools", {}, h("label.x-slide", {}, h("span", {}, "picture"), slider, h("span", {}, "heat")), !oneSided && signs, h("span.x-choice", {}, h("span.note", {}, "full color at"), fulls), hold);
  hold.onpointerdown = () => only(true);
  hold.onpointerup = hold.onpointerleave = hold.onpointercancel = hold.onblur = hold.onkeyup = () => only(false);
  hold.onkeydown = ({ key }) => { if (key === " " || key === "Enter") only(true); };
  const draw = () => {
    slider.value = String(look.heat);
    pick(signs, HEAT_SIGNS, look.sign, (sign) => look.change({ sign }));
    const { same, ...alone } = HEAT_FULLS;
    pick(fulls, look.limits.size > 1 ? { ...alone, same } : alone, look.full === "same" && look.limits.size < 2 ? "strong" : look.full, (full) => look.change({ full }));
    hold.ariaPressed = String(look.alone);
  };
  look.hear(node, draw);
  draw();
  return node;
}
