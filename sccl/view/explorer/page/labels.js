// Where labels of a chart may stand. Sizes are estimated, so that the same input makes the same
// picture on every machine.

const LETTER = 0.68; // of the font's size: as wide as bold digits of common fonts
const LINE = 1.2;
const AROUND = [
  [1, -1],
  [0, -1],
  [-1, -1],
  [1, 0],
  [1, 1],
  [-1, 0],
  [0, 1],
  [-1, 1],
];
const FARTHER = [1, 1.8];

const textSize = (text, font) => [LETTER * font * text.length, LINE * font];

const around = ([x, y], width, height) => ({
  left: x - width / 2,
  right: x + width / 2,
  top: y - height / 2,
  bottom: y + height / 2,
});

/** Return the rectangle that covers a level or upright line. */
const covering = ([ax, ay], [bx, by]) =>
  around([(ax + bx) / 2, (ay + by) / 2], Math.abs(bx - ax) + 4, Math.abs(by - ay) + 4);

const overlap = (a, b) =>
  a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

const within = (a, b) =>
  a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom;

/** Return the centres beside a mark where a label may stand, the best first. */
const besideMark = ([x, y], [width, height], gap) =>
  FARTHER.flatMap((far) =>
    AROUND.map(([dx, dy]) => [
      x + dx * (gap * far + width / 2),
      y + dy * (gap * far * 0.6 + height / 2),
    ]),
  );

/** Return the first centre at which a label covers nothing, and take that place; or undefined. */
function settle(centres, [width, height], taken, paper) {
  const free = (box) => within(box, paper) && !taken.some((other) => overlap(box, other));
  const found = centres.find((centre) => free(around(centre, width, height)));
  if (found) taken.push(around(found, width, height));
  return found;
}
