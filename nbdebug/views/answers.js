// @ts-check
/** @import { Model } from "./kit.js" */

/**
 * Asks the result in Python, which may be long in answering and may never do so. `met` is told at once when Python is
 * there to be asked, and when it has gone.
 * @param {Model} model @param {(there: boolean) => void} met
 * @returns {(content: object, told?: (progress: any) => void) => Promise<any>} `told` hears how far an answer is
 */
export function asking(model, met) {
  /** @type {Map<number, (answer: any) => void>} */
  const waiting = new Map();
  /** @type {Map<number, (progress: any) => void>} */
  const hearing = new Map();
  model.on("msg:custom", (message) => {
    if (message.kind === "hello") met(!message.trouble);
    if (message.kind === "closed") met(false);
    if (message.kind === "closed" || message.kind === "opened") model.send({ kind: "hello" });
    if (message.kind === "progress") return hearing.get(message.ask)?.(message);
    waiting.get(message.ask)?.(message);
    waiting.delete(message.ask);
    hearing.delete(message.ask);
  });
  if (!model.get("live")) model.send({ kind: "hello" });
  return (content, told) => new Promise((done) => {
    const ask = Math.random();
    waiting.set(ask, done);
    if (told) hearing.set(ask, told);
    model.send({ ...content, ask });
  });
}
