// @ts-check
/** The hidden widget that connects the kernel with static pages and with the pages of running tools; it is never drawn. */
import { storeRun } from "./notebook_outputs.js";
/** @import { Model } from "./kit.js" */
/** @import { Run } from "./notebook_outputs.js" */

/** The page of a run: its element and module, the line above it, and the listeners of its live view. */
/** @typedef {{run: string, el: HTMLElement, note: HTMLElement, view: any, listeners?: ((message: any, buffers: any) => void)[]}} RunPage */

const MAX_PAGES = 32,
  FIRST_PICTURE_MS = 500,
  TAKEOVER_MS = 3000;

/** @param {{model: Model & {widget_manager?: any}}} props */
function initialize({ model }) {
  const shared = /** @type {{nbdebugPages?: Set<RunPage>, nbdebugBridge?: {session: string, number: number, close: () => void} | null, nbdebugSavers?: Map<string, boolean>}} */ (globalThis),
    pages = (shared.nbdebugPages ??= new Set()),
    { kernel, context } = model.widget_manager ?? {},
    /** @type {Set<string>} */ wanted = new Set(),
    /** @type {Map<string, any>} */ timers = new Map(),
    /** @type {Set<string>} */ unsaved = new Set(),
    /** @type {Map<string, string>} */ drawnPictures = new Map(),
    /** @type {Map<string, boolean>} */ savers = (shared.nbdebugSavers ??= new Map()),
    identity = { session: model.get("session"), number: model.get("number"), close };
  let inFile = { ended: /** @type {string[]} */ ([]), pictures: /** @type {Map<string, string>} */ (new Map()) },
    inThisSave = inFile;
  const current = shared.nbdebugBridge;
  if (current && current.session === identity.session && current.number > identity.number) return;
  current?.close();
  shared.nbdebugBridge = identity;
  const dispatch = (/** @type {string} */ name, /** @type {object} */ detail) => dispatchEvent(new CustomEvent(`nbdebug-${name}`, { detail }));

  /** Send at once, if the front end allows it: the kernel answers on its control channel while a cell runs. @param {object} content */
  function sendNow(content) {
    if (!kernel?.sendControlMessage) return model.send(content);
    const header = { msg_id: Math.random().toString(36).slice(2), msg_type: "nbdebug_request", username: "", session: kernel.clientId, version: "5.3", date: new Date().toISOString() };
    kernel.sendControlMessage({ header, parent_header: {}, metadata: {}, content, buffers: [], channel: "control" }, false, true);
  }

  /** @param {RunPage} page */
  function connect(page) {
    for (const other of pages) if (pages.size > MAX_PAGES && !other.el.isConnected) pages.delete(other);
    sendNow({ run: page.run, kind: "hello" });
  }

  /** Draw a page again, as a live one. @param {RunPage} page @param {object} state */
  async function goLive(page, state) {
    const listeners = (page.listeners = /** @type {RunPage["listeners"]} */ ([]));
    const live = {
      get: (/** @type {"state" | "live"} */ name) => ({ state, live: true })[name],
      on: (/** @type {string} */ _, /** @type {any} */ listener) => listeners?.push(listener),
      send: (/** @type {object} */ content) => sendNow({ ...content, run: page.run }),
      ...{ set() {}, save_changes() {}, off() {} },
    };
    page.note.hidden = true;
    page.el.replaceChildren();
    page.view.initialize?.({ model: live });
    await page.view.render({ model: live, el: page.el });
    if (!timers.has(page.run)) askForPicture(page.run, FIRST_PICTURE_MS);
  }

  /** Ask for the picture that a save stores. @param {string} run @param {number} pause */
  function askForPicture(run, pause) {
    clearTimeout(timers.get(run));
    timers.set(run, setTimeout(() => sendNow({ run, kind: "picture" }), pause));
  }

  /**
   * Whether this page saves the pictures of its notebook. Of the pages in one browser only one does, since JupyterLab
   * reports a conflict if two save.
   */
  function isSaver() {
    const path = context.path;
    if (!savers.has(path)) {
      savers.set(path, !navigator.locks);
      navigator.locks?.request(`nbdebug ${path}`, () => {
        savers.set(path, true);
        return new Promise(() => {});
      });
    }
    return savers.get(path);
  }

  /** Let JupyterLab save the picture of a running tool by itself, unless the file has one that is drawn alike. @param {Run} run */
  function markUnsaved({ run, output }) {
    const drawn = /atob\("([^"]*)"/.exec(output?.data["text/html"] ?? "")?.[1] ?? "";
    drawnPictures.set(run, drawn);
    if (inFile.pictures.get(run) !== drawn && isSaver()) context.model.dirty = true;
  }

  /** Keep the output of a run in the notebook. @param {Run} run @param {number} [pause] */
  function keep(run, pause) {
    if (run.running && run.output && pause) askForPicture(run.run, 1000 * pause);
    if (!run.running) clearTimeout(timers.get(run.run));
    const stored = context && storeRun(context.model, run, wanted.has(run.run));
    if (context && run.running && run.output) markUnsaved(run);
    if (stored === "missing") sendNow({ run: run.run, kind: "picture" });
    else wanted.delete(run.run);
    if (stored !== "stored" || run.running) return;
    unsaved.add(run.run);
    if (!context.model.dirty) confirmSaved([...unsaved]);
  }

  /** Tell the kernel that the file has the output of ended runs, so that no page needs it again. @param {string[]} runs */
  function confirmSaved(runs) {
    for (const run of runs) if (unsaved.delete(run)) sendNow({ run, kind: "stored" });
  }
  const onSave = (/** @type {unknown} */ _, /** @type {string} */ state) => {
    if (state === "started") inThisSave = { ended: [...unsaved], pictures: new Map(drawnPictures) };
    if (state !== "completed") return;
    inFile = inThisSave;
    confirmSaved(inFile.ended);
  };

  /** @param {RunPage} page @param {any} message @param {any} buffers */
  function receive(page, message, buffers) {
    if (message.unknown) addNote(page, "Python no longer has this run.");
    else if (message.kind === "ended") markEnded(page, "This run has ended; %nbdebug runs shows its result.");
    else if (message.runs) return;
    else if (message.state && !page.listeners) goLive(page, message.state);
    else page.listeners?.forEach((listener) => listener(message, buffers));
  }

  model.on("msg:custom", (message, buffers) => {
    if (shared.nbdebugBridge !== identity) return;
    if (message.kind === "connected") for (const run of message.runs) wanted.add(run.run);
    for (const run of message.runs ?? []) {
      if (message.kind === "ended") wanted.add(run.run);
      keep(run, message.pause);
    }
    for (const page of pages) if (page.run === message.to) receive(page, message, buffers);
    dispatch("answer", { ...message, buffers });
  });

  const ask = (/** @type {any} */ event) => {
    try {
      if ("stops" in event.detail) sendNow(event.detail);
      else model.send(event.detail);
    } catch {
      // The kernel is gone.
      close();
    }
  };
  const onPage = (/** @type {any} */ event) => connect(event.detail);
  function close() {
    removeEventListener("nbdebug-ask", ask);
    removeEventListener("nbdebug-page", onPage);
    context?.saveState?.disconnect(onSave);
    for (const timer of timers.values()) clearTimeout(timer);
    if (shared.nbdebugBridge !== identity) return;
    shared.nbdebugBridge = null;
    dispatch("closed", {});
    setTimeout(() => {
      if (shared.nbdebugBridge) return;
      for (const page of pages) if (page.listeners) markEnded(page, "No connection to Python. This is how far the page had got.");
    }, TAKEOVER_MS);
  }
  kernel?.statusChanged?.connect((/** @type {unknown} */ _, /** @type {string} */ status) => {
    if (["restarting", "autorestarting", "terminating", "dead"].includes(status)) close();
  });
  if (context) isSaver();
  context?.saveState?.connect(onSave);
  addEventListener("nbdebug-ask", ask);
  addEventListener("nbdebug-page", onPage);
  sendNow({ kind: "connected" });
  for (const page of pages) connect(page);
  dispatch("opened", {});
  return close;
}

/** @param {RunPage} page @param {string} text */
function addNote({ note }, text) {
  note.hidden = false;
  const line = note.querySelector(".nb-more") ?? note.appendChild(Object.assign(document.createElement("p"), { className: "nb-note nb-more" }));
  line.textContent = text;
}

/** Take the buttons away from a page that is no longer live. @param {RunPage} page @param {string} text */
function markEnded(page, text) {
  if (page.listeners) for (const line of page.note.children) /** @type {HTMLElement} */ (line).hidden = true;
  page.listeners = undefined;
  for (const node of page.el.querySelectorAll(".nb-stop, .nb-controls")) /** @type {HTMLElement} */ (node).hidden = true;
  addNote(page, text);
}

export default { initialize, render() {} };
