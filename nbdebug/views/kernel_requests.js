// @ts-check
/** Requests from a page to the result in Python. */
/** @import { Model } from "./kit.js" */

/** `stop` asks Python to stop the request with this content. @typedef {((content: object, onProgress?: (progress: any) => void) => Promise<any>) & {stop: (content: object) => void}} Ask */

/**
 * Connects a page to its result in Python. `onAvailability` is called when Python becomes available or unavailable.
 * @param {Model} model @param {(available: boolean) => void} onAvailability
 * @returns {Ask} sends a request; the promise resolves to the answer, or to undefined if Python is not available or
 *   becomes unavailable before it answers
 */
export function connectKernel(model, onAvailability) {
  /** @type {Map<number, (answer: any) => void>} */
  const pending = new Map();
  /** @type {Map<number, (progress: any) => void>} */
  const progressCallbacks = new Map();
  /** @type {WeakMap<object, number>} */
  const numbers = new WeakMap();
  let connected = false;

  /** @param {boolean} available */
  function setConnected(available) {
    connected = available;
    if (!available) {
      for (const resolve of pending.values()) resolve(undefined);
      pending.clear();
      progressCallbacks.clear();
    }
    onAvailability(available);
  }

  model.on("msg:custom", (message) => {
    if (message.kind === "hello") setConnected(!message.trouble);
    if (message.kind === "closed") setConnected(false);
    if (message.kind === "closed" || message.kind === "opened") model.send({ kind: "hello" });
    if (message.kind === "progress") return progressCallbacks.get(message.ask)?.(message);
    pending.get(message.ask)?.(message);
    pending.delete(message.ask);
    progressCallbacks.delete(message.ask);
  });
  // The answer must not come before the caller has the result of this function.
  if (!model.get("live")) queueMicrotask(() => model.send({ kind: "hello" }));
  /** @type {(content: object, onProgress?: (progress: any) => void) => Promise<any>} */
  const send = async (content, onProgress) => connected ? new Promise((resolve) => {
    const requestId = Math.random();
    numbers.set(content, requestId);
    pending.set(requestId, resolve);
    if (onProgress) progressCallbacks.set(requestId, onProgress);
    model.send({ ...content, ask: requestId });
  }) : undefined;
  const stop = (/** @type {object} */ content) => model.send({ kind: "stop", stops: numbers.get(content) });
  return Object.assign(send, { stop });
}
