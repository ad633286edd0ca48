// @ts-check
/** @import { Props } from "./kit.js" */
/** @import { Picture } from "./chart.js" */
import { follow, h, heading, keep, num, press, root } from "./kit.js";
import { chart, rule } from "./chart.js";
import { code } from "./code.js";
import { placed } from "./flags.js";
import { handle } from "./handle.js";
import { asking } from "./answers.js";
import { band, ends, reading, tops } from "./sweeps.js";

/** @typedef {{name: string, value: number | null, low: number | null, high: number | null, label: string}} Suggestion */

const ROW = 15;
const NARROW = 560;
/** @type {Record<string, number[]>} */
const POLES = { soft: [2, 3], ink: [6, 3], good: [] };
/** @type {Record<string, [string, string]>} */
const SIGNS = { clear: ["✓", "good"], "diverges at once": ["✕", "error"] };

/** @param {any} state @param {Record<string, any>} row */
function add(state, row) {
  const line = state.lines[row.sweep ?? 0];
  line.x.push(row.value);
  line.y.push(row.smooth);
  line.raw.push(row.loss);
}

/** @param {Props} props */
function render({ model, el }) {
  const live = model.get("live"), { node, title, status } = heading(model, model.get("state").stoppable);
  const banner = h("div"), said = h("div.reading", { ariaLive: "polite" }), answer = h("span", { role: "status" }), rest = h("div");
  const use = press("use", "", take, { hidden: true }), line = h("code"), without = h("div.note", { hidden: live }, "To use it, write ", line);
  root(el, node, banner);
  const grip = handle(read), picture = chart(el, (x) => { if (!live) grip.put(x); });
  el.querySelector(".nb-plot")?.append(grip.node);
  el.append(h("div.choice", {}, said, use, answer), without, rest);
  const ask = asking(model, (there) => {
    use.hidden = !there || !model.get("state").usable;
    without.hidden = !use.hidden;
    if (there) return;
    answer.textContent = "";
    use.ariaDisabled = null;
  });
  let key = "";

  function draw() {
    const state = model.get("state");
    title.textContent = state.title;
    status.textContent = state.status;
    grip.span(state, chosen(state));
    picture(drawn(state, el, grip.place));
    if (key === (key = JSON.stringify([state.verdict, state.suggestions, state.current]))) return;
    banner.replaceChildren(...verdict(state));
    rest.replaceChildren(...(state.verdict ? [table(state, grip.put), recipes(state)] : []).flatMap((one) => one || []));
  }

  /** Says what the curves have at `value`. @param {number} value */
  function read(value) {
    const state = model.get("state"), { loss, low, high, slope, count } = reading(state.lines, value, state.log_x);
    const over = count > 1 ? ` (${brief(low)} to ${brief(high)} over ${count} seeds)` : "", wide = state.log_x ? "a decade" : "per 1";
    const text = loss === null ? "no loss there" : `loss ${brief(loss)}${over}, slope ${brief(slope)} ${wide}`;
    said.replaceChildren(h("b", {}, `At ${state.x_label} ${num(value)}: `), text);
    use.textContent = `Use ${num(value)}`;
    line.textContent = state.setting.replaceAll("VALUE", String(value));
    return `${num(value)}, ${text}`;
  }

  async function take() {
    if (use.ariaDisabled) return;
    const value = grip.value();
    use.ariaDisabled = "true";
    answer.textContent = "";
    const late = setTimeout(() => { if (!use.hidden) answer.textContent = "Waiting for the cell…"; }, 600);
    const said = await ask({ kind: "use", value });
    clearTimeout(late);
    use.ariaDisabled = null;
    answer.textContent = said.trouble ?? said.said;
    answer.className = said.trouble ? "nb-wrong" : "nb-right";
    if (said.trouble) return;
    Object.assign(model.get("state"), { current: said.current, judgement: "" });
    draw();
  }

  follow(model, draw);
}

/** A number in few digits. @param {number | null} v @param {number} [digits] */
function brief(v, digits = 3) {
  return num(v === null ? v : Number(v.toPrecision(digits)));
}

/** Where the handle stands at first. @param {any} state @returns {number | null} */
function chosen({ recommended, current, lines, verdict }) {
  if (!verdict) return null;
  const xs = lines.flatMap((/** @type {any} */ line) => line.x);
  return (recommended?.value && Number(recommended.value.toPrecision(2))) ?? current ?? xs[Math.floor(xs.length / 2)] ?? null;
}

/** The values that are marked, and how. @param {any} state @returns {{v: number, name: string, kind: "soft" | "good" | "ink"}[]} */
function marked({ suggestions, recommended, current, log_x }) {
  const all = [
    ...suggestions.map((/** @type {Suggestion} */ one) => ({ v: one.value, name: one.label, kind: "soft" })),
    { v: recommended?.value ?? null, name: "recommended", kind: "good" },
    { v: current, name: "yours", kind: "ink" },
  ];
  return all.filter((one) => one.v !== null && (one.v > 0 || !log_x));
}

/** The chart. @param {any} state @param {HTMLElement} el @param {(f: any) => void} place @returns {Picture} */
function drawn(state, el, place) {
  const { recommended, lines } = state, marks = marked(state), font = `11px ${getComputedStyle(el).fontFamily}`;
  const pen = /** @type {CanvasRenderingContext2D} */ (/** @type {HTMLCanvasElement} */ (h("canvas")).getContext("2d"));
  pen.font = `600 ${font}`;
  /** @type {any[]} */
  let flags = [];
  return {
    ...state, y_label: `${state.y_label}: thin as measured, thick smoothed${ends(lines).length ? ", ✕ diverged" : ""}`,
    marks: [], limits: [], height: 300, high: tops(lines), wide: [...state.span, ...marks.map((one) => one.v)],
    room(x, left, right) {
      const all = marks.map((one) => ({ ...one, at: x(one.v), text: right < NARROW ? one.name : `${one.name} ${brief(one.v, 2)}` }));
      flags = placed(all.map((one) => ({ ...one, wide: pen.measureText(one.text).width })), left, right + 12);
      return 22 + ROW * Math.max(1, ...flags.map((one) => one.row + 1));
    },
    under(g, f, colors) {
      g.globalAlpha = 0.13;
      if (recommended?.low) {
        g.fillStyle = colors.good;
        g.fillRect(f.x(recommended.low), f.top, Math.max(2, f.x(recommended.high) - f.x(recommended.low)), f.bottom - f.top);
      }
      g.fillStyle = colors.ink;
      fill(g, f, band(lines));
      g.globalAlpha = 1;
    },
    over(g, f, colors) {
      for (const { at, start, row, kind } of flags) {
        g.lineWidth = kind === "soft" ? 1 : 2;
        rule(g, at, f.top - 6 - ROW * row + (start > at ? -9 : 4), at, f.bottom, colors[/** @type {"ink"} */ (kind)], POLES[kind]);
      }
      for (const { start, row, text, kind } of flags) {
        const soft = kind === "soft", y = f.top - 6 - ROW * row;
        Object.assign(g, { fillStyle: colors[soft ? "ink" : /** @type {"ink"} */ (kind)], strokeStyle: colors.paper, lineWidth: 3, textAlign: "left", font: (soft ? "" : "600 ") + font });
        g.strokeText(text, start, y);
        g.fillText(text, start, y);
      }
      for (const { x, y, color } of ends(lines)) cross(g, f.x(x), Math.max(f.top, Math.min(f.bottom, f.y(y))), colors.lines[color % 6]);
      place(f);
    },
  };
}

/** The area between the lowest and the highest curve. @param {CanvasRenderingContext2D} g @param {any} f @param {ReturnType<typeof band>} area */
function fill(g, f, area) {
  const path = new Path2D(), y = (/** @type {number} */ v) => Math.max(f.top - 4, Math.min(f.bottom, f.y(v)));
  if (f.log && area.some((one) => one.low <= 0)) return;
  for (const one of area) path.lineTo(f.x(one.x), y(one.high));
  for (const one of [...area].reverse()) path.lineTo(f.x(one.x), y(one.low));
  g.fill(path);
}

/** The place where a sweep broke off. @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {string} color */
function cross(g, x, y, color) {
  Object.assign(g, { strokeStyle: color, lineWidth: 2 });
  g.beginPath();
  for (const side of [-1, 1]) {
    g.moveTo(x - 4, y - 4 * side);
    g.lineTo(x + 4, y + 4 * side);
  }
  g.stroke();
  g.lineWidth = 1;
}

/** What came out, why, and what is said of the user's own value. @param {any} state */
function verdict(state) {
  if (!state.verdict) return [];
  const [sign, tone] = SIGNS[state.verdict] ?? ["?", "warning"];
  const list = (/** @type {string[]} */ items) => items.length > 0 && h("ul", {}, ...items.map((item) => h("li", {}, item)));
  return [h(`div.banner.${tone}`, { role: "status" }, h("span.sign", { ariaHidden: "true" }, sign), h("div", {},
    h("b", {}, state.verdict), state.headline,
    list(state.reasons),
    state.judgement && h("div", {}, h("b", {}, "Yours"), state.judgement),
    state.notes.length > 0 && h("details", {}, h("summary", {}, `Part of these curves (${state.notes.length})`), list(state.notes))))];
}

/** The suggestions side by side; each takes the handle to its place. @param {any} state @param {(value: number) => void} go */
function table(state, go) {
  const cell = (/** @type {number | null} */ v) => h("td", {}, brief(v, 2));
  const row = (/** @type {Suggestion & {each: (number | null)[]}} */ one) => h("tr", {},
    h("td", {}, one.value === null ? one.label : press("entry", one.label, () => go(Number(one.value?.toPrecision(2))))), cell(one.value),
    h("td", {}, one.low === null ? "–" : `${brief(one.low, 2)} to ${brief(one.high, 2)}`), ...one.each.map(cell));
  const names = ["read as", state.x_label, "interval", ...state.lines.map((/** @type {any} */ line) => line.name)];
  const all = [state.recommended, ...state.suggestions].filter(Boolean), some = all.some((one) => one.value !== null);
  return some && h("div.scroll", {}, h("table.table.readings", {}, h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...all.map(row))));
}

/** Schedules to paste. @param {any} state */
function recipes({ recipes }) {
  const all = Object.entries(recipes).filter(([, text]) => text);
  return all.length > 0 && h("details.fold", {}, h("summary", {}, "Schedules to paste"), ...all.map(([name, text]) => code(name, text)));
}

export default { initialize: keep(add), render };
