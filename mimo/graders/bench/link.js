// A group as text for the address bar, and back; what cannot be read gives null.
const MAX_ROLLOUTS = 16;
const MIN_ROLLOUTS = 2;

const written = (value) => (Number.isNaN(value) ? "" : String(value));

function toLink(state) {
  const rows = state.rollouts.map((one) => [
    (one.passed ? "p" : "f") + (one.leak ? "h" : ""),
    written(one.quality), written(one.solution), written(one.behavior), written(one.length),
  ].join(","));
  const parts = [["m", state.method], ["cap", state.cap ?? ""], ["len", state.length ? 1 : 0], ["below", state.below]];
  return [...parts.map(([name, value]) => `${name}=${value}`), `r=${rows.join(";")}`].join("&");
}

function readNumber(text, least, most) {
  if (text === "") return NaN;
  const value = Number(text);
  if (!(value >= least && value <= most)) throw new RangeError(text);
  return value;
}

function readRollout(text) {
  const parts = text.split(",");
  if (parts.length !== 5 || !/^[pf]h?$/.test(parts[0])) throw new RangeError(text);
  const [quality, solution, behavior] = parts.slice(1, 4).map((part) => readNumber(part, 0, 1));
  const length = readNumber(parts[4], 1, 2 ** 53);
  if (Number.isNaN(length)) throw new RangeError(text);
  return { passed: parts[0][0] === "p", leak: parts[0].endsWith("h"), quality, solution, behavior, length };
}

function fromLink(text) {
  try {
    const fields = new URLSearchParams(text.replaceAll("+", "%2B"));
    const method = fields.get("m");
    const below = fields.get("below") ?? "zero";
    const rollouts = (fields.get("r") ?? "").split(";").map(readRollout);
    if (!["gar", "grs"].includes(method) || !["zero", "keep"].includes(below)) return null;
    if (rollouts.length < MIN_ROLLOUTS) return null;
    const cap = readNumber(fields.get("cap") ?? "", 1e-9, 1e9);
    return {
      method, below, rollouts,
      cap: Number.isNaN(cap) ? null : cap,
      length: fields.get("len") === "1" ? LENGTH_PENALTY : null,
    };
  } catch {
    return null;
  }
}
