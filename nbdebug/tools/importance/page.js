// @ts-check
/** Feature importance: bars with intervals, beeswarm, dependence plot and maps. */
/** @import { Props } from "../../views/kit.js" */
import { extentWithZero, palette, prepareCanvas } from "../../views/axes.js";
import { formatRounded, h, intervalText, makeButton, mountView, redrawOnResize, renderTabs } from "../../views/kit.js";
import { beeswarmPlot, dependencePlot } from "./beeswarm.js";

/** @param {Props} props */
function render({ model, el }) {
  const state = model.get("state"), tabs = h("div.tabs.m-tabs", { role: "group", ariaLabel: "views" }), content = h("div");
  const dependence = state.swarms.length ? dependencePlot(state) : null;
  /** @param {number} feature */
  const go = (feature) => {
    if (!dependence || feature >= state.swarms.length) return;
    dependence.choose(feature);
    open("dependence");
  };
  /** @type {Record<string, () => HTMLElement>} */
  const makers = {
    ...(state.maps.length && { maps: () => mapGrid(state.maps) }),
    bars: () => barTable(state, go),
    ...(dependence && { swarm: () => beeswarmPlot(state, go), dependence: () => dependence.node }),
  };
  const names = { maps: "Map", bars: "Bars", swarm: "Beeswarm", dependence: "Dependence" }, titles = Object.fromEntries(Object.entries(names).filter(([name]) => makers[name]));
  /** @type {Record<string, HTMLElement>} */
  const built = {};

  /** @param {string} name */
  function open(name) {
    built[name] ??= makers[name]();
    renderTabs(tabs, titles, name, open);
    content.replaceChildren(built[name]);
  }

  const head = h("div.m-head", {}, h("div.title", { role: "heading", ariaLevel: "3" }, state.title), h("div.status", {}, state.headline), h("div.note", {}, state.said));
  const notes = state.notes.length > 0 && h("ul.m-notes", {}, ...state.notes.map((/** @type {string} */ note) => h("li", {}, note)));
  mountView(el, head, ...(Object.keys(titles).length > 1 ? [tabs] : []), content, ...(notes ? [notes] : []));
  open(Object.keys(titles)[0]);
}

export default { initialize() {}, render };

/** @typedef {(number | null)[]} Interval value, low, high */
/** @typedef {{name: string, kind: string, size: Interval, signed: Interval, share: number | null, drop: Interval, told: boolean}} ImportanceRow */

const ROWS_SHOWN = 20;

/** The table. @param {any} state @param {(feature: number) => void} go */
function barTable(state, go) {
  /** @type {ImportanceRow[]} */
  const rows = state.rows;
  const columns = [
    ...(state.attributed ? [{ key: "size", title: state.words, spans: extentWithZero(rows.map((row) => row.size).flat()) }] : []),
    ...(state.permuted ? [{ key: "drop", title: `${state.metric === "loss" ? "rise" : "fall"} of ${state.metric} when permuted`, spans: extentWithZero(rows.map((row) => row.drop).flat()) }] : []),
  ];
  const heads = h("tr"), body = h("tbody"), node = h("div.m-bars", {}, h("table.m-table", {}, h("thead", {}, heads), body));
  let by = columns[0]?.key, all = false;

  function draw() {
    const order = rows.map((_, i) => i).sort((a, b) => sortValue(rows[b], by) - sortValue(rows[a], by) || a - b);
    heads.replaceChildren(h("th", { scope: "col" }, "feature"), ...columns.map((column) => {
      const button = makeButton("sort", column.title, () => { by = column.key; draw(); });
      return h("th", { scope: "col", ariaSort: by === column.key ? "descending" : "none" }, columns.length > 1 ? button : column.title, columns.length > 1 && by === column.key && h("span.arrow", { ariaHidden: "true" }, "▼"));
    }));
    body.replaceChildren(...order.slice(0, all ? rows.length : ROWS_SHOWN).map((i) => line(i)));
  }

  /** @param {number} i */
  function line(i) {
    const row = rows[i], name = i < state.swarms.length ? makeButton("way", row.name, () => go(i), { title: "How its attribution depends on its value" }) : row.name;
    return h("tr", {}, h("th", { scope: "row" }, name), ...columns.map(({ key, title, spans }) => {
      const ends = key === "size" ? row.size : row.drop, sign = key === "drop" && row.told && h("span.m-told", { title: "significant" }, " *");
      return h("td", { "data-label": title }, intervalBar(ends, spans, key), h("span.m-number", {}, formatRounded(ends[0]), h("span.soft", {}, intervalText(ends)), sign));
    }));
  }

  draw();
  if (rows.length > ROWS_SHOWN) {
    const more = makeButton("more", `Show all ${rows.length}${state.features > rows.length ? ` of ${state.features}` : ""}`, () => { all = true; more.remove(); draw(); });
    node.append(more);
  }
  if (rows.some((row) => row.told)) node.append(h("div.note", {}, "* significant, with a false discovery rate of at most 5%. Intervals are 95% intervals."));
  return node;
}

/** The value that rows are sorted by. @param {ImportanceRow} row @param {string} by */
function sortValue(row, by) {
  return (by === "drop" ? row.drop[0] : row.size[0]) ?? -Infinity;
}

/** A bar from zero with its interval. @param {Interval} ends @param {[number, number]} span @param {string} kind */
function intervalBar([value, low, high], [from, to], kind) {
  const at = (/** @type {number} */ v) => `${((v - from) / (to - from) * 100).toFixed(2)}%`, wide = (/** @type {number} */ v) => `${(Math.abs(v) / (to - from) * 100).toFixed(2)}%`;
  if (value === null) return h("div.m-bar");
  const bar = h(`i.m-${kind}`, { style: `left:${at(Math.min(0, value))};width:${wide(value)}` });
  const ends = low !== null && high !== null && h("i.m-ends", { style: `left:${at(low)};width:${wide(high - low)}` });
  return h("div.m-bar", { ariaHidden: "true" }, bar, ends, from < 0 && h("i.m-zero", { style: `left:${at(0)}` }));
}

/** @typedef {{title: string, rows: (number | null)[][]}} ImportanceMap */

const MAP_SIDE = 260;

/** All maps next to each other. @param {ImportanceMap[]} maps */
function mapGrid(maps) {
  return h("div.m-maps", {}, ...maps.map(mapView));
}

/** @param {ImportanceMap} map */
function mapView({ title, rows }) {
  const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" })), stage = h("div.m-map", {}, canvas), values = rows.flat().filter((v) => v !== null);
  const low = Math.min(0, ...values), high = Math.max(0, ...values), size = Math.max(Math.abs(low), high) || 1, wide = rows[0].length;
  const rest = `from ${formatRounded(Math.min(...values))} to ${formatRounded(Math.max(...values))}`, caption = h("div.note", { ariaLive: "polite" }, rest);
  const cells = rows.flatMap((row, i) => row.map((v, j) => ({ i, j, v: v ?? -Infinity }))).sort((a, b) => b.v - a.v);
  canvas.ariaLabel = `${title}, ${rest}; highest at row ${cells[0].i}, column ${cells[0].j}`;

  function draw() {
    const width = Math.min(MAP_SIDE, stage.parentElement?.clientWidth ?? MAP_SIDE), cell = width / wide, tall = Math.max(cell, Math.min(40, 60 / rows.length)), g = prepareCanvas(canvas, width, Math.round(tall * rows.length));
    const colors = palette(stage), edge = (/** @type {number} */ n, /** @type {number} */ size_) => Math.round(n * size_);
    rows.forEach((row, i) => row.forEach((v, j) => {
      g.globalAlpha = v === null ? 0 : Math.abs(v) / size;
      g.fillStyle = (v ?? 0) < 0 ? colors.lines[0] : colors.lines[1];
      g.fillRect(edge(j, cell), edge(i, tall), edge(j + 1, cell) - edge(j, cell), edge(i + 1, tall) - edge(i, tall));
    }));
    g.globalAlpha = 1;
    g.strokeStyle = colors.faint;
    g.strokeRect(0.5, 0.5, width - 1, Math.round(tall * rows.length) - 1);
  }

  canvas.onpointermove = (event) => {
    const box = canvas.getBoundingClientRect(), i = Math.floor((event.clientY - box.top) / box.height * rows.length), j = Math.floor((event.clientX - box.left) / box.width * wide);
    caption.textContent = `row ${i}, column ${j}: ${formatRounded(rows[i]?.[j] ?? null)}`;
  };
  canvas.onpointerleave = () => { caption.textContent = rest; };
  redrawOnResize(stage, draw);
  return h("div.m-mapped", {}, h("div.label", {}, title), stage, caption);
}
