// @ts-check
/** Elements, numbers and the wire: what every view of the package shares. */

/** @typedef {{get(name: string): any, on(name: string, heard: (message: any, buffers: DataView[]) => void): void, send(content: object): void}} Model */
/** @typedef {{model: Model, el: HTMLElement}} Props */
/** @typedef {Node | string | false | null | undefined} Kid */

/**
 * An element, `h("div.head.wide", {title: "…"}, "text", child)`; text among `kids` stays text.
 * @param {string} tag @param {Record<string, any>} [given] @param {...Kid} kids
 */
export function h(tag, given = {}, ...kids) {
  const [name, ...kinds] = tag.split("."), node = document.createElement(name);
  node.classList.add(...kinds.map((kind) => `nb-${kind}`));
  for (const key in given) {
    if (key in node) Reflect.set(node, key, given[key]);
    else node.setAttribute(key, given[key]);
  }
  node.append(...kids.flatMap((kid) => kid || []));
  return node;
}

/** A button. @param {string} kind @param {string} text @param {() => void} onclick @param {Record<string, any>} [given] */
export function press(kind, text, onclick, given = {}) {
  return h(`button.${kind}`, { type: "button", onclick, ...given }, text);
}

/** Shows what was asked for in the place of the button that asked; a keyboard that was there stays there. @param {HTMLElement} node @param {...Node} kids */
export function instead(node, ...kids) {
  const held = node.contains(document.activeElement);
  node.replaceChildren(...kids);
  if (!held) return;
  node.tabIndex = -1;
  node.focus({ preventScroll: true });
}

/** A number in at most four digits, whole ones in full. @param {any} v @returns {string} */
export function num(v) {
  if (!Number.isFinite(v)) return "–";
  const size = Math.abs(v);
  if (size && (size < 1e-3 || size >= 1e7)) return v.toExponential(2).replace(/\.?0*e\+?/, "e").replace(/-/g, "−");
  return String(Number.isInteger(v) ? v : Number(v.toPrecision(4))).replace("-", "−");
}

/** A number in few digits. @param {number | null} v @param {number} [digits] */
export function brief(v, digits = 3) {
  return num(v === null ? v : Number(v.toPrecision(digits)));
}

/** Empties `el` and makes it the root of a view. @param {HTMLElement} el @param {...Node} kids */
export function root(el, ...kids) {
  el.classList.add("nbdebug");
  el.replaceChildren(...kids);
}

/** Title, a line under it, and the Stop button while the view is live. @param {Model} model @param {boolean} stoppable */
export function heading(model, stoppable) {
  const title = h("div.title", { role: "heading", ariaLevel: "3" }), status = h("div.status", { role: "status" });
  const node = h("div.head", {}, h("div", {}, title, status), stoppable && model.get("live") && stop(model));
  return { node, title, status };
}

/** A button that asks the tool to stop and says how far that wish has come. @param {Model} model */
export function stop(model) {
  const say = (/** @type {string} */ text) => { Object.assign(button, { ariaDisabled: "true", textContent: text }); };
  const button = press("stop", "■ Stop", () => {
    if (button.ariaDisabled) return;
    say("Waiting for the cell…");
    button.title = "The notebook's own interrupt button stops at once.";
    model.send({ kind: "stop" });
  });
  model.on("msg:custom", (message) => { if (message.stopping) say("Stopping…"); });
  return button;
}

/**
 * Keeps the state of a live view: a whole new one, or rows, each with an index so that none counts twice or goes
 * missing unseen. A value that is not finite arrives as null, a missing one not at all.
 * @param {(state: any, row: Record<string, number | null>) => void} add
 */
export function keep(add) {
  return (/** @type {{model: Model}} */ { model }) => model.on("msg:custom", (message, buffers) => {
    const state = model.get("state");
    Object.assign(state, message.state, message.head);
    if (message.state) return;
    const wire = buffers[0], names = message.columns, flat = Array.from({ length: wire.byteLength / 4 }, (_, i) => wire.getFloat32(4 * i, true));
    for (let i = 0, at = message.first; i < flat.length; i += names.length, at++) {
      if (at < state.rows) continue;
      const values = flat.slice(i, i + names.length), pairs = values.map((v, j) => [names[j], Number.isFinite(v) ? v : null]);
      add(state, Object.fromEntries(pairs.filter((_, j) => !Number.isNaN(values[j]))));
      state.lost = (state.lost ?? 0) + at - state.rows;
      state.rows = at + 1;
    }
  });
}

/** Where an arrow key goes, [down, right], which then does nothing else; null for another key. @param {KeyboardEvent} event @param {boolean} [level] left and right only */
export function arrowStep(event, level = false) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ...(!level && { ArrowUp: [-1, 0], ArrowDown: [1, 0] }) }[event.key];
  if (!step) return null;
  event.preventDefault();
  event.stopPropagation();
  return step;
}

/** Draws now, and again after news, at most once a frame. @param {Model} model @param {() => void} draw */
export function follow(model, draw) {
  let due = 0;
  model.on("msg:custom", () => { due ||= requestAnimationFrame(() => { due = 0; draw(); }); });
  draw();
}

/** Fades the lower edge of what is scrolled, while it goes on below. @param {HTMLElement} node */
export function fading(node) {
  const draw = () => { node.classList.toggle("nb-below", node.scrollHeight - node.clientHeight - node.scrollTop > 2); };
  node.addEventListener("scroll", draw, { passive: true });
  const sizes = new ResizeObserver(draw);
  for (const one of [node, ...node.children]) sizes.observe(one);
  return node;
}

/** Draws again when the size of `el` or the theme of the page changes. @param {HTMLElement} el @param {() => void} draw */
export function watch(el, draw) {
  new ResizeObserver(draw).observe(el);
  const later = () => setTimeout(draw, 150);
  new MutationObserver(later).observe(document.body, { attributes: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
}
