import { ask, attempt, drawn, element, percent } from "/static/console.js";
import { axes, drawScatter } from "/static/scatter.js";

function expectation(predicted) {
  return predicted ? `${percent(predicted.mean)} (${Math.round(100 * predicted.low)}–${Math.round(100 * predicted.high)})` : "–";
}

function describe(found) {
  if (!found.is_heard) return "No scheduler is running.";
  const time = found.robot_time;
  const spent = time ? ` Full-speed episodes: ${time.spent} spent, at most ${time.at_most} to go (budget ${time.budget}).` : "";
  return `${found.candidates.length} candidates have asked for robot time.${spent}`;
}

function table(found) {
  document.querySelector("#race tbody").replaceChildren(...found.candidates.map((row) => element("tr", {},
    element("th", { scope: "row" }, row.name, row.candidate_id === found.champion ? " (champion)" : ""), element("td", {}, row.state), element("td", {}, row.rung),
    element("td", { class: "number" }, typeof row.score === "number" ? row.score.toFixed(3) : "–"),
    element("td", { class: "number" }, expectation(row.predicted)), element("td", { class: "number" }, row.predicted ? percent(row.predicted.near_best) : "–"),
    element("td", { class: "number" }, row.real.trials),
    element("td", { class: "number" }, row.real.trials ? `${percent(row.real.successes / row.real.trials)} (${percent(row.real.interval[0])} to ${percent(row.real.interval[1])})` : "–"))));
}

function drawAgreement(over) {
  document.getElementById("agreement").toggleAttribute("hidden", !over.length);
  if (!over.length) return;
  const x = (index) => (over.length > 1 ? 50 + (340 * index) / (over.length - 1) : 220);
  const at = (value) => 145 - 125 * value;
  document.getElementById("agreement").replaceChildren(...axes("-1", "1"), drawn("line", { class: "axis", x1: 40, x2: 400, y1: at(0), y2: at(0) }),
    ...over.flatMap((point, index) => [drawn("line", { x1: x(index), x2: x(index), y1: at(point.low), y2: at(point.high), stroke: "var(--accent)" }),
      drawn("circle", { cx: x(index), cy: at(point.mean), r: 4, fill: "var(--accent)" }, drawn("title", {}, `${point.made_at}: ${point.mean.toFixed(2)}, ${point.tried} tried`))]));
  document.getElementById("agreement-text").textContent = `Rank correlation of scores with real success, ranking by ranking, oldest on the left; now ${over.at(-1).mean.toFixed(2)} (${over.at(-1).low.toFixed(2)} to ${over.at(-1).high.toFixed(2)}).`;
}

let last = "";
async function refresh(asking = (act) => act().catch(() => null)) {
  const found = await asking(() => ask("/api/race"));
  if (!found || JSON.stringify(found) === last) return;
  last = JSON.stringify(found);
  document.getElementById("about").textContent = describe(found);
  table(found);
  drawScatter(document.getElementById("scatter"), found);
  const over = await ask("/api/race/agreement").catch(() => ({ agreement: [] }));
  drawAgreement(over.agreement);
}

await refresh(attempt);
setInterval(() => refresh(), 5000);
