// What every page shares: asking the server, telling people, the red button, and the person's key.
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

export const percent = (share) => (share === null || share === undefined ? "–" : `${Math.round(100 * share)} %`);

export function stop(robot) {
  return attempt(() => send("/api/stop", { robot, person: person() }));
}

document.getElementById("stop-all").addEventListener("click", () => stop(""));

let signer = null; // {name, key}: kept in this tab only

export const person = () => (signer ? signer.name : "");
export const canSign = () => signer !== null;

function showIdentity() {
  const button = document.getElementById("identity");
  button.textContent = signer ? `Signing as ${signer.name}` : "No key: look only";
  document.dispatchEvent(new Event("identity"));
}

const dialog = document.getElementById("identity-dialog");
document.getElementById("identity").addEventListener("click", () => dialog.showModal());
document.getElementById("identity-use").addEventListener("click", async (event) => {
  event.preventDefault();
  const problem = document.getElementById("identity-problem");
  try {
    const name = document.getElementById("identity-name").value.trim();
    if (!name) throw new Error("say your name as the lab knows it");
    const field = document.getElementById("identity-key");
    const key = await importKey(field.value);
    field.value = "";
    signer = { name, key };
    problem.textContent = "";
    dialog.close();
    showIdentity();
  } catch (error) {
    problem.textContent = error.message;
  }
});
document.getElementById("identity-forget").addEventListener("click", () => {
  signer = null;
  showIdentity();
});

// Ed25519 keys in PKCS#8 form differ only in their last 32 bytes.
const PKCS8_HEAD = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

async function importKey(pem) {
  const text = pem.replace(/-----[^-]+-----/g, "").replace(/\s+/g, "");
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    throw new Error("that is no key file; expected text that begins with -----BEGIN");
  }
  if (pem.includes("OPENSSH PRIVATE KEY")) bytes = Uint8Array.from([...PKCS8_HEAD, ...openSshSeed(bytes)]);
  try {
    return await crypto.subtle.importKey("pkcs8", bytes, { name: "Ed25519" }, false, ["sign"]);
  } catch {
    throw new Error("expected an Ed25519 private key without passphrase, as ssh-keygen -t ed25519 or opc up twin makes it");
  }
}

// The 32 secret bytes of an unencrypted OpenSSH key: magic, cipher, kdf, its options, count, public and private block.
function openSshSeed(bytes) {
  const view = new DataView(bytes.buffer);
  let at = "openssh-key-v1".length + 1;
  const next = () => {
    const length = view.getUint32(at);
    at += 4 + length;
    if (at > bytes.length) throw new Error("the key file is cut short");
    return bytes.slice(at - length, at);
  };
  const word = () => new TextDecoder().decode(next());
  if (word() !== "none") throw new Error("the key has a passphrase; use opc deploy with your ssh agent, or a key without one");
  next();
  next();
  at += 4;
  next();
  at += 4 + 8; // length of the private block, and two equal check numbers
  if (word() !== "ssh-ed25519") throw new Error("expected an Ed25519 key");
  next();
  return next().slice(0, 32);
}

export async function sign(bytes) {
  if (!signer) throw new Error("choose your key first: the button at the top right");
  return new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, signer.key, bytes));
}
