import { ask, attempt, canSign, drawn, element, percent } from "/static/console.js";
import { drawScatter } from "/static/scatter.js";
import { submit } from "/static/statements.js";

let rows = [];
let sortKey = "rank";
let isDescending = false;
const chosen = new Set();
const body = document.querySelector("#ranking tbody");
const compareButton = document.getElementById("compare");

const bestFirst = ["predicted", "near_best", "score", "real"]; // columns in which more is better
const value = {
  rank: (row) => row.rank,
  name: (row) => row.name,
  predicted: (row) => (row.predicted ? row.predicted.mean : -1),
  near_best: (row) => (row.predicted ? row.predicted.near_best : -1),
  score: (row) => row.score,
  rank_high: (row) => row.rank_interval[1],
  real: (row) => realShare(row) ?? -1,
};

// Results on this lab's arms or, before there are any, what the report knows from elsewhere.
function realShare(row) {
  if (row.real) return row.real.successes / row.real.trials;
  return row.known_success ? row.known_success.share : null;
}

function interval(row, low, high) {
  const x = (number) => 4 + (112 * (number - low)) / (high - low || 1);
  return drawn("svg", { class: "interval", viewBox: "0 0 120 16", role: "img", "aria-label": `${row.score_interval[0].toFixed(3)} to ${row.score_interval[1].toFixed(3)}` },
    drawn("line", { x1: x(row.score_interval[0]), x2: x(row.score_interval[1]), y1: 8, y2: 8 }),
    drawn("circle", { cx: x(row.score), cy: 8, r: 4 }));
}

function show() {
  const text = document.getElementById("find").value.toLowerCase();
  const [family, run, tag] = ["family", "run", "tag"].map((id) => document.getElementById(id).value);
  const found = rows.filter((row) => `${row.name} ${row.family} ${row.training_run} ${row.tags.join(" ")}`.toLowerCase().includes(text)
    && (!family || row.family === family) && (!run || row.training_run === run) && (!tag || row.tags.includes(tag)));
  found.sort((a, b) => {
    const [x, y] = [value[sortKey](a), value[sortKey](b)];
    return (x < y ? -1 : x > y ? 1 : a.rank - b.rank) * (isDescending ? -1 : 1);
  });
  const low = Math.min(...rows.map((row) => row.score_interval[0]));
  const high = Math.max(...rows.map((row) => row.score_interval[1]));
  body.replaceChildren(...found.map((row) => element("tr", {},
    element("td", {}, element("input", { type: "checkbox", "aria-label": `select ${row.name}`, checked: chosen.has(row.candidate_id), onchange: (event) => choose(row.candidate_id, event.target.checked) })),
    element("td", { class: "number" }, row.rank),
    element("th", { scope: "row" }, row.name, element("br"), element("small", { class: "soft" }, [row.family, row.step === null ? "" : `step ${row.step}`].filter(Boolean).join(", ")),
      ...row.tags.map((tag) => element("span", { class: "tag" }, tag))),
    element("td", { class: "number" }, row.predicted ? `${percent(row.predicted.mean)} (${Math.round(100 * row.predicted.low)}–${Math.round(100 * row.predicted.high)})` : "–"),
    element("td", { class: "number" }, row.predicted ? percent(row.predicted.near_best) : "–"),
    element("td", { class: "number" }, row.score.toFixed(3)),
    element("td", { title: row.score_interval.map((end) => end.toFixed(3)).join(" to ") }, interval(row, low, high)),
    element("td", { class: "number" }, row.rank_interval.join(" to ")),
    element("td", { class: "number" }, percent(realShare(row)), row.real ? element("small", { class: "soft" }, ` ${row.real.successes} of ${row.real.trials}`) : ""),
    element("td", {}, element("button", { type: "button", class: "request", disabled: !canSign(),
      "aria-label": `request robot time for ${row.name}`, onclick: () => attempt(() => submit("request", { candidate_id: row.candidate_id })) }, "Request")),
  )));
}

function fillFilters() {
  for (const [id, read] of [["family", (row) => row.family], ["run", (row) => row.training_run], ["tag", (row) => row.tags]]) {
    const values = [...new Set(rows.flatMap(read).filter(Boolean))].sort();
    document.getElementById(id).append(...values.map((value) => element("option", { value }, value)));
    document.getElementById(id).addEventListener("input", show);
  }
}

function choose(id, isChosen) {
  if (isChosen) chosen.add(id); else chosen.delete(id);
  compareButton.disabled = chosen.size < 2 || chosen.size > 4;
}

function histogram(candidate) {
  const most = Math.max(1, ...candidate.successes_per_bin, ...candidate.failures_per_bin);
  const width = 380 / candidate.successes_per_bin.length;
  const bars = candidate.successes_per_bin.flatMap((count, bin) => [
    drawn("rect", { x: 20 + bin * width, y: 60 - (50 * count) / most, width: width - 2, height: (50 * count) / most, fill: "var(--good)" }),
    drawn("rect", { x: 20 + bin * width, y: 60, width: width - 2, height: (50 * candidate.failures_per_bin[bin]) / most, fill: "var(--bad)" }),
  ]);
  return drawn("svg", { viewBox: "0 0 420 130", role: "img", "aria-label": `mean Q of ${candidate.name}: successes above, failures below` },
    drawn("line", { class: "axis", x1: 20, x2: 400, y1: 60, y2: 60 }), ...bars,
    drawn("text", { x: 20, y: 125 }, candidate.bin_range[0].toFixed(2)), drawn("text", { x: 370, y: 125 }, candidate.bin_range[1].toFixed(2)));
}

async function compare() {
  const found = await attempt(() => ask(`/api/compare?ids=${[...chosen].join(",")}`));
  if (!found) return;
  const section = document.getElementById("comparison");
  section.hidden = false;
  section.replaceChildren(element("h2", {}, "Side by side: mean Q of each episode, successes above the line, failures below"),
    element("div", { class: "side-by-side" }, ...found.candidates.map((candidate, row) => element("figure", {}, histogram(candidate), element("figcaption", {},
      `${candidate.name}${candidate.family ? ` (${candidate.family})` : ""}: scores above `,
      found.candidates.map((other, column) => (column === row ? "" : `${other.name} in ${percent(found.beats[row][column])} of resamples`)).filter(String).join(", "))))));
  const names = found.candidates.map((candidate) => candidate.name);
  if (found.groups.length) section.append(element("h2", {}, "Scores by robot and object set"), table(["Episodes of", "Number", ...names],
    found.groups.map((group) => [group.group, group.episodes, ...group.scores.map((score) => (score === null ? "–" : score.toFixed(3)))])));
  if (found.disagreements.length) section.append(element("h2", {}, "Where they disagree most"), table(["Episode", "Label", ...names.map((name) => `mean Q of ${name}`)],
    found.disagreements.map((entry) => [element("a", { href: `/episodes?id=${encodeURIComponent(entry.episode_id)}` }, entry.episode_id), entry.label, ...entry.q.map((q) => q.toFixed(3))])));
  section.scrollIntoView({ block: "nearest" });
}

function table(heads, lines) {
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads.map((head, index) => element("th", { scope: "col", class: index > 1 ? "number" : "" }, head)))),
    element("tbody", {}, ...lines.map((line) => element("tr", {}, ...line.map((cell, index) => element("td", { class: index > 1 ? "number" : "" }, cell)))))));
}

for (const head of document.querySelectorAll("#ranking th[data-key]")) {
  head.firstElementChild.addEventListener("click", () => {
    isDescending = sortKey === head.dataset.key ? !isDescending : bestFirst.includes(head.dataset.key);
    sortKey = head.dataset.key;
    for (const other of document.querySelectorAll("#ranking th[data-key]")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    show();
  });
}
document.getElementById("find").addEventListener("input", show);
document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
compareButton.addEventListener("click", compare);

const answer = await attempt(() => ask("/api/ranking"));
const about = document.getElementById("about");
if (answer && answer.ranking) {
  const of = answer.ranking;
  rows = answer.candidates;
  fillFilters();
  document.addEventListener("identity", show);
  about.textContent = `${rows.length} candidates by ${of.metric} on ${of.episodes} episodes, ${of.successes} of them successes; snapshot ${of.snapshot_id.slice(0, 12)}, made ${new Date(of.made_at).toLocaleString()}${answer.problem ? `; no tags: ${answer.problem}` : ""}`;
  show();
} else if (answer) about.textContent = "There is no ranking yet; `opc score` makes one.";

const LINES = ["#1f77b4", "#d95f02", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f"];

function drawHistory(rankings) {
  const last = rankings.at(-1).ranks;
  const names = Object.keys(last).sort((a, b) => last[a] - last[b]).slice(0, LINES.length);
  const deepest = Math.max(names.length, ...rankings.flatMap((of) => names.map((name) => of.ranks[name] ?? 0)));
  const x = (index) => 30 + (430 * index) / (rankings.length - 1);
  const y = (rank) => 14 + (190 * (rank - 1)) / Math.max(1, deepest - 1);
  const lines = names.flatMap((name, number) => {
    const points = rankings.map((of, index) => [index, of.ranks[name]]).filter((point) => point[1]);
    return [
      drawn("polyline", { points: points.map(([index, rank]) => `${x(index)},${y(rank)}`).join(" "), fill: "none", stroke: LINES[number], "stroke-width": 2 }),
      drawn("text", { x: 468, y: y(last[name]) + 4, fill: LINES[number] }, `${last[name]} ${name}`),
    ];
  });
  const section = document.getElementById("history");
  section.hidden = false;
  section.replaceChildren(element("h2", {}, "How the ranking moved"), element("figure", {},
    drawn("svg", { viewBox: "0 0 760 220", role: "img", "aria-label": "rank of today's first candidates in earlier rankings" }, ...lines),
    element("figcaption", {}, `Rank of today's first ${names.length} in the last ${rankings.length} rankings of the whole registry: ${rankings[0].episodes} episodes on the left, ${rankings.at(-1).episodes} on the right.`)));
}

const moved = await attempt(() => ask("/api/ranking/history"));
if (moved && moved.rankings.length > 1) drawHistory(moved.rankings);

const race = await ask("/api/race").catch(() => null);
document.getElementById("reality").hidden = !race || !race.candidates.some((row) => row.real.trials) || !drawScatter(document.getElementById("scatter"), race);
