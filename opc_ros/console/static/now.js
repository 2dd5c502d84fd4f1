import { attempt, canSign, clock, element, stop } from "/static/console.js";
import { submit } from "/static/statements.js";

const arms = new Map(); // robot -> its card's parts
const MOST_LOADING = 2; // images at once: a browser opens six connections to one server, and a stop needs a free one
const ASK_AGAIN_MS = 2000; // the console unsubscribes from a camera that no page asks for, even if it has no new image
const shownEvents = document.getElementById("events");

// One signature for each stop in force; the arm's own nodes verify it, and a newer stop stays.
function release(robot) {
  return attempt(async () => {
    let answer = null;
    for (const stopId of arms.get(robot).stops) {
      answer = await submit("release_stop", { robot, stop_id: stopId });
      if (!answer.done) return answer;
    }
    return answer || { done: false, message: `${robot}: no stop is known here; use opc release ${robot}` };
  });
}

function makeCard(robot) {
  const image = element("img", { alt: `camera of ${robot}`, width: 300, height: 300 });
  const state = element("span", { class: "state" });
  const facts = element("dl");
  const releaseButton = element("button", { type: "button", class: "release", hidden: true, onclick: () => release(robot) }, `Release ${robot}`);
  const card = element(
    "article", { class: "card", "aria-label": robot },
    element("h2", {}, robot, state), image,
    element("button", { class: "stop", type: "button", onclick: () => stop(robot) }, `Stop ${robot}`), releaseButton, facts,
  );
  document.getElementById("arms").append(card);
  const parts = { image, state, facts, releaseButton, stops: [], frame: -1, newest: 0, isLoading: false, askedAt: 0 };
  for (const name of ["load", "error"]) image.addEventListener(name, () => { parts.isLoading = false; loadImages(); });
  arms.set(robot, parts);
  return parts;
}

// The next image is requested once the previous one has arrived: a slow page asks less often, and nobody waits for it.
function loadImages() {
  if (document.hidden) return;
  const now = Date.now();
  const isDue = (card) => !card.isLoading && (card.newest !== card.frame || now - card.askedAt > ASK_AGAIN_MS);
  const due = [...arms].filter(([, card]) => isDue(card)).sort(([, a], [, b]) => a.askedAt - b.askedAt);
  const loading = [...arms.values()].filter((card) => card.isLoading).length;
  for (const [robot, card] of due.slice(0, Math.max(0, MOST_LOADING - loading))) {
    Object.assign(card, { isLoading: true, frame: card.newest, askedAt: now });
    card.image.src = `/camera/${encodeURIComponent(robot)}.jpg?${card.newest}-${now}`;
  }
}

function show(view) {
  const names = view.names;
  for (const robot of view.robots) {
    const card = arms.get(robot.robot) || makeCard(robot.robot);
    card.state.textContent = robot.state;
    card.state.className = `state ${robot.state}`;
    card.stops = robot.stops;
    card.releaseButton.hidden = !(robot.state === "stopped" || robot.guard === "stopped");
    card.releaseButton.disabled = !canSign();
    card.releaseButton.textContent = `Release ${robot.robot}${canSign() ? "" : ": choose your key first"}`;
    const soFar = view.lab.so_far[robot.robot];
    const next = view.lab.next[robot.robot];
    const leased = view.lab.robots.find((known) => known.robot === robot.robot);
    const facts = [
      ["runs", robot.candidate_id ? names[robot.candidate_id] || robot.candidate_id.slice(0, 12) : "no candidate"],
      ["permit", robot.permit_id ? `${robot.permit_id.slice(0, 8)}, rung ${robot.rung}, ${robot.episodes_left} left` : "none"],
      ["so far", soFar && soFar.trials ? `${soFar.successes} of ${soFar.trials} episodes succeeded` : ""],
      ["next", next ? `${next.name}, ${next.episodes} episodes on rung ${next.rung}: ${next.why}` : ""],
      ["episode", robot.episode_id ? `${robot.episode_id}, step ${robot.step}` : "none"],
      ["recorder", `${robot.recorder.state}${robot.recorder.reason ? `: ${robot.recorder.reason}` : ""}`],
      ["disk", robot.recorder.state === "unknown" ? "" : `${(robot.recorder.disk_free_bytes / 1e9).toFixed(0)} GB free, ${robot.recorder.saved} saved`],
      ["guard", robot.guard === "unknown" ? "" : `${robot.guard}${robot.guard_reason ? `: ${robot.guard_reason}` : ""}`],
      ["note", robot.reason || (leased && leased.halted_by ? `halted by ${leased.halted_by}` : "")],
    ];
    card.facts.replaceChildren(...facts.filter(([, text]) => text).flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
    card.newest = robot.frame;
  }
  loadImages();
  const waiting = view.lab.waiting ? `, ${view.lab.waiting} waiting for a person` : "";
  const champion = view.lab.champion ? names[view.lab.champion] || view.lab.champion.slice(0, 12) : "none yet";
  document.getElementById("lab").textContent = view.lab.is_heard
    ? `${view.robots.length} arms; champion: ${champion}${waiting}`
    : `${view.robots.length} arms; no scheduler heard`;
  for (const event of view.events) {
    shownEvents.prepend(element("li", { "data-number": event.number }, element("time", {}, clock(event.at_ns)), `${event.robot} ${event.kind}: ${event.text}`));
  }
  while (shownEvents.children.length > 200) shownEvents.lastChild.remove();
}

let stream = null;

// Each open stream holds one of the browser's six connections: six tabs in the background could delay a stop.
function follow() {
  if (stream) stream.close();
  stream = null;
  if (document.hidden) return;
  shownEvents.replaceChildren();
  stream = new EventSource("/api/stream");
  stream.addEventListener("message", (message) => show(JSON.parse(message.data)));
  stream.addEventListener("error", () => { document.getElementById("lab").textContent = "Connection lost; trying again. What you see is out of date."; });
}

document.addEventListener("visibilitychange", follow);
follow();
