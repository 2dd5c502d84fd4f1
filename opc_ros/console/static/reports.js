import { ask, attempt, element } from "/static/console.js";

const found = await attempt(() => ask("/api/reports"));
if (found) {
  const items = found.reports.map((report) => element("li", {}, element("a", { href: `/reports/${encodeURIComponent(report.name)}` }, report.name), ` ${report.made}`));
  document.getElementById("reports").replaceChildren(...(items.length ? items : [element("li", {}, "No report yet; `opc score` writes one.")]));
}
