// The machine, drawn once per algorithm; each step only changes classes and widths.

const SCALE = 1000;
const SAMPLES = 24;
const ANIMATED = 300; // links in motion at a time, beyond which a browser stutters

const MANY = 16; // ranks, beyond which a drawing takes all the room there is
const SUM = 0.5; // of a rank's radius: the letters of sums in it

const DENSE = 600; // links, beyond which those that matter need the others to fade

const NAME_SIZE = 20; // units of its letters, where there is room
const NAME_ROOM = 40; // units above a box for its name

const at = ([x, y]) => [x * SCALE, y * SCALE];

/** Return points along a link, from rank to rank. */
function sampled(link, positions) {
  const [a, d] = [at(positions[link.src]), at(positions[link.dst])];
  if (!link.bend) return [a, d];
  const [b, c] = [at(link.bend.slice(0, 2)), at(link.bend.slice(2))];
  return Array.from({ length: SAMPLES + 1 }, (_, i) => {
    const t = i / SAMPLES;
    const w = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
    return [0, 1].map((k) => w[0] * a[k] + w[1] * b[k] + w[2] * c[k] + w[3] * d[k]);
  });
}

const unit = ([ax, ay], [bx, by]) => {
  const length = Math.hypot(bx - ax, by - ay) || 1;
  return [(bx - ax) / length, (by - ay) / length];
};

/** Return the points moved to the right of the way they go, so that both directions are seen. */
function beside(points, distance) {
  return points.map(([x, y], i) => {
    const [dx, dy] = unit(points[Math.max(0, i - 1)], points[Math.min(points.length - 1, i + 1)]);
    return [x - dy * distance, y + dx * distance];
  });
}

/** Return the points from the end backwards cut where they are within `near` of `centre`. */
function cutAtEnd(points, centre, near) {
  const kept = [...points];
  const far = ([x, y]) => Math.hypot(x - centre[0], y - centre[1]);
  while (kept.length > 2 && far(kept[kept.length - 2]) <= near) kept.pop();
  let [inside, outside] = [kept.pop(), kept[kept.length - 1]];
  for (let i = 0; i < 20; i += 1) {
    const middle = [(inside[0] + outside[0]) / 2, (inside[1] + outside[1]) / 2];
    if (far(middle) <= near) inside = middle;
    else outside = middle;
  }
  return [...kept, outside];
}

const cutBoth = (points, from, to, start, end) =>
  cutAtEnd(cutAtEnd(points, to, end).reverse(), from, start).reverse();

const line = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;

/** Return how wide the track of a link with most lanes may be. */
function widest(topology) {
  const crowd = Math.min(1, (10 * topology.ranks) / topology.links.length);
  return Math.max(1.6, Math.min(11, topology.radius * SCALE * 0.3) * crowd);
}

function linkMark(topology, link, number, look) {
  const centres = [link.src, link.dst].map((rank) => at(topology.positions[rank]));
  const twoWay = look.edges.has(`${link.dst} ${link.src}`);
  const points = beside(sampled(link, topology.positions), twoWay ? look.gap : 0);
  const width = Math.max(1.2, (look.width * link.lanes) / look.lanes);
  const from = look.radius + 3;
  const mark = {
    points,
    centres,
    width,
    from,
    budgets: [], // names of those that the link shares
    track: svg("path", {
      class: "track",
      d: line(cutBoth(points, ...centres, from, from)),
      "stroke-width": width.toFixed(2),
    }),
    flow: svg("path", { class: "flow" }),
    dashes: svg("path", { class: "dashes" }),
    head: svg("path", { class: "arrow" }),
    title: svg("title"),
  };
  mark.group = svg(
    "g",
    { class: "link", "data-link": number },
    mark.title,
    mark.track,
    mark.flow,
    mark.dashes,
    mark.head,
  );
  return mark;
}

/** Draw what a link carries: a stream as wide as its share of the track, with a head. */
function stream(mark, share, moving) {
  const width = Math.max(Math.min(2.4, mark.width), mark.width * Math.min(1, share));
  const head = Math.max(7, width * 1.7);
  const body = cutBoth(mark.points, ...mark.centres, mark.from, mark.from + head * 0.9);
  const tip = cutBoth(mark.points, ...mark.centres, mark.from, mark.from - 1).pop();
  const base = body[body.length - 1];
  const [dx, dy] = unit(base, tip);
  const side = Math.max(4.5, width * 1.05);
  mark.flow.setAttribute("d", line(body));
  mark.flow.setAttribute("stroke-width", width.toFixed(2));
  mark.dashes.setAttribute("d", moving ? line(body) : "");
  mark.dashes.setAttribute("stroke-width", (width * 0.34).toFixed(2));
  const corners = [tip, [base[0] - dy * side, base[1] + dx * side]];
  corners.push([base[0] + dy * side, base[1] - dx * side]);
  mark.head.setAttribute("d", `${line(corners)}Z`);
}

function still(mark) {
  for (const part of [mark.flow, mark.dashes, mark.head]) part.removeAttribute("d");
}

function rankMark(topology, rank, radius) {
  const [x, y] = at(topology.positions[rank]);
  const ring = { cx: x, cy: y, r: radius };
  const mark = {
    arc: svg("circle", {
      ...ring,
      class: "arc",
      pathLength: 100,
      transform: `rotate(-90 ${x} ${y})`,
    }),
    sum: svg("text", { class: "sum", x, y: y + radius * 0.52, "font-size": radius * SUM }),
    title: svg("title"),
  };
  mark.label = svg("text", { class: "name", x, y }, String(rank));
  mark.group = svg(
    "g",
    { class: "rank", role: "button", tabindex: 0, "data-rank": rank },
    mark.title,
    svg("circle", { ...ring, class: "halo", r: radius + 6 }),
    svg("circle", { ...ring, class: "disc" }),
    svg("circle", { ...ring, class: "rim" }),
    mark.arc,
    mark.label,
    mark.sum,
  );
  return mark;
}

/** Return whether links run through a rectangle. */
const crossed = (box, links) =>
  links.some(({ points }) =>
    points.slice(1).some(([x, y], i) => {
      const [u, v] = points[i];
      const parts = Array.from({ length: 33 }, (_, part) => part / 32);
      return parts.some((t) =>
        overlap(box, around([u + t * (x - u), v + t * (y - v)], 8, 8)),
      );
    }),
  );

/** Return where along the top of a box its name lies on no link; else at the left. */
function nameStart([x, y, width], label, size, links) {
  const wide = textSize(label, size)[0];
  const starts = [x + 6, x + width - wide - 6, x + (width - wide) / 2];
  const free = (start) =>
    !crossed(around([start + wide / 2, y - 6 - size / 2], wide, size), links);
  return starts.find(free) ?? starts[0];
}

function boxMarks(topology, links) {
  return topology.boxes.map(([left, top, right, bottom, label]) => {
    const [[x, y], [w, h]] = [at([left, top]), at([right - left, bottom - top])];
    const most = widestName(topology, [x, y, w], label);
    const start = nameStart([x, y, w], label, Math.min(most, NAME_SIZE), links);
    const name = svg("text", { class: "box-name", x: start, y: y - 6 }, label);
    name.style.setProperty("--most", `${most.toFixed(1)}px`);
    return { rect: svg("rect", { class: "box", x, y, width: w, height: h, rx: 18 }), name };
  });
}

/** Return the size of a box's name that fits above it, and below the boxes there. */
function widestName(topology, [x, y, width], label) {
  const gaps = topology.boxes
    .map(([left, , right, bottom]) => [...at([left, bottom]), right * SCALE])
    .filter(([left, bottom, right]) => left < x + width && x < right && bottom <= y)
    .map(([, bottom]) => y - bottom - 6);
  return Math.min((width - 12) / (LETTER * label.length), NAME_ROOM, ...gaps);
}

const switchMark = ([x, y], name) =>
  svg(
    "g",
    { class: "switch" },
    svg("rect", { x: x - 16, y: y - 16, width: 32, height: 32, rx: 6 }),
    svg("title", {}, name),
  );

/** Return the part of the square that something is drawn in. */
function frame(topology, marks, radius) {
  const points = topology.positions.map(at).concat(marks.flatMap((mark) => mark.points));
  for (const [left, top, right, bottom] of topology.boxes)
    points.push(at([left, top - NAME_ROOM / SCALE]), at([right, bottom]));
  const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
  const pad = radius + 16;
  const [x, y] = [Math.min(...xs) - pad, Math.min(...ys) - pad];
  return [x, y, Math.max(...xs) + pad - x, Math.max(...ys) + pad - y].map(Math.round);
}

/** Draw a machine and return its marks. */
function drawStage(topology) {
  const radius = topology.radius * SCALE;
  const width = widest(topology);
  const look = {
    radius,
    width,
    gap: width / 2 + Math.min(2, width * 0.35),
    lanes: Math.max(1.6, ...topology.links.map((link) => link.lanes)),
    edges: new Set(topology.links.map((link) => `${link.src} ${link.dst}`)),
  };
  const links = topology.links.map((link, i) => linkMark(topology, link, i, look));
  for (const budget of topology.budgets)
    for (const link of budget.links) links[link].budgets.push(budget.name);
  const ranks = everyone(topology.ranks).map((rank) => rankMark(topology, rank, radius));
  const switches = topology.switches.map((name, i) =>
    switchMark(at(topology.positions[topology.ranks + i]), name),
  );
  const [root, boxes] = [byId("stage"), boxMarks(topology, links)];
  const part = frame(topology, links, radius);
  root.setAttribute("viewBox", part.join(" "));
  root.classList.toggle("dense", links.length > DENSE);
  root.style.setProperty("--radius", `${radius}px`);
  root.style.setProperty("--digits", String(topology.ranks - 1).length);
  byId("view").style.setProperty("--ratio", part[2] / part[3]);
  byId("view").classList.toggle("large", topology.ranks > MANY);
  root.replaceChildren(
    ...boxes.map((box) => box.rect),
    svg("g", {}, ...links.map((mark) => mark.group)),
    ...boxes.map((box) => box.name),
    ...switches,
    svg("g", {}, ...ranks.map((mark) => mark.group)),
  );
  return { links, ranks };
}

// --- what changes -------------------------------------------------------------------------------

/** Return the sends of the selected chunk by link, each link with its last send up to now. */
function treeOf(model, chunk, time) {
  const tree = new Map();
  for (const send of model.ofChunk.get(chunk) ?? []) {
    const phase = model.timed
      ? phaseOf(send, time)
      : send.step < time ? "past" : send.step === time ? "now" : "later";
    if (!tree.has(send.link) || phase !== "later") tree.set(send.link, phase);
  }
  return tree;
}

/** Return how many chunks a link carries in this step, or whether it is busy at this time. */
function loadNow(model, number) {
  if (model.timed) return Number(app.busy.has(number));
  return app.time < model.last ? model.loads[app.time][number] : 0;
}

/** Return what a link carries now, in words. */
function loadText(model, number, lanes) {
  if (model.timed) {
    const row = app.busy.get(number);
    if (!row) return "";
    const chunks = row.together.map((one) => one.chunk);
    return `: chunk${chunks.length > 1 ? "s" : ""} ${listed(chunks, 4)}, ${us(row.start)} to ${us(row.free)}`;
  }
  const most = app.time < model.last ? lanes * model.rounds[app.time] : 0;
  return most ? `: ${loadNow(model, number)} of ${plural(most, "chunk")}` : "";
}

/** Return the class of a link, and the share of its track to fill. */
function linkState(model, number, tree) {
  if (tree) return tree.has(number) ? [`tree ${tree.get(number)}`, 0.6] : ["away", 0];
  const load = loadNow(model, number);
  if (!load) return ["", 0];
  const { src, dst } = model.topology.links[number];
  const away = app.rank !== null && app.rank !== src && app.rank !== dst;
  const share = model.timed ? 1 : shareOf(model, number, app.time);
  return [`lit ${shade(share)}${away ? " away" : ""}`, share];
}

function updateLinks(model, marks) {
  const tree = app.chunk === null ? null : treeOf(model, app.chunk, app.time);
  const states = marks.links.map((_, number) => linkState(model, number, tree));
  const moving = states.filter(([name]) => name).length <= ANIMATED;
  states.forEach(([name, share], number) => {
    const [mark, { src, dst, lanes, shared }] = [marks.links[number], model.topology.links[number]];
    const moves = moving && !/past|later/.test(name);
    const kind = shared ? `link shared${moves ? " moves" : ""}` : "link";
    mark.group.setAttribute("class", `${kind} ${name}`);
    if (share) stream(mark, share, moves);
    else still(mark);
    const load = loadText(model, number, lanes);
    const shares = mark.budgets.length ? `; within ${listed(mark.budgets, 4)}` : "";
    mark.title.textContent = `${src} → ${dst}, ${plural(lanes, "lane")}${load}${shares}`;
  });
}

/** Return whether a chunk is on its way to a rank that does not have it. */
function comesNow(model, chunk, rank) {
  if (!model.timed) return model.heldAt(chunk, rank, Math.min(app.time + 1, model.last)) > 0;
  const sends = model.ofChunk.get(chunk) ?? [];
  return sends.some((send) => send.dst === rank && phaseOf(send, app.time) === "now");
}

/** Return the class of a rank where a chunk is followed, the sum it holds of it, and its share. */
function chunkState(model, rank) {
  const [chunk, total] = [app.chunk, model.total(app.chunk)];
  const held = model.heldAt(chunk, rank, app.time);
  const sum = model.combining && held ? `${held}/${total}` : "";
  if (held === total) return ["has", sum, 1];
  if (held) return ["part", sum, held / total];
  if (comesNow(model, chunk, rank)) return ["gets", sum, 0];
  return [model.post[chunk].includes(rank) ? "wants" : "away", sum, 0];
}

function updateRanks(model, marks) {
  marks.ranks.forEach((mark, rank) => {
    const share = app.progress[rank];
    const [state, sum, part] = app.chunk === null ? ["", "", share ?? 0] : chunkState(model, rank);
    const on = app.rank === rank;
    mark.group.setAttribute(
      "class",
      `rank ${state}${on ? " on" : ""}${share === null ? " none" : ""}${sum ? " summed" : ""}`,
    );
    mark.group.setAttribute("aria-pressed", String(on));
    mark.arc.setAttribute("stroke-dasharray", `${(part * 100).toFixed(2)} 200`);
    mark.sum.textContent = sum;
    const has =
      share === null ? "wants nothing" : `has ${Math.round(share * 100)}% of what it wants`;
    const name = `${rankTitle(model.topology, rank)}, ${has}${sum ? `, sum of ${sum}` : ""}`;
    mark.group.setAttribute("aria-label", name);
    mark.title.textContent = name;
  });
}
