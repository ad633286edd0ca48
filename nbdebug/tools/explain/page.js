// @ts-check
/** The explanation on a page of its own. */
/** @import { Props } from "../../views/kit.js" */
import { connectKernel } from "../../views/kernel_requests.js";
import { mountView } from "../../views/kit.js";
import { explanationPage } from "./explanation.js";

/** @param {Props} props */
function render({ model, el }) {
  mountView(el, explanationPage(model.get("state"), connectKernel(model, () => {})));
}

export default { initialize() {}, render };
