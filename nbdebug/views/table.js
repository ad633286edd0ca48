// @ts-check
import { renderFoldableTable } from "./foldable_table.js";
import { trackState } from "./kit.js";

/** A page with one foldable table. */
export default { initialize: trackState(() => {}), render: renderFoldableTable };
