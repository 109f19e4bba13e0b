// The marks that all views are made of. Whatever comes from a file is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const html = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const plural = (count, word) => `${count.toLocaleString("en-US")} ${word}${count === 1 ? "" : "s"}`;
const listed = (items, most = 12) =>
  items.slice(0, most).join(", ") + (items.length > most ? ` and ${items.length - most} more` : "");
const value = (fraction) => {
  const [over, under = "1"] = fraction.split("/");
  return Number(over) / Number(under);
};

/** Return the class of the five shades that stands for a share of a link's lanes. */
const shade = (share) => `u${Math.min(5, Math.max(1, Math.ceil(share * 5 - 1e-9)))}`;

function rankNames(ranks, topology) {
  if (ranks.length === topology.ranks) return "all ranks";
  if (!ranks.length) return "no rank";
  return `${ranks.length === 1 ? "rank" : "ranks"} ${listed(ranks)}`;
}

const rankTitle = (topology, rank) =>
  topology.labels[rank] === String(rank)
    ? `Rank ${rank}`
    : `Rank ${rank} (${topology.labels[rank]})`;

/** Return a button that follows a chunk; in a combining collective with the sum it is part of. */
function chip(chunk, detail = "", title = "") {
  return html(
    "button",
    {
      type: "button",
      class: `chip${app.chunk === chunk ? " on" : ""}`,
      "data-chunk": chunk,
      title: title || undefined,
      "aria-label": `Chunk ${chunk}${detail ? `, ${detail}` : ""}`,
    },
    String(chunk),
    detail ? html("small", {}, detail) : null,
  );
}

// As bytes_text of sccl has it: whole thousands are what people write with decimal units.
const size = (bytes) => {
  if (bytes && bytes % 1000 === 0) {
    const power = Math.min(Math.floor((String(bytes).length - 1) / 3), 5);
    return `${bytes / 1000 ** power} ${["B", "KB", "MB", "GB", "TB", "PB"][power]}`;
  }
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let [left, unit] = [bytes, 0];
  while (left >= 1023.5 && unit + 1 < units.length) {
    left /= 1024;
    unit += 1;
  }
  return `${left < 999.5 ? Number(left.toPrecision(3)) : Math.round(left)} ${units[unit]}`;
};
