// Who signs: a person's private key, kept in this browser while the tab is open, and never readable again.
const DATABASE = "opc-console";
const KEPT_MS = 12 * 3600 * 1000; // keys of closed tabs are removed after this

let signer = null; // {name, key}

export const person = () => (signer ? signer.name : "");
export const canSign = () => signer !== null;

export async function sign(bytes) {
  if (!signer) throw new Error("choose your key first: the button at the top of the page");
  return new Uint8Array(await crypto.subtle.sign({ name: "Ed25519" }, signer.key, bytes));
}

function tab() {
  if (!sessionStorage.getItem(DATABASE)) sessionStorage.setItem(DATABASE, crypto.randomUUID());
  return sessionStorage.getItem(DATABASE);
}

const settled = (request) => new Promise((done, failed) => {
  request.onsuccess = () => done(request.result);
  request.onerror = () => failed(request.error);
});

async function keys(mode) {
  const opening = indexedDB.open(DATABASE, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("keys", { keyPath: "tab" });
  return (await settled(opening)).transaction("keys", mode).objectStore("keys");
}

async function keep() {
  const store = await keys("readwrite");
  await settled(signer ? store.put({ tab: tab(), at: Date.now(), ...signer }) : store.delete(tab()));
}

async function recall() {
  const store = await keys("readwrite");
  for (const entry of await settled(store.getAll())) {
    if (entry.tab === tab()) signer = { name: entry.name, key: entry.key };
    else if (Date.now() - entry.at > KEPT_MS) store.delete(entry.tab);
  }
}

function showIdentity() {
  document.getElementById("identity").textContent = signer ? `Signing as ${signer.name}` : "No key: view only";
  document.dispatchEvent(new Event("identity"));
}

async function use(name, pem) {
  if (!name) throw new Error("enter your name as the lab knows it");
  signer = { name, key: await importKey(pem) };
  await keep().catch(() => null); // a private window keeps nothing: the key then lasts for this page
}

const dialog = document.getElementById("identity-dialog");
document.getElementById("identity").addEventListener("click", () => dialog.showModal());
document.getElementById("identity-use").addEventListener("click", async (event) => {
  event.preventDefault();
  const problem = document.getElementById("identity-problem");
  const field = document.getElementById("identity-key");
  try {
    await use(document.getElementById("identity-name").value.trim(), field.value);
    field.value = "";
    problem.textContent = "";
    dialog.close();
    showIdentity();
  } catch (error) {
    problem.textContent = error.message;
  }
});
document.getElementById("identity-forget").addEventListener("click", async () => {
  signer = null;
  await keep().catch(() => null);
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
    throw new Error("that is not a key file; expected text that begins with -----BEGIN");
  }
  if (pem.includes("OPENSSH PRIVATE KEY")) bytes = Uint8Array.from([...PKCS8_HEAD, ...openSshSeed(bytes)]);
  try {
    return await crypto.subtle.importKey("pkcs8", bytes, { name: "Ed25519" }, false, ["sign"]);
  } catch {
    throw new Error("expected an Ed25519 private key without a passphrase, as created by ssh-keygen -t ed25519 or opc up twin");
  }
}

// The 32 secret bytes of an unencrypted OpenSSH key: magic, cipher, kdf, its options, count, public and private block.
function openSshSeed(bytes) {
  const view = new DataView(bytes.buffer);
  let at = "openssh-key-v1".length + 1;
  const next = () => {
    const length = view.getUint32(at);
    at += 4 + length;
    if (at > bytes.length) throw new Error("the key file is truncated");
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

// Nothing waits for this: the stop button works before a key is found.
recall().catch(() => null).then(showIdentity);
