import { ask, attempt, drawn, element, percent } from "/static/console.js";

const found = await attempt(() => ask("/api/race"));
if (found) {
  const about = document.getElementById("about");
  about.textContent = found.is_heard ? `${found.candidates.length} candidates have asked for robot time.` : "No scheduler is heard.";
  document.querySelector("#race tbody").replaceChildren(...found.candidates.map((row) => element("tr", {},
    element("th", { scope: "row" }, row.name, row.candidate_id === found.champion ? " (champion)" : ""), element("td", {}, row.state), element("td", {}, row.rung),
    element("td", { class: "number" }, row.score === null ? "–" : row.score.toFixed(3)), element("td", { class: "number" }, row.real.trials),
    element("td", {}, row.real.trials ? `${percent(row.real.successes / row.real.trials)} (${percent(row.real.interval[0])} to ${percent(row.real.interval[1])})` : "–"))));
  const shown = found.candidates.filter((row) => row.score !== null && row.real.trials);
  const scatter = document.getElementById("scatter");
  const scores = shown.map((row) => row.score);
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const x = (score) => 40 + (360 * (score - low)) / (high - low || 1);
  const y = (share) => 270 - 250 * share;
  scatter.replaceChildren(drawn("line", { class: "axis", x1: 40, x2: 400, y1: 270, y2: 270 }), drawn("line", { class: "axis", x1: 40, x2: 40, y1: 20, y2: 270 }),
    drawn("text", { x: 180, y: 295 }, "score"), drawn("text", { x: 2, y: 24 }, "100 %"), drawn("text", { x: 10, y: 272 }, "0 %"),
    ...shown.flatMap((row) => [drawn("line", { x1: x(row.score), x2: x(row.score), y1: y(row.real.interval[0]), y2: y(row.real.interval[1]), stroke: "var(--accent)" }),
      drawn("circle", { cx: x(row.score), cy: y(row.real.successes / row.real.trials), r: 4, fill: "var(--accent)" }, drawn("title", {}, row.name))]));
}
