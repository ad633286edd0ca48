// @ts-check
/** A handle on the plot of a chart, to drag or to move by keys. */
import { h } from "./kit.js";

const STEPS = 200;

/** The handle; `read` is told of its value and says it in words. @param {(value: number) => string} read */
export function handle(read) {
  const node = h("div.handle", { tabIndex: 0, role: "slider", ariaLabel: "read the curves", hidden: true });
  /** @type {any} */
  let layout;
  /** @type {any} */
  let state;
  let value = NaN, told = "";

  const rounded = (/** @type {number} */ v) => Number(Math.max(state.span[0], Math.min(state.span[1], v)).toPrecision(3));

  /** Takes the handle to a value. @param {number} next */
  function put(next) {
    value = rounded(next);
    node.ariaValueNow = String(value);
    node.ariaValueText = read(value);
    show();
  }

  function show() {
    if (layout && !node.hidden) Object.assign(node.style, { left: `${layout.x(value)}px`, top: `${layout.top}px`, height: `${layout.bottom - layout.top}px` });
  }

  /** Draws the handle where a layout has it. @param {any} f */
  function place(f) {
    layout = f;
    show();
  }

  /** The range, and where to stand unless it was moved; nowhere at all where there is nothing to read. @param {any} given @param {number | null} first */
  function span(given, first) {
    state = given;
    node.hidden = first === null;
    Object.assign(node, { ariaValueMin: String(given.span[0]), ariaValueMax: String(given.span[1]) });
    if (first !== null && told !== (told = String(first))) put(first);
  }

  node.onpointerdown = (event) => {
    node.setPointerCapture(event.pointerId);
    node.focus();
    event.preventDefault();
  };
  node.onpointermove = (event) => {
    if (node.hasPointerCapture(event.pointerId)) put(layout.x.invert(event.clientX - (node.parentElement?.getBoundingClientRect().left ?? 0)));
  };
  node.onkeydown = (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    put(layout.x.invert(layout.x(value) + (by * (layout.x(state.span[1]) - layout.x(state.span[0]))) / STEPS));
  };
  return { node, put, place, span, value: () => value };
}
