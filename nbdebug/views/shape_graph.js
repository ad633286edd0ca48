// @ts-check
/** The calls of a forward pass that raised: a row each with its shapes, and beside them the graph, the break marked. */
import { h, makeButton } from "./kit.js";
import { svgElement } from "./plots.js";

/** @typedef {{path: string, kind: string, inputs: string, outcome: string, status: string, level: number, operands: string, is_operation: boolean, sources: number[], open: boolean}} TraceRow */
/** @typedef {{rows: TraceRow[], not_reached: string}} Trace */

const LANE = 9, MAX_LANES = 6, NODE = 4;

/** The graph with its table; empty if no call is known. @param {Trace} trace */
export function shapeGraph({ rows, not_reached }) {
  const body = h("tbody"), table = h("table.shapes", { ariaLabel: "Shapes up to the operation that raised" }, body);
  const wires = svgElement("svg", { class: "nb-wires", "aria-hidden": "true" }), frame = h("div.graph", {}, wires, table);
  const parents = parentRows(rows), folded = new Set(parents.filter((parent, i) => parent >= 0 && !rows[i].open));
  /** @type {Map<number, HTMLElement>} */
  const elements = new Map();

  function draw() {
    const shown = rows.map((_, i) => i).filter((i) => !ancestors(i, parents).some((parent) => folded.has(parent)));
    elements.clear();
    for (const i of shown) elements.set(i, rowElement(i));
    body.replaceChildren(...elements.values());
    drawWires();
  }

  /** @param {number} i */
  function rowElement(i) {
    const row = rows[i], raised = row.status === "raised", isInput = i === 0 && !raised && row.outcome === "cut off";
    const toggle = () => {
      if (!folded.delete(i)) folded.add(i);
      draw();
      elements.get(i)?.querySelector("button")?.focus();
    };
    const open = !folded.has(i), chevron = i > 0 && parents.includes(i) && makeButton("chevron", open ? "▾" : "▸", toggle, { ariaExpanded: String(open), ariaLabel: `calls of ${row.path}` });
    const name = row.is_operation ? h("span", {}, row.kind) : h("span", {}, h("b", {}, row.path || row.kind), row.path && h("span.soft", {}, ` ${row.kind}`));
    const shapes = isInput ? row.inputs : `${row.inputs} → ${raised ? "" : row.outcome}`;
    return h(raised ? "tr.error.raised" : "tr", { style: `--nb-level: ${Math.max(row.level - 1, 0)}` },
      h("th", { scope: "row" }, chevron, name),
      h("td", {}, h("span", {}, ...keepShapesTogether(shapes)), raised && h("b.tone", {}, "raised"), row.operands && h("div.soft", {}, ...keepShapesTogether(row.operands))));
  }

  /** Draw the nodes at the middle of their names, and a line for each tensor that passes from one to another. */
  function drawWires() {
    const outer = new Set([...elements.keys()].map((i) => parents[i])), nodes = [...elements.keys()].filter((i) => i === 0 || !outer.has(i));
    const edges = nodes.flatMap((i) => visibleSources(rows[i].sources, nodes, parents).filter((source) => source < i).map((source) => ({ from: source, to: i, lane: 0 })));
    const used = placeInLanes(edges, nodes), left = LANE * used + NODE + 4;
    frame.style.setProperty("--nb-gutter", `${left + NODE + 8}px`);
    const y = new Map(nodes.map((i) => [i, middle(/** @type {HTMLElement} */ (elements.get(i)))]));
    const height = table.offsetHeight;
    for (const [name, value] of [["width", left + NODE + 4], ["height", height]]) wires.setAttribute(String(name), String(value));
    wires.replaceChildren(
      ...edges.map(({ from, to, lane }) => svgElement("path", { class: rows[to].status === "raised" ? "nb-broken" : "", d: wirePath(left, y.get(from) ?? 0, y.get(to) ?? 0, lane) })),
      ...nodes.map((i) => nodeMark(left, y.get(i) ?? 0, i === 0, rows[i].status === "raised")));
  }

  draw();
  new ResizeObserver(drawWires).observe(table);
  return rows.length ? h("section.trace", {}, h("div.label", {}, "Shapes up to the operation that raised"), frame, not_reached && h("div.note", {}, not_reached)) : h("div");
}

/** The row around each row; -1 for the outermost. @param {TraceRow[]} rows */
function parentRows(rows) {
  /** @type {number[]} */
  const around = [];
  return rows.map((row, i) => {
    while (around.length && rows[around[around.length - 1]].level >= row.level) around.pop();
    around.push(i);
    return around[around.length - 2] ?? -1;
  });
}

/** @param {number} i @param {number[]} parents */
function ancestors(i, parents) {
  const path = [];
  for (let parent = parents[i]; parent >= 0; parent = parents[parent]) path.push(parent);
  return path;
}

/** The nodes that stand for some rows. @param {number[]} sources @param {number[]} nodes @param {number[]} parents */
function visibleSources(sources, nodes, parents) {
  return [...new Set(sources.flatMap((source) => [source, ...ancestors(source, parents)].find((i) => nodes.includes(i)) ?? []))];
}

/** Give each line that passes other nodes a lane where no other runs; returns the number of lanes. @param {{from: number, to: number, lane: number}[]} edges @param {number[]} nodes */
function placeInLanes(edges, nodes) {
  const place = (/** @type {number} */ i) => nodes.indexOf(i), long = edges.filter((edge) => place(edge.to) - place(edge.from) > 1);
  long.sort((a, b) => place(a.to) - place(a.from) - place(b.to) + place(b.from));
  for (const edge of long) {
    const crosses = (/** @type {number} */ lane) => long.some((other) => other.lane === lane && other.from < edge.to && edge.from < other.to);
    let lane = 1;
    while (lane < MAX_LANES && crosses(lane)) lane++;
    edge.lane = lane;
  }
  return Math.max(0, ...long.map((edge) => edge.lane));
}

/** The middle of the first line of a row. @param {HTMLElement} row */
function middle(row) {
  return row.offsetTop + Math.min(row.offsetHeight / 2, 13);
}

/** @param {number} x @param {number} from @param {number} to @param {number} lane */
function wirePath(x, from, to, lane) {
  if (!lane) return `M${x} ${from}V${to}`;
  const side = x - LANE * lane, bend = Math.min(8, (to - from) / 2);
  return `M${x} ${from}Q${side} ${from} ${side} ${from + bend}V${to - bend}Q${side} ${to} ${x} ${to}`;
}

/** A square for the input, a cross for the break, a dot for other calls. @param {number} x @param {number} y @param {boolean} isInput @param {boolean} isBreak */
function nodeMark(x, y, isInput, isBreak) {
  if (isBreak) return svgElement("path", { class: "nb-broken", d: `M${x - NODE} ${y - NODE}l${2 * NODE} ${2 * NODE}m0 ${-2 * NODE}l${-2 * NODE} ${2 * NODE}` });
  return svgElement("rect", { x: x - NODE, y: y - NODE, width: 2 * NODE, height: 2 * NODE, rx: isInput ? 1 : NODE });
}

/** Keep dtypes with their shapes. @param {string} text */
function keepShapesTogether(text) {
  return text.split(/(\w+ \[[^\]]*\])/).map((part, i) => (i % 2 ? h("span.whole", {}, part) : part));
}
