"use strict";
// All of this is comfort: the page says everything without it.

// What an element says, on one line.
function wordsOf(element) {
  return element.textContent.trim().replace(/\s+/g, " ");
}

// Click a column's head to sort its table. A table is named after what it stands in, the second one there with a number.
const sortables = [];
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells].filter((head) => !head.classList.contains("bar"));
  const planned = [...table.tBodies[0].rows];
  const place = table.closest("[id]")?.id ?? "";
  const before = sortables.filter((other) => other.place === place).length;
  const sortable = { place, name: before === 0 ? place : `${place}-${before + 1}`, columns: heads.map(wordsOf), by: null };
  sortable.sort = (column, falls) => {
    const index = sortable.columns.indexOf(column);
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    const rows = [...planned];
    sortable.by = index === -1 ? null : { column, falls };
    if (sortable.by) {
      const head = heads[index];
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      const cell = (row) => row.cells[head.cellIndex];
      const key = (row) => cell(row).dataset.sort ?? cell(row).textContent.trim();
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = isNaN(x) || isNaN(y) ? x.localeCompare(y, "en", { numeric: true }) : x - y;
        return falls ? -order : order;
      });
    }
    table.tBodies[0].append(...rows);
  };
  sortables.push(sortable);
  heads.forEach((head, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    head.addEventListener("click", () => {
      sortable.sort(sortable.columns[index], head.getAttribute("aria-sort") === "ascending");
      remember();
    });
  });
}

// Copy a table as CSV, or as LaTeX with the rules of booktabs. Where the clipboard is out of reach, the text is shown to be copied by hand.
const grid = (table) => {
  const plain = (text) => text.trim().replace(/\s+/g, " ").replace(/(\d)\u202f(?=\d)/g, "$1").replace(/\u2212/g, "-");
  const text = (cell) => [...cell.childNodes].map((part) => plain(part.textContent)).filter((text) => text !== "").join(" ");
  const shown = (row) => [...row.cells].filter((cell) => !cell.classList.contains("bar"));
  return [...table.tHead.rows, ...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => shown(row).map((cell) => ({ cell, text: text(cell) })));
};
const csv = (table) => {
  const field = ({ text }) => (/[",]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  return grid(table).map((row) => row.map(field).join(",")).join("\n") + "\n";
};
const latex = (table) => {
  const words = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "\u003c": "$\u003c$", "\u003e": "$\u003e$", "\u00d7": "$\\times$", "\u00b1": "$\\pm$",
    "\u00b5": "\\textmu{}", "\u03bc": "\\textmu{}", "\u2013": "--", "\u2026": "\\dots{}", "\u2264": "$\\le$", "\u2265": "$\\ge$", "\u2248": "$\\approx$",
  };
  const escape = (text) => text.replace(/(^|[\s(])-(?=\d)/g, "$1\u2212").replace(/[\\~^\u003c\u003e&%$#_{}\u00d7\u00b1\u00b5\u03bc\u2013\u2026\u2264\u2265\u2248\u2212]/g,
    (sign) => (sign === "\u2212" ? "$-$" : words[sign] ?? `\\${sign}`));
  const line = (row) => row.map(({ text }) => escape(text)).join(" & ") + " \\\\";
  const [head, ...rows] = grid(table);
  const columns = head.map(({ cell }) => (cell.classList.contains("number") ? "r" : "l")).join("");
  const lines = [`\\begin{tabular}{${columns}}`, "\\toprule", line(head), "\\midrule", ...rows.map(line), "\\bottomrule", "\\end{tabular}"];
  return lines.join("\n") + "\n";
};
const copied = (place, name, make) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = `Copy as ${name}`;
  place.append(button, " ");
  button.addEventListener("click", async () => {
    const text = make();
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const fold = place.querySelector("details") ?? document.createElement("details");
      const summary = document.createElement("summary");
      const lines = document.createElement("pre");
      summary.textContent = `The table as ${name}, to be copied by hand`;
      lines.textContent = text;
      fold.open = true;
      fold.replaceChildren(summary, lines);
      place.append(fold);
      getSelection().selectAllChildren(lines);
    }
  });
};
for (const table of document.querySelectorAll("table.board, table.data")) {
  const place = document.createElement("div");
  place.className = "copy";
  table.parentNode.after(place);
  copied(place, "CSV", () => csv(table));
  copied(place, "LaTeX", () => latex(table));
}

// Save a chart as a file of its own, in light colours: everything that it takes from the page is written into it.
const STYLES = [
  "display", "visibility", "opacity", "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap",
  "stroke-linejoin", "font-family", "font-size", "font-weight", "font-variant-numeric", "text-anchor", "dominant-baseline", "paint-order",
];
// A part that is used elsewhere takes the colours of that place.
const isUsed = (part) => part.id !== "" && document.querySelector(`use[href="#${CSS.escape(part.id)}"]`) !== null;
const dressed = (element) => {
  const copy = element.cloneNode(true);
  const [from, to] = [element, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  from.forEach((part, place) => {
    const style = getComputedStyle(part);
    to[place].removeAttribute("class");
    if (isUsed(part)) return;
    to[place].setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
  });
  return copy;
};
const drawing = (chart) => {
  const root = document.documentElement;
  const scheme = root.style.colorScheme;
  root.style.colorScheme = "light";
  try {
    const copy = dressed(chart);
    const [, , width, height] = chart.getAttribute("viewBox").split(" ");
    const defs = document.createElementNS("http://www.w3.org/2000/svg", "defs");
    const missing = () => {
      const text = copy.outerHTML + defs.outerHTML;
      const names = [...text.matchAll(/url\((?:&quot;|")?#([^)"&]+)|href="#([^"]+)"/g)].map((found) => found[1] ?? found[2]);
      return [...new Set(names)].filter((name) => !copy.querySelector(`#${CSS.escape(name)}`) && !defs.querySelector(`#${CSS.escape(name)}`));
    };
    for (let names = missing(); names.length > 0; names = missing()) {
      const found = names.map((name) => document.getElementById(name)).filter(Boolean);
      if (found.length === 0) break;
      defs.append(...found.map(dressed));
    }
    copy.prepend(defs);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    return new XMLSerializer().serializeToString(copy) + "\n";
  } finally {
    root.style.colorScheme = scheme;
  }
};
for (const chart of document.querySelectorAll("svg.chart, svg.map, svg.matrix")) {
  const place = document.createElement("div");
  const button = document.createElement("button");
  place.className = "copy";
  button.type = "button";
  button.textContent = "Save as SVG";
  place.append(button);
  (chart.closest(".scroll") ?? chart).after(place);
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([drawing(chart)], { type: "image/svg+xml" }));
    link.download = `${document.title} ${chart.querySelector("title")?.textContent ?? "chart"}.svg`.replace(/[^\w.-]+/g, "-");
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  });
}

// What does not fit is scrolled with the keyboard too: it is reached by the key Tab while there is something to scroll, and has a name.
const nameOf = (place) => {
  const title = place.querySelector("svg > title") ?? place.closest("details")?.querySelector("summary") ?? place.closest("section")?.querySelector("h2");
  return title ? wordsOf(title) : document.title;
};
const sized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight) {
      target.tabIndex = 0;
      target.setAttribute("role", "group");
      target.setAttribute("aria-label", nameOf(target));
    } else {
      for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name);
    }
  }
});
document.querySelectorAll(".scroll, pre").forEach((place) => sized.observe(place));

// Point at a chart to read the medians there.
const readout = document.createElement("div");
readout.className = "readout";
readout.hidden = true;
document.body.append(readout);
for (const chart of document.querySelectorAll("svg.curves")) {
  const line = (text) => text.split(" ").map(Number);
  const [[x0, xs], [y0, ys]] = [line(chart.dataset.x), line(chart.dataset.y)];
  const factor = Number(chart.dataset.yFactor);
  const height = { linear: (y) => y, logarithm: (y) => 10 ** y * factor, error: (y) => (1 - 10 ** -y) * factor }[chart.dataset.yForm];
  // A path is one place and then steps from each place to the next.
  const places = (path) => {
    const numbers = (path.getAttribute("d").match(/-?\d*\.?\d+/g) ?? []).map(Number);
    const points = [];
    let [x, y] = [0, 0];
    for (let i = 0; i + 1 < numbers.length; i += 2) points.push([(x += numbers[i]), (y += numbers[i + 1])]);
    return points;
  };
  const medians = [...document.getElementById(chart.dataset.lines).querySelectorAll(".median")]
    .map((path) => ({ path, points: places(path) }));
  const digits = (value) => value.toPrecision(value >= 1000 ? 4 : 3);
  chart.addEventListener("pointermove", (event) => {
    const pointed = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
    const at = pointed.x;
    const said = [];
    let [nearest, distance] = [undefined, 14];
    for (const { path, points } of medians) {
      if (path.closest("[hidden]")) continue;
      const next = points.findIndex(([x]) => x >= at);
      if (next < 1) continue;
      const [[ax, ay], [bx, by]] = [points[next - 1], points[next]];
      const y = ay + ((by - ay) * (at - ax)) / (bx - ax || 1);
      const off = Math.abs(y - pointed.y);
      if (distance > off) [nearest, distance] = [path, off];
      said.push(`${path.dataset.arm}: ${height(y0 + ys * y).toFixed(2)} ${chart.dataset.yUnit}`);
    }
    if (event.pointerType !== "touch") light(ownerOf(nearest));
    readout.hidden = said.length === 0;
    readout.replaceChildren(...[`${digits(x0 + xs * at)} ${chart.dataset.xUnit}`, ...said].map((text) => {
      const part = document.createElement("div");
      part.textContent = text;
      return part;
    }));
    const room = innerWidth - event.clientX > 260;
    readout.style.left = room ? event.clientX + 16 + "px" : "";
    readout.style.right = room ? "" : innerWidth - event.clientX + 16 + "px";
    readout.style.top = event.clientY + 12 + "px";
  });
  chart.addEventListener("pointerleave", () => {
    readout.hidden = true;
    light(undefined);
  });
}
