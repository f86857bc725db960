// One group's advantages, as mimo.algo computes them; a browser test compares the two to 1e-9.
// A missing score or factor is NaN. Sources and formulas: docs/advantages.md.
const SPREAD_EPSILON = 1e-9;
const LENGTH_PENALTY = { max: 0.2, deadzone: 0, saturation: 1, exponent: 1.5, percentile: 30, gate: 0.5 };

const sum = (values) => values.reduce((total, value) => total + value, 0);
const usable = (factor) => factor > 0 && factor <= 1;

function centred(rewards, inside) {
  const mean = sum(rewards.filter((_, i) => inside[i])) / Math.max(inside.filter(Boolean).length, 1);
  return rewards.map((reward, i) => (inside[i] ? reward - mean : 0));
}

function spread(rewards, inside) {
  const counted = rewards.filter((_, i) => inside[i]);
  return counted.length ? Math.max(...counted) - Math.min(...counted) : 0;
}

// Leak reset first, then the base reward: 1 or 0, times both rubric scores under GRS.
function baseRewards(state) {
  const passed = state.rollouts.map((one) => one.passed && !one.leak);
  const grs = state.method === "grs";
  const score = (one) => one.solution * one.behavior;
  const valid = state.rollouts.map((one, i) => !(grs && passed[i] && Number.isNaN(score(one))));
  const rewards = state.rollouts.map((one, i) => (passed[i] ? (grs ? score(one) : 1) : 0));
  return { passed, valid, rewards };
}

function dropReason(state, { passed, valid, rewards }) {
  const count = valid.filter(Boolean).length;
  const passes = passed.filter((won, i) => won && valid[i]).length;
  if (count < 2) return count < valid.length ? "fewer than two graded rollouts" : "fewer than two valid rollouts";
  if (state.method === "grs") return spread(rewards, valid) <= SPREAD_EPSILON ? "rewards have no spread" : null;
  if (passes === 0) return "no rollout passes";
  return passes === count ? "every rollout passes" : null;
}

// The quantile of the passes' lengths (linear), with the one or two rollouts it lies on.
function lengthReference(state, passed, inside) {
  const rule = state.length;
  const members = state.rollouts.map((_, i) => i).filter((i) => passed[i] && inside[i]);
  const count = inside.filter(Boolean).length;
  if (!rule || !count || !(members.length / count > rule.gate)) return { length: 0, rollouts: [] };
  members.sort((a, b) => state.rollouts[a].length - state.rollouts[b].length);
  const position = (members.length - 1) * (rule.percentile / 100);
  const low = Math.floor(position);
  const high = Math.min(low + 1, members.length - 1);
  const [lower, upper] = [members[low], members[high]].map((i) => state.rollouts[i].length);
  const length = lower + (upper - lower) * (position - low);
  const on = position === low || lower === upper ? [members[low]] : [members[low], members[high]];
  return length > 0 ? { length, rollouts: on } : { length: 0, rollouts: [] };
}

function penaltyOf(rule, length, reference) {
  const excess = (length / reference - 1 - rule.deadzone) / (rule.saturation - rule.deadzone);
  return rule.max * Math.min(Math.max(excess, 0), 1) ** rule.exponent;
}

// GAR, Eq. 8 form: a+ on the passes times the capped common factor and quality; then centred again.
function redistribution(state, own, passed, inside) {
  const member = own.map((_, i) => passed[i] && inside[i]);
  const giving = own.map((value, i) => member[i] && value > 0);
  const weighted = own.map((value, i) => (giving[i] ? state.rollouts[i].quality * value : 0));
  const mass = sum(own.filter((_, i) => giving[i]));
  const none = { after: own, scale: null, applied: null, capped: false, deficit: 0 };
  if (member.some((one, i) => one && !usable(state.rollouts[i].quality))) {
    return { ...none, fallback: "a passing rollout has no quality in (0, 1]" };
  }
  const scale = mass / sum(weighted);
  if (!Number.isFinite(scale)) return { ...none, fallback: "no passing rollout is above the mean" };
  const applied = Math.min(scale, state.cap ?? Infinity);
  const keep = state.below === "keep";
  const moved = own.map((value, i) => (giving[i] ? applied * weighted[i] : member[i] && !keep ? 0 : value));
  const deficit = mass - applied * sum(weighted);
  return { after: centred(moved, inside), scale, applied, capped: applied < scale, deficit, fallback: null };
}

// Everything the page shows. `before`: centred rewards (GAR), or those of the tests alone (GRS).
function groupAdvantages(state) {
  const base = baseRewards(state);
  const { passed, valid } = base;
  const grs = state.method === "grs";
  let reason = dropReason(state, base);
  let inside = valid.map((one) => one && !reason);
  const reference = lengthReference(state, passed, inside);
  const penalty = state.rollouts.map((one, i) =>
    reference.length > 0 && passed[i] && inside[i] ? penaltyOf(state.length, one.length, reference.length) : 0);
  const reward = base.rewards.map((value, i) =>
    !valid[i] ? 0 : grs ? value * Math.max(1 - penalty[i], 0) : value - penalty[i]);
  if (!reason && spread(reward, inside) <= SPREAD_EPSILON) reason = "rewards have no spread";
  inside = inside.map((one) => one && !reason);
  const own = centred(reward, inside);
  const nothing = { after: own, scale: null, applied: null, capped: false, deficit: 0, fallback: null };
  const result = grs || reason ? nothing : redistribution(state, own, passed, inside);
  const before = grs ? centred(passed.map(Number), passed.map(() => true)) : own;
  const total = (values) => sum(values.filter((_, i) => passed[i]));
  return {
    ...result, passed, valid, reward, penalty, before, reason, product: base.rewards,
    reference: reference.length, referenceRollouts: reference.rollouts,
    totalBefore: total(before), totalAfter: total(result.after), sumAfter: sum(result.after),
  };
}
