"use strict";
// All of this is comfort: the page says everything without it.

// Click a column's head to sort its table.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (head.classList.contains("bar")) return;
    head.tabIndex = 0;
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
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}

// Click an arm in a legend to hide it and to show it again.
for (const item of document.querySelectorAll(".legend.arms li")) {
  item.tabIndex = 0;
  item.setAttribute("role", "button");
  item.setAttribute("aria-pressed", "true");
  const toggle = () => {
    const shown = item.getAttribute("aria-pressed") === "true";
    item.setAttribute("aria-pressed", String(!shown));
    for (const part of item.closest("figure").querySelectorAll("svg.chart g." + item.dataset.style)) {
      part.style.display = shown ? "none" : "";
    }
  };
  item.addEventListener("click", toggle);
  item.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
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
  const medians = [...chart.querySelectorAll(".median")].map((path) => ({
    path, points: (path.getAttribute("d").match(/[-\d.]+ [-\d.]+/g) ?? []).map(line),
  }));
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
      said.push(`${path.dataset.arm}: ${(y0 + ys * y).toFixed(2)} ${chart.dataset.yUnit}`);
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

// Paper shows what is folded away.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) { part.open = true; part.dataset.folded = ""; }
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("details[data-folded]")) { part.open = false; delete part.dataset.folded; }
});
