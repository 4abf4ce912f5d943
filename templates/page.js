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

// Paper shows what is folded away.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open])")) { part.open = true; part.dataset.folded = ""; }
});
addEventListener("afterprint", () => {
  for (const part of document.querySelectorAll("details[data-folded]")) { part.open = false; delete part.dataset.folded; }
});
