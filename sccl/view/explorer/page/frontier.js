// Frontiers: a chart of each, what its marks mean, and its points as a table.

/** Return the points of a frontier, by ascending S. */
const pointsOf = (frontier) =>
  frontier.points
    .map((index) => {
      const a = data.algorithms[index];
      return { index, a, steps: a.rounds.length, cost: value(a.bandwidth_cost) };
    })
    .sort((p, q) => p.steps - q.steps || p.cost - q.cost);

function fastest(frontier, index) {
  const found = frontier.fastest.find(([number]) => number === index);
  if (!found) return "–";
  const [, from, to] = found;
  return to === null ? `${size(from)} and more` : `${size(from)} to ${size(to)}`;
}

/** Costs that attain their lower bounds, by the bound. */
const OPTIMAL_TEXT = { latency: "S", bandwidth: "R/C", limit: "R/C for this S" };

function pointTable(frontier, points) {
  const several = frontier.classes.length > 0;
  const met = several ? ["Family", "Optimal in its family"] : ["Optimal in"];
  const methods = new Map(frontier.found_by);
  const by = methods.size ? ["Found by"] : [];
  const names = ["S", "R", "C", "R/C", ...met, "State", ...by, "Fastest for"];
  const rows = points.map(({ index, a }) => {
    const optimal = a.claims.map(([word]) => OPTIMAL_TEXT[word]).filter(Boolean);
    const open = html(
      "button",
      { type: "button", class: "link-button", "data-algorithm": index },
      "Open",
    );
    const cells = [
      a.rounds.length,
      a.rounds.reduce((x, y) => x + y, 0),
      a.chunks,
      a.bandwidth_cost,
      ...(several ? [frontier.classes[classOf(frontier, index)]?.name ?? "–"] : []),
      optimal.join(", ") || "–",
      stateOf(frontier, { index, a }),
      ...(methods.size ? [methods.get(index) ?? "–"] : []),
      fastest(frontier, index),
    ];
    // On narrow screens, where rows are stacked, each cell says its column.
    const cell = (text, i) =>
      html("td", { class: i < 4 ? "number" : "", "data-name": names[i] }, String(text));
    return html("tr", {}, ...cells.map(cell), html("td", {}, open));
  });
  const head = html(
    "tr",
    {},
    ...names.map((name, i) => html("th", { scope: "col", class: i < 4 ? "number" : "" }, name)),
    html("th", { scope: "col" }, html("span", { class: "hidden" }, "Open")),
  );
  return html(
    "div",
    { class: "points" },
    html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows)),
  );
}

/** Return a legend's entry with the mark itself. */
const markKey = (kind, text) =>
  html(
    "span",
    { class: "key drawn" },
    svg("svg", { viewBox: "0 0 20 16", "aria-hidden": "true" }, shape(kind, 10, 8, 5)),
    text,
  );

/** Return a legend's entry for a class: its line. */
const lineKey = (name, number) =>
  html(
    "span",
    { class: "key drawn" },
    svg(
      "svg",
      { viewBox: "0 0 20 16", "aria-hidden": "true" },
      svg("path", { class: `stairs${styleOf(number)}`, d: "M1 8H19" }),
    ),
    name,
  );

/** Return what is known of each class. */
function classList(frontier) {
  if (!frontier.classes.length) return null;
  return html(
    "ul",
    { class: "small muted" },
    ...frontier.classes.map((one) =>
      html("li", {}, `${one.name}: ${one.scope}. ${one.summary}`),
    ),
  );
}

function chartLegend(frontier, points) {
  const states = points.map((point) => stateOf(frontier, point));
  const restricted = states.filter((state) => kindOf(state) === "searched");
  const count = frontier.refuted.length;
  return html(
    "div",
    { class: "legend" },
    ...frontier.classes.map(({ name }, number) => lineKey(name, number)),
    states.includes("proved") ? markKey("proved", "proved") : null,
    restricted.length ? markKey("searched", restricted[0]) : null,
    states.includes("best found") ? markKey("found", "best found") : null,
    [frontier, ...frontier.classes].some((one) => one.approached.length) ? markKey("approached", "approached, not attained") : null,
    frontier.open.length ? markKey("open", "open candidate") : null,
    // Not all have a mark: there is not room for each.
    count ? markKey("refuted", `refuted candidate${count > 1 ? ` (of ${count})` : ""}`) : null,
    bareLimits(frontier, points).length ? markKey("limit", "limit of R/C for this S") : null,
    html("span", { class: "key k-impossible" }, "proved impossible"),
    restricted.length
      ? html("span", { class: "key k-searched" }, "refuted for the k and C searched")
      : null,
  );
}

function openList(frontier) {
  if (!frontier.open.length) return null;
  return html(
    "ul",
    { class: "small muted" },
    ...frontier.open
      .slice(0, 20)
      .map((c) => html("li", {}, `open: C=${c.chunks} S=${c.steps} R=${c.rounds}: ${c.reason}`)),
  );
}

function showFrontiers() {
  const cards = data.frontiers.map((frontier, number) => {
    const points = pointsOf(frontier);
    const root = frontier.root === null ? "" : `, root ${frontier.root}`;
    return html(
      "article",
      { class: "card frontier" },
      html("h2", {}, `${frontier.collective} on ${frontier.topology}${root}`),
      frontier.class ? html("p", {}, `Algorithms: ${frontier.class}`) : null,
      frontier.summary ? html("p", { class: "muted" }, frontier.summary) : null,
      html("div", { class: "plot", "data-frontier": number }),
      html(
        "div",
        {},
        chartLegend(frontier, points),
        pointTable(frontier, points),
        frontier.cost_note ? html("p", { class: "small muted" }, frontier.cost_note) : null,
        classList(frontier),
        openList(frontier),
      ),
    );
  });
  const hint =
    "Each point is an algorithm: fewer steps S for small buffers, a smaller R/C for large ones. " +
    "Click one to watch it.";
  byId("frontier-view").replaceChildren(
    html(
      "div",
      { class: "head" },
      html(
        "div",
        {},
        html("h1", {}, plural(cards.length, "frontier").replace(/^1 f/, "F")),
        html("p", { class: "muted" }, hint),
      ),
    ),
    html("div", { class: `cards${cards.length > 1 ? " many" : ""}` }, ...cards),
  );
}

/** Draw every chart as wide as there is room for it. */
function drawCharts() {
  for (const plot of document.querySelectorAll(".plot")) {
    const [frontier, width] = [data.frontiers[plot.dataset.frontier], plot.clientWidth];
    if (width) plot.replaceChildren(chart(frontier, pointsOf(frontier), width));
  }
}
