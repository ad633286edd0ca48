// @ts-check
/** @import { Model } from "./kit.js" */

/** Carries what pages ask to the kernel and its answers back; is never drawn. @param {{model: Model}} props */
function initialize({ model }) {
  const tell = (/** @type {string} */ name, /** @type {object} */ detail) => dispatchEvent(new CustomEvent(`nbdebug-${name}`, { detail }));
  const ask = (/** @type {any} */ event) => {
    try {
      model.send(event.detail);
    } catch {
      // The kernel has gone.
      close();
    }
  };
  const close = () => {
    removeEventListener("nbdebug-ask", ask);
    tell("closed", {});
  };
  addEventListener("nbdebug-ask", ask);
  model.on("msg:custom", (message, buffers) => tell("answer", { ...message, buffers }));
  tell("opened", {});
  return close;
}

export default { initialize, render() {} };
