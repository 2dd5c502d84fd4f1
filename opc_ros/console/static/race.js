import { ask, attempt, drawn, element, percent } from "/static/console.js";

const y = (share) => 270 - 250 * share;
const axes = (low, high) => [drawn("line", { class: "axis", x1: 40, x2: 400, y1: 270, y2: 270 }), drawn("line", { class: "axis", x1: 40, x2: 40, y1: 20, y2: 270 }),
  drawn("text", { x: 2, y: 24 }, high), drawn("text", { x: 10, y: 272 }, low)];

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
    element("td", {}, row.real.trials ? `${percent(row.real.successes / row.real.trials)} (${percent(row.real.interval[0])} to ${percent(row.real.interval[1])})` : "–"))));
}

function scatter(found) {
  const tried = found.candidates.filter((row) => typeof row.score === "number" && row.real.trials);
  const scores = [...tried.map((row) => row.score), ...found.expected.map((point) => point.score)];
  if (!scores.length) return;
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const x = (score) => 40 + (360 * (score - low)) / (high - low || 1);
  const points = (of, name) => of.map((point) => `${x(point.score).toFixed(1)},${y(point[name]).toFixed(1)}`);
  const band = [...points(found.expected, "low"), ...points([...found.expected].reverse(), "high")].join(" ");
  document.getElementById("scatter").replaceChildren(...axes("0 %", "100 %"), drawn("text", { x: 180, y: 295 }, "score"),
    drawn("polygon", { points: band, fill: "var(--accent)", "fill-opacity": 0.12 }),
    drawn("polyline", { id: "expected", points: points(found.expected, "mean").join(" "), fill: "none", stroke: "var(--accent)" }),
    ...tried.flatMap((row) => [drawn("line", { x1: x(row.score), x2: x(row.score), y1: y(row.real.interval[0]), y2: y(row.real.interval[1]), stroke: "var(--ink)" }),
      drawn("circle", { cx: x(row.score), cy: y(row.real.successes / row.real.trials), r: 4, fill: "var(--ink)" }, drawn("title", {}, row.name))]));
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
  scatter(found);
  const over = await ask("/api/race/agreement").catch(() => ({ agreement: [] }));
  drawAgreement(over.agreement);
}

await refresh(attempt);
setInterval(() => refresh(), 5000);
