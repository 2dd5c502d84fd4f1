"use strict";
// Sorts a table by a click on a header, filters rows by text, and folds long tables; without it everything is shown.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, index) => {
    const cell = row.cells[index];
    const text = cell.dataset.v ?? cell.textContent.trim();
    const number = Number.parseFloat(text);
    return Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const sort = (head) => {
    const isUp = head.getAttribute("aria-sort") === "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
    const rows = [...body.rows].map((row) => [value(row, head.cellIndex), row]);
    rows.sort(([a], [b]) => (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1));
    if (!isUp) rows.reverse();
    body.append(...rows.map(([, row]) => row));
  };
  for (const head of table.tHead.rows[0].cells) {
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(head); });
  }
}
for (const tools of document.querySelectorAll(".tools")) {
  const table = tools.nextElementSibling.querySelector("table");
  const all = tools.querySelector(".all");
  tools.hidden = false;
  table.classList.toggle("short", !all.hidden);
  all.addEventListener("click", () => { table.classList.remove("short"); all.hidden = true; });
  tools.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    table.classList.toggle("short", !wanted && !all.hidden);
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}
