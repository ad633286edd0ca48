// @ts-check
/** The hidden widget that passes requests from static pages to the kernel. */
/** @import { Model } from "./kit.js" */

/** Passes requests of static pages to the kernel, and answers back; it is never drawn. @param {{model: Model}} props */
function initialize({ model }) {
  const dispatch = (/** @type {string} */ name, /** @type {object} */ detail) => dispatchEvent(new CustomEvent(`nbdebug-${name}`, { detail }));
  const ask = (/** @type {any} */ event) => {
    try {
      model.send(event.detail);
    } catch {
      // The kernel is gone.
      close();
    }
  };
  const close = () => {
    removeEventListener("nbdebug-ask", ask);
    dispatch("closed", {});
  };
  addEventListener("nbdebug-ask", ask);
  model.on("msg:custom", (message, buffers) => dispatch("answer", { ...message, buffers }));
  dispatch("opened", {});
  return close;
}

export default { initialize, render() {} };
