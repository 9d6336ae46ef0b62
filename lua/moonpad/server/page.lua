--- The server's own page, at /: apps, sessions, state and events, live. One file, no build step,
--- and no request to anybody else. It is served to everybody; what it asks for is not.
local core = require "moonpad.core"

local PAGE = [==[
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>moonpad</title>
<link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath
 fill='%235b6ee1' d='M10.5 1.2a7 7 0 1 0 4.3 10.6A6 6 0 0 1 10.5 1.2z'/%3E%3C/svg%3E">
<style nonce="NONCE">
:root {
  color-scheme: light dark;
  --back: #f7f8fa; --panel: #fff; --line: #d9dde3; --text: #1b1f24; --quiet: #59636e;
  --accent: #4257d6; --on-accent: #fff; --mine: #e8ebfd; --changed: #fff3bf; --bad: #b3261e;
  --code: #f0f2f5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14161a; --panel: #1c1f25; --line: #343a44; --text: #e6e8eb; --quiet: #9aa4b0;
    --accent: #95a4ff; --on-accent: #10131c; --mine: #272d48; --changed: #4a4019; --bad: #ff9a91;
    --code: #252a32;
  }
}
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body {
  display: grid; grid-template: auto 1fr / 15rem minmax(0, 1fr) minmax(16rem, 24rem); background: var(--back);
  color: var(--text); font: 15px/1.45 system-ui, sans-serif;
}
header {
  grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; padding: .5rem 1rem;
  background: var(--panel); border-bottom: 1px solid var(--line);
}
h1 { font-size: 1.05rem; margin: 0; }
h2 { font-size: .8rem; margin: 0; text-transform: uppercase; letter-spacing: .06em; color: var(--quiet); }
h3 { font-size: .8rem; margin: .9rem 0 .2rem; color: var(--quiet); font-weight: 600; }
label { display: inline-flex; gap: .4rem; align-items: center; color: var(--quiet); }
button, input, select, textarea {
  font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: .4rem;
  padding: .3rem .6rem;
}
button { cursor: pointer; }
button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.quiet { border-color: transparent; background: none; color: var(--quiet); padding: .1rem .35rem; }
button:disabled { opacity: .5; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
#live { color: var(--quiet); font-size: .85rem; margin-left: auto; }
nav, aside { overflow: auto; padding: .75rem; background: var(--panel); }
nav { border-right: 1px solid var(--line); }
aside { border-left: 1px solid var(--line); }
main { display: flex; flex-direction: column; min-height: 0; }
.bar { display: flex; justify-content: space-between; align-items: center; gap: .5rem; margin-bottom: .5rem; }
ul { list-style: none; margin: 0; padding: 0; }
nav li { display: flex; align-items: stretch; }
nav li > button:first-child { flex: 1; min-width: 0; text-align: left; border-color: transparent; background: none; }
nav li > button[aria-current=true] { background: var(--mine); }
nav small, .who small { display: block; color: var(--quiet); font-size: .75rem; overflow-wrap: anywhere; }
.name { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
#events { flex: 1; overflow: auto; padding: 1rem; }
.event { max-width: 46rem; margin: 0 auto .75rem; }
.event.user > .said { background: var(--mine); }
.said {
  border: 1px solid var(--line); border-radius: .6rem; background: var(--panel); padding: .5rem .75rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
.who { display: flex; gap: .5rem; align-items: baseline; font-size: .8rem; color: var(--quiet); }
.who b { color: var(--text); }
.thought { color: var(--quiet); font-style: italic; }
.error { color: var(--bad); }
pre, code { font: 13px/1.4 ui-monospace, monospace; }
pre { margin: .25rem 0; padding: .4rem .6rem; background: var(--code); border-radius: .4rem; overflow: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 24rem; }
details > summary { cursor: pointer; color: var(--quiet); font-size: .85rem; }
form.say { display: flex; gap: .5rem; padding: .75rem 1rem; border-top: 1px solid var(--line);
  background: var(--panel); }
form.say textarea { flex: 1; resize: vertical; min-height: 2.4rem; }
.ask { border: 1px solid var(--accent); border-radius: .6rem; padding: .6rem .75rem; margin-top: .4rem; }
.ask input { width: 100%; margin: .3rem 0; }
.key { border-top: 1px solid var(--line); padding: .35rem 0; }
.key.changed { background: var(--changed); }
.key .bar { margin: 0; }
.key code { overflow-wrap: anywhere; }
.key textarea { width: 100%; min-height: 5rem; font: 13px/1.4 ui-monospace, monospace; }
.empty { color: var(--quiet); padding: .25rem 0; }
#problem { color: var(--bad); }
#problem:empty { display: none; }
@media (max-width: 60rem) {
  body { grid-template: auto auto minmax(60vh, 1fr) auto / minmax(0, 1fr); height: auto; }
  nav, aside { border: 0; border-bottom: 1px solid var(--line); max-height: 16rem; }
  aside { max-height: none; border-top: 1px solid var(--line); }
  main { min-height: 60vh; }
}
@media (prefers-reduced-motion: no-preference) { .key { transition: background .6s; } }
</style>
</head>
<body>
<header>
  <h1>moonpad</h1>
  <label>App <select id="app"></select></label>
  <label>User <input id="user" size="12" autocomplete="off" spellcheck="false"></label>
  <span id="problem" role="alert"></span>
  <span id="live" role="status"></span>
</header>
<nav aria-labelledby="sessions-title">
  <div class="bar"><h2 id="sessions-title">Sessions</h2><button id="new" type="button">New</button></div>
  <ul id="sessions"></ul>
</nav>
<main aria-label="Conversation">
  <div id="events" tabindex="0" role="log" aria-live="polite" aria-label="Events"></div>
  <form class="say" id="say">
    <textarea id="message" aria-label="Message" placeholder="Say something (Enter sends)" rows="1"></textarea>
    <button class="main" id="send">Send</button>
    <button id="stop" type="button" hidden>Stop</button>
  </form>
</main>
<aside aria-labelledby="state-title">
  <div class="bar"><h2 id="state-title">State</h2><button id="add" type="button">Add key</button></div>
  <div id="state"></div>
</aside>
<script nonce="NONCE">
"use strict";
// What is shown. Everything on the page is made of this; nothing that comes from the server is ever
// taken for HTML.
const shown = { app: "", user: "user", session: null, sessions: [], events: [], state: {}, window: 200, known: {} };
const WINDOW = 200, EVERY = 1000;
let running = null, editing = false, lastSeen = 0;

const $ = (id) => document.getElementById(id);
const make = (tag, attributes, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
};
const pretty = (value) => JSON.stringify(value, null, 2);
const cut = (text) => text.length > 80 ? text.slice(0, 79) + "…" : text;
const short = (value) => cut(JSON.stringify(value));
const time = (seconds) => seconds ? new Date(seconds * 1000).toLocaleTimeString() : "";

// ---- Asking the server

const token = () => sessionStorage.getItem("moonpad-token");
const headers = () => token() ? { Authorization: "Bearer " + token() } : {};
const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");
const sessionsPath = () => path("apps", shown.app, "users", shown.user, "sessions");
const sessionPath = (id) => sessionsPath() + "/" + encodeURIComponent(id);

async function ask(method, url, body) {
  const options = { method, headers: headers() };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  const response = await fetch(url, options);
  if (response.status === 401 && askForToken()) return ask(method, url, body);
  const text = await response.text();
  if (!response.ok) {
    let reason = text;
    try { reason = JSON.parse(text).error; } catch { /* not JSON */ }
    throw Object.assign(new Error(reason || "HTTP " + response.status), { status: response.status });
  }
  return text ? JSON.parse(text) : null;
}

function askForToken() {
  const given = prompt("This server wants a bearer token:", "");
  if (!given) return false;
  sessionStorage.setItem("moonpad-token", given);
  return true;
}

function complain(error) {
  $("problem").textContent = error ? String(error.message || error) : "";
}
const guarded = (act) => async (...values) => {
  try { complain(null); await act(...values); } catch (error) { complain(error); }
};

// ---- Apps and sessions

function remember() {
  localStorage.setItem("moonpad-user", shown.user);
  const hash = new URLSearchParams({ app: shown.app, user: shown.user });
  if (shown.session) hash.set("session", shown.session);
  history.replaceState(null, "", "#" + hash);
}

async function loadApps() {
  const apps = await ask("GET", "/list-apps");
  const wanted = new URLSearchParams(location.hash.slice(1));
  shown.user = wanted.get("user") || localStorage.getItem("moonpad-user") || "user";
  shown.app = apps.includes(wanted.get("app")) ? wanted.get("app") : apps[0] || "";
  shown.session = wanted.get("session");
  $("user").value = shown.user;
  $("app").replaceChildren(...apps.map((name) => make("option", { value: name, selected: name === shown.app }, name)));
  await loadSessions();
  if (shown.session) await openSession(shown.session).catch(() => { shown.session = null; });
}

const nameOf = (session) => session.state?.__session_metadata__?.displayName || session.id;

async function loadSessions() {
  shown.sessions = (await ask("GET", sessionsPath() + "?limit=200&order=newest"))
    .sort((a, b) => b.lastUpdateTime - a.lastUpdateTime);
  drawSessions();
}

function drawSessions() {
  const items = shown.sessions.map((session) => make("li", null,
    make("button", {
      type: "button", "aria-current": String(session.id === shown.session), title: session.id,
      onclick: guarded(() => openSession(session.id)),
    }, make("span", { class: "name" }, nameOf(session)), make("small", null, time(session.lastUpdateTime))),
    make("button", {
      type: "button", class: "quiet", "aria-label": "Delete session " + nameOf(session),
      onclick: guarded(() => deleteSession(session)),
    }, "✕")));
  keepFocus($("sessions"), () =>
    $("sessions").replaceChildren(...items.length ? items : [make("li", { class: "empty" }, "None yet.")]));
}

// A list that is drawn anew keeps the place of whoever goes through it by keyboard.
function keepFocus(list, draw) {
  const buttons = [...list.querySelectorAll("button, summary, textarea, input")];
  const index = buttons.indexOf(document.activeElement);
  draw();
  if (index >= 0) [...list.querySelectorAll("button, summary, textarea, input")][index]?.focus();
}

async function newSession(name) {
  const state = name ? { __session_metadata__: { displayName: name.slice(0, 50) } } : undefined;
  const session = await ask("POST", sessionsPath(), { state });
  await loadSessions();
  await openSession(session.id);
  $("message").focus();
}

async function deleteSession(session) {
  if (!confirm(`Delete the session "${nameOf(session)}"?`)) return;
  await ask("DELETE", sessionPath(session.id));
  if (shown.session === session.id) closeSession();
  await loadSessions();
}

function closeSession() {
  Object.assign(shown, { session: null, events: [], state: {}, known: {} });
  remember();
  drawEvents();
  drawState();
}

async function openSession(id) {
  const isOther = id !== shown.session;
  const session = await ask("GET", sessionPath(id));
  shown.session = id;
  lastSeen = session.lastUpdateTime;
  shown.events = session.events;
  if (isOther) Object.assign(shown, { known: session.state, window: WINDOW });
  shown.state = session.state;
  remember();
  drawSessions();
  drawEvents();
  drawState();
}

// What others do to the session, such as the game that runs the agent, is looked for while somebody
// looks.
async function look() {
  if (!document.hidden && shown.app && !running && !editing) {
    try {
      await loadSessions();
      const session = shown.sessions.find((one) => one.id === shown.session);
      if (session && session.lastUpdateTime !== lastSeen) await openSession(shown.session);
      $("live").textContent = "live";
    } catch (error) { $("live").textContent = "not connected"; }
  }
  setTimeout(look, EVERY);
}

// ---- Events

const partsOf = (event) => event.content?.parts || [];

function drawPart(part) {
  if (part.text) return make("div", { class: part.thought ? "thought" : null }, part.text);
  if (part.functionCall) {
    return make("details", null, make("summary", null, "calls " + part.functionCall.name + " "
      + short(part.functionCall.args || {})), make("pre", null, pretty(part.functionCall)));
  }
  if (part.functionResponse) {
    return make("details", null, make("summary", null, part.functionResponse.name + " answers "
      + short(part.functionResponse.response ?? null)), make("pre", null, pretty(part.functionResponse)));
  }
  if (part.inlineData) return drawFile(part.inlineData);
  return make("pre", null, pretty(part));
}

function drawFile(file) {
  const label = `${file.displayName || "file"} (${file.mimeType})`;
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.mimeType)) {
    return make("img", { alt: label, width: 240, src: `data:${file.mimeType};base64,${file.data}` });
  }
  return make("div", null, label);
}

function drawArtifacts(event) {
  return Object.entries(event.actions?.artifactDelta || {}).map(([name, version]) => make("button", {
    type: "button", onclick: guarded(() => saveArtifact(name, version)),
  }, `${name} (version ${version})`));
}

async function saveArtifact(name, version) {
  const file = `${sessionPath(shown.session)}/artifacts/${encodeURIComponent(name)}`;
  const part = await ask("GET", `${file}/versions/${version}`);
  const bytes = part.inlineData ? Uint8Array.from(atob(part.inlineData.data), (c) => c.charCodeAt(0)) : part.text;
  const link = make("a", { href: URL.createObjectURL(new Blob([bytes])), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

// Calls whose answer the user is to give: those that nobody has answered yet.
function openCalls(event) {
  const answered = new Set(shown.events.filter((one) => one.author === "user").flatMap(partsOf)
    .map((part) => part.functionResponse?.id).filter(Boolean));
  return partsOf(event).map((part) => part.functionCall)
    .filter((call) => call && (event.longRunningToolIds || []).includes(call.id) && !answered.has(call.id));
}

function drawAsk(call) {
  const original = call.args?.originalFunctionCall;
  const answer = (response) => guarded(() => run({
    role: "user", parts: [{ functionResponse: { id: call.id, name: call.name, response } }],
  }))();
  if (call.name === "adk_request_confirmation") {
    return make("div", { class: "ask", role: "group", "aria-label": "Confirmation" },
      make("div", null, `May ${original?.name} run? `, call.args?.toolConfirmation?.hint || ""),
      make("pre", null, pretty(original?.args || {})),
      make("button", { type: "button", class: "main", onclick: () => answer({ confirmed: true }) }, "Approve"), " ",
      make("button", { type: "button", onclick: () => answer({ confirmed: false }) }, "Reject"));
  }
  const input = make("input", { "aria-label": `Answer of ${call.name}`, placeholder: "text or JSON" });
  const submit = (event) => {
    event.preventDefault();
    let value = input.value;
    try { value = JSON.parse(value); } catch { /* a text */ }
    answer(typeof value === "object" && value && !Array.isArray(value) ? value : { result: value });
  };
  return make("form", { class: "ask", onsubmit: submit }, make("div", null, `${call.name} waits for its answer.`),
    input, make("button", { class: "main" }, "Answer"));
}

function drawEvent(event) {
  const delta = event.actions?.stateDelta || {};
  const node = make("article", { class: "event" + (event.author === "user" ? " user" : ""), "data-id": event.id },
    make("div", { class: "who" }, make("b", null, event.author || "?"), make("small", null, time(event.timestamp))));
  const said = partsOf(event).map(drawPart);
  if (event.errorMessage || event.error) {
    said.push(make("div", { class: "error" }, event.errorMessage || event.error));
  }
  if (said.length) node.append(make("div", { class: "said" }, ...said));
  node.append(...drawArtifacts(event), ...openCalls(event).map(drawAsk));
  if (Object.keys(delta).length) {
    node.append(make("details", null, make("summary", null, "state " + short(delta)),
      make("pre", null, pretty(delta))));
  }
  node.append(make("details", null, make("summary", null, "JSON"), make("pre", null, pretty(event))));
  return node;
}

function drawEvents() {
  const list = $("events"), isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  const from = Math.max(0, shown.events.length - shown.window), nodes = shown.events.slice(from).map(drawEvent);
  if (from > 0) {
    nodes.unshift(make("button", {
      type: "button", onclick: () => { shown.window += WINDOW; drawEvents(); },
    }, `Show older (${from})`));
  }
  if (!shown.session) nodes.push(make("p", { class: "empty" }, "Say something, or choose a session."));
  list.replaceChildren(...nodes);
  if (isAtEnd) list.scrollTop = list.scrollHeight;
}

// A piece of a stream goes to the end of the event it belongs to; the whole event replaces it.
function take(event) {
  if (event.error && !event.id) event = { author: "error", ...event };
  const last = shown.events[shown.events.length - 1];
  if (last?.partial && last.id === event.id) {
    if (event.partial) {
      const text = partsOf(last).concat(partsOf(event));
      last.content = { parts: text.reduce((list, part) => {
        const before = list[list.length - 1];
        if (before?.text && part.text && !before.thought === !part.thought) before.text += part.text;
        else list.push({ ...part });
        return list;
      }, []) };
    } else shown.events[shown.events.length - 1] = event;
    replaceLast();
  } else {
    shown.events.push(event);
    drawEvents();
  }
  const delta = event.actions?.stateDelta || {}, removed = event.removedStateKeys || [];
  if (!event.partial && Object.keys(delta).length) {
    shown.state = { ...shown.state, ...delta };
    for (const key of removed) delete shown.state[key];
    drawState();
  }
}

function replaceLast() {
  const list = $("events"), isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  list.lastElementChild.replaceWith(drawEvent(shown.events[shown.events.length - 1]));
  if (isAtEnd) list.scrollTop = list.scrollHeight;
}

// ---- Runs

async function run(newMessage) {
  if (running) return;
  if (!shown.session) await newSession(newMessage.parts[0].text);
  running = new AbortController();
  $("send").disabled = true;
  $("stop").hidden = false;
  shown.events.push({ author: "user", content: newMessage, timestamp: Date.now() / 1000 });
  drawEvents();
  $("events").scrollTop = $("events").scrollHeight;
  try {
    const response = await fetch("/run_sse", {
      method: "POST", headers: { "Content-Type": "application/json", ...headers() }, signal: running.signal,
      body: JSON.stringify({
        appName: shown.app, userId: shown.user, sessionId: shown.session, newMessage, streaming: true,
      }),
    });
    if (!response.ok) throw new Error((await response.json()).error);
    await readStream(response.body.getReader());
  } catch (error) {
    if (error.name !== "AbortError") complain(error);
  } finally {
    running = null;
    $("send").disabled = false;
    $("stop").hidden = true;
  }
  // As it is stored: with ids, and without what was cut off.
  await openSession(shown.session).catch(complain);
  await loadSessions().catch(complain);
}

async function readStream(reader) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) if (block.startsWith("data: ")) take(JSON.parse(block.slice(6)));
  }
}

// ---- State

const SCOPES = [["app:", "App"], ["user:", "User"], ["", "Session"]];
const scopeOf = (key) => key.startsWith("app:") ? "app:" : key.startsWith("user:") ? "user:" : "";

function drawState() {
  if (editing) return;
  const keys = Object.keys(shown.state).sort(), nodes = [];
  for (const [scope, title] of SCOPES.slice().reverse()) {
    const own = keys.filter((key) => scopeOf(key) === scope);
    if (own.length) nodes.push(make("h3", null, title), ...own.map(drawKey));
  }
  if (!keys.length) nodes.push(make("p", { class: "empty" }, shown.session ? "Empty." : "No session."));
  keepFocus($("state"), () => $("state").replaceChildren(...nodes));
  shown.known = { ...shown.state };
}

function drawKey(key) {
  const value = shown.state[key], text = JSON.stringify(value);
  const isChanged = JSON.stringify(shown.known[key]) !== text;
  const body = text.length > 60
    ? make("details", null, make("summary", null, short(value)), make("pre", null, pretty(value)))
    : make("code", null, text);
  return make("div", { class: "key" + (isChanged ? " changed" : "") },
    make("div", { class: "bar" }, make("b", null, key), make("span", null,
      make("button", {
        type: "button", class: "quiet", "aria-label": "Edit " + key, onclick: (event) => edit(event.target, key),
      }, "edit"),
      make("button", {
        type: "button", class: "quiet", "aria-label": "Delete " + key, onclick: guarded(() => removeKey(key)),
      }, "✕"))), body);
}

const change = async (body) => {
  await ask("PATCH", sessionPath(shown.session), body);
  editing = false;
  await openSession(shown.session);
};

async function removeKey(key) {
  if (confirm(`Delete the key "${key}"?`)) await change({ stateDelta: {}, removedStateKeys: [key] });
}

function edit(button, key) {
  if (editing) return;
  editing = true;
  const name = make("input", { "aria-label": "Key", value: key, placeholder: "key" });
  const area = make("textarea", { "aria-label": "Value as JSON" });
  area.value = key ? pretty(shown.state[key]) : '""';
  const close = () => { editing = false; drawState(); };
  const save = guarded(async (event) => {
    event.preventDefault();
    await change({ stateDelta: { [key || name.value]: JSON.parse(area.value) } });
  });
  const form = make("form", { class: "key", onsubmit: save, onkeydown: (e) => { if (e.key === "Escape") close(); } },
    key ? make("b", null, key) : name, area,
    make("button", { class: "main" }, "Save"), " ", make("button", { type: "button", onclick: close }, "Cancel"));
  if (key) button.closest(".key").replaceWith(form); else $("state").prepend(form);
  (key ? area : name).focus();
}

// ---- The page

$("app").addEventListener("change", guarded(async () => {
  shown.app = $("app").value;
  closeSession();
  await loadSessions();
}));
$("user").addEventListener("change", guarded(async () => {
  shown.user = $("user").value.trim() || "user";
  closeSession();
  await loadSessions();
}));
$("new").addEventListener("click", guarded(() => newSession()));
$("add").addEventListener("click", () => { if (shown.session) edit($("add"), ""); });
$("stop").addEventListener("click", () => running?.abort());
$("say").addEventListener("submit", guarded(async (event) => {
  event.preventDefault();
  const text = $("message").value.trim();
  if (!text || running) return;
  $("message").value = "";
  await run({ role: "user", parts: [{ text }] });
  $("message").focus();
}));
$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("say").requestSubmit();
  }
});
guarded(loadApps)().then(() => { drawEvents(); drawState(); look(); });
</script>
</body>
</html>
]==]

local function policyOf(nonce)
  return ("default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; img-src data:; "
    .. "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"):format(nonce, nonce)
end

local function serve(call)
  local _, runner = next(call.server.apps)
  local nonce = core.uuid4(runner.sessionService)
  return 200, call.raw("text/html; charset=utf-8", (PAGE:gsub("NONCE", nonce)), {
    "Content-Security-Policy", policyOf(nonce), "Cache-Control", "no-store", "Referrer-Policy", "no-referrer",
  })
end

return {
  { "GET", "/", serve, isOpen = true },
}
