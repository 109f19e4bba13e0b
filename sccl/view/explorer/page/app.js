// What is shown at the moment, and what clicks and keys do to it.

const PAUSE = 1500; // milliseconds of a step while playing

const app = {
  model: null,
  marks: null,
  time: 0, // a step, or microseconds of a schedule
  busy: null, // of schedules, what each link is busy with now
  progress: null, // what share of what it wants each rank has now
  rank: null,
  chunk: null,
  wrong: false, // whether the field of chunks holds what is none
  zoom: 1,
  timer: null,
};

const data = JSON.parse(byId("data").textContent);

/** Return what shows a part of an algorithm, or of a schedule. */
const shower = (model, ofSteps, ofTimes) => (model.timed ? ofTimes : ofSteps);

function update() {
  const { model, marks } = app;
  app.busy = model.timed ? busyAt(model, app.time) : null;
  app.progress = model.timed ? progressAt(model, app.time) : model.progress[app.time];
  updateLinks(model, marks);
  updateRanks(model, marks);
  shower(model, showNow, showTimedNow)(model);
  showLegend(model);
  keepingFocus(() => {
    showSelection(model);
    shower(model, showSends, showTimedSends)(model);
  });
  if (!model.timed) markStep();
}

function goTo(time) {
  app.time = Math.min(app.model.last, Math.max(0, time));
  update();
}

function select(what) {
  Object.assign(app, { rank: null, chunk: null, wrong: false }, what);
  update();
}

/** Replace what is shown, and focus what stands for what had the focus before. */
function keepingFocus(draw) {
  const old = document.activeElement;
  const home = old.closest(".scroll, .plot");
  const name = ["chunk", "algorithm"].find((key) => key in old.dataset);
  const same = () => [...home.querySelectorAll(`[data-${name}="${old.dataset[name]}"]`)];
  const number = home && name ? same().indexOf(old) : -1;
  draw();
  if (number >= 0 && !old.isConnected) (same()[number] ?? same()[0] ?? home).focus();
}

function pause() {
  clearInterval(app.timer);
  app.timer = null;
  byId("play").classList.remove("on");
  byId("play").setAttribute("aria-label", "Play");
}

function play() {
  if (app.timer) return pause();
  if (app.time === app.model.last) goTo(0);
  const { timed, last } = app.model;
  app.timer = setInterval(
    () => {
      goTo(app.time + (timed ? (last * TICK) / PLAYED : 1));
      if (app.time === last) pause();
    },
    timed ? TICK : PAUSE,
  );
  byId("play").classList.add("on");
  byId("play").setAttribute("aria-label", "Pause");
  return undefined;
}

function view(name) {
  pause();
  byId("frontier-view").hidden = name !== "frontier";
  byId("algorithm-view").hidden = name === "frontier";
  if (name === "frontier") byId("show-frontier").setAttribute("aria-current", "page");
  else byId("show-frontier").removeAttribute("aria-current");
  drawCharts();
  if (app.model) fitText();
}

function openAlgorithm(index) {
  view("algorithm");
  const item = data.algorithms[index];
  app.model = item.timed ? timedModel(item) : modelOf(item);
  Object.assign(app, { time: 0, rank: null, chunk: null, wrong: false });
  app.marks = drawStage(app.model.topology);
  zoomTo(1);
  byId("algorithm").value = index;
  Object.assign(byId("step"), { step: item.timed ? "any" : 1, max: app.model.last });
  byId("step").setAttribute("aria-label", item.timed ? "Time in microseconds" : "Step");
  for (const show of item.timed
    ? [showTimedFacts, showTimedProofs, showTimedTerms, showTimedTimeline, showTimedUtilisation]
    : [showFacts, showProofs, showTerms, showTimeline, showUtilisation])
    show(app.model);
  update();
}

// --- clicks -------------------------------------------------------------------------------------

function act(target) {
  const { rank, chunk, step, algorithm } = target.dataset;
  if (rank !== undefined) select(app.rank === Number(rank) ? {} : { rank: Number(rank) });
  else if (chunk !== undefined) select(app.chunk === Number(chunk) ? {} : { chunk: Number(chunk) });
  else if (algorithm !== undefined) {
    openAlgorithm(Number(algorithm));
    byId("main").focus();
    window.scrollTo(0, 0);
  } else if (step !== undefined) goTo(Number(step));
}

const ACTS = "[data-rank], button[data-chunk], button[data-step], [data-algorithm]";

document.addEventListener("click", (event) => {
  const target = event.target.closest(ACTS);
  if (target) act(target);
});

byId("play").addEventListener("click", play);
byId("clear").addEventListener("click", () => {
  select({});
  byId("selection").focus(); // the button is gone
});
byId("step").addEventListener("input", (event) => goTo(Number(event.target.value)));
byId("algorithm").addEventListener("change", (event) => openAlgorithm(Number(event.target.value)));
byId("chunk").addEventListener("input", ({ target }) => {
  const chunk = target.valueAsNumber;
  const empty = target.value === "" && !target.validity.badInput;
  if (Number.isInteger(chunk) && chunk >= 0 && chunk < app.model.num_chunks) select({ chunk });
  else select({ wrong: !empty });
});
byId("show-frontier").addEventListener("click", () => {
  view("frontier");
  byId("main").focus();
});

window.addEventListener("resize", () => {
  keepingFocus(drawCharts);
  fitText();
});
listenToZoom();

for (const [kind, on] of [
  ["mouseover", true],
  ["mouseout", false],
]) {
  byId("sends").addEventListener(kind, (event) => {
    const link = event.target.closest("tr[data-link]")?.dataset.link;
    if (link !== undefined) app.marks.links[link].group.classList.toggle("pointed", on);
  });
}

// --- keys ---------------------------------------------------------------------------------------

function stepKey(event) {
  const beside = (ahead) =>
    app.model?.timed ? momentBeside(app.model, app.time, ahead) : app.time + (ahead ? 1 : -1);
  const keys = {
    ArrowRight: beside(true),
    ArrowLeft: beside(false),
    Home: 0,
    End: app.model?.last,
  };
  if (byId("algorithm-view").hidden) return false;
  if (event.key === " ") play();
  else if (event.key in keys) goTo(keys[event.key]);
  else if (event.key === "Escape") select({});
  else if (event.key === "+" || event.key === "=") closer();
  else if (event.key === "-") farther();
  else return false;
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const mark = event.target.closest("[role=button]");
  if (mark && (event.key === "Enter" || event.key === " ")) {
    act(mark);
    event.preventDefault();
    return;
  }
  const own = event.target.closest("select, input[type=number]") && event.key !== "Escape";
  const pressed = event.target.closest("button, a") && event.key === " ";
  const slides =
    event.target.closest("input[type=range]") && event.key !== " " && event.key !== "Escape";
  const scrolls = event.target.id === "view" && app.zoom > 1 && event.key.startsWith("Arrow");
  if (!own && !pressed && !slides && !scrolls && stepKey(event)) event.preventDefault();
});

// --- start --------------------------------------------------------------------------------------

byId("algorithm").replaceChildren(
  ...data.algorithms.map((a, index) =>
    html(
      "option",
      { value: index },
      `${a.collective} on ${data.topologies[a.topology].name}: ${pointName(a)}`,
    ),
  ),
);
showFrontiers();
openAlgorithm(0);
view(data.start);
