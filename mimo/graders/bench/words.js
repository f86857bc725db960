// What happened to the group, in sentences.
const three = (value) => (Object.is(Number(value.toFixed(3)), -0) ? 0 : value).toFixed(3);
const signed = (value) => (Number(value.toFixed(3)) > 0 ? "+" : "") + three(value).replace("-", "\u2212");
const name = (i) => `rollout ${i + 1}`;
const shown = (value) => String(Math.round(value * 1000) / 1000);

const DROPPED = {
  "no rollout passes": "No rollout passes, so there is nothing to learn from: the group is dropped.",
  "every rollout passes": "Every rollout passes, so the outcome separates nobody: the group is dropped. GRS is made for such groups.",
  "rewards have no spread": "All rewards are equal: the group is dropped.",
  "fewer than two graded rollouts": "Fewer than two rollouts have a grade: the group is dropped.",
  "fewer than two valid rollouts": "A group needs two rollouts.",
};

const FELL_BACK = {
  "a passing rollout has no quality in (0, 1]": "A pass has no usable quality, so the whole group keeps its own advantages.",
  "no passing rollout is above the mean": "No pass is above the mean, so there is nothing to move.",
};

function meanQuality(state, result) {
  const giving = state.rollouts.map((_, i) => i).filter((i) => result.passed[i] && result.before[i] > 0);
  const mass = sum(giving.map((i) => result.before[i]));
  return sum(giving.map((i) => result.before[i] * state.rollouts[i].quality)) / mass;
}

function garSentences(state, result) {
  if (result.fallback) return [FELL_BACK[result.fallback]];
  const total = `${three(result.totalBefore)}`;
  if (!result.capped) {
    const kept = Math.abs(result.totalAfter - result.totalBefore) < 5e-10;
    return [kept
      ? `Quality moves advantage between the passes; their total stays ${total} and the failures keep theirs.`
      : `The total of the passes goes from ${total} to ${three(result.totalAfter)}: a pass below the mean lost its negative advantage.`];
  }
  return [
    `Weighted by advantage the mean quality is ${three(meanQuality(state, result))}, below 1/${shown(state.cap)} = `
    + `${three(1 / state.cap)}, so the free factor ${three(result.scale)} is cut to ${shown(state.cap)}. `
    + `The cap takes ${three(result.deficit)} from the passes and centring spreads that over the group: `
    + `the total is ${three(result.totalAfter)} instead of ${total}.`,
  ];
}

function grsSentences(state, result) {
  const graded = state.rollouts.map((_, i) => i).filter((i) => result.passed[i] && result.valid[i]);
  const best = [...graded].sort((a, b) => result.product[b] - result.product[a]);
  const lines = [];
  if (best.length > 1) {
    const [first, last] = [best[0], best[best.length - 1]];
    lines.push(`${productText(state.rollouts[first], result.product[first])} for ${name(first)}, against `
      + `${three(result.product[last])} for ${name(last)}.`);
  }
  const masked = result.valid.filter((one) => !one).length;
  if (masked) lines.push(`${masked} ungraded: left out, never counted as 0.`);
  lines.push(`GRS changes rewards, so nothing fixes the total of the passes: ${three(result.totalBefore)} from the `
    + `tests alone, ${three(result.totalAfter)} with the rubrics.`);
  return lines;
}

const productText = (one, value) =>
  `1 \u00d7 ${one.solution.toFixed(2)} \u00d7 ${one.behavior.toFixed(2)} = ${three(value)}`;

function lengthSentences(state, result) {
  if (!state.length || result.reason) return [];
  const counted = result.valid.filter(Boolean).length;
  const passes = result.passed.filter((won, i) => won && result.valid[i]).length;
  if (!result.reference) return [`${passes} of ${counted} pass, not more than half: no length penalty.`];
  const on = result.referenceRollouts;
  const where = on.map((i) => `${name(i)} (${shown(state.rollouts[i].length)})`).join(" and ");
  const said = on.length > 1 ? `between ${where}` : `that of ${where}`;
  return [`Reference length ${shown(result.reference)}, ${said}: the ${state.length.percentile}th percentile of the passes.`];
}

function sentences(state, result) {
  const hacks = state.rollouts.map((one, i) => (one.passed && one.leak ? name(i) : null)).filter(Boolean);
  const lines = hacks.length ? [`Confirmed hack: ${hacks.join(", ")} counts as failed before any statistic.`] : [];
  if (result.reason) return [...lines, DROPPED[result.reason]];
  const about = state.method === "gar" ? garSentences(state, result) : grsSentences(state, result);
  return [...lines, ...about, ...lengthSentences(state, result)];
}
