// What a schedule does, derived once from its rows. Times are in microseconds, from 0 to the finish.

const PARTS = 48; // of the time, for which bars say how busy links are
const PLAYED = 12000; // milliseconds in which a schedule is played
const TICK = 50; // of them, between two pictures

/** Return a time as people read it. */
const us = (time) => `${Number(time.toPrecision(5)).toLocaleString("en-US", { maximumFractionDigits: 4 })} µs`;

function readRows(item, topology) {
  const [rows, flat] = [[], item.sends];
  for (let i = 0; i < flat.length; i += 4) {
    const [start, end, chunk, code] = flat.slice(i, i + 4);
    const link = code < 0 ? -1 - code : code;
    const { src, dst } = topology.links[link];
    rows.push({
      start: start * item.tick_us,
      free: end * item.tick_us,
      arrive: (end + item.lags[link]) * item.tick_us,
      ...{ chunk, link, src, dst, reduce: code < 0, carries: 1, after: 1 },
      message: item.messages ? item.messages[i / 4] : null,
    });
  }
  return rows;
}

/** Mark the rows of one link with the same times: one transfer of several chunks. */
function markTogether(model) {
  const transfers = grouped(model.all, (row) => `${row.link} ${row.start} ${row.free}`);
  model.transfers = [...transfers.values()].map(([first]) => first);
  for (const rows of transfers.values()) for (const row of rows) row.together = rows;
}

/** Return what happens, by time: what arrives at a moment comes before what starts then. */
function eventsOf(rows) {
  const events = rows.flatMap((row) => [
    { time: row.arrive, arrives: true, row },
    { time: row.start, arrives: false, row },
  ]);
  return events.sort((a, b) => a.time - b.time || b.arrives - a.arrives);
}

/** Mark the rows that others of their message, or of their chunk at a switch, go on from. */
function markOnward(model) {
  const { ranks } = model.topology;
  const comes = grouped(model.all, (row) => `${row.message} ${row.chunk} ${row.dst}`);
  for (const row of model.all) {
    if (row.message === null && row.src < ranks) continue;
    const before = comes.get(`${row.message} ${row.chunk} ${row.src}`) ?? [];
    row.before = before.find((one) => one.start <= row.start) ?? null;
    if (row.before) row.before.passed = true;
  }
}

/** Follow which contributions every partial result is made of, as the judge does. */
function followValues(model) {
  const values = new Map();
  const there = (chunk, node) =>
    values.get(model.place(chunk, node)) ??
    new Set(model.starts(chunk, node) ? (model.combining ? [node] : [-1]) : []);
  for (const { arrives, row } of eventsOf(model.all)) {
    if (!arrives) row.value = row.before?.value ?? there(row.chunk, row.src);
    else if (!row.passed) {
      const sum = row.reduce ? new Set([...there(row.chunk, row.dst), ...row.value]) : row.value;
      values.set(model.place(row.chunk, row.dst), sum);
      row.after = sum.size;
    }
    row.carries = row.value.size;
  }
}

/** Note with each arrival how much more of what it wants its rank then has. */
function gainsOf(model) {
  const wants = model.post.map((members) => new Set(members));
  const held = new Map();
  for (const row of model.arrivals) {
    const place = model.place(row.chunk, row.dst);
    const before = held.get(place) ?? Number(model.starts(row.chunk, row.dst));
    row.gain = wants[row.chunk].has(row.dst) ? row.after - before : 0;
    held.set(place, row.after);
  }
}

/** Return what share of what it wants each rank has at a time; null: it wants nothing. */
function progressAt(model, time) {
  const got = Float64Array.from(model.first);
  for (const row of model.arrivals) {
    if (row.arrive > time) break;
    got[row.dst] += row.gain;
  }
  return everyone(model.topology.ranks).map((rank) =>
    model.wanted[rank] ? got[rank] / model.wanted[rank] : null,
  );
}

/** Return the transfer that each link is busy with at a time, by link. */
function busyAt(model, time) {
  const busy = new Map();
  for (const row of model.transfers) {
    if (row.start > time) break;
    if (time < row.free) busy.set(row.link, row);
  }
  return busy;
}

/** Return how long all links together are busy in each part of the time, as a share of it. */
function partsOf(model) {
  const [parts, long] = [new Float64Array(PARTS), model.last / PARTS];
  for (const row of model.transfers) {
    const last = Math.min(PARTS - 1, Math.floor(row.free / long));
    for (let part = Math.floor(row.start / long); part <= last; part += 1)
      parts[part] += Math.max(0, Math.min(row.free, (part + 1) * long) - Math.max(row.start, part * long));
  }
  return parts.map((busy) => busy / (long * model.topology.links.length));
}

/** Return everything that the views ask of a schedule. */
function timedModel(item) {
  const topology = data.topologies[item.topology];
  const model = { ...item, topology, last: item.finish * item.tick_us };
  const { ranks } = topology;
  model.all = readRows(item, topology);
  model.pre = item.pre.map((ranksHere) => ranksOf(ranksHere, ranks));
  model.post = item.post.map((ranksHere) => ranksOf(ranksHere, ranks));
  model.place = (chunk, node) => chunk * (ranks + topology.switches.length) + node;
  model.total = (chunk) => (model.combining ? model.pre[chunk].length : 1);
  const holders = model.pre.map((members) => new Set(members));
  model.starts = (chunk, node) => holders[chunk].has(node);
  markTogether(model);
  markOnward(model);
  followValues(model);
  model.arrivals = model.all
    .filter((row) => !row.passed && row.dst < ranks)
    .sort((a, b) => a.arrive - b.arrive);
  model.ofChunk = grouped(model.all, (row) => row.chunk);
  model.into = grouped(model.arrivals, (row) => row.dst);
  const arrivals = grouped(model.arrivals, (row) => model.place(row.chunk, row.dst));
  /** Return how many contributions of a chunk a rank holds at a time (0 or 1 if none combine). */
  model.heldAt = (chunk, rank, time) => {
    const before = (arrivals.get(model.place(chunk, rank)) ?? []).filter((r) => r.arrive <= time);
    return before.length ? before[before.length - 1].after : Number(model.starts(chunk, rank));
  };
  [model.wanted, model.first] = [new Float64Array(ranks), new Float64Array(ranks)];
  model.post.forEach((members, chunk) => {
    for (const rank of members) {
      model.wanted[rank] += model.total(chunk);
      model.first[rank] += Number(model.starts(chunk, rank));
    }
  });
  gainsOf(model);
  model.moments = [...new Set(model.all.flatMap((row) => [row.start, row.arrive]))];
  model.moments.sort((a, b) => a - b);
  model.parts = partsOf(model);
  return model;
}

/** Return the next moment at which something starts or arrives; or the one before. */
function momentBeside(model, time, ahead) {
  if (ahead) return model.moments.find((moment) => moment > time) ?? model.last;
  return model.moments.findLast((moment) => moment < time) ?? 0;
}

/** Return whether a row is past, on its way or still to come. */
const phaseOf = (row, time) =>
  row.arrive <= time && row.start < time ? "past" : row.start <= time ? "now" : "later";

// --- what stands beside the drawing -------------------------------------------------------------

function showTimedFacts(model) {
  const bytes = model.chunk_bytes;
  const least = model.least_us;
  const met = least !== null && least >= model.last;
  const bound = least === null ? "no bound is known" : met ? "meets the lower bound" : `at least ${us(least)}`;
  byId("title").textContent = `${model.collective} on ${model.topology.name}`;
  byId("subtitle").textContent = [
    plural(model.topology.ranks, "rank"),
    plural(model.topology.links.length, "link"),
    plural(model.transfers.length, "transfer"),
    ...(model.root === null ? [] : [`root ${model.root}`]),
    model.file,
  ].join(" · ");
  const busy = model.parts.reduce((sum, part) => sum + part, 0) / PARTS;
  byId("facts").replaceChildren(
    fact(us(model.last), "finish", bound, met),
    fact(`${(100 * busy).toFixed(1)}%`, "links busy", "on average"),
    fact(model.chunks, "chunks C", `${plural(model.num_chunks, "chunk")} in all`),
    fact(bytes === null ? "several" : size(bytes), "size of a chunk", bytes === null ? "" : `${size(bytes * model.chunks)} in C chunks`),
    fact(model.alpha, "alpha", model.alpha === "travels" ? "chunks arrive so much later" : "keeps links busy"),
  );
}

function showTimedProofs(model) {
  const least = model.least_us;
  const text =
    least === null
      ? `No bound is known: ${model.reason}`
      : `No schedule of such chunks takes less than ${us(least)}: ${model.reason}.`;
  byId("proofs").replaceChildren(html("p", { class: "small" }, text));
}

function showTimedTerms(model) {
  const terms = [
    ["transfer", "a chunk, or several together, over a link: it is busy with them, and a little later they arrive."],
    ["chunk", "a piece of a buffer that travels as a whole; C of them make up a buffer."],
    ["alpha", "what a transfer takes however small it is, beside what its bytes take."],
  ];
  if (model.combining) {
    const total = model.total(0);
    terms.push(["sum", `3/${total} on a chunk: the contributions of 3 of ${total} ranks are reduced in it.`]);
  }
  byId("terms").replaceChildren(
    ...terms.flatMap(([term, text]) => [html("dt", {}, term), html("dd", {}, text)]),
  );
}

function showTimedTimeline(model) {
  const long = model.last / PARTS;
  const bars = [...model.parts].map((share, part) => {
    const height = share ? Math.max(2, 34 * share) : 0;
    const title = `${us(part * long)} to ${us((part + 1) * long)}: ${Math.round(100 * share)}% of all links`;
    return html(
      "button",
      { type: "button", tabindex: -1, class: "bar-of part", "data-step": part * long, title },
      svg(
        "svg",
        { viewBox: "0 0 10 34", preserveAspectRatio: "none" },
        svg("rect", { x: 0, y: 34 - height, width: 10, height }),
      ),
    );
  });
  byId("bars").replaceChildren(...bars);
  byId("bars").style.setProperty("--stops", PARTS);
  byId("step").style.setProperty("--stops", 1e6);
}

function showTimedNow(model) {
  const { time } = app;
  byId("step").value = time;
  const done = time >= model.last;
  const arrived = model.arrivals.filter((row) => row.arrive <= time).length;
  const text = done
    ? `Done after ${us(model.last)}`
    : `${us(time)} of ${us(model.last)}: ${plural(app.busy.size, "link")} busy, ${plural(arrived, "transfer")} arrived`;
  byId("step").setAttribute("aria-valuetext", text);
  byId("now").textContent = text;
  const part = Math.min(PARTS - 1, Math.floor((time / model.last) * PARTS));
  [...byId("bars").children].forEach((bar, i) => bar.classList.toggle("on", i === part && !done));
  for (const mark of document.querySelectorAll("#utilisation .cursor")) {
    mark.setAttribute("x1", (1000 * time) / model.last);
    mark.setAttribute("x2", (1000 * time) / model.last);
  }
}

/** Return the chip of a transfer; of sums with how many contributions it carries. */
const rowChip = (model, row) =>
  chip(row.chunk, model.combining ? `${row.carries}/${model.total(row.chunk)}` : "", row.reduce ? "is reduced" : "");

function showTimedSends(model) {
  const mine = (row) => app.rank === null || row.src === app.rank || row.dst === app.rank;
  const rows = model.all.filter((row) => phaseOf(row, app.time) === "now" && mine(row));
  const of = app.rank === null ? "" : `, rank ${app.rank}`;
  const done = app.time >= model.last;
  byId("sends-title").textContent = done ? "Done" : `On their way${of}`;
  if (done || !rows.length) {
    const text = done ? "Every rank has what it wants." : "Nothing is on its way.";
    byId("sends").replaceChildren(html("p", { class: "muted" }, text));
    return;
  }
  const line = (row) =>
    html(
      "tr",
      { "data-link": row.link },
      html("th", { scope: "row" }, arrow(row)),
      html("td", {}, html("p", { class: "chips" }, rowChip(model, row))),
      html("td", { class: "number" }, us(row.start)),
      html("td", { class: "number" }, us(row.arrive)),
    );
  const names = ["Link", "Chunk", "From", "Arrives"];
  const head = names.map((name, i) => html("th", { scope: "col", class: i > 1 ? "number" : "" }, name));
  const shown = rows.sort((a, b) => a.link - b.link || a.start - b.start).slice(0, ROWS).map(line);
  const more = `and ${plural(rows.length - ROWS, "more transfer")}: click a rank to see its own`;
  if (rows.length > ROWS)
    shown.push(html("tr", {}, html("td", { colspan: 4, class: "muted" }, more)));
  byId("sends").replaceChildren(
    html("table", {}, html("thead", {}, html("tr", {}, ...head)), html("tbody", {}, ...shown)),
  );
}

/** Return the bars of a link over time as one path; those less than a pixel apart are one. */
function spansPath(model, rows) {
  const spans = [];
  for (const row of rows) {
    const [from, to] = [row.start, row.free].map((time) => (1000 * time) / model.last);
    const last = spans[spans.length - 1];
    if (last && from - last[1] < 1 && rows.length > 100) last[1] = to;
    else spans.push([from, to]);
  }
  return spans.map(([from, to]) => `M${from.toFixed(1)} 1h${Math.max(0.5, to - from - 1).toFixed(1)}v8H${from.toFixed(1)}z`).join("");
}

function showTimedUtilisation(model) {
  byId("utilisation-note").textContent = "When each link is busy, and for how much of the time.";
  const ofLink = grouped(model.transfers, (row) => row.link);
  const lines = model.topology.links.map((link, number) => {
    const rows = ofLink.get(number) ?? [];
    const busy = rows.reduce((sum, row) => sum + row.free - row.start, 0) / model.last;
    const drawn = svg(
      "svg",
      { class: "spans", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("rect", { class: "all", width: 1000, height: 10 }),
      svg("path", { d: spansPath(model, rows) }),
      svg("line", { class: "cursor", y1: 0, y2: 10 }),
    );
    return html(
      "tr",
      {},
      html("th", { scope: "row" }, arrow(link)),
      html("td", { class: "number" }, `${(100 * busy).toFixed(0)}%`),
      html("td", { class: "wide" }, drawn),
    );
  });
  const names = ["Link", "Busy", `0 to ${us(model.last)}`];
  const head = names.map((name, i) => html("th", { scope: "col", class: i === 1 ? "number" : "" }, name));
  byId("utilisation").replaceChildren(
    html(
      "table",
      { class: "spans-table" },
      html("thead", {}, html("tr", {}, ...head)),
      html("tbody", {}, ...lines),
    ),
  );
}

// --- selection ----------------------------------------------------------------------------------

function timedRows(rows, key, kind, text) {
  return [...grouped(rows, key)].map(([time, group]) => {
    const phase = phaseOf(group[0], app.time);
    const state = { past: "", now: " (now)", later: " (later)" }[phase];
    return html(
      "div",
      { class: `row ${phase}` },
      html("h3", {}, us(time), html("span", { class: "hidden" }, state)),
      html("div", {}, html("p", { class: kind }, ...group.map(text))),
    );
  });
}

function timedRankPanel(model, rank) {
  const own = everyone(model.num_chunks).filter((chunk) => model.starts(chunk, rank));
  const start = own.length ? own.map((chunk) => chip(chunk)) : [html("span", { class: "muted" }, "nothing")];
  const begin = html(
    "div",
    { class: "row past" },
    html("h3", {}, "At the start"),
    html("div", {}, html("p", { class: "chips" }, ...start)),
  );
  const share = app.progress[rank];
  const has =
    share === null
      ? "It wants nothing: it only passes on."
      : `It has ${Math.round(share * 100)}% of what it wants at ${us(app.time)}.`;
  const come = (row) => html("span", { class: "hop" }, html("small", {}, `from ${row.src} `), chip(row.chunk, sumText(model, row)));
  const rows = timedRows((model.into.get(rank) ?? []).slice(0, ROWS), (row) => row.arrive, "chips", come);
  return [html("p", { class: "muted" }, has), begin, ...rows];
}

function timedChunkPanel(model, chunk) {
  const holders = everyone(model.topology.ranks).filter(
    (rank) => model.heldAt(chunk, rank, app.time) === model.total(chunk),
  );
  const [from, to] = [model.pre[chunk], model.post[chunk]].map((r) => rankNames(r, model.topology));
  const begins = model.combining ? `It is the sum of contributions of ${from}` : `It starts on ${from}`;
  const whole = model.combining ? "The whole sum is on" : "It is on";
  const ranks = plural(model.topology.ranks, "rank");
  const text = `${begins}; wanted by ${to}. ${whole} ${holders.length} of ${ranks} at ${us(app.time)}.`;
  const rows = timedRows(model.ofChunk.get(chunk) ?? [], (row) => row.start, "hops", (row) => sendText(model, row));
  return [html("p", { class: "muted" }, text), ...rows];
}
