// @ts-check
/** Where a reader is in the view of a run. */

/**
 * What is searched, listed as a tree, folded, opened, held and in sight; which curves, signal and picture are chosen;
 * where the keys go.
 * @typedef {{find: string, tree: boolean, folded: Set<string>, opened: string | null, held: number | null, top: number, group: string, signal: string, mode: string, focus: string}} LayersPlace
 */

/**
 * The place in a run, which all its pictures on a page share: the static one goes on where the live one was left.
 * @param {string} run @returns {LayersPlace}
 */
export function layersPlace(run) {
  const page = /** @type {{nbdebugPlaces?: Map<string, LayersPlace>}} */ (globalThis),
    all = (page.nbdebugPlaces ??= new Map());
  const found = all.get(run) ?? {
    find: "",
    tree: false,
    folded: new Set(),
    opened: null,
    held: null,
    top: 0,
    group: "Loss",
    signal: "",
    mode: "strip",
    focus: "",
  };
  if (run) all.set(run, found);
  return found;
}

/**
 * Notes which of some parts has the focus; one that goes with the page keeps it.
 * @param {HTMLElement} el @param {LayersPlace} place @param {Record<string, HTMLElement>} parts
 */
export function keepFocus(el, place, parts) {
  const note = () => {
    if (el.isConnected) place.focus = Object.keys(parts).find((one) => parts[one] === document.activeElement) ?? "";
  };
  el.addEventListener("focusin", note);
  el.addEventListener("focusout", () => setTimeout(note));
}

/**
 * Gives the focus back, where nothing else has taken it.
 * @param {LayersPlace} place @param {Record<string, HTMLElement>} parts
 */
export function resumeFocus(place, parts) {
  if (document.activeElement === document.body) parts[place.focus]?.focus({ preventScroll: true });
}
