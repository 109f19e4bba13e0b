// The chart of a frontier: latency against bandwidth, what is proved impossible, and what is open.
// Its units are pixels of the screen, so that letters keep their size on narrow ones.

const FONT = 13;
const TICKS = 5;
const MARK = 6.5; // radius of a mark
const APART = 13; // between marks of refuted candidates, and from others

const cost = (candidate) => candidate.rounds / candidate.chunks;

const isProved = (a) => a.claims.some(([word]) => word === "pareto");

/** Return the number of the class that a point is of; -1: there is only one. */
const classOf = (frontier, index) =>
  frontier.classes.findIndex(({ points }) => points.includes(index));

/** Return the name of the style of a class; of the only one there is none. */
const styleOf = (number) => (number < 0 ? "" : ` of-class-${number % 3}`);

/** Return the points of each class, or of the only one. */
const parts = (frontier, points) =>
  frontier.classes.length
    ? frontier.classes.map((one, number) => ({
        ...one,
        number,
        points: points.filter(({ index }) => one.points.includes(index)),
      }))
    : [{ ...frontier, number: -1, points }];

/** Return what is known of a point: proofs may be restricted to some k and C. */
function stateOf(frontier, { index, a }) {
  const restricted = frontier.restricted.find(([number]) => number === index);
  if (!isProved(a)) return "best found";
  return restricted ? restricted[1] : "proved";
}

/** Return the kind of mark that a point has. */
const kindOf = (state) =>
  ({ proved: "proved", "best found": "found" })[state] ?? "searched";

const pointName = (a) =>
  a.timed
    ? `C=${a.chunks}, ${us(a.finish * a.tick_us)}`
    : `C=${a.chunks} S=${a.rounds.length} R=${a.rounds.reduce((x, y) => x + y, 0)}`;

/** Return the mark of a kind. The static charts have the same. */
function shape(name, x, y, r = MARK) {
  const [kind] = name.split(" ");
  const path = (d) => svg("path", { class: `mark ${name}`, d });
  const [d, h] = [r * 1.25, r * 0.8];
  if (kind === "proved" || kind === "searched")
    return svg("circle", { class: `mark ${name}`, cx: x, cy: y, r });
  if (kind === "found") return path(`M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`);
  if (kind === "approached") return path(`M${x} ${y - d}l${d} ${d}l${-d} ${d}l${-d} ${-d}Z`);
  if (kind === "open") return path(`M${x} ${y - d}l${d} ${1.9 * d}h${-2 * d}Z`);
  if (kind === "limit") return path(`M${x - r - 3} ${y}h${2 * r + 6}`);
  return path(`M${x - h} ${y - h}l${2 * h} ${2 * h}m0 ${-2 * h}l${-2 * h} ${2 * h}`); // refuted
}

// --- scales and axes ----------------------------------------------------------------------------

/** Return a step of 1, 2 or 5 times a power of ten that divides a span into a few ticks. */
function tickOf(span) {
  const rough = span / TICKS || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((m) => m * power >= rough);
}

const ticksOf = (tick, from, to) => {
  const first = Math.ceil(from / tick);
  return Array.from({ length: Math.floor(to / tick) - first + 1 }, (_, i) =>
    Number(((first + i) * tick).toPrecision(6)),
  );
};

const limitsOf = (limits) => limits.map(([steps, text]) => ({ steps, text, cost: value(text) }));

function scales(frontier, points, width) {
  const others = [...frontier.open, ...frontier.refuted];
  const limits = [frontier, ...frontier.classes].flatMap((one) => [
    ...one.limits,
    ...one.approached,
  ]);
  const known = [...points, ...limitsOf(limits)];
  const least = {
    steps: frontier.bounds.steps,
    cost: value(frontier.bounds.bandwidth),
  };
  const steps = [...known, ...others, least].map((p) => p.steps);
  const [from, to] = [Math.min(...steps) - 0.75, Math.max(...steps, least.steps + 1) + 0.75];
  const costs = [...known.map((p) => p.cost), ...frontier.open.map(cost), least.cost];
  const span = Math.max(...costs) - least.cost || least.cost / 2;
  const top = Math.max(...costs) + 0.25 * span;
  const bottom = Math.max(0, least.cost - 0.3 * span);
  const rises = ticksOf(tickOf(top - bottom), bottom, top);
  const height = Math.round(Math.min(400, Math.max(330, width * 0.6)));
  const wide = Math.max(...rises.map((c) => textSize(String(c), FONT)[0]));
  const plot = { left: 32 + wide, right: width - 6, top: 8, bottom: height - 48 };
  return {
    from,
    to,
    bottom,
    top,
    least,
    rises,
    plot,
    width,
    height,
    x: (s) => plot.left + ((s - from) / (to - from)) * (plot.right - plot.left),
    y: (c) =>
      plot.bottom - ((Math.min(c, top) - bottom) / (top - bottom)) * (plot.bottom - plot.top),
  };
}

function axes(scale) {
  const { plot, x, y, height } = scale;
  const middle = (plot.top + plot.bottom) / 2;
  const tick = Math.max(1, tickOf(scale.to - scale.from));
  const text = (attributes, name) => svg("text", attributes, name);
  return [
    ...ticksOf(tick, scale.from, scale.to).map((s) =>
      text({ x: x(s), y: plot.bottom + 20, class: "tick mid" }, String(s)),
    ),
    ...scale.rises.flatMap((c) => [
      svg("line", { x1: plot.left, x2: plot.right, y1: y(c), y2: y(c), class: "grid" }),
      text({ x: plot.left - 8, y: y(c) + 4, class: "tick end" }, String(c)),
    ]),
    text(
      { x: (plot.left + plot.right) / 2, y: height - 8, class: "axis mid" },
      "Latency cost S (steps)",
    ),
    text(
      { x: 14, y: middle, class: "axis mid", transform: `rotate(-90 14 ${middle})` },
      "Bandwidth cost R/C (rounds per chunk)",
    ),
  ];
}

// --- what is known below the points -------------------------------------------------------------

/** Return the region without algorithms. What no algorithm beats in S steps, none in fewer does. */
function impossible(frontier, scale) {
  const { x, y, least } = scale;
  const [left, right, floor] = [x(scale.from), x(scale.to), y(scale.bottom)];
  const falling = limitsOf(frontier.limits).sort((p, q) => p.steps - q.steps);
  let edge = `M${left} ${y(scale.top)}H${x(least.steps)}`;
  for (let steps = least.steps; x(steps) < right; steps += 1) {
    const limits = falling.filter((limit) => limit.steps >= steps).map((limit) => limit.cost);
    edge += `V${y(Math.max(least.cost, ...limits))}H${Math.min(right, x(steps + 1))}`;
  }
  return svg("path", { class: "impossible", d: `${edge}V${floor}H${left}Z` });
}

/** Return the region where all candidates of the k and C searched were refuted. */
function searched(frontier, points, { x, y, plot, top }) {
  if (frontier.classes.length) return null;
  const undecided = new Set(frontier.open.map((c) => c.steps));
  const known = best(points);
  const last = Math.max(known.at(-1).steps, ...frontier.refuted.map((c) => c.steps));
  const strips = known.flatMap(({ steps, cost: c, a }, i) => {
    if (!isProved(a)) return [];
    const end = known[i + 1]?.steps ?? last + 1;
    return Array.from({ length: end - steps }, (_, n) => steps + n)
      .filter((s) => !undecided.has(s))
      .map((s) => `M${x(s)} ${y(Math.min(c, top))}H${Math.min(plot.right, x(s + 1))}V${plot.bottom}H${x(s)}Z`);
  });
  return strips.length ? svg("path", { class: "searched", d: strips.join("") }) : null;
}

/** Return the ends of the lines of both bounds, and where their names may stand. */
function boundLines(frontier, { plot, least, x, y }) {
  const [across, down] = [x(least.steps), y(least.cost)];
  const names = [`S ≥ ${frontier.bounds.steps}`, `R/C ≥ ${frontier.bounds.bandwidth}`];
  const sizes = names.map((name) => textSize(name, FONT));
  const rows = Array.from({ length: 12 }, (_, i) => plot.top + 10 + 16 * i);
  const columns = Array.from({ length: 12 }, (_, i) => plot.right - 4 - sizes[1][0] / 2 - 24 * i);
  return [
    {
      ends: [[across, plot.top], [across, plot.bottom]],
      name: names[0],
      size: sizes[0],
      centres: [1, -1].flatMap((side) =>
        rows.map((row) => [across + side * (7 + sizes[0][0] / 2), row]),
      ),
    },
    {
      ends: [[plot.left, down], [plot.right, down]],
      name: names[1],
      size: sizes[1],
      centres: [1, -1].flatMap((side) =>
        columns.map((column) => [column, down + side * (5 + sizes[1][1] / 2)]),
      ),
    },
  ];
}

const boundMarks = (lines, taken, plot) =>
  lines.flatMap(({ ends: [[x1, y1], [x2, y2]], name, size, centres }) => {
    const centre = settle(centres, size, taken, plot);
    return [
      svg("line", { class: "bound", x1, y1, x2, y2 }),
      centre && svg("text", { class: "bound-name mid", x: centre[0], y: centre[1] + 4.5 }, name),
    ];
  });

// --- marks --------------------------------------------------------------------------------------

/** Return limits that neither an algorithm nor the bound shows already. */
function bareLimits(frontier, points) {
  return parts(frontier, points).flatMap((part) => {
    const shown = new Set([
      ...part.points.map(({ steps, a }) => `${steps} ${a.bandwidth_cost}`),
      ...part.approached.map(([steps, text]) => `${steps} ${text}`),
    ]);
    const below = (one, p) => p.steps < one.steps && p.cost <= one.cost;
    return limitsOf(part.limits)
      .filter(({ text, steps }) => !shown.has(`${steps} ${text}`))
      .filter((one) => one.text !== frontier.bounds.bandwidth)
      .filter((one) => part.number < 0 || !part.points.some((p) => below(one, p)))
      .map((one) => ({ ...one, number: part.number, of: part.number < 0 ? "" : part.name }));
  });
}

const candidateText = (c) => `C=${c.chunks} S=${c.steps} R=${c.rounds}`;

/** Return one mark for all candidates at a place. */
function candidates(kind, all, scale, describe) {
  const places = grouped(all, (c) => `${c.steps} ${cost(c)}`);
  return [...places.values()].map(([c, ...more]) => ({
    kind,
    at: [scale.x(c.steps), scale.y(cost(c))],
    title: describe(c) + (more.length ? ` and ${more.length} more` : ""),
  }));
}

/** Return what has a mark beside the points. */
function otherMarks(frontier, points, scale) {
  const limit = (kind, text) => (one) => ({
    kind: kind + styleOf(one.number ?? -1),
    at: [scale.x(one.steps), scale.y(one.cost)],
    title: `${text} for S=${one.steps}${one.of ? ` (${one.of})` : ""}: ${one.text}`,
  });
  return [
    ...bareLimits(frontier, points).map(limit("limit", "limit of R/C")),
    ...[frontier, ...frontier.classes].flatMap((one) => limitsOf(one.approached)).map(
      limit("approached", "limit of R/C, approached and not attained,"),
    ),
    ...candidates("open", frontier.open, scale, (c) => `open: ${candidateText(c)}: ${c.reason}`),
  ];
}

/** Return marks of refuted candidates that lie far enough from all others to be told apart. */
function refutedMarks(frontier, scale, others) {
  const shown = frontier.refuted.filter((c) => cost(c) <= scale.top);
  const all = candidates("refuted", shown, scale, (c) => `refuted: ${candidateText(c)}`);
  const kept = [];
  for (const mark of all.sort((p, q) => p.at[0] - q.at[0] || p.at[1] - q.at[1])) {
    const far = ({ at: [x, y] }) => Math.hypot(x - mark.at[0], y - mark.at[1]) >= APART;
    if (others.every(far) && kept.every(far)) kept.push(mark);
  }
  return kept;
}

const drawn = ({ kind, at: [x, y], title }) =>
  svg("g", {}, svg("title", {}, title), shape(kind, x, y));

function pointMark(frontier, { index, a, at: [x, y] }, label) {
  const state = stateOf(frontier, { index, a });
  const name = `${pointName(a)}, R/C ${a.bandwidth_cost}, ${state}: open`;
  return svg(
    "g",
    { class: "point", role: "button", tabindex: 0, "data-algorithm": index, "aria-label": name },
    svg("title", {}, name),
    svg("circle", { class: "halo", cx: x, cy: y, r: 13 }),
    shape(kindOf(state) + styleOf(classOf(frontier, index)), x, y),
    label && svg("text", { class: "mid", x: label[0], y: label[1] + 4.5 }, a.bandwidth_cost),
  );
}

/** Return the points that no other one of a frontier dominates. */
const best = (points) =>
  points.filter((p, i) => points.slice(0, i).every((q) => q.cost > p.cost));

/** Return the corners of the line above which everything is dominated. */
const cornersOf = (points, scale) =>
  best(points).flatMap((p, i, all) => [
    p.at,
    [i + 1 < all.length ? all[i + 1].at[0] : scale.plot.right, p.at[1]],
  ]);

function chart(frontier, all, width) {
  const scale = scales(frontier, all, width);
  const points = all.map((p) => ({ ...p, at: [scale.x(p.steps), scale.y(p.cost)] }));
  const others = otherMarks(frontier, points, scale);
  const marks = [...refutedMarks(frontier, scale, [...points, ...others]), ...others];
  const stairs = parts(frontier, points)
    .filter((part) => part.points.length)
    .map((part) => ({ ...part, corners: cornersOf(part.points, scale) }));
  const taken = [...marks, ...points].map(({ at }) => around(at, 2 * MARK + 4, 2 * MARK + 4));
  for (const { corners } of stairs)
    taken.push(...corners.slice(1).map((corner, i) => covering(corners[i], corner)));
  const lines = boundLines(frontier, scale);
  taken.push(...lines.map(({ ends }) => covering(...ends)));
  const labels = new Map();
  const label = (p) => {
    const size = textSize(p.a.bandwidth_cost, FONT);
    labels.set(p, settle(besideMark(p.at, size, 9), size, taken, scale.plot));
  };
  // Where there is little room, it belongs to the points that nothing dominates.
  const first = best(points);
  first.forEach(label);
  const bounds = boundMarks(lines, taken, scale.plot);
  points.filter((p) => !first.includes(p)).forEach(label);
  const name = `Frontier of ${frontier.collective} on ${frontier.topology}: steps against R/C`;
  return svg(
    "svg",
    { class: "chart", viewBox: `0 0 ${width} ${scale.height}`, role: "group", "aria-label": name },
    searched(frontier, points, scale),
    impossible(frontier, scale),
    ...axes(scale),
    ...bounds,
    ...stairs.map(({ number, corners }) =>
      svg("path", { class: `stairs${styleOf(number)}`, d: line(corners) }),
    ),
    ...marks.map(drawn),
    ...points.map((p) => pointMark(frontier, p, labels.get(p))),
  );
}
