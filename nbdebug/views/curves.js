// @ts-check
/** @import { Props } from "./kit.js" */
import { heading, mountView, redrawOnMessage, trackState } from "./kit.js";
import { lineChart } from "./line_chart.js";

/** @param {any} state @param {Record<string, number | null>} row */
function appendRow(state, row) {
  for (const [name, value] of Object.entries(row)) {
    if (name === state.x_label) continue;
    let line = state.lines.find((/** @type {{name: string}} */ lineItem) => lineItem.name === name);
    if (!line) state.lines.push(line = { name, x: [], y: [], bad: 0 });
    line.x.push(row[state.x_label]);
    line.y.push(value);
    line.bad += Number(value === null);
  }
}

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  mountView(el, node);
  const picture = lineChart(el);
  redrawOnMessage(model, () => {
    const state = model.get("state"), lost = state.lost ? `${state.lost} rows lost in transmission` : "";
    title.textContent = state.title;
    status.textContent = [state.status, lost].filter(Boolean).join(" · ");
    picture(state);
  });
}

export default { initialize: trackState(appendRow), render };
