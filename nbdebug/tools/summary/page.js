// @ts-check
/** The summary of a model that raised: its modules, and the calls up to the one that raised. */
/** @import { Props } from "../../views/kit.js" */
import { renderTable } from "../../views/foldable_table.js";
import { trackState } from "../../views/kit.js";
import { shapeGraph } from "../../views/shape_graph.js";

/** @param {Props} props */
function render({ model, el }) {
  renderTable({ model, el });
  el.append(shapeGraph(model.get("state").trace));
}

export default { initialize: trackState(() => {}), render };
