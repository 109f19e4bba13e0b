// Frontiers: steps against R/C, what is proved impossible, and what is open.

const [WIDE, HIGH] = [640, 380];
const EDGE = { left: 58, right: 26, top: 22, bottom: 48 };
const TICKS = 5;

const cost = (candidate) => candidate.rounds / candidate.chunks;

/** Return a step of 1, 2 or 5 times a power of ten that divides a span into a few ticks. */
function tickOf(span) {
  const rough = span / TICKS || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((m) => m * power >= rough);
}

/** Return the points of a frontier, by ascending S. */
const pointsOf = (frontier) =>
  frontier.points
    .map((index) => {
      const a = data.algorithms[index];
      return { index, a, steps: a.rounds.length, cost: value(a.bandwidth_cost) };
    })
    .sort((p, q) => p.steps - q.steps || p.cost - q.cost);

function scales(frontier, points) {
  const others = [...frontier.open, ...frontier.refuted];
  const least = {
    steps: frontier.bounds?.steps ?? points[0].steps,
    cost: frontier.bounds
      ? value(frontier.bounds.bandwidth)
      : Math.min(...points.map((p) => p.cost)),
  };
  const steps = [...points, ...others, least].map((p) => p.steps);
  const [from, to] = [Math.min(...steps) - 1, Math.max(...steps, least.steps + 1) + 0.6];
  const costs = [...points.map((p) => p.cost), ...frontier.open.map(cost), least.cost];
  const top = Math.max(...costs) * 1.12;
  const bottom = Math.max(0, least.cost - (top - least.cost) * 0.35);
  const [w, h] = [WIDE - EDGE.left - EDGE.right, HIGH - EDGE.top - EDGE.bottom];
  return {
    from,
    to,
    bottom,
    top,
    least,
    x: (s) => EDGE.left + ((s - from) / (to - from)) * w,
    y: (c) => EDGE.top + h - ((Math.min(c, top) - bottom) / (top - bottom)) * h,
  };
}

function axes(scale) {
  const marks = [];
  const step = Math.max(1, tickOf(scale.to - scale.from));
  for (let s = Math.ceil(scale.from / step) * step; s <= scale.to; s += step) {
    marks.push(
      svg("text", { x: scale.x(s), y: HIGH - EDGE.bottom + 20, class: "tick mid" }, String(s)),
    );
  }
  const tick = tickOf(scale.top - scale.bottom);
  for (let c = Math.ceil(scale.bottom / tick) * tick; c <= scale.top; c += tick) {
    const y = scale.y(c);
    marks.push(svg("line", { x1: EDGE.left, x2: WIDE - EDGE.right, y1: y, y2: y, class: "grid" }));
    marks.push(
      svg(
        "text",
        { x: EDGE.left - 10, y: y + 4, class: "tick end" },
        String(Number(c.toPrecision(6))),
      ),
    );
  }
  marks.push(
    svg(
      "text",
      { x: (EDGE.left + WIDE - EDGE.right) / 2, y: HIGH - 8, class: "axis mid" },
      "steps S",
    ),
  );
  marks.push(svg("text", { x: EDGE.left - 44, y: EDGE.top - 8, class: "axis" }, "R/C"));
  return marks;
}

/** Return the region that is proved to be empty: left of and below the bounds, below the limits. */
function impossible(frontier, scale) {
  const { x, y, least } = scale;
  const [left, right, floor] = [x(scale.from), x(scale.to), y(scale.bottom)];
  let edge = `M${left} ${y(scale.top)}H${x(least.steps)}`;
  for (const [steps, limit] of frontier.limits) {
    const end = Math.min(right, x(steps + 1));
    edge += `H${x(steps)}V${y(Math.max(value(limit), least.cost))}H${end}`;
  }
  return svg("path", {
    class: "impossible",
    d: `${edge}V${y(least.cost)}H${right}V${floor}H${left}Z`,
  });
}

function boundMarks(frontier, scale) {
  const x = scale.x(scale.least.steps);
  const y = scale.y(scale.least.cost);
  return [
    svg("line", { class: "bound", x1: x, x2: x, y1: EDGE.top, y2: HIGH - EDGE.bottom }),
    svg("line", { class: "bound", x1: EDGE.left, x2: WIDE - EDGE.right, y1: y, y2: y }),
    svg(
      "text",
      { class: "bound-name end", x: WIDE - EDGE.right, y: y + 15 },
      `R/C ≥ ${frontier.bounds.bandwidth}`,
    ),
    svg(
      "text",
      { class: "bound-name end", x: x - 7, y: EDGE.top + 12 },
      `S ≥ ${frontier.bounds.steps}`,
    ),
  ];
}

function refutedMarks(frontier, scale) {
  const shown = frontier.refuted.filter((c) => cost(c) <= scale.top);
  const places = grouped(shown, (c) => `${c.steps} ${cost(c)}`);
  return [...places.values()].map(([c, ...more]) => {
    const [x, y] = [scale.x(c.steps), scale.y(cost(c))];
    const also = more.length ? ` and ${more.length} more` : "";
    return svg(
      "path",
      { class: "refuted", d: `M${x - 5} ${y}h10` },
      svg("title", {}, `refuted: C=${c.chunks} S=${c.steps} R=${c.rounds}${also}`),
    );
  });
}

const openMarks = (frontier, scale) =>
  frontier.open.map((c) => {
    const [x, y] = [scale.x(c.steps), scale.y(cost(c))];
    return svg(
      "path",
      { class: "open", d: `M${x} ${y - 8}l8 8l-8 8l-8 -8Z` },
      svg("title", {}, `open: C=${c.chunks} S=${c.steps} R=${c.rounds}: ${c.reason}`),
    );
  });

const isProved = (a) => a.claims.some(([word]) => word === "pareto");

const pointName = (a) =>
  `C=${a.chunks} S=${a.rounds.length} R=${a.rounds.reduce((x, y) => x + y, 0)}`;

const pointMarks = (points, scale) =>
  points.map(({ index, a, steps, cost: c }) => {
    const [x, y] = [scale.x(steps), scale.y(c)];
    const proved = isProved(a);
    const state = proved ? "proved" : "best found";
    const name = `${pointName(a)}, R/C ${a.bandwidth_cost}, ${state}: open`;
    return svg(
      "g",
      {
        class: `point${proved ? " proved" : ""}`,
        role: "button",
        tabindex: 0,
        "data-algorithm": index,
        "aria-label": name,
      },
      svg("title", {}, name),
      svg("circle", { class: "halo", cx: x, cy: y, r: 15 }),
      svg("circle", { class: "dot", cx: x, cy: y, r: 7 }),
      svg("text", { x: x + 14, y: y - 9 }, a.bandwidth_cost),
    );
  });

function staircase(points, scale) {
  let path = "";
  for (const { steps, cost: c } of points) {
    path += path ? `H${scale.x(steps)}V${scale.y(c)}` : `M${scale.x(steps)} ${scale.y(c)}`;
  }
  return svg("path", { class: "stairs", d: `${path}H${scale.x(scale.to)}` });
}

/** Return the points that no other one of a frontier dominates. */
const best = (points) => points.filter((p, i) => points.slice(0, i).every((q) => q.cost > p.cost));

function chart(frontier, points) {
  const scale = scales(frontier, points);
  const name = `Frontier of ${frontier.collective} on ${frontier.topology}: steps against R/C`;
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "group", "aria-label": name },
    frontier.bounds ? impossible(frontier, scale) : null,
    ...axes(scale),
    ...(frontier.bounds ? boundMarks(frontier, scale) : []),
    staircase(best(points), scale),
    ...refutedMarks(frontier, scale),
    ...openMarks(frontier, scale),
    ...pointMarks(points, scale),
  );
}

function fastest(frontier, index) {
  const found = frontier.fastest.find(([number]) => number === index);
  if (!found) return "–";
  const [, from, to] = found;
  return to === null ? `${size(from)} and more` : `${size(from)} to ${size(to)}`;
}

function pointTable(frontier, points) {
  const names = ["S", "R", "C", "R/C", "Optimal in", "State", "Fastest for"];
  const rows = points.map(({ index, a }) => {
    const optimal = a.claims
      .map(([word]) => word)
      .filter((word) => ["latency", "bandwidth", "limit"].includes(word));
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
    ];
    return html(
      "tr",
      {},
      ...cells.map((cell) => html("td", { class: "number" }, String(cell))),
      html("td", {}, optimal.join(" and ") || "–"),
      html("td", {}, isProved(a) ? "proved" : "best found"),
      html("td", {}, fastest(frontier, index)),
      html("td", {}, open),
    );
  });
  const head = html(
    "tr",
    {},
    ...names.map((name, i) => html("th", { scope: "col", class: i < 4 ? "number" : "" }, name)),
    html("th", { scope: "col" }, html("span", { class: "hidden" }, "Open")),
  );
  return html(
    "div",
    { class: "wide" },
    html("table", {}, html("thead", {}, head), html("tbody", {}, ...rows)),
  );
}

function chartLegend(frontier, points) {
  const key = (name, text) => html("span", { class: `key ${name}` }, text);
  return html(
    "div",
    { class: "legend" },
    points.some(({ a }) => isProved(a)) ? key("k-proved", "proved") : null,
    points.some(({ a }) => !isProved(a)) ? key("k-found", "best found") : null,
    frontier.open.length ? key("k-open", "open candidate") : null,
    frontier.refuted.length ? key("k-refuted", "refuted candidate") : null,
    frontier.bounds ? key("k-impossible", "proved impossible") : null,
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
  const cards = data.frontiers.map((frontier) => {
    const points = pointsOf(frontier);
    const root = frontier.root === null ? "" : `, root ${frontier.root}`;
    return html(
      "article",
      { class: "card frontier" },
      html("h2", {}, `${frontier.collective} on ${frontier.topology}${root}`),
      frontier.class ? html("p", {}, `Class: ${frontier.class}`) : null,
      frontier.summary ? html("p", { class: "muted" }, frontier.summary) : null,
      chart(frontier, points),
      html(
        "div",
        {},
        chartLegend(frontier, points),
        pointTable(frontier, points),
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
