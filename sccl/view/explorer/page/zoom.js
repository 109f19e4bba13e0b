// Machines of many ranks are read closer: the drawing grows, and what shows it scrolls.

const CLOSER = 1.4;
const CLOSEST = 1.4 ** 6;
const LEAST_SUM = 7; // px of letters, below which sums in ranks are left to titles and lists

const drag = { on: false, moved: false };

/** Tell the style how many units of the drawing a pixel is, so that names can be read. */
function fitText() {
  const [box, stage] = [byId("view"), byId("stage")];
  const { width, height } = stage.viewBox.baseVal;
  const units = Math.max(width / (box.offsetWidth || width), height / (box.offsetHeight || height));
  stage.style.setProperty("--px", units.toFixed(4));
  const sum = (SUM * app.model.topology.radius * SCALE * app.zoom) / units;
  stage.classList.toggle("no-sums", sum < LEAST_SUM);
}

/** Show the drawing at a size, with the same place in the middle. */
function zoomTo(wanted) {
  const box = byId("view");
  const zoom = Math.min(CLOSEST, Math.max(1, wanted));
  const half = [box.clientWidth / 2, box.clientHeight / 2];
  const middle = [box.scrollLeft + half[0], box.scrollTop + half[1]];
  const [left, top] = middle.map((at, i) => (at * zoom) / app.zoom - half[i]);
  app.zoom = zoom;
  byId("stage").style.setProperty("--zoom", zoom);
  box.classList.toggle("closer", zoom > 1);
  box.scrollTo(left, top);
  fitText();
}

const closer = () => zoomTo(app.zoom * CLOSER);
const farther = () => zoomTo(app.zoom / CLOSER);

/** Let the mouse pull the drawing; fingers scroll it by themselves. */
function startDrag(event) {
  const box = byId("view");
  const on = event.pointerType === "mouse" && app.zoom > 1;
  Object.assign(drag, { on, moved: false, from: [event.clientX, event.clientY] });
  drag.scroll = [box.scrollLeft, box.scrollTop];
}

function pull(event) {
  if (!drag.on) return;
  const [dx, dy] = [event.clientX - drag.from[0], event.clientY - drag.from[1]];
  if (Math.hypot(dx, dy) >= 4) drag.moved = true;
  if (drag.moved) byId("view").scrollTo(drag.scroll[0] - dx, drag.scroll[1] - dy);
}

function listenToZoom() {
  byId("zoom-in").addEventListener("click", closer);
  byId("zoom-out").addEventListener("click", farther);
  byId("view").addEventListener("pointerdown", startDrag);
  window.addEventListener("pointermove", pull);
  window.addEventListener("pointerup", () => {
    drag.on = false;
  });
  // What ends a pull is no click on what happens to lie there.
  const swallow = (event) => {
    if (drag.moved) event.stopPropagation();
    drag.moved = false;
  };
  byId("view").addEventListener("click", swallow, true);
}
