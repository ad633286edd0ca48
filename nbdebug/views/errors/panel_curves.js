// @ts-check
/** The ROC and the precision-recall curve of one class. */
/** @import { PanelShare } from "./panel_kit.js" */
import { h, num } from "../kit.js";
import { panelCount } from "./panel_kit.js";
import { panelLine, panelPlot, panelReading, panelRule } from "./panel_plot.js";

/** @typedef {{x: number[], y: number[], at: (number | null)[], area: PanelShare}} PanelCurve */
/** @typedef {{at: number, name: string, of: number, others: number, roc: PanelCurve | null, pr: PanelCurve | null, sweep: any}} PanelCurves */

/** Both curves, side by side where there is room. @param {PanelCurves} curves */
export function curvesView({ name, of, others, roc, pr }) {
  if (!roc || !pr) return h("div.note", {}, of ? `All ${panelCount(of)} samples are of ${name}, so there is no curve.` : `No sample is of ${name}, so there is no curve.`);
  const share = of / (of + others), one = panelPlot({ label: `ROC curve of ${name}, ${curvesArea("area", roc.area)}`, across: "false alarms among the others", up: `hits among ${panelCount(of)} of the class` });
  const two = panelPlot({ label: `Precision-recall curve of ${name}, ${curvesArea("average precision", pr.area)}`, across: "recall", up: "precision" });
  one.svg.append(panelRule(one.x(0), one.y(0), one.x(1), one.y(1), "--nb-soft", "4 3"), panelLine(one, roc.x, roc.y, "--nb-line0"));
  two.svg.append(panelRule(two.x(0), two.y(share), two.x(1), two.y(share), "--nb-soft", "4 3"), panelLine(two, pr.x, pr.y, "--nb-line1"));
  curvesRead(one, roc, curvesArea("area", roc.area), (i) => `false alarms ${num(roc.x[i])}, hits ${num(roc.y[i])}`);
  curvesRead(two, pr, curvesArea("average precision", pr.area), (i) => `recall ${num(pr.x[i])}, precision ${num(pr.y[i])}`);
  return h("div.panelplots", {}, one.node, two.node);
}

/** @param {import("./panel_plot.js").PanelPlot} plot @param {PanelCurve} curve @param {string} rest @param {(i: number) => string} said */
function curvesRead(plot, curve, rest, said) {
  const from = (/** @type {number} */ i) => (curve.at[i] === null ? "nobody is taken for it" : `from a chance of ${num(curve.at[i])}`);
  panelReading(plot, curve.x, (i) => `${said(i)}: ${from(i)}`, `${rest}; dashed: guessing`, (i) => curve.y[i]);
}

/** @param {string} name @param {PanelShare} area */
function curvesArea(name, [v, low, high]) {
  return `${name} ${num(v)} (${num(low)} to ${num(high)})`;
}
