// Signed statements: what a person says, signed in this tab and verified by the node that acts on it.
import { person, send, sign } from "/static/console.js";

const encode = (text) => new TextEncoder().encode(text);
const base64 = (bytes) => btoa(String.fromCharCode(...bytes));

// The DSSE pre-authentication encoding: the bytes that are signed.
function authenticated(type, payload) {
  const head = encode(`DSSEv1 ${encode(type).length} ${type} ${payload.length} `);
  const whole = new Uint8Array(head.length + payload.length);
  whole.set(head);
  whole.set(payload, head.length);
  return whole;
}

function isSameValue(one, other) {
  if (one === null || other === null || typeof one !== "object" || typeof other !== "object") return one === other;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => isSameValue(one[name], other[name]));
}

// The server words the statement, but nothing is signed here that the person did not say.
function refuseOther(said, kind, body) {
  const isSame = said.kind === kind && said.person === person() && Object.keys(body).every((name) => isSameValue(said.body[name], body[name]));
  if (!isSame) throw new Error("the console prepared a statement that differs from yours; nothing was signed");
}

export async function submit(kind, body) {
  const { type, payload } = await send("/api/statements/prepare", { kind, person: person(), body: JSON.stringify(body) });
  const bytes = Uint8Array.from(atob(payload), (letter) => letter.charCodeAt(0));
  refuseOther(JSON.parse(new TextDecoder().decode(bytes)), kind, body);
  const signature = await sign(authenticated(type, bytes));
  const envelope = { payloadType: type, payload, signatures: [{ keyid: person(), sig: base64(signature) }] };
  return send("/api/statements", { envelope: JSON.stringify(envelope) });
}
