// What stands beside the drawing: costs, proofs, words, and what is selected.

const arrow = ({ src, dst }) => `${src} → ${dst}`;
const when = (time, last) => (time < last ? `before step ${time}` : "after the last step");

const fact = (figure, name, note, met = false) =>
  html(
    "div",
    { class: "fact" },
    html("dd", { class: "figure" }, figure),
    html("dt", {}, name),
    html("dd", { class: `note${met ? " met" : ""}` }, note),
  );

/** Return what a bound says of a cost, and whether it is met. */
function bound(least, mine) {
  return value(String(least)) === value(String(mine))
    ? ["meets the lower bound", true]
    : [`at least ${least}`];
}

function showFacts(model) {
  const rounds = model.rounds.reduce((sum, r) => sum + r, 0);
  const spread = model.rounds.length > 12 ? "over all steps" : model.rounds.join(" + ");
  const chunks = `${plural(model.num_chunks, "chunk")} in all`;
  byId("title").textContent = `${model.collective} on ${model.topology.name}`;
  byId("subtitle").textContent = [
    plural(model.topology.ranks, "rank"),
    plural(model.topology.links.length, "link"),
    plural(model.all.length, "send"),
    ...(model.root === null ? [] : [`root ${model.root}`]),
    model.file,
  ].join(" · ");
  byId("facts").replaceChildren(
    fact(model.last, "steps S", ...bound(model.bounds.steps, model.last)),
    fact(rounds, "rounds R", spread),
    fact(model.chunks, "chunks C", chunks),
    fact(model.bandwidth_cost, "R/C", ...bound(model.bounds.bandwidth, model.bandwidth_cost)),
    fact(rounds - model.last, "k = R − S", `${rounds - model.last}-synchronous`),
  );
}

function showProofs(model) {
  const time =
    "A buffer of L bytes takes S·α + R/C·L·β: " +
    `${model.last} × ${model.topology.alpha_us} µs` +
    ` + ${model.bandwidth_cost} × L / ${model.topology.gb_per_s} GB/s. ` +
    model.topology.cost_note;
  byId("proofs").replaceChildren(
    html(
      "ul",
      { class: "claims" },
      ...model.claims.map(([word, text]) =>
        html("li", {}, html("span", { class: `badge ${word.replace(" ", "-")}` }, word), text),
      ),
    ),
    html("h3", {}, "Lower bounds"),
    ...model.reasons.map((text) => html("p", { class: "small" }, text)),
    html("h3", {}, "Time"),
    html("p", { class: "small" }, time),
  );
}

function showTerms(model) {
  const terms = [
    ["step", "all sends of a step start together; a chunk can be forwarded in the next step."],
    ["round", "the time in which each lane carries one chunk; a step has one or more."],
    ["chunk", "a piece of a buffer that travels as a whole; C of them make up a buffer."],
    ["lane", "one direction of a link has one or more lanes; each carries one chunk per round."],
  ];
  if (model.combining) {
    const total = model.total(0);
    terms.push([
      "sum",
      `3/${total} on a chunk: the contributions of 3 of ${total} ranks are reduced in it.`,
    ]);
  }
  byId("terms").replaceChildren(
    ...terms.flatMap(([term, text]) => [html("dt", {}, term), html("dd", {}, text)]),
  );
}

function showLegend(model) {
  const key = (name, text) => html("span", { class: `key ${name}` }, text);
  const ramp = html(
    "span",
    { class: "key ramp" },
    "0",
    ...[1, 2, 3, 4, 5].map((u) => html("i", { class: `u${u}` })),
    "100% of a link's lanes",
  );
  const busy = html("span", { class: "key ramp" }, html("i", { class: "u5" }), "busy");
  const tree = [key("k-past", "went before"), key("k-now", "goes now"), key("k-later", "will go")];
  const ranks = [
    key("k-has", model.combining ? "whole sum" : "has it"),
    key("k-gets", "gets it now"),
  ];
  const part = model.combining ? [key("k-part", "part of the sum")] : [];
  const arc = key("k-arc", "share of its demand that a rank holds");
  const shown =
    app.chunk === null ? [model.timed ? busy : ramp, arc] : [...tree, ...ranks.slice(0, 1), ...part, ranks[1]];
  const shared = model.topology.links.some((link) => link.shared);
  if (shared) shown.push(key("k-shared", "shares a budget"));
  byId("legend").replaceChildren(...shown);
}

// --- selection ----------------------------------------------------------------------------------

const sumText = (model, send) =>
  model.combining ? `${send.after}/${model.total(send.chunk)}` : "";

const row = (model, time, name, ...content) => {
  const phase =
    time < app.time ? "past" : time === app.time && app.time < model.last ? "now" : "later";
  const state = { past: "", now: " (now)", later: " (later)" }[phase];
  return html(
    "div",
    { class: `row ${phase}` },
    html("h3", {}, name, html("span", { class: "hidden" }, state)),
    html("div", {}, ...content),
  );
};

function rankPanel(model, rank) {
  const own = everyone(model.num_chunks).filter((chunk) => model.starts(chunk, rank));
  const start = own.length
    ? own.map((chunk) => chip(chunk))
    : [html("span", { class: "muted" }, "nothing")];
  const rows = [row(model, -1, "At the start", html("p", { class: "chips" }, ...start))];
  for (const [step, sends] of grouped(model.into.get(rank) ?? [], (send) => send.step)) {
    const sources = [...grouped(sends, (send) => send.src)].map(([src, from]) =>
      html(
        "p",
        { class: "chips" },
        html("span", { class: "from" }, `from ${src}`),
        ...from.map((send) => chip(send.chunk, sumText(model, send))),
      ),
    );
    rows.push(row(model, step, `Step ${step}`, ...sources));
  }
  const share = app.progress[rank];
  const has =
    share === null
      ? "It wants nothing: it only passes on."
      : `It has ${Math.round(share * 100)}% of what it wants ${when(app.time, model.last)}.`;
  return [html("p", { class: "muted" }, has), ...rows];
}

function sendText(model, send) {
  if (!model.combining) return html("span", { class: "hop" }, arrow(send));
  const how = send.reduce
    ? `+${send.carries} = ${sumText(model, send)}`
    : `copy of ${sumText(model, send)}`;
  return html("span", { class: "hop" }, arrow(send), html("small", {}, how));
}

function chunkPanel(model, chunk) {
  const holders = everyone(model.topology.ranks).filter(
    (r) => model.heldAt(chunk, r, app.time) === model.total(chunk),
  );
  const [from, to] = [model.pre[chunk], model.post[chunk]].map((r) => rankNames(r, model.topology));
  const begins = model.combining
    ? `It is the sum of contributions of ${from}`
    : `It starts on ${from}`;
  const whole = model.combining ? "The whole sum is on" : "It is on";
  const ranks = plural(model.topology.ranks, "rank");
  const text =
    `${begins}; wanted by ${to}. ` +
    `${whole} ${holders.length} of ${ranks} ${when(app.time, model.last)}.`;
  const rows = [...grouped(model.ofChunk.get(chunk) ?? [], (send) => send.step)].map(
    ([step, sends]) =>
      row(
        model,
        step,
        `Step ${step}`,
        html("p", { class: "hops" }, ...sends.map((send) => sendText(model, send))),
      ),
  );
  return [html("p", { class: "muted" }, text), ...rows];
}

/** Show the selected chunk in its field, unless that holds what is no chunk: it is told below. */
function showField(model, chunk) {
  const field = byId("chunk");
  field.max = model.num_chunks - 1;
  field.setAttribute("aria-invalid", String(app.wrong));
  if (!app.wrong) field.value = chunk ?? "";
}

function showSelection(model) {
  const { rank, chunk } = app;
  const last = model.num_chunks - 1;
  const hint = app.wrong
    ? `There is no such chunk: give a number from 0 to ${last}.`
    : "Click a rank to see what it holds and from whom it came, or a chunk to follow it.";
  const title =
    rank !== null
      ? rankTitle(model.topology, rank)
      : chunk !== null
        ? `Chunk ${chunk}`
        : "Selection";
  byId("selection-title").textContent = title;
  byId("clear").hidden = rank === null && chunk === null;
  showField(model, chunk);
  byId("selection").replaceChildren(
    ...(rank !== null
      ? (model.timed ? timedRankPanel : rankPanel)(model, rank)
      : chunk !== null
        ? (model.timed ? timedChunkPanel : chunkPanel)(model, chunk)
        : [html("p", { class: app.wrong ? "" : "muted", role: app.wrong && "alert" }, hint)]),
  );
}
