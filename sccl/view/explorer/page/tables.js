// The sends of a step, the use of every link, and the timeline.

const ROWS = 500; // of a step's table, beyond which a browser takes its time

function meter(load, most) {
  const mark = svg(
    "svg",
    { class: "meter", viewBox: "0 0 40 6", "aria-hidden": "true" },
    svg("rect", { class: "all", width: 40, height: 6, rx: 3 }),
    svg("rect", { class: shade(load / most), width: (40 * load) / most, height: 6, rx: 3 }),
  );
  return html("span", { class: "load" }, mark, `${load}/${most}`);
}

function sendRow(model, number, sends) {
  const link = model.topology.links[number];
  const most = link.lanes * model.rounds[app.time];
  const chips = sends.map((send) =>
    chip(send.chunk, sumText(model, send), model.combining && send.reduce ? "is reduced" : ""),
  );
  return html(
    "tr",
    { "data-link": number },
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
  if (all.length > ROWS)
    rows.push(html("tr", {}, html("td", { colspan: 3, class: "muted" }, more)));
  const names = ["Link", model.combining ? "Chunks, and the sum they make" : "Chunks", "Load"];
  const head = html(
    "tr",
    {},
    ...names.map((name, i) => html("th", { scope: "col", class: i === 2 ? "number" : "" }, name)),
  );
  byId("sends").replaceChildren(
    html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows)),
  );
}

function useRow(name, loads, lanes, model) {
  const cells = loads.map((load, step) => {
    const most = lanes * model.rounds[step];
    const title = `step ${step}: ${load} of ${most}`;
    return html(
      "td",
      { class: load ? shade(load / most) : "", "data-step": step, title },
      String(load || "·"),
    );
  });
  return html(
    "tr",
    {},
    html("th", { scope: "row" }, name),
    html("td", { class: "number muted" }, String(lanes)),
    ...cells,
  );
}

function showUtilisation(model) {
  byId("utilisation-note").textContent = model.topology.budgets.length
    ? "Chunks on each shared budget and link in each step. Color: share of its capacity."
    : "Chunks on each link in each step. Color: share of the capacity of its lanes.";
  const some = model.topology.budgets.length > 0;
  const first = some ? "Budget or link" : "Link";
  const names = [first, "Lanes", ...model.rounds.map((_, step) => String(step))];
  const head = html(
    "tr",
    {},
    ...names.map((name, i) =>
      html("th", { scope: "col", "data-step": i > 1 ? i - 2 : undefined }, name),
    ),
  );
  const share = (step) => `${Math.round(100 * usedIn(model, step))}%`;
  const all = html(
    "tr",
    { class: "all" },
    html("th", { scope: "row" }, "all links"),
    html("td", { class: "number muted" }, String(model.room)),
    ...model.rounds.map((_, step) => html("td", { "data-step": step }, share(step))),
  );
  const rows = model.topology.links.map((link, i) =>
    useRow(
      arrow(link),
      model.loads.map((loads) => loads[i]),
      link.lanes,
      model,
    ),
  );
  const inOrder = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });
  const budgets = [...model.topology.budgets].sort(inOrder).map((budget) =>
    useRow(
      budget.name,
      model.loads.map((loads) => budget.links.reduce((sum, i) => sum + loads[i], 0)),
      budget.lanes,
      model,
    ),
  );
  byId("utilisation").replaceChildren(
    html(
      "table",
      { class: "heat" },
      html("thead", {}, head),
      html("tbody", {}, all, ...budgets, ...rows),
    ),
  );
}

function markStep() {
  for (const old of document.querySelectorAll("#utilisation .current"))
    old.classList.remove("current");
  for (const cell of document.querySelectorAll(`#utilisation thead [data-step="${app.time}"]`))
    cell.classList.add("current");
}

// --- timeline -----------------------------------------------------------------------------------

function showTimeline(model) {
  const bars = model.rounds.map((rounds, step) => {
    const share = usedIn(model, step);
    const height = Math.max(3, 34 * share);
    const bar = svg(
      "svg",
      { viewBox: "0 0 10 34", preserveAspectRatio: "none" },
      svg("rect", { x: 0, y: 34 - height, width: 10, height }),
    );
    const note = model.last > 12 ? "" : `step ${step}`;
    const used = `${Math.round(100 * share)}% of all lanes`;
    const title = `step ${step}: ${plural(rounds, "round")}, ${used}`;
    return html(
      "button",
      { type: "button", tabindex: -1, class: "bar-of", "data-step": step, title },
      bar,
      html("small", {}, note),
    );
  });
  const end = html(
    "button",
    { type: "button", tabindex: -1, class: "bar-of end", "data-step": model.last },
    html("small", {}, model.last > 12 ? "" : "done"),
  );
  byId("bars").replaceChildren(...bars, end);
  byId("bars").style.setProperty("--stops", model.last + 1);
  byId("step").style.setProperty("--stops", model.last + 1);
}

function showNow(model) {
  const { time } = app;
  const [range, done] = [byId("step"), time === model.last];
  range.value = time;
  const links = done ? 0 : model.loads[time].reduce((sum, load) => sum + (load > 0), 0);
  const sends = done ? "" : plural(model.steps[time].length, "send");
  const rounds = done ? "" : plural(model.rounds[time], "round");
  const text = done
    ? `Done after ${plural(model.last, "step")}`
    : `Step ${time}: ${sends} over ${plural(links, "link")} in ${rounds}`;
  range.setAttribute("aria-valuetext", text);
  byId("now").textContent = text;
  for (const bar of byId("bars").children)
    bar.classList.toggle("on", Number(bar.dataset.step) === time);
}
