"use strict";
// All of this is comfort: the page says everything without it.

// Click a column's head to sort its table.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (head.classList.contains("bar")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const sort = () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const order = isNaN(x) || isNaN(y) ? x.localeCompare(y, "en", { numeric: true }) : x - y;
        return rising ? order : -order;
      });
      table.tBodies[0].append(...rows);
    };
    head.addEventListener("click", sort);
  });
}

// Press an arm in a legend to hide it and to show it again.
for (const item of document.querySelectorAll(".legend.arms li")) {
  const button = document.createElement("button");
  button.type = "button";
  button.setAttribute("aria-pressed", "true");
  button.append(...item.childNodes);
  item.append(button);
  button.addEventListener("click", () => {
    const shown = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!shown));
    for (const part of item.closest("figure").querySelectorAll("svg.chart g." + item.dataset.style)) {
      part.style.display = shown ? "none" : "";
    }
  });
}

// Copy a table as CSV. Where the clipboard is out of reach, the text is shown to be copied by hand.
const csv = (table) => {
  const plain = (text) => text.trim().replace(/\s+/g, " ").replace(/(\d)\u202f(?=\d)/g, "$1").replace(/\u2212/g, "-");
  const field = (cell) => {
    const parts = [...cell.childNodes].map((part) => plain(part.textContent)).filter((text) => text !== "");
    const text = parts.join(" ");
    return /[",]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const line = (row) => [...row.cells].filter((cell) => !cell.classList.contains("bar")).map(field).join(",");
  return [...table.tHead.rows, ...table.tBodies[0].rows].map(line).join("\n") + "\n";
};
for (const table of document.querySelectorAll("table.board, table.data")) {
  const place = document.createElement("div");
  const button = document.createElement("button");
  place.className = "copy";
  button.type = "button";
  button.textContent = "Copy as CSV";
  place.append(button);
  table.parentNode.after(place);
  button.addEventListener("click", async () => {
    const text = csv(table);
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const fold = place.querySelector("details") ?? document.createElement("details");
      const summary = document.createElement("summary");
      const lines = document.createElement("pre");
      summary.textContent = "The table as CSV, to be copied by hand";
      lines.textContent = text;
      fold.open = true;
      fold.replaceChildren(summary, lines);
      place.append(fold);
      getSelection().selectAllChildren(lines);
    }
  });
}

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
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x;
    const said = [];
    for (const { path, points } of medians) {
      if (path.parentNode.style.display === "none") continue;
      const next = points.findIndex(([x]) => x >= at);
      if (next < 1) continue;
      const [[ax, ay], [bx, by]] = [points[next - 1], points[next]];
      const y = ay + ((by - ay) * (at - ax)) / (bx - ax || 1);
      said.push(`${path.dataset.arm}: ${height(y0 + ys * y).toFixed(2)} ${chart.dataset.yUnit}`);
    }
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
  chart.addEventListener("pointerleave", () => { readout.hidden = true; });
}
