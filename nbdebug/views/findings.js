// @ts-check
/** @import { Model, Props } from "./kit.js" */
/** @import { Card } from "./finding_cards.js" */
/** @import { LongRequest } from "./long_request.js" */
import { cardTree, foldable, nameValueTable, SEVERITY_SIGNS, skippedChecks } from "./finding_cards.js";
import { connectKernel } from "./kernel_requests.js";
import { formatNumber, h, heading, makeButton, mountView, redrawOnMessage, stopButton, trackState } from "./kit.js";
import { longRequest } from "./long_request.js";

/** Elements that the user may be about to click are created once and kept. @param {Props} props */
function render({ model, el }) {
  const { node, title, status } = heading(model, false), counts = h("div.counts", { role: "group", ariaLabel: "Filter by severity" });
  const bar = h("progress", { ariaLabel: "checks done" }), progressText = h("span", { role: "status" });
  const progress = h("div.progress", {}, bar, progressText, model.get("live") && stopButton(model));
  const banner = h("div"), cards = h("div.cards"), rest = h("div"), trial = fixTrials(model);
  /** @type {Set<string>} */
  const hidden = new Set();
  let drawnKey = "";
  node.append(counts);
  mountView(el, node, progress, banner, cards, rest);

  function updateCards() {
    const { findings, not_checked, more, times } = model.get("state"), key = JSON.stringify([findings, not_checked, times, [...hidden]]);
    if (drawnKey === (drawnKey = key)) return;
    updateFilters(counts, findings, hidden, updateCards);
    cards.replaceChildren(...cardTree(findings, hidden, trial));
    rest.replaceChildren(...skippedChecks(not_checked, more), ...timesOfParts(times));
  }

  redrawOnMessage(model, () => {
    const state = model.get("state"), now = state.progress;
    title.textContent = state.title;
    status.textContent = state.subtitle;
    progress.hidden = !now;
    if (now) Object.assign(bar, { max: now.total || 1, value: now.done });
    if (now) progressText.textContent = `${now.done} of ${now.total} · ${now.name}${remainingTime(now.seconds_left)}`;
    banner.replaceChildren(...resultBanner(state));
    updateCards();
  });
}

/**
 * The buttons that train copies with the fix of a finding, and what they answer; hidden unless Python is available.
 * @param {Model} model @returns {(index: number) => HTMLElement}
 */
function fixTrials(model) {
  /** @type {Map<number, LongRequest>} */
  const trials = new Map();
  let isAvailable = false;
  const ask = connectKernel(model, (available) => {
    isAvailable = available;
    for (const trial of trials.values()) trial.available(available);
  });
  const draw = (/** @type {any} */ answer) => h("pre.code", { style: "white-space:pre-wrap" }, answer.text);
  return (index) => {
    const trial = trials.get(index) ?? longRequest(() => ask, "Training copies…", { "Try it now": () => ({ kind: "try", finding: index }) }, draw);
    trial.available(isAvailable);
    trials.set(index, trial);
    return trial.node;
  };
}

/** Counts by severity; a click shows or hides that severity. @param {HTMLElement} node @param {Card[]} findings @param {Set<string>} hidden @param {() => void} update */
function updateFilters(node, findings, hidden, update) {
  const focusedTitle = /** @type {HTMLElement | null} */ (document.activeElement)?.title;
  node.replaceChildren(...Object.entries(SEVERITY_SIGNS).flatMap(([severity, [sign, words]]) => {
    const n = findings.filter((finding) => finding.severity === severity).length;
    return n ? [makeButton(`count.${severity}`, `${sign} ${n} ${n > 1 ? words : severity}`, () => {
      if (!hidden.delete(severity)) hidden.add(severity);
      update();
    }, { ariaPressed: !hidden.has(severity), title: `Show or hide ${words}` })] : [];
  }));
  for (const button of node.children) if (button instanceof HTMLElement && button.title === focusedTitle) button.focus();
}

/** @param {number | null} seconds */
function remainingTime(seconds) {
  return seconds == null ? "" : ` · about ${formatNumber(Math.ceil(seconds))} s left`;
}

/** The message that nothing was found, or that the checkup was stopped. @param {any} state */
function resultBanner(state) {
  if (state.progress) return [];
  if (state.stopped) return [h("div.banner.warning", {}, `Stopped after ${state.checked} checks. The findings so far are listed.`)];
  if (state.findings.length || !state.checked) return [];
  const checks = state.checked === 1 ? "1 check" : `${state.checked} checks`;
  return [h("div.banner.good", {}, h("span.sign", { ariaHidden: "true" }, "✓"), h("b", {}, `Nothing found by ${checks}.`))];
}

/** The slowest parts of the checkup, and the total. @param {[string, string][] | undefined} times */
function timesOfParts(times) {
  return times?.length ? [foldable("Time of each part", nameValueTable(times))] : [];
}

export default { initialize: trackState(() => {}), render };
