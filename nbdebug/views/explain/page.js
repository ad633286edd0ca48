// @ts-check
/** @import { Props, Model } from "../kit.js" */
/** @import { ExplainAsk } from "./store.js" */
/** The explanation of a sample on a page of its own. */
import { root } from "../kit.js";
import { asking } from "../answers.js";
import { explainPage } from "./explanation.js";

/** @param {Props} props */
function render({ model, el }) {
  root(el, explainPage(model.get("state"), explainAsking(model)));
}

/** Asks Python; undefined where it is not there, or goes meanwhile. @param {Model} model @returns {ExplainAsk} */
function explainAsking(model) {
  let there = false, release = () => {}, lost = new Promise((done) => { release = () => done(undefined); });
  const send = asking(model, (now) => {
    there = now;
    if (now) return;
    release();
    lost = new Promise((done) => { release = () => done(undefined); });
  });
  return async (content, told) => (there ? Promise.race([send(content, told), lost]) : undefined);
}

export default { initialize() {}, render };
