// @ts-check
/** Outputs of runs in the model of a notebook, in front ends that give a widget access to it, such as JupyterLab. */

/** A run: its name, that of its execution of a cell, the cell, and its output. */
/** @typedef {{run: string, execution: string, cell: string, running: boolean, output: null | {data: Record<string, string>, metadata: any}}} Run */

/** @param {any} output @returns {string} */
const runOf = (output) => output.metadata?.nbdebug?.run ?? "";

/**
 * Put the output of a run where it belongs, and say whether the notebook has it: "stored", "missing" if its content is
 * needed first, or "elsewhere". A running tool is stored only as the picture of the next save; an ended one now. With
 * `insert` its cell receives the output if it has none, and outputs of earlier executions leave it.
 * @param {any} notebook @param {Run} run @param {boolean} insert
 */
export function storeRun(notebook, run, insert) {
  const pictures = savedPictures(notebook);
  if (!run.running) pictures.delete(run.run);
  else if (run.output) pictures.set(run.run, run.output);
  let state = "elsewhere";
  for (const cell of notebook.cells) {
    if (cell.type !== "code") continue;
    /** @type {any[]} */
    const outputs = cell.outputs.toJSON(),
      index = outputs.findIndex((output) => runOf(output) === run.run);
    const isIncomplete = insert && cell.id === run.cell && (index < 0 || !cell.trusted);
    const isOutdated = index >= 0 && !run.running && outputs[index].data["text/html"] !== run.output?.data["text/html"];
    if (index >= 0 && !isIncomplete && !isOutdated) state = "stored";
    if (!isIncomplete && !isOutdated) continue;
    if (!run.output) return "missing";
    replaceOutput(cell, outputs, index, run);
    state = "stored";
  }
  return state;
}

/** @param {any} cell @param {any[]} outputs @param {number} index @param {Run} run */
function replaceOutput(cell, outputs, index, run) {
  const output = { output_type: "display_data", ...run.output };
  if (index >= 0) outputs[index] = output;
  else outputs.push(output);
  // What an untrusted cell has saved must not become trusted with the output that comes from the kernel.
  const isOurs = (/** @type {any} */ item) => item === output || (cell.trusted && (!runOf(item) || runOf(item).startsWith(run.execution)));
  const stored = cell.id === run.cell ? outputs.filter(isOurs) : outputs;
  cell.trusted = true;
  cell.outputs.fromJSON(stored);
}

/**
 * The pictures that a save writes in place of the live outputs, by run. Only the saved text has them, so that what is on
 * the page stays undisturbed.
 * @param {any} notebook @returns {Map<string, NonNullable<Run["output"]>>}
 */
function savedPictures(notebook) {
  if (notebook.nbdebugPictures) return notebook.nbdebugPictures;
  const pictures = (notebook.nbdebugPictures = new Map()),
    toJSON = notebook.toJSON;
  const withPicture = (/** @type {any} */ output) => ({ ...output, ...pictures.get(runOf(output)) });
  notebook.toJSON = () => {
    const content = toJSON.call(notebook);
    for (const cell of content.cells) if (cell.outputs) cell.outputs = cell.outputs.map(withPicture);
    return content;
  };
  return pictures;
}
