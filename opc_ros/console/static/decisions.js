import { ask, attempt, canSign, element, moment, person, send } from "/static/console.js";
import { submit } from "/static/statements.js";

const list = document.getElementById("requests");
const robotList = document.getElementById("robots");
const isWaiting = (request) => request.state === "waiting";
const unsettled = ["waiting", "refused"]; // states in which a person needs to see what each rule says

function show(deployment) {
  if (!deployment) {
    list.replaceChildren(element("p", {}, "No scheduler is running; start one with `opc up`."));
    robotList.replaceChildren();
    return;
  }
  robotList.replaceChildren(...deployment.robots.map(robotLine), element("li", {}, haltButton("", "Halt all robots"), " ", resumeButton("", "Resume all")));
  const reversed = [...deployment.requests].reverse();
  const newest = [...reversed.filter(isWaiting), ...reversed.filter((request) => !isWaiting(request))];
  list.replaceChildren(...(newest.length ? newest.map(card) : [element("p", {}, "Nobody has asked for robot time yet.")]));
}

function robotLine(robot) {
  const lease = robot.lease ? `, runs ${robot.lease.name} on rung ${robot.lease.rung}` : "";
  const halted = robot.halted_by ? `, halted by ${robot.halted_by}` : "";
  const act = robot.halted_by ? resumeButton(robot.robot, `Resume ${robot.robot}`) : haltButton(robot.robot, `Halt ${robot.robot}`);
  return element("li", { "data-robot": robot.robot }, `${robot.robot}: ${robot.state}${lease}${halted} `, act);
}

// Taking robot time back needs no signature; giving it back does.
function haltButton(robot, title) {
  return element("button", { type: "button", onclick: () => attempt(async () => {
    const reason = window.prompt(`${title}: why?`);
    return reason ? send("/api/halt", { robot, person: person(), reason }) : null;
  }) }, title);
}

function resumeButton(robot, title) {
  return signedButton(title, async () => {
    const reason = window.prompt(`${title}: why?`);
    return reason ? submit("resume", { robot, reason }) : null;
  });
}

function card(request) {
  const buttons = [];
  const findings = element("ul", { class: "findings" });
  if (request.state === "waiting") buttons.push(decide("Approve", request, "approve"), decide("Reject", request, "reject"), decide("Override", request, "override"));
  else if (request.state === "refused") buttons.push(decide("Override", request, "override"));
  else if (request.state === "queued") buttons.push(decide("Reject", request, "reject"));
  shown.delete(request.id);
  if (unsettled.includes(request.state)) explain(request.id, findings, request.state === "waiting" ? [buttons[0]] : []);
  return element("article", { class: "card", "data-request": request.id, "data-state": request.state },
    element("h2", {}, `${request.name || request.candidate_id.slice(0, 12)}`, element("span", { class: "state" }, request.state)),
    element("p", { class: "soft" }, `request ${request.id} by ${request.requested_by || "?"}, rung ${request.rung}, ${request.real.successes} of ${request.real.trials} real episodes succeeded`),
    ...(request.reason ? [element("p", {}, request.reason)] : []), ...(unsettled.includes(request.state) ? [findings] : []),
    ...(buttons.length ? [element("p", {}, ...buttons)] : []));
}

// An approval contains the findings on the screen and covers nothing else, so nobody can approve before they are shown.
const shown = new Map();
const badness = ["pass", "inconclusive", "fail"];

function seen(id) {
  const findings = {};
  for (const { rule, verdict } of shown.get(id))
    if (badness.indexOf(verdict) > badness.indexOf(findings[rule] || "pass")) findings[rule] = verdict;
  return { request_id: id, findings };
}

// One after the other: a scheduler may take seconds to answer, and a stop needs a free connection meanwhile.
let asking = Promise.resolve();
function explain(id, into, needing) {
  for (const button of needing) button.disabled = true;
  asking = asking.then(() => into.isConnected && explainNow(id, into, needing));
}

async function explainNow(id, into, needing) {
  const found = await ask(`/api/decisions/${encodeURIComponent(id)}`).catch(() => null);
  if (!found || !found.findings) return void setTimeout(() => into.isConnected && explain(id, into, needing), 2000); // a busy scheduler is asked again
  if (!into.isConnected) return;
  shown.set(id, found.findings);
  for (const button of needing) button.disabled = !canSign();
  into.replaceChildren(...found.findings.map((finding) => element("li", { "data-rule": finding.rule },
    element("span", { class: `verdict ${finding.verdict}` }, finding.verdict), ` ${finding.rule}: ${finding.sentence}`)));
}

function decide(title, request, decision) {
  return signedButton(title, async () => {
    const reason = decision === "approve" ? "" : window.prompt(`${title}: why?`);
    if (decision !== "approve" && !reason) return null;
    const body = { request_id: request.id, reason };
    return submit(decision, decision === "approve" ? { ...body, seen: seen(request.id) } : body);
  });
}

function signedButton(title, act) {
  return element("button", { type: "button", disabled: !canSign(), onclick: async () => { await attempt(act); await refresh(); } }, title);
}

function proof(entry) {
  const signed = entry.body.statement ? [element("dt", {}, "signed statement"), element("dd", {}, JSON.stringify(entry.body.statement))] : [];
  return element("details", {}, element("summary", {}, element("code", {}, entry.hash.slice(0, 16))),
    element("dl", {}, element("dt", {}, "hash of this entry"), element("dd", {}, entry.hash), element("dt", {}, "hash of the previous entry"), element("dd", {}, entry.prev || "none: this is the first"), ...signed));
}

function content(body) {
  const { statement, ...rest } = body;
  return Object.entries(rest).map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ") + (statement ? " (signed)" : "");
}

async function showAudit() {
  const text = encodeURIComponent(document.getElementById("audit-find").value);
  const found = await attempt(() => ask(`/api/audit?text=${text}`));
  if (!found) return;
  document.querySelector("#audit tbody").replaceChildren(...found.entries.map((entry) => element("tr", {},
    element("td", { class: "number" }, entry.n), element("td", {}, moment(entry.at_ns)), element("td", {}, entry.kind),
    element("td", { class: "wrap" }, content(entry.body)), element("td", { class: "wrap" }, proof(entry)))));
}

let last = "";
async function refresh() {
  const found = await ask("/api/decisions").catch(() => null);
  const text = JSON.stringify(found);
  document.getElementById("stale").hidden = found !== null;
  if (found && text !== last) {
    last = text;
    show(found.deployment);
    showAudit();
  }
}

document.getElementById("audit-find").addEventListener("input", showAudit);
document.getElementById("audit-filters").addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("identity", () => { last = ""; refresh(); });
await refresh();
setInterval(refresh, 1000);
