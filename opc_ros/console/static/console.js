// What every page shares: requests to the server, notices, and the stop button.
import { canSign, person } from "/static/identity.js";

export { canSign, person, sign } from "/static/identity.js";

const token = document.querySelector('meta[name="opc-token"]').content;

export async function ask(path) {
  const answer = await fetch(path, { headers: { accept: "application/json" } });
  const body = await answer.json().catch(() => ({ error: `answered ${answer.status}` }));
  if (!answer.ok) throw new Error(body.error || `answered ${answer.status}`);
  return body;
}

export async function send(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-opc-console": token },
    body: JSON.stringify(body),
  });
  const found = await answer.json().catch(() => ({ error: `answered ${answer.status}` }));
  if (!answer.ok) throw new Error(found.error || `answered ${answer.status}`);
  return found;
}

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function notice(text, isProblem = false) {
  const line = element("p", { class: isProblem ? "problem" : "" }, text);
  document.getElementById("notices").replaceChildren(line);
  setTimeout(() => line.remove(), isProblem ? 15000 : 6000);
}

export async function attempt(act) {
  try {
    const answer = await act();
    if (answer && answer.message) notice(answer.message, !answer.done);
    return answer;
  } catch (error) {
    notice(error.message, true);
    return null;
  }
}

export function clock(nanoseconds) {
  return new Date(Number(BigInt(nanoseconds) / 1000000n)).toLocaleTimeString();
}

export function moment(nanoseconds) {
  return new Date(Number(BigInt(nanoseconds) / 1000000n)).toLocaleString();
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);

export function stop(robot) {
  return attempt(() => send("/api/stop", { robot, person: person() }));
}

function showWhoCanSign() {
  for (const hint of document.querySelectorAll(".needs-key")) hint.hidden = canSign();
}
document.addEventListener("identity", showWhoCanSign);
showWhoCanSign();

document.getElementById("stop-all").addEventListener("click", () => stop(""));
