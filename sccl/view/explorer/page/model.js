"use strict";
// What an algorithm does, derived once from its sends. Times: 0 is before the first step, t is
// before step t, and S is after the last.

const everyone = (ranks) => Array.from({ length: ranks }, (_, rank) => rank);

/** Return the ranks that the data writes as null (all), a number (one) or a list. */
function ranksOf(value, ranks) {
  if (value === null) return everyone(ranks);
  return Array.isArray(value) ? value : [value];
}

function readSends(algorithm, topology) {
  return algorithm.sends.map((flat, step) => {
    const sends = [];
    for (let i = 0; i < flat.length; i += 2) {
      const reduce = flat[i + 1] < 0;
      const link = reduce ? -1 - flat[i + 1] : flat[i + 1];
      const { src, dst } = topology.links[link];
      sends.push({ step, chunk: flat[i], link, src, dst, reduce, carries: 1, after: 1 });
    }
    return sends;
  });
}

const grouped = (items, key) => {
  const groups = new Map();
  for (const item of items) {
    const at = key(item);
    if (!groups.has(at)) groups.set(at, []);
    groups.get(at).push(item);
  }
  return groups;
};

/** Follow which contributions every partial result is made of, as the judge does. */
function followContributions(model) {
  const values = new Map();
  const start = (chunk, rank) => new Set(model.pre[chunk].includes(rank) ? [rank] : []);
  const value = (chunk, rank) => values.get(model.place(chunk, rank)) ?? start(chunk, rank);
  for (const sends of model.steps) {
    const sent = sends.map((send) => value(send.chunk, send.src));
    const next = new Map();
    sends.forEach((send, i) => {
      const place = model.place(send.chunk, send.dst);
      const here = next.get(place) ?? value(send.chunk, send.dst);
      next.set(place, send.reduce ? new Set([...here, ...sent[i]]) : sent[i]);
      send.carries = sent[i].size;
    });
    for (const [place, result] of next) values.set(place, result);
    for (const send of sends) send.after = value(send.chunk, send.dst).size;
  }
}

/** Return, for each time, what share of what it wants each rank has; null: it wants nothing. */
function progressOf(model) {
  const { ranks } = model.topology;
  const [wanted, got] = [new Float64Array(ranks), new Float64Array(ranks)];
  model.post.forEach((members, chunk) => {
    for (const rank of members) {
      wanted[rank] += model.total(chunk);
      got[rank] += model.heldAt(chunk, rank, 0);
    }
  });
  const wants = model.post.map((members) => new Set(members));
  const shares = () => everyone(ranks).map((r) => (wanted[r] ? got[r] / wanted[r] : null));
  const times = [shares()];
  model.steps.forEach((sends, step) => {
    for (const [, [{ chunk, dst }]] of grouped(sends, (s) => model.place(s.chunk, s.dst))) {
      if (!wants[chunk].has(dst)) continue;
      got[dst] += model.heldAt(chunk, dst, step + 1) - model.heldAt(chunk, dst, step);
    }
    times.push(shares());
  });
  return times;
}

function loadsOf(model) {
  return model.steps.map((sends) => {
    const loads = new Int32Array(model.topology.links.length);
    for (const send of sends) loads[send.link] += 1;
    return loads;
  });
}

/** Return everything that the views ask of an algorithm. */
function modelOf(algorithm) {
  const topology = data.topologies[algorithm.topology];
  const steps = readSends(algorithm, topology);
  const model = { ...algorithm, topology, steps, last: steps.length };
  model.all = steps.flat();
  model.pre = algorithm.pre.map((value) => ranksOf(value, topology.ranks));
  model.post = algorithm.post.map((value) => ranksOf(value, topology.ranks));
  model.place = (chunk, rank) => chunk * topology.ranks + rank;
  model.total = (chunk) => (model.combining ? model.pre[chunk].length : 1);
  if (model.combining) followContributions(model);
  model.ofChunk = grouped(model.all, (send) => send.chunk);
  model.into = grouped(model.all, (send) => send.dst);
  const arrivals = grouped(model.all, (send) => model.place(send.chunk, send.dst));
  /** Return how many contributions of a chunk a rank holds at a time (0 or 1 if none combine). */
  model.heldAt = (chunk, rank, time) => {
    const before = (arrivals.get(model.place(chunk, rank)) ?? []).filter((s) => s.step < time);
    return before.length ? before[before.length - 1].after : Number(model.starts(chunk, rank));
  };
  const holders = model.pre.map((members) => new Set(members));
  model.starts = (chunk, rank) => holders[chunk].has(rank);
  model.progress = progressOf(model);
  model.loads = loadsOf(model);
  model.room = topology.links.reduce((sum, link) => sum + link.lanes, 0);
  return model;
}

/** Return what share of all lanes of all rounds a step uses. */
const usedIn = (model, step) => model.steps[step].length / (model.room * model.rounds[step]);

/** Return what share of its lanes a link uses in a step. */
const shareOf = (model, link, step) =>
  model.loads[step][link] / (model.topology.links[link].lanes * model.rounds[step]);
