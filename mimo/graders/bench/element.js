// <mimo-bench>: the page and the widget of a run report. data-state: a group as link text; share: use the hash.
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value !== null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
};

const FIELDS = { gar: [["quality", "Quality"]], grs: [["solution", "Solution"], ["behavior", "Behaviour"]] };
const NEW_ROLLOUT = { passed: false, leak: false, quality: 0.5, solution: 0.5, behavior: 0.5, length: 200 };

class MimoBench extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return;
    this.attachShadow({ mode: "open" });
    this.shadowRoot.adoptedStyleSheets = [sheet()];
    this.id_ = `b${MimoBench.count++}`;
    this.start = fromLink(this.dataset.state ?? "");
    this.state = (this.hasAttribute("share") && fromLink(location.hash.slice(1))) || this.start;
    this.unread = this.hasAttribute("share") && location.hash.length > 1 && this.state === this.start;
    if (!this.state) {
      this.shadowRoot.append("This group cannot be shown.");
      return;
    }
    this.build();
    if (this.hasAttribute("share")) addEventListener("hashchange", () => this.readHash());
  }

  readHash() {
    const linked = fromLink(location.hash.slice(1));
    this.unread = !linked;
    if (linked && toLink(linked) === toLink(this.state)) return;
    this.state = linked ?? this.state;
    this.build();
  }

  change(edit, rebuild = false) {
    edit(this.state);
    this.unread = false;
    if (this.hasAttribute("share")) history.replaceState(null, "", `#${toLink(this.state)}`);
    if (rebuild) this.rebuild();
    else this.update();
  }

  // Building anew drops the focus; give it back to the control with the same name.
  rebuild() {
    const focus = this.shadowRoot.activeElement?.dataset.key;
    this.build();
    if (focus) this.shadowRoot.querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  }

  build() {
    this.rows = this.state.rollouts.map((_, i) => this.row(i));
    this.story = make("div", { class: "story", role: "status", "aria-live": "polite" });
    this.facts = make("dl", { class: "facts" });
    const list = make("ol", { class: "rollouts", "aria-label": "Rollouts" }, ...this.rows.map((row) => row.node));
    this.shadowRoot.replaceChildren(this.settings(), this.facts, this.story, this.head(), list, this.foot());
    this.update();
  }

  settings() {
    const method = make("fieldset", { class: "choice" }, make("legend", { text: "Grading" }),
      ...[["gar", "GAR: ranks move advantage"], ["grs", "GRS: rubrics set the reward"]].map(([value, text]) => {
        const input = make("input", { type: "radio", name: `${this.id_}method`, value, checked: this.state.method === value, "data-key": value });
        input.addEventListener("change", () => this.change((state) => { state.method = value; }, true));
        return make("label", {}, input, make("span", { text }));
      }));
    const cap = this.check("cap", `Cap the common factor at ${shown(this.state.cap ?? 1.5)}`, this.state.cap !== null,
      (state, on) => { state.cap = on ? 1.5 : null; });
    const length = this.check("length", "Length penalty", this.state.length !== null,
      (state, on) => { state.length = on ? LENGTH_PENALTY : null; });
    const keep = this.check("keep", "Passes below the mean keep theirs", this.state.below === "keep",
      (state, on) => { state.below = on ? "keep" : "zero"; });
    const only = this.state.method === "gar" ? [cap, length, keep] : [length];
    return make("div", { class: "settings" }, method, make("div", { class: "checks" }, ...only));
  }

  check(key, text, on, edit) {
    const input = make("input", { type: "checkbox", checked: on, "data-key": key });
    input.addEventListener("change", () => this.change((state) => edit(state, input.checked)));
    return make("label", { class: "check" }, input, make("span", { text }));
  }

  head() {
    const names = ["Rollout", "Outcome", ...FIELDS[this.state.method].map(([, text]) => text), "Tokens", "Reward"];
    const key = make("span", { class: "key" }, make("i", { class: "was" }), "before", make("i", { class: "now" }), "after");
    return make("div", { class: `head ${this.state.method}`, "aria-hidden": "true" },
      ...names.map((text) => make("span", { text })), make("span", { class: "bars-head" }, "Advantage ", key));
  }

  row(i) {
    const one = this.state.rollouts[i];
    const toggle = (key, text, word) => {
      const button = make("button", { type: "button", class: key, "aria-pressed": String(one[key]), "data-key": `${key}${i}`, "aria-label": `${text} ${name(i)}`, text: word(one[key]) });
      button.addEventListener("click", () => {
        this.change((state) => { state.rollouts[i][key] = !state.rollouts[i][key]; });
        button.setAttribute("aria-pressed", String(this.state.rollouts[i][key]));
        button.textContent = word(this.state.rollouts[i][key]);
      });
      return button;
    };
    const row = { reward: make("output", { class: "reward" }), note: make("span", { class: "note" }) };
    for (const when of ["before", "after"]) {
      row[when] = make("output", { class: `number ${when}` });
      row[`${when}Bar`] = make("i", { class: `bar ${when}`, "aria-hidden": "true" });
    }
    const fields = FIELDS[this.state.method].map(([key, text]) => this.score(i, key, text));
    const length = this.number(i, "length", "Tokens", { min: 1, step: 10 });
    const bars = make("div", { class: "bars" }, make("div", { class: "track" }, row.beforeBar, row.afterBar),
      make("span", { class: "numbers" }, make("span", { class: "sr", text: "advantage before " }), row.before,
        make("span", { class: "arrow", "aria-hidden": "true", text: "\u2192" }), make("span", { class: "sr", text: " after " }), row.after));
    row.node = make("li", { class: this.state.method, role: "group", "aria-label": name(i) },
      make("span", { class: "who" }, make("b", { text: String(i + 1) }), row.note),
      make("span", { class: "verdict" }, toggle("passed", "Passes:", (on) => (on ? "pass" : "fail")), toggle("leak", "Confirmed hack:", () => "leak")),
      ...fields, length, make("span", { class: "cell" }, make("span", { class: "tag", text: "Reward" }), row.reward), bars);
    return row;
  }

  number(i, key, text, limits) {
    const value = this.state.rollouts[i][key];
    const input = make("input", { type: "number", ...limits, value: Number.isNaN(value) ? "" : value, "data-key": `${key}${i}`, "aria-label": `${text}, ${name(i)}` });
    input.addEventListener("input", () => {
      const typed = input.value === "" ? NaN : Number(input.value);
      const wrong = key === "length" ? !(typed >= 1) : typed < 0 || typed > 1;
      input.setAttribute("aria-invalid", String(wrong));
      if (!wrong) this.change((state) => { state.rollouts[i][key] = typed; });
    });
    return make("label", { class: `cell ${key}` }, make("span", { class: "tag", text }), input);
  }

  score(i, key, text) {
    const cell = this.number(i, key, text, { min: 0, max: 1, step: 0.01 });
    const input = cell.querySelector("input");
    const value = this.state.rollouts[i][key];
    const slider = make("input", { type: "range", min: 0, max: 1, step: 0.01, value: Number.isNaN(value) ? 0 : value, tabindex: "-1", "aria-hidden": "true" });
    slider.addEventListener("input", () => { input.value = slider.value; input.dispatchEvent(new Event("input")); });
    input.addEventListener("input", () => { if (input.value !== "") slider.value = input.value; });
    cell.append(slider);
    return cell;
  }

  foot() {
    const button = (key, text, edit, off) => {
      const node = make("button", { type: "button", text, disabled: off, "data-key": key });
      node.addEventListener("click", () => this.change(edit, true));
      return node;
    };
    const count = this.state.rollouts.length;
    const parts = [
      button("add", "Add a rollout", (state) => { state.rollouts.push({ ...NEW_ROLLOUT }); }, count >= MAX_ROLLOUTS),
      button("remove", "Remove the last", (state) => { state.rollouts.pop(); }, count <= MIN_ROLLOUTS),
      button("reset", "Start again", () => { this.state = structuredClone(fromLink(this.dataset.state)); }, false),
    ];
    if (this.hasAttribute("share")) parts.push(this.copy());
    return make("div", { class: "foot" }, ...parts);
  }

  copy() {
    const said = make("span", { role: "status", class: "said" });
    const node = make("button", { type: "button", text: "Copy the link to this group", "data-key": "copy" });
    node.addEventListener("click", async () => {
      history.replaceState(null, "", `#${toLink(this.state)}`);
      try {
        await navigator.clipboard.writeText(location.href);
        said.textContent = "Copied.";
      } catch {
        said.textContent = "The address bar has the link.";
      }
    });
    return make("span", {}, node, said);
  }

  update() {
    const result = groupAdvantages(this.state);
    const widest = Math.max(...result.before.map(Math.abs), ...result.after.map(Math.abs), 1e-9);
    this.rows.forEach((row, i) => this.fill(row, i, result, widest));
    this.facts.replaceChildren(...this.factList(result));
    const lines = sentences(this.state, result);
    if (this.unread) lines.unshift("The link could not be read; this is the example it started from.");
    this.story.replaceChildren(...lines.map((text) => make("p", { text })));
  }

  fill(row, i, result, widest) {
    const one = this.state.rollouts[i];
    put(row.reward, result.valid[i] ? result.reward[i] : NaN, result.valid[i] ? three(result.reward[i]) : "masked");
    row.reward.title = this.state.method === "grs" && result.passed[i] && result.valid[i] ? productText(one, result.product[i]) : "";
    row.reward.dataset.penalty = String(result.penalty[i]);
    for (const when of ["before", "after"]) {
      const value = result[when][i];
      put(row[when], value, signed(value));
      row[`${when}Bar`].style.setProperty("--size", `${(50 * Math.abs(value)) / widest}%`);
      row[`${when}Bar`].classList.toggle("down", value < 0);
    }
    const notes = [];
    if (one.passed && one.leak) notes.push("reset");
    if (result.referenceRollouts.includes(i)) notes.push("reference");
    if (result.penalty[i] >= 0.0005) notes.push(`length \u2212${three(result.penalty[i])}`);
    row.note.textContent = notes.join(", ");
    row.node.classList.toggle("failed", !result.passed[i]);
  }

  factList(result) {
    const fact = (key, title, value, text) => {
      const node = put(make("dd", { "data-fact": key }), value, text);
      return make("div", {}, make("dt", { text: title }), node);
    };
    const total = make("dd", {}, put(make("span", { "data-fact": "totalBefore" }), result.totalBefore, three(result.totalBefore)),
      make("span", { class: "arrow", text: " \u2192 " }), put(make("span", { "data-fact": "totalAfter" }), result.totalAfter, three(result.totalAfter)));
    const facts = [make("div", {}, make("dt", { text: "Total of the passes" }), total)];
    if (this.state.method === "gar") {
      const factor = result.scale === null ? "none" : result.capped ? `${shown(result.applied)} (free ${three(result.scale)})` : three(result.scale);
      facts.push(fact("applied", "Common factor", result.applied ?? NaN, factor));
      facts[1].lastChild.dataset.free = String(result.scale ?? NaN);
      facts.push(fact("deficit", "Taken by the cap", result.deficit, three(result.deficit)));
    }
    const on = result.referenceRollouts.map((i) => i + 1).join(" and ");
    facts.push(fact("reference", "Reference length", result.reference, result.reference ? `${shown(result.reference)} (rollout${result.referenceRollouts.length > 1 ? "s" : ""} ${on})` : "none"));
    return [...facts, fact("sum", "Sum of the group", result.sumAfter, three(result.sumAfter))];
  }
}
MimoBench.count = 0;

// A constructed sheet works where a page's content policy forbids style elements.
function sheet() {
  const made = new CSSStyleSheet();
  made.replaceSync(BENCH_CSS);
  return made;
}

function put(node, value, text) {
  node.textContent = text;
  node.dataset.value = String(value);
  return node;
}

if (!customElements.get("mimo-bench")) customElements.define("mimo-bench", MimoBench);
