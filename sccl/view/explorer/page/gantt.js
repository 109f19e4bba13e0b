// Streams and channels over time: a part of it is in view, and bars too thin to be seen are left out.

const ROW = 26; // px
const HEAD = 30; // above the first row: times, and where iterations begin
const GUTTER = 130; // for names of rows
const THIN = 0.6; // px, below which bars beside one another are one
const LETTER = 6.4; // px
const UNITS = [["ns", 1], ["us", 1e3], ["ms", 1e6], ["s", 1e9]];

/** Return a time in words, from nanoseconds. */
function time(ns) {
  const [unit, scale] = [...UNITS].reverse().find(([, scale]) => Math.abs(ns) >= scale) ?? UNITS[1];
  return `${Number((ns / scale).toPrecision(6))} ${unit}`;
}

/** Return the spans of the data, each with what it waits for and what waits for it. */
function readSpans(data) {
  const spans = [];
  for (let i = 0; i < data.spans.length; i += 6) {
    const [row, start, end, op, motif, iteration] = data.spans.slice(i, i + 6);
    spans.push({ number: i / 6, row, start, end, op, motif, iteration, before: [], after: [] });
  }
  for (let i = 0; i < data.arrows.length; i += 2) {
    const [before, after] = [spans[data.arrows[i]], spans[data.arrows[i + 1]]];
    before.after.push(after);
    after.before.push(before);
  }
  for (const row of data.rows.keys()) {
    const own = spans.filter((span) => span.row === row && data.ops[span.op].kind < 0);
    for (const [k, span] of own.entries()) {
      if (!k) continue; // what is on a stream waits for what is before it there
      span.before.push(own[k - 1]);
      own[k - 1].after.push(span);
    }
  }
  return spans;
}

/** Return a step of ticks: 1, 2 or 5 times a power of ten. */
function tickStep(wanted) {
  const power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1)));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= wanted);
}

function makeGantt(data, spans, told) {
  const byRow = data.rows.map(() => []);
  for (const span of spans) byRow[span.row].push(span);
  const end = Math.max(1, ...spans.map((span) => span.end));
  const view = { from: 0, to: end, chosen: null, pointed: null };
  const box = byId("chart");
  const stage = byId("gantt");
  let width = 0;

  const x = (ns) => GUTTER + ((ns - view.from) / (view.to - view.from)) * (width - GUTTER);
  const kind = (span) => data.ops[span.op].kind;
  const paint = (span) => (kind(span) < 0 ? "c" : `k${kind(span) % 8}`);

  /** Return how a span is related to the chosen one: on, before, after, dim, or nothing. */
  function relation(span) {
    const { chosen } = view;
    if (!chosen) return "";
    if (span === chosen) return "on";
    const own = (one) => one.op === span.op && one.iteration === span.iteration;
    if (own(chosen)) return "on";
    if (related.before.has(span)) return "before";
    return related.after.has(span) ? "after" : "dim";
  }
  const related = { before: new Set(), after: new Set() };

  function relate() {
    related.before.clear();
    related.after.clear();
    if (!view.chosen) return;
    const own = spans.filter(
      (span) => span.op === view.chosen.op && span.iteration === view.chosen.iteration,
    );
    for (const span of own) {
      for (const one of span.before) related.before.add(one);
      for (const one of span.after) related.after.add(one);
    }
  }

  function bars(row) {
    const found = [];
    let shown = -Infinity;
    for (const span of byRow[row]) {
      if (span.end <= view.from || span.start >= view.to) continue;
      const [left, right] = [Math.max(x(span.start), GUTTER), Math.min(x(span.end), width)];
      const how = relation(span);
      if (right - shown < THIN && (how === "" || how === "dim")) continue;
      shown = right;
      const y = HEAD + row * ROW + 3;
      found.push(
        svg("rect", {
          class: `span ${paint(span)} ${how}`,
          "data-span": span.number,
          x: left.toFixed(2),
          y,
          width: Math.max(right - left, 0.8).toFixed(2),
          height: ROW - 6,
        }),
      );
      const letters = Math.floor((right - left - 8) / LETTER);
      const name = data.ops[span.op].name;
      if (letters >= Math.min(4, name.length)) {
        const label = letters < name.length ? `${name.slice(0, letters - 1)}\u2026` : name;
        const middle = (left + right) / 2;
        const at = { class: `in ${paint(span)}`, x: middle, y: y + 14, "text-anchor": "middle" };
        found.push(svg("text", at, label));
      }
    }
    return found;
  }

  function ticks(height) {
    const step = tickStep((view.to - view.from) / Math.max(2, (width - GUTTER) / 110));
    const found = [];
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const where = x(at);
      if (where > width - 50) break;
      found.push(svg("line", { class: "rule", x1: where, x2: where, y1: 16, y2: height }));
      found.push(svg("text", { class: "tick", x: where + 3, y: 24 }, time(at)));
    }
    for (const [iteration, at] of data.marks) {
      if (at < view.from || at > view.to) continue;
      const where = x(at);
      found.push(svg("line", { class: "mark", x1: where, x2: where, y1: 0, y2: height }));
      const next = data.marks.find(([other]) => other === iteration + 1);
      const room = (next ? x(next[1]) : width) - where;
      if (room > 20) {
        const name = room > 80 ? `iteration ${iteration}` : String(iteration);
        found.push(svg("text", { x: where + 3, y: 10 }, name));
      }
    }
    return found;
  }

  function names() {
    const most = Math.floor((GUTTER - 10) / LETTER);
    return data.rows.map(({ name }, row) => {
      const short = name.length > most ? `${name.slice(0, most - 1)}\u2026` : name;
      return svg("text", { x: 0, y: HEAD + row * ROW + 17 }, short);
    });
  }

  function arrows() {
    if (!view.chosen) return [];
    const inside = (span) => span.end >= view.from && span.start <= view.to;
    const middle = (span) => HEAD + span.row * ROW + ROW / 2;
    const own = spans.filter((span) => relation(span) === "on");
    return own.flatMap((span) =>
      [
        ...span.before.map((one) => [one, span]),
        ...span.after.filter((one) => relation(one) !== "on").map((one) => [span, one]),
      ]
        .filter(([one, other]) => inside(one) && inside(other))
        .map(([one, other]) => {
          const [x0, x1] = [x(one.end), x(other.start)];
          const bend = Math.max(12, (x1 - x0) / 2);
          const [y0, y1] = [middle(one), middle(other)];
          const d = `M${x0},${y0}C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1},${y1}`;
          return svg("path", { class: "arrow", d });
        }),
    );
  }

  function draw() {
    width = Math.max(box.clientWidth, GUTTER + 100);
    const height = HEAD + data.rows.length * ROW + 4;
    stage.setAttribute("viewBox", `0 0 ${width} ${height}`);
    stage.setAttribute("height", height);
    stage.replaceChildren(
      ...ticks(height),
      ...data.rows.flatMap((_, row) => bars(row)),
      ...names(),
      ...arrows(),
    );
  }

  /** Show a part of the time, of at least 10 ns, that lies within all of it. */
  function show(from, to) {
    const wide = Math.min(Math.max(to - from, 10), end);
    view.from = Math.min(Math.max(from, 0), end - wide);
    view.to = view.from + wide;
    draw();
  }

  /** Zoom by a factor, with one time staying where it is. */
  function zoom(factor, at = (view.from + view.to) / 2) {
    const wide = Math.min(Math.max((view.to - view.from) * factor, 10), end);
    const share = (at - view.from) / (view.to - view.from);
    show(at - share * wide, at + (1 - share) * wide);
  }

  const move = (share) => {
    const by = share * (view.to - view.from);
    show(view.from + by, view.to + by);
  };

  function choose(span) {
    view.chosen = span;
    relate();
    byId("clear").hidden = !span;
    told(span);
    const wide = view.to - view.from;
    if (span && (span.end < view.from || span.start > view.to)) {
      const middle = (span.start + span.end) / 2;
      show(middle - wide / 2, middle + wide / 2);
    } else draw();
    if (span) {
      const y = HEAD + span.row * ROW;
      if (y < box.scrollTop || y + ROW > box.scrollTop + box.clientHeight) box.scrollTo(0, y - 60);
    }
  }

  /** Choose what is beside the chosen span on its row, or at the same time on another row. */
  function step(along, across) {
    const { chosen } = view;
    if (!chosen) {
      choose(spans.find((span) => span.end > view.from) ?? null);
      return;
    }
    if (along) {
      const row = byRow[chosen.row];
      choose(row[row.indexOf(chosen) + along] ?? chosen);
      return;
    }
    for (let row = chosen.row + across; byRow[row]; row += across) {
      const near = (span) => Math.abs(span.start - chosen.start);
      const [nearest] = [...byRow[row]].sort((a, b) => near(a) - near(b));
      if (nearest) return void choose(nearest);
    }
  }

  const spanAt = (event) => {
    const hit = event.target.closest?.("[data-span]");
    return hit ? spans[Number(hit.dataset.span)] : null;
  };
  const timeAt = (event) => {
    const left = stage.getBoundingClientRect().left;
    const share = (event.clientX - left - GUTTER) / (width - GUTTER);
    return view.from + Math.min(1, Math.max(0, share)) * (view.to - view.from);
  };

  const pull = { on: false, moved: false };
  box.addEventListener("pointerdown", (event) => {
    Object.assign(pull, { on: true, moved: false, x: event.clientX, from: view.from, to: view.to });
  });
  window.addEventListener("pointermove", (event) => {
    if (!pull.on) return;
    if (Math.abs(event.clientX - pull.x) >= 4) pull.moved = true;
    if (!pull.moved) return;
    box.classList.add("pulled");
    const by = ((pull.x - event.clientX) / (width - GUTTER)) * (pull.to - pull.from);
    show(pull.from + by, pull.to + by);
  });
  window.addEventListener("pointerup", () => {
    pull.on = false;
    box.classList.remove("pulled");
  });
  stage.addEventListener("pointerover", (event) => {
    const span = spanAt(event);
    if (span && !pull.moved) told(span);
  });
  stage.addEventListener("pointerleave", () => told(view.chosen));
  stage.addEventListener("click", (event) => {
    if (!pull.moved) choose(spanAt(event));
  });
  box.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(1.0015 ** event.deltaY, timeAt(event));
    },
    { passive: false },
  );
  const KEYS = {
    ArrowLeft: () => step(-1, 0),
    ArrowRight: () => step(1, 0),
    ArrowUp: () => step(0, -1),
    ArrowDown: () => step(0, 1),
    "+": () => zoom(1 / 1.5),
    "=": () => zoom(1 / 1.5),
    "-": () => zoom(1.5),
    Home: () => show(0, end),
    Escape: () => choose(null),
  };
  box.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? null : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  window.addEventListener("resize", draw);
  return { choose, move, show, zoom, end, paint };
}
