// @ts-check
/** @import { Model } from "./kit.js" */

/**
 * Asks the result in Python, which may be long in answering and may never do so. `met` is told at once when Python is
 * there to be asked, and when it has gone.
 * @param {Model} model @param {(there: boolean) => void} met
 * @returns {(content: object) => Promise<any>}
 */
export function asking(model, met) {
  /** @type {Map<number, (answer: any) => void>} */
  const waiting = new Map();
  model.on("msg:custom", (message) => {
    if (message.kind === "hello") met(!message.trouble);
    if (message.kind === "closed") met(false);
    if (message.kind === "closed" || message.kind === "opened") model.send({ kind: "hello" });
    waiting.get(message.ask)?.(message);
    waiting.delete(message.ask);
  });
  if (!model.get("live")) model.send({ kind: "hello" });
  return (content) => new Promise((done) => {
    const ask = Math.random();
    waiting.set(ask, done);
    model.send({ ...content, ask });
  });
}
