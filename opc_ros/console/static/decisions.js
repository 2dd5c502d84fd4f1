import { ask, attempt, canSign, clock, element } from "/static/console.js";
import { submit } from "/static/statements.js";

const list = document.getElementById("requests");

function show(deployment) {
  if (!deployment) {
    list.replaceChildren(element("p", {}, "No scheduler is heard; start one with `opc up`."));
    return;
  }
  const halted = deployment.robots.filter((robot) => robot.halted_by).map((robot) => `${robot.robot} (by ${robot.halted_by})`);
  document.getElementById("halts").textContent = halted.length ? `Halted: ${halted.join(", ")}` : "No robot is halted.";
  const newest = [...deployment.requests].reverse();
  list.replaceChildren(...(newest.length ? newest.map(card) : [element("p", {}, "Nobody has asked for robot time yet.")]));
}

function card(request) {
  const findings = (request.findings || []).map((finding) => element("li", {}, `${finding.verdict}: ${finding.sentence}`));
  const buttons = [];
  if (request.state === "waiting") {
    buttons.push(button("Approve", request, "approve", false), button("Reject", request, "reject", true));
  } else if (request.state === "refused") buttons.push(button("Override", request, "override", true));
  return element("article", { class: "card" },
    element("h2", {}, `${request.name || request.candidate_id.slice(0, 12)}`, element("span", { class: "state" }, request.state)),
    element("p", { class: "soft" }, `asked for by ${request.requested_by || "?"}, rung ${request.rung}, ${request.real.successes} of ${request.real.trials} real episodes succeeded`),
    element("ul", { class: "findings" }, ...findings), element("p", {}, ...buttons));
}

function button(title, request, decision, needsReason) {
  return element("button", { type: "button", disabled: !canSign(), title: canSign() ? "" : "choose your key first", onclick: () => attempt(async () => {
    const reason = needsReason ? window.prompt(`${title}: why?`) : "";
    if (needsReason && !reason) return null;
    return submit(decision, { request_id: request.request_id, reason });
  }) }, title);
}

async function showAudit() {
  const text = encodeURIComponent(document.getElementById("audit-find").value);
  const found = await attempt(() => ask(`/api/audit?text=${text}`));
  if (!found) return;
  document.querySelector("#audit tbody").replaceChildren(...found.entries.map((entry) => element("tr", {},
    element("td", { class: "number" }, entry.n), element("td", {}, clock(entry.at_ns)), element("td", {}, entry.kind),
    element("td", { class: "wrap" }, JSON.stringify(entry.body)),
    element("td", { class: "wrap" }, element("code", { title: `hash ${entry.hash}, after ${entry.prev || "nothing"}` }, entry.hash.slice(0, 16))))));
}

let last = "";
async function refresh() {
  const found = await ask("/api/decisions").catch(() => null);
  const text = JSON.stringify(found);
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
