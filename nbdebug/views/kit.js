// @ts-check
/** DOM helpers, number formats and live state, shared by all views. */

/** @typedef {{get(name: string): any, on(name: string, callback: (message: any, buffers: DataView[]) => void): void, send(content: object): void}} Model */
/** @typedef {{model: Model, el: HTMLElement}} Props */
/** @typedef {Node | string | false | null | undefined} Kid */

/**
 * Create an element: `h("div.head.wide", {title: "…"}, "text", child)`; strings in `kids` become text nodes.
 * @param {string} tag @param {Record<string, any>} [properties] @param {...Kid} kids
 */
export function h(tag, properties = {}, ...kids) {
  const [name, ...kinds] = tag.split("."), node = document.createElement(name);
  node.classList.add(...kinds.map((kind) => `nb-${kind}`));
  for (const key in properties) {
    if (key in node) Reflect.set(node, key, properties[key]);
    else node.setAttribute(key, properties[key]);
  }
  node.append(...kids.flatMap((kid) => kid || []));
  return node;
}

/** Create a button. @param {string} kind @param {string} text @param {() => void} onclick @param {Record<string, any>} [properties] */
export function makeButton(kind, text, onclick, properties = {}) {
  return h(`button.${kind}`, { type: "button", onclick, ...properties }, text);
}

/** Replace the contents of an element; if the keyboard focus was inside, it stays there. @param {HTMLElement} node @param {...Node} kids */
export function replaceKeepingFocus(node, ...kids) {
  const hadFocus = node.contains(document.activeElement);
  node.replaceChildren(...kids);
  if (!hadFocus) return;
  node.tabIndex = -1;
  node.focus({ preventScroll: true });
}

/** Format a number with four digits; integers in full. @param {any} v @returns {string} */
export function formatNumber(v) {
  if (!Number.isFinite(v)) return "–";
  const size = Math.abs(v);
  if (size && (size < 1e-3 || size >= 1e7)) return v.toExponential(2).replace(/\.?0*e\+?/, "e").replace(/-/g, "−");
  return String(Number.isInteger(v) ? v : Number(v.toPrecision(4))).replace("-", "−");
}

/** Format a number with few digits. @param {number | null} v @param {number} [digits] */
export function formatRounded(v, digits = 3) {
  return formatNumber(v === null ? v : Number(v.toPrecision(digits)));
}

/** The ends of an interval as text; empty if there are none. @param {(number | null)[]} interval value, low, high */
export function intervalText([, low, high]) {
  return low === null || high === null ? "" : ` ${formatRounded(low, 2)} to ${formatRounded(high, 2)}`;
}

/** Empty `el` and make it the root of a view. @param {HTMLElement} el @param {...Node} kids */
export function mountView(el, ...kids) {
  el.classList.add("nbdebug");
  el.replaceChildren(...kids);
}

/** A banner with a sign in front of its text. @param {string} tone @param {string} sign @param {...Kid} kids */
export function statusBanner(tone, sign, ...kids) {
  return h(`div.banner.${tone}`, { role: "status" }, h("span.sign", { ariaHidden: "true" }, sign), h("div", {}, ...kids));
}

/** A bulleted list, or false if there are no items. @param {string[]} items */
export function bulletList(items) {
  return items.length > 0 && h("ul", {}, ...items.map((item) => h("li", {}, item)));
}

/** The head of a table. @param {string[]} names */
export function tableHead(names) {
  return h("thead", {}, h("tr", {}, ...names.map((name) => (name ? h("th", { scope: "col" }, name) : h("td")))));
}

/**
 * The rows whose text contains all words of `search`. In a tree, their ancestors are included, and folded rows hide their
 * descendants unless there is a search.
 * @template {{text: string, above: T | null, folded: boolean}} T @param {T[]} rows @param {string} search @param {boolean} tree
 */
export function filterRows(rows, search, tree) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean), hits = rows.filter((row) => words.every((word) => row.text.includes(word)));
  if (!tree) return hits;
  const matched = new Set(hits);
  for (const row of hits) for (let ancestor = row.above; ancestor && !matched.has(ancestor); ancestor = ancestor.above) matched.add(ancestor);
  const hidden = (/** @type {T | null} */ ancestor) => { for (; ancestor; ancestor = ancestor.above) if (ancestor.folded) return true; };
  return rows.filter((row) => matched.has(row) && (words.length > 0 || !hidden(row.above)));
}

/** Title, status line, and the Stop button while the view is live. @param {Model} model @param {boolean} stoppable */
export function heading(model, stoppable) {
  const title = h("div.title", { role: "heading", ariaLevel: "3" }), status = h("div.status", { role: "status" });
  const node = h("div.head", {}, h("div", {}, title, status), stoppable && model.get("live") && stopButton(model));
  return { node, title, status };
}

/** A button that asks the tool to stop and shows the state of that request. @param {Model} model */
export function stopButton(model) {
  const setText = (/** @type {string} */ text) => { Object.assign(button, { ariaDisabled: "true", textContent: text }); };
  const button = makeButton("stop", "■ Stop", () => {
    if (button.ariaDisabled) return;
    setText("Waiting for the cell…");
    button.title = "The notebook's own interrupt button stops at once.";
    model.send({ kind: "stop" });
  });
  model.on("msg:custom", (message) => { if (message.stopping) setText("Stopping…"); });
  return button;
}

/**
 * Keep the state of a live view up to date. A message holds a new state, or rows with the index of the first one, so
 * that no row counts twice and lost rows are counted. Values that are not finite arrive as null, missing values as
 * NaN.
 * @param {(state: any, row: Record<string, number | null>) => void} add
 */
export function trackState(add) {
  return (/** @type {{model: Model}} */ { model }) => model.on("msg:custom", (message, buffers) => {
    const state = model.get("state");
    Object.assign(state, message.state, message.head);
    if (message.state || !message.columns) return; // the latter answers a request
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

/** The direction of an arrow key as [down, right]; its default action is prevented. Null for other keys. @param {KeyboardEvent} event @param {boolean} [level] left and right only */
export function arrowStep(event, level = false) {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ...(!level && { ArrowUp: [-1, 0], ArrowDown: [1, 0] }) }[event.key];
  if (!step) return null;
  event.preventDefault();
  event.stopPropagation();
  return step;
}

/** Draw now, and after each message, at most once per frame. @param {Model} model @param {() => void} draw */
export function redrawOnMessage(model, draw) {
  let due = 0;
  model.on("msg:custom", () => { due ||= requestAnimationFrame(() => { due = 0; draw(); }); });
  draw();
}

/** Fade the lower edge of a scrollable element while there is more below. @param {HTMLElement} node */
export function fadeLowerEdge(node) {
  const draw = () => { node.classList.toggle("nb-below", node.scrollHeight - node.clientHeight - node.scrollTop > 2); };
  node.addEventListener("scroll", draw, { passive: true });
  const sizes = new ResizeObserver(draw);
  for (const element of [node, ...node.children]) sizes.observe(element);
  return node;
}

/** Draw again when the size of `el` or the theme of the page changes. @param {HTMLElement} el @param {() => void} draw */
export function redrawOnResize(el, draw) {
  new ResizeObserver(draw).observe(el);
  const later = () => setTimeout(draw, 150);
  new MutationObserver(later).observe(document.body, { attributes: true });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", later);
}

/**
 * Buttons of which one is pressed; they are recreated only if their names change.
 * @param {HTMLElement} node @param {Record<string, string>} names @param {string} now
 * @param {(name: string) => void} click
 */
export function renderTabs(node, names, now, click) {
  const keys = Object.keys(names),
    key = keys.join("\n");
  if (node.dataset.key !== key) node.replaceChildren(...keys.map((name) => makeButton("tab", names[name], () => click(name), { "data-text": names[name] })));
  node.dataset.key = key;
  [...node.children].forEach((name, i) => {
    name.ariaPressed = String(keys[i] === now);
  });
}

/** Format a share as a percentage. @param {number} v */
export function formatPercent(v) {
  return v !== v ? "–" : `${v > 0 && v < 0.01 ? "<1" : Math.round(100 * v)}%`;
}

/** Code with a label, and a button that copies it; `shown` stands for the code. @param {string} label @param {string} source @param {HTMLElement | null} note @param {HTMLElement} shown */
export function codeBlock(label, source, note = null, shown = h("pre.code", {}, source)) {
  const button = makeButton("copy", "Copy", async () => {
    button.textContent = (await copyText(source)) ? "Copied" : "Select and copy";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }, { ariaLabel: `Copy: ${label}` });
  return h("div", {}, h("div.fix", {}, h("span.label", {}, label), note, source && button), shown);
}

/** Copy to the clipboard; fall back to execCommand where pages may not use it. @param {string} source */
async function copyText(source) {
  try {
    await navigator.clipboard.writeText(source);
    return true;
  } catch {
    const area = /** @type {HTMLTextAreaElement} */ (h("textarea.unseen", { value: source }));
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
