import { ask, attempt, canSign, drawn, element, moment } from "/static/console.js";
import { submit } from "/static/statements.js";

const FILTERS = ["robot", "policy", "object_set", "label", "since", "until", "health", "text"];
const COLOURS = ["#1f77b4", "#d95f02", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf", "#3366aa", "#aa6633"];
const field = (name) => document.getElementById(name);
let first = 0;
let listed = [];
let episode = null;
let isLabelling = false;
let timer = null;
const said = []; // episodes labelled here, newest last

// One more label matters most where people disagree, so these come before episodes that nobody has labelled.
async function disputed() {
  if (!isLabelling || first) return [];
  const found = await ask("/api/disputes").catch(() => ({ disputes: [] }));
  return found.disputes.map((entry) => entry.episode).filter(Boolean);
}

async function list() {
  const query = new URLSearchParams({ first });
  for (const name of FILTERS) if (field(name).value) query.set(name, field(name).value);
  const found = await attempt(() => ask(`/api/episodes?${query}`));
  if (!found) return;
  const before = await disputed();
  listed = [...before, ...found.episodes];
  const last = Math.min(found.total, first + found.page_size);
  const range = found.total ? `${first + 1} to ${last} of ${found.total} episodes, newest first` : "No episode matches.";
  field("count").textContent = before.length ? `${before.length} on which people disagree; then ${range}` : range;
  field("previous").disabled = first === 0;
  field("next").disabled = last >= found.total;
  for (const [name, values] of [["robot", found.facets.robots], ["policy", found.facets.policies], ["object_set", found.facets.object_sets]]) {
    const select = field(name);
    if (select.options.length !== values.length + 1) {
      const before = select.value;
      select.replaceChildren(element("option", { value: "" }, "any"), ...values.filter(String).map((value) => element("option", { value }, value)));
      select.value = before;
    }
  }
  document.querySelector("#episodes tbody").replaceChildren(...listed.map((row) => element("tr", { class: "clickable", tabindex: 0, "data-id": row.id,
    "aria-selected": episode && row.id === episode.id ? "true" : "false",
    onclick: () => open(row.id), onkeydown: (event) => { if (event.key === "Enter") open(row.id); } },
    element("th", { scope: "row" }, row.id, element("br"), element("small", { class: "soft" }, moment(row.began_ns))),
    element("td", {}, row.robot), element("td", {}, isLabelling ? "hidden" : row.policy), element("td", { class: "number" }, row.steps),
    element("td", { class: isLabelling ? "" : row.label }, isLabelling ? "hidden" : row.label === "none" ? "–" : row.label), element("td", { class: "wrap" }, row.health.join("; ")))));
}

async function open(id) {
  const found = await attempt(() => ask(`/api/episodes/${encodeURIComponent(id)}`));
  if (!found) return;
  episode = found;
  field("player").hidden = false;
  field("player-title").textContent = isLabelling ? episode.id : `${episode.id}: ${episode.label === "none" ? "unlabelled" : episode.label}${episode.labeller ? ` (${episode.labeller}, revision ${episode.label_revision})` : ""}`;
  field("step").max = episode.steps - 1;
  field("step").value = isLabelling ? episode.steps - 1 : 0;
  field("history").replaceChildren(...(isLabelling ? [] : episode.history.map((entry) => element("li", {}, `revision ${entry.revision}: ${entry.label}${entry.labeller ? ` by ${entry.labeller}` : ""}${entry.is_signed ? ", signed" : ""}, ${moment(entry.at_ns)}${entry.note ? `: ${entry.note}` : ""}`))));
  field("file").href = episode.file;
  field("foxglove").href = episode.foxglove;
  field("rerun").textContent = `rerun ${episode.file}`;
  drawCurves();
  showStep();
  for (const row of document.querySelectorAll("#episodes tbody tr")) row.setAttribute("aria-selected", row.dataset.id === id ? "true" : "false");
  // On a phone the player is below the list, where nobody would notice that it has opened.
  if (getComputedStyle(field("player")).position === "static") field("player").scrollIntoView({ block: "start" });
}

function showStep() {
  const step = Number(field("step").value);
  field("frame").src = `/episodes/${encodeURIComponent(episode.id)}/frame/${step}`;
  field("step-number").textContent = `${step + 1} of ${episode.steps}`;
  const tool = episode.tool[step];
  const action = episode.actions[step].map((number, index) => `${episode.action_names[index]} ${number}`).filter((text) => !text.endsWith(" 0"));
  field("step-text").textContent = `tool: ${tool.map((number, index) => `${episode.state_names[index]} ${number}`).join(", ")}; action: ${action.join(", ")}`;
  const line = document.getElementById("cursor");
  if (line) line.setAttribute("transform", `translate(${curveX(step)} 0)`);
}

const curveX = (step) => 30 + (375 * step) / Math.max(1, episode.steps - 1);

function drawCurves() {
  const all = episode.q.flatMap((curve) => curve.values);
  const [low, high] = [Math.min(0, ...all), Math.max(1, ...all)];
  const y = (q) => 180 - (165 * (q - low)) / (high - low || 1);
  const shown = isLabelling ? [] : episode.q;
  field("curves").replaceChildren(drawn("line", { class: "axis", x1: 30, x2: 405, y1: 180, y2: 180 }), drawn("text", { x: 2, y: 20 }, high.toFixed(1)), drawn("text", { x: 2, y: 183 }, low.toFixed(1)),
    ...shown.map((curve, index) => drawn("polyline", { fill: "none", stroke: COLOURS[index % COLOURS.length], "stroke-width": 1.6, points: curve.values.map((q, step) => `${curveX(step).toFixed(1)},${y(q).toFixed(1)}`).join(" ") }, drawn("title", {}, curve.name))),
    drawn("line", { id: "cursor", class: "axis", x1: 0, x2: 0, y1: 10, y2: 180 }));
  const legend = shown.map((curve, index) => {
    const item = element("li", {}, curve.name);
    item.style.color = COLOURS[index % COLOURS.length];
    return item;
  });
  field("legend").replaceChildren(...legend);
}

// One label at a time: a key pressed while the previous label is being sent would apply to the wrong episode.
async function alone(act) {
  const player = field("player");
  if (player.dataset.busy === "true") return;
  player.dataset.busy = "true";
  try { await act(); } finally { player.dataset.busy = "false"; }
}

const say = (isSuccess) => alone(async () => {
  if (!episode) return;
  const id = episode.id;
  const answer = await attempt(() => submit("relabel", { episode_id: id, label: isSuccess ? "success" : "failure" }));
  if (!answer || !answer.done) return;
  said.push(id);
  if (isLabelling) await next(); else { await list(); await open(id); }
});

const undo = () => alone(async () => {
  const id = said.at(-1);
  if (!id) return;
  const answer = await attempt(() => submit("relabel", { episode_id: id, label: "none" }));
  if (answer && answer.done) { said.pop(); await open(id); }
});

async function next() {
  const at = listed.findIndex((row) => episode && row.id === episode.id);
  const following = listed.slice(at + 1).find((row) => !said.includes(row.id));
  if (following) await open(following.id);
  else {
    first = 0;
    await list();
    const left = listed.find((row) => !said.includes(row.id));
    if (left) await open(left.id);
  }
}

function stepBy(count) {
  const step = field("step");
  step.value = Number(step.value) + count; // the slider keeps it within the episode
  showStep();
}

function play() {
  if (timer) { clearInterval(timer); timer = null; return; }
  field("step").value = 0;
  timer = setInterval(() => {
    const step = field("step");
    if (Number(step.value) >= episode.steps - 1) { clearInterval(timer); timer = null; return; }
    stepBy(1);
  }, 120);
}

field("labelling").addEventListener("click", async () => {
  isLabelling = !isLabelling;
  field("labelling").textContent = isLabelling ? "Stop labelling" : "Start labelling";
  field("label-keys").hidden = !isLabelling;
  field("label").disabled = isLabelling;
  field("label").value = isLabelling ? "none" : "";
  first = 0;
  await list();
  showDisputes();
  if (isLabelling && listed.length) await open(listed[0].id);
  if (isLabelling) field("player").focus({ preventScroll: true }); // a focused button would take the space bar
});
document.addEventListener("keydown", (event) => {
  if (!episode || ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName) || event.ctrlKey || event.metaKey) return;
  if (event.key === " " && ["BUTTON", "A", "SUMMARY"].includes(event.target.tagName)) return; // presses the focused element
  const look = { " ": play, ArrowLeft: () => stepBy(-1), ArrowRight: () => stepBy(1) }[event.key];
  const act = look || (isLabelling && { s: () => say(true), f: () => say(false), u: undo, n: next }[event.key]);
  if (act) { event.preventDefault(); act(); }
});
for (const name of FILTERS) field(name).addEventListener("input", () => { first = 0; list(); });
field("filters").addEventListener("submit", (event) => event.preventDefault());
field("previous").addEventListener("click", () => { first = Math.max(0, first - 50); list(); });
field("next").addEventListener("click", () => { first += 50; list(); });
field("step").addEventListener("input", showStep);
field("say-success").addEventListener("click", () => say(true));
field("say-failure").addEventListener("click", () => say(false));
// Not while labelling: the labeller should not know what others said.
async function showDisputes() {
  const found = isLabelling ? { disputes: [] } : await ask("/api/disputes").catch(() => ({ disputes: [] }));
  field("disputes").hidden = !found.disputes.length;
  field("dispute-list").replaceChildren(...found.disputes.map((entry) => element("li", {},
    element("button", { type: "button", onclick: () => open(entry.episode_id) }, entry.episode_id),
    ` ${Object.entries(entry.said).map(([who, label]) => `${who}: ${label}`).join(", ")}`)));
}
function showIdentity() { for (const name of ["say-success", "say-failure"]) field(name).disabled = !canSign(); }
document.addEventListener("identity", showIdentity);
showIdentity();
await list();
await showDisputes();
const quarantine = await ask("/api/quarantine").catch(() => ({ quarantined: [] }));
field("quarantine").replaceChildren(...(quarantine.quarantined.length ? quarantine.quarantined.slice(0, 50).map((entry) => element("li", {}, `${entry.episode_id || entry.id || ""}: ${entry.reason}`)) : [element("li", {}, "empty")]));
const asked = new URLSearchParams(location.search).get("id");
if (asked) await open(asked);
