// The page of a training plan: its bars, what one points at, and its tables.

const data = JSON.parse(byId("data").textContent);
const spans = readSpans(data);

const called = (span) => {
  const op = data.ops[span.op];
  const motifs = op.option === null ? 1 : data.options[op.option].motifs.length;
  const motif = motifs > 1 ? `, motif ${span.motif}` : "";
  return `${op.name}${motif}, iteration ${span.iteration}`;
};

const number = (text) => html("td", { class: "number" }, text);
const NUMBERS = new Set(["ranks", "size", "operations", "motifs", "alone", "busy", "of the period"]);
const TAKEN = ["Collective", "ranks", "size", "operations", "recipe", "motifs", "alone", "carried by"];
const row = (name, ...texts) =>
  texts.length ? [html("dt", {}, name), html("dd", {}, ...texts)] : [];

/** Say all there is to say of a span; of none, how to get at it. */
function told(span) {
  byId("told-title").textContent = span ? called(span) : "Selection";
  if (!span) {
    const how = "Point at a bar to read what it is; a click shows what it waits for, and what waits.";
    byId("told").replaceChildren(html("p", { class: "muted" }, how));
    return;
  }
  const op = data.ops[span.op];
  const option = op.option === null ? null : data.options[op.option];
  const motif = option?.motifs[span.motif];
  const ready = Math.max(0, ...span.before.map((one) => one.end));
  const waited = span.before.map(
    (one) => `${called(one)} (until ${time(one.end)}${one.end === ready ? ", the last" : ""})`,
  );
  const late = span.start - ready;
  const turn = option
    ? "for its turn in the plan's order, or for room on its links"
    : "for its turn on its stream";
  byId("told").replaceChildren(
    html(
      "dl",
      {},
      ...row("what", op.what),
      ...row("from, to", `${time(span.start)} to ${time(span.end)}, ${time(span.end - span.start)}`),
      ...row("on", data.rows[span.row].name),
      ...(option ? row("recipe", `${option.recipe}, motif ${span.motif} of ${option.motifs.length}`) : []),
      ...(motif ? row("carried by", `${motif.carrier} on ${motif.channel}`) : []),
      ...(motif?.loads ? row("uses", motif.loads) : []),
      ...(option && !option.bitwise ? row("order", "reduces in another order than unsplit") : []),
      ...row("waited for", waited.length ? listed(waited, 6) : "nothing"),
      ...(late > 0 && span.start > 0 ? row("then", `${time(late)} ${turn}`) : []),
      ...row("lets begin", span.after.length ? listed(span.after.map(called), 6) : "nothing"),
    ),
  );
}

function share(part) {
  return svg(
    "svg",
    { class: "share", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "all", width: 100, height: 8 }),
    svg("rect", { width: 100 * part, height: 8 }),
  );
}

function table(head, rows) {
  const cell = (text) => {
    const of = NUMBERS.has(text) ? "number" : undefined;
    return html("th", { scope: "col", class: of }, text);
  };
  return html(
    "table",
    {},
    html("thead", {}, html("tr", {}, ...head.map(cell))),
    html("tbody", {}, ...rows),
  );
}

byId("title").textContent = data.title;
byId("subtitle").textContent = data.subtitle;
byId("facts").replaceChildren(
  ...data.facts.map(([name, figure, note]) =>
    html(
      "div",
      { class: "fact" },
      html("dt", { class: "muted" }, name),
      html("dd", { class: "figure" }, figure),
      html("dd", { class: "note" }, note),
    ),
  ),
);
byId("lanes").replaceChildren(
  table(
    ["Stream or channel", "busy", "of the period", ""],
    data.lanes.map(({ name, busy, part }) =>
      html(
        "tr",
        {},
        html("th", { scope: "row" }, name),
        number(busy),
        number(`${Math.round(100 * part)} %`),
        html("td", {}, share(part)),
      ),
    ),
  ),
);
byId("options").replaceChildren(
  table(
    TAKEN,
    data.taken.map(([first, ...others]) =>
      html(
        "tr",
        {},
        html("th", { scope: "row" }, first),
        ...others.map((text, k) => (NUMBERS.has(TAKEN[k + 1]) ? number(text) : html("td", {}, text))),
      ),
    ),
  ),
);

const gantt = makeGantt(data, spans, told);
const kinds = [[-1, "computation"], ...data.kinds.map((name, kind) => [kind, name])];
byId("legend").replaceChildren(
  ...kinds.map(([kind, name]) =>
    html(
      "span",
      {},
      html("span", { class: `swatch ${kind < 0 ? "c" : `k${kind % 8}`}` }),
      name,
    ),
  ),
);
byId("closer").addEventListener("click", () => gantt.zoom(1 / 1.5));
byId("farther").addEventListener("click", () => gantt.zoom(1.5));
byId("earlier").addEventListener("click", () => gantt.move(-0.4));
byId("later").addEventListener("click", () => gantt.move(0.4));
byId("whole").addEventListener("click", () => gantt.show(0, gantt.end));
byId("repeated").addEventListener("click", () => gantt.show(...data.window));
byId("clear").addEventListener("click", () => gantt.choose(null));
told(null);
gantt.show(...data.window);
