// @ts-check
/** @import { Props } from "./kit.js" */
import { follow, heading, keep, root } from "./kit.js";
import { chart } from "./chart.js";

/** @param {any} state @param {Record<string, number | null>} row */
function add(state, row) {
  for (const [name, value] of Object.entries(row)) {
    if (name === state.x_label) continue;
    let line = state.lines.find((/** @type {{name: string}} */ one) => one.name === name);
    if (!line) state.lines.push(line = { name, x: [], y: [], bad: 0 });
    line.x.push(row[state.x_label]);
    line.y.push(value);
    line.bad += Number(value === null);
  }
}

/** @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, model.get("state").stoppable);
  root(el, node);
  const picture = chart(el);
  follow(model, () => {
    const state = model.get("state"), lost = state.lost ? `${state.lost} rows lost on the way` : "";
    title.textContent = state.title;
    status.textContent = [state.status, lost].filter(Boolean).join(" · ");
    picture(state);
  });
}

export default { initialize: keep(add), render };
