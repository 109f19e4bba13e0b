// What stands beside the drawing: costs, selection, sends, utilisation, proofs, words.

const ROWS = 500; // of a step's table, beyond which a browser takes its time

const arrow = ({ src, dst }) => `${src} → ${dst}`;
const when = (time, last) => (time < last ? `before step ${time}` : "after the last step");

const fact = (figure, name, note, met = false) =>
  html(
    "div", { class: "fact" },
    html("dd", { class: "figure" }, figure),
    html("dt", {}, name),
    html("dd", { class: `note${met ? " met" : ""}` }, note),
  );

const bound = (least, mine) =>
  value(least) === value(mine) ? ["the least possible", true] : [`at least ${least}`, false];

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
    fact(model.last, "steps S", ...bound(String(model.bounds.steps), String(model.last))),
    fact(rounds, "rounds R", spread),
    fact(model.chunks, "chunks C", chunks),
    fact(model.bandwidth_cost, "R/C", ...bound(model.bounds.bandwidth, model.bandwidth_cost)),
    fact(rounds - model.last, "k = R − S", `${rounds - model.last}-synchronous`),
  );
}

function showProofs(model) {
  const time = `A buffer of L bytes takes S·α + R/C·L·β: ${model.last} × ${model.topology.alpha_us} µs`
    + ` + ${model.bandwidth_cost} × L / ${model.topology.gb_per_s} GB/s.`;
  byId("proofs").replaceChildren(
    html("ul", { class: "claims" }, ...model.claims.map(([word, text]) =>
      html("li", {}, html("span", { class: `badge ${word.replace(" ", "-")}` }, word), text))),
    html("h3", {}, "Lower bounds"),
    ...model.reasons.map((text) => html("p", { class: "small" }, text)),
    html("h3", {}, "Time"),
    html("p", { class: "small" }, time),
  );
}

function showTerms(model) {
  const terms = [
    ["step", "all sends of a step start together; a chunk that arrives goes on in the next."],
    ["round", "the time in which each lane carries one chunk; a step has one or more."],
    ["chunk", "a piece of a buffer that travels as a whole; C of them make up a buffer."],
    ["lane", "what carries one chunk per round; a link is one or more lanes, in one direction."],
  ];
  if (model.combining) {
    const total = model.total(0);
    terms.push(["sum", `3/${total} on a chunk: the contributions of 3 of ${total} ranks are reduced in it.`]);
  }
  byId("terms").replaceChildren(
    ...terms.flatMap(([term, text]) => [html("dt", {}, term), html("dd", {}, text)]),
  );
}

function showLegend(model) {
  const key = (name, text) => html("span", { class: `key ${name}` }, text);
  const ramp = html(
    "span", { class: "key ramp" }, "0",
    ...[1, 2, 3, 4, 5].map((u) => html("i", { class: `u${u}` })), "100% of a link's lanes",
  );
  const tree = [key("k-past", "went before"), key("k-now", "goes now"), key("k-later", "will go")];
  const ranks = [key("k-has", model.combining ? "whole sum" : "has it"), key("k-gets", "gets it now")];
  const part = model.combining ? [key("k-part", "part of the sum")] : [];
  const arc = key("k-arc", "share of what a rank wants");
  const shown = app.chunk === null ? [ramp, arc] : [...tree, ...ranks.slice(0, 1), ...part, ranks[1]];
  byId("legend").replaceChildren(...shown);
}

// --- selection ----------------------------------------------------------------------------------

const sumText = (model, send) => (model.combining ? `${send.after}/${model.total(send.chunk)}` : "");

const row = (model, time, name, ...content) => {
  const phase = time < app.time ? "past" : time === app.time && app.time < model.last ? "now" : "later";
  const state = { past: "", now: " (now)", later: " (later)" }[phase];
  return html(
    "div", { class: `row ${phase}` },
    html("h3", {}, name, html("span", { class: "hidden" }, state)), html("div", {}, ...content),
  );
};

function rankPanel(model, rank) {
  const own = everyone(model.num_chunks).filter((chunk) => model.starts(chunk, rank));
  const start = own.length ? own.map((chunk) => chip(chunk)) : [html("span", { class: "muted" }, "nothing")];
  const rows = [row(model, -1, "At the start", html("p", { class: "chips" }, ...start))];
  for (const [step, sends] of grouped(model.into.get(rank) ?? [], (send) => send.step)) {
    const sources = [...grouped(sends, (send) => send.src)].map(([src, from]) =>
      html(
        "p", { class: "chips" }, html("span", { class: "from" }, `from ${src}`),
        ...from.map((send) => chip(send.chunk, sumText(model, send))),
      ));
    rows.push(row(model, step, `Step ${step}`, ...sources));
  }
  const share = model.progress[app.time][rank];
  const has = share === null ? "It wants nothing: it only passes on." :
    `It has ${Math.round(share * 100)}% of what it wants ${when(app.time, model.last)}.`;
  return [html("p", { class: "muted" }, has), ...rows];
}

function sendText(model, send) {
  if (!model.combining) return html("span", { class: "hop" }, arrow(send));
  const how = send.reduce ? `+${send.carries} = ${sumText(model, send)}` : `copy of ${sumText(model, send)}`;
  return html("span", { class: "hop" }, arrow(send), html("small", {}, how));
}

function chunkPanel(model, chunk) {
  const holders = everyone(model.topology.ranks).filter((r) => model.heldAt(chunk, r, app.time) === model.total(chunk));
  const [from, to] = [model.pre[chunk], model.post[chunk]].map((r) => rankNames(r, model.topology));
  const begins = model.combining ? `${from} contribute to it` : `It starts on ${from}`;
  const whole = model.combining ? "The whole sum is on" : "It is on";
  const text = `${begins[0].toUpperCase()}${begins.slice(1)}; ${to} ${model.post[chunk].length === 1 ? "wants" : "want"} it. `
    + `${whole} ${holders.length} of ${plural(model.topology.ranks, "rank")} ${when(app.time, model.last)}.`;
  const rows = [...grouped(model.ofChunk.get(chunk) ?? [], (send) => send.step)].map(([step, sends]) =>
    row(model, step, `Step ${step}`, html("p", { class: "hops" }, ...sends.map((send) => sendText(model, send)))));
  return [html("p", { class: "muted" }, text), ...rows];
}

function showSelection(model) {
  const { rank, chunk } = app;
  const hint = "Click a rank to see what it holds and from whom it came, or a chunk to follow it.";
  const title = rank !== null ? rankTitle(model.topology, rank) : chunk !== null ? `Chunk ${chunk}` : "Selection";
  byId("selection-title").textContent = title;
  byId("clear").hidden = rank === null && chunk === null;
  byId("chunk").max = model.num_chunks - 1;
  byId("chunk").value = chunk ?? "";
  byId("selection").replaceChildren(
    ...(rank !== null ? rankPanel(model, rank)
      : chunk !== null ? chunkPanel(model, chunk) : [html("p", { class: "muted" }, hint)]),
  );
}

// --- sends and utilisation ----------------------------------------------------------------------

function meter(load, most) {
  const mark = svg("svg", { class: "meter", viewBox: "0 0 40 6", "aria-hidden": "true" },
    svg("rect", { class: "all", width: 40, height: 6, rx: 3 }),
    svg("rect", { class: shade(load / most), width: (40 * load) / most, height: 6, rx: 3 }));
  return html("span", { class: "load" }, mark, `${load}/${most}`);
}

function sendRow(model, number, sends) {
  const link = model.topology.links[number];
  const most = link.lanes * model.rounds[app.time];
  const chips = sends.map((send) => chip(send.chunk, sumText(model, send), model.combining && send.reduce ? "is reduced" : ""));
  return html(
    "tr", { "data-link": number },
    html("th", { scope: "row" }, arrow(link)),
    html("td", {}, html("p", { class: "chips" }, ...chips)),
    html("td", { class: "number" }, meter(sends.length, most)),
  );
}

function showSends(model) {
  const done = app.time === model.last;
  const of = app.rank === null ? "" : `, rank ${app.rank}`;
  byId("sends-title").textContent = done ? "Done" : `Sends of step ${app.time}${of}`;
  if (done) {
    byId("sends").replaceChildren(html("p", { class: "muted" }, "Every rank has what it wants."));
    return;
  }
  const mine = (send) => app.rank === null || send.src === app.rank || send.dst === app.rank;
  const links = grouped(model.steps[app.time].filter(mine), (send) => send.link);
  const all = [...links].sort(([a], [b]) => a - b);
  const rows = all.slice(0, ROWS).map(([link, sends]) => sendRow(model, link, sends));
  const more = `and ${plural(all.length - ROWS, "more link")}: click a rank to see its own`;
  if (all.length > ROWS) rows.push(html("tr", {}, html("td", { colspan: 3, class: "muted" }, more)));
  const names = ["Link", model.combining ? "Chunks, and the sum they make" : "Chunks", "Load"];
  const head = html("tr", {}, ...names.map((name, i) => html("th", { scope: "col", class: i === 2 ? "number" : "" }, name)));
  byId("sends").replaceChildren(html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows)));
}

function useRow(name, loads, lanes, model) {
  const cells = loads.map((load, step) => {
    const most = lanes * model.rounds[step];
    const title = `step ${step}: ${load} of ${most}`;
    return html("td", { class: load ? shade(load / most) : "", "data-step": step, title }, String(load || "·"));
  });
  return html("tr", {}, html("th", { scope: "row" }, name), html("td", { class: "number muted" }, String(lanes)), ...cells);
}

function showUtilisation(model) {
  const names = ["Link", "Lanes", ...model.rounds.map((_, step) => String(step))];
  const head = html("tr", {}, ...names.map((name, i) =>
    html("th", { scope: "col", "data-step": i > 1 ? i - 2 : undefined }, name)));
  const share = (step) => `${Math.round(100 * usedIn(model, step))}%`;
  const all = html("tr", { class: "all" }, html("th", { scope: "row" }, "all links"),
    html("td", { class: "number muted" }, String(model.room)),
    ...model.rounds.map((_, step) => html("td", { "data-step": step }, share(step))));
  const rows = model.topology.links.map((link, i) =>
    useRow(arrow(link), model.loads.map((loads) => loads[i]), link.lanes, model));
  const budgets = model.topology.budgets.map((budget) =>
    useRow(budget.name, model.loads.map((loads) => budget.links.reduce((sum, i) => sum + loads[i], 0)), budget.lanes, model));
  byId("utilisation").replaceChildren(
    html("table", { class: "heat" }, html("thead", {}, head), html("tbody", {}, all, ...budgets, ...rows)));
}

function markStep() {
  for (const old of document.querySelectorAll("#utilisation .current")) old.classList.remove("current");
  for (const cell of document.querySelectorAll(`#utilisation thead [data-step="${app.time}"]`)) cell.classList.add("current");
}

// --- timeline -----------------------------------------------------------------------------------

function showTimeline(model) {
  const bars = model.rounds.map((rounds, step) => {
    const share = usedIn(model, step);
    const height = Math.max(3, 34 * share);
    const bar = svg("svg", { viewBox: "0 0 10 34", preserveAspectRatio: "none" },
      svg("rect", { x: 0, y: 34 - height, width: 10, height }));
    const note = model.last > 12 ? "" : `step ${step}`;
    const title = `step ${step}: ${plural(rounds, "round")}, ${Math.round(100 * share)}% of all lanes`;
    return html("button", { type: "button", tabindex: -1, class: "bar-of", "data-step": step, title }, bar, html("small", {}, note));
  });
  const end = html("button", { type: "button", tabindex: -1, class: "bar-of end", "data-step": model.last },
    html("small", {}, model.last > 12 ? "" : "done"));
  byId("bars").replaceChildren(...bars, end);
  byId("bars").style.setProperty("--stops", model.last + 1);
  byId("step").style.setProperty("--stops", model.last + 1);
  byId("step").max = model.last;
}

function showNow(model) {
  const { time } = app;
  const [range, done] = [byId("step"), time === model.last];
  range.value = time;
  const links = done ? 0 : model.loads[time].reduce((sum, load) => sum + (load > 0), 0);
  const text = done ? `Done after ${plural(model.last, "step")}`
    : `Step ${time}: ${plural(model.steps[time].length, "send")} over ${plural(links, "link")} in ${plural(model.rounds[time], "round")}`;
  range.setAttribute("aria-valuetext", text);
  byId("now").textContent = text;
  for (const bar of byId("bars").children) bar.classList.toggle("on", Number(bar.dataset.step) === time);
}
