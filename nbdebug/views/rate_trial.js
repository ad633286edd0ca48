// @ts-check
/** Trainings that stayed at one rate each: their curves, and what they came to side by side. */
import { brief, h, num, press } from "./kit.js";
import { chart } from "./chart.js";
import { tops } from "./sweeps.js";

/** @typedef {{rate: number, end: number | null, gap: string, word: string}} Standing */

/** @type {Record<string, string>} */
const SAID = { kept: "✓ kept", lowest: "lowest", "as good": "≈ as good", "clearly worse": "clearly worse", lost: "✕ loss lost", stopped: "stopped" };

/** The part of a page below `host`, empty until something was trained; `go` is told of a rate that is pressed. @param {HTMLElement} host @param {(value: number) => void} go */
export function rateTrial(host, go) {
  const title = h("div.title", { role: "heading", ariaLevel: "4" }, "Trained at these rates, on the same batches");
  const box = h("div.trial", { hidden: true }, title), table = h("div.scroll");
  host.append(box);
  /** @type {ReturnType<typeof chart> | undefined} */
  let picture;
  let key = "";
  return (/** @type {any} */ { trained, standings, title: of }) => {
    box.hidden = !trained.length;
    if (box.hidden) return;
    if (!picture) {
      picture = chart(box);
      box.append(table);
    }
    const more = { title: `${of}: trainings`, marks: [], limits: [], log: false, log_x: false };
    picture({ ...more, lines: trained, x_label: "step", y_label: "loss: thin as measured, thick smoothed", high: tops(trained) });
    if (key === (key = JSON.stringify(standings))) return;
    table.replaceChildren(...(standings.length ? [standingTable(standings, go)] : []));
  };
}

/** @param {Standing[]} standings @param {(value: number) => void} go */
function standingTable(standings, go) {
  const names = ["rate", "loss at the end", "over the lowest", ""];
  const row = (/** @type {Standing} */ { rate, end, gap, word }) => h("tr", {},
    h("td", {}, press("entry", brief(rate), () => go(rate))), h("td", {}, end === null ? "–" : num(end)),
    h("td", {}, gap || "–"), h("td", {}, word === "kept" ? h("b", {}, SAID[word]) : SAID[word] ?? word));
  return h("table.table.readings", {}, h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...standings.map(row)));
}
