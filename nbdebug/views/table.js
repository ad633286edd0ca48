// @ts-check
/** A page with a foldable table. */
import { renderTable } from "./foldable_table.js";
import { trackState } from "./kit.js";

export default { initialize: trackState(() => {}), render: renderTable };
