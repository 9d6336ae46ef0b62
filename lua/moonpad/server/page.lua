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
  --back: #f6f7f9; --panel: #fff; --line: #d9dde3; --text: #1b1f24; --quiet: #59636e;
  --accent: #4257d6; --on-accent: #fff; --mine: #e8ebfd; --changed: #fff3bf; --bad: #b3261e;
  --bad-back: #fdecea; --code: #f0f2f5; --good: #1a7f4b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14161a; --panel: #1c1f25; --line: #343a44; --text: #e6e8eb; --quiet: #9aa4b0;
    --accent: #95a4ff; --on-accent: #10131c; --mine: #272d48; --changed: #4a4019; --bad: #ff9a91;
    --bad-back: #3a2220; --code: #252a32; --good: #6fd39a;
  }
}
* { box-sizing: border-box; }
html { font-size: clamp(.94rem, .4vw + .5rem, 1.25rem); }
html, body { height: 100%; margin: 0; }
body {
  display: grid; background: var(--back); color: var(--text); font: 1rem/1.45 system-ui, sans-serif;
  grid-template: auto minmax(0, 1fr) / clamp(13rem, 16vw, 20rem) minmax(0, 1fr) clamp(17rem, 28vw, 40rem);
}
header {
  grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; padding: .5rem 1rem;
  background: var(--panel); border-bottom: 1px solid var(--line);
}
h1 { font-size: 1.05rem; margin: 0; }
h2 { font-size: .8rem; margin: 0; text-transform: uppercase; letter-spacing: .06em; color: var(--quiet); }
h3 { font-size: .8rem; margin: 1rem 0 .25rem; font-weight: 600; }
h3 small { color: var(--quiet); font-weight: 400; }
label { display: inline-flex; gap: .4rem; align-items: center; color: var(--quiet); }
button, input, select, textarea {
  font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line); border-radius: .4rem;
  padding: .3rem .6rem; max-width: 100%;
}
button { cursor: pointer; }
button:hover { border-color: var(--quiet); }
button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.quiet { border-color: transparent; background: none; color: var(--quiet); padding: .1rem .35rem;
  font-size: .85rem; }
button.quiet:hover { border-color: var(--line); color: var(--text); }
button.file { border: 0; background: none; color: var(--accent); text-decoration: underline; padding: .2rem 0; }
button:disabled, button[aria-disabled=true] { opacity: .5; cursor: default; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.unseen { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
.skip { position: absolute; top: .5rem; left: -99rem; z-index: 1; }
.skip:focus { left: .5rem; }
#live { display: inline-flex; gap: .4rem; align-items: center; color: var(--quiet); font-size: .85rem; }
#live::before { content: ""; width: .55rem; height: .55rem; border-radius: 50%; border: 2px solid var(--bad); }
#live.good::before { background: var(--good); border-color: var(--good); }
#live:empty { display: none; }
.right { margin-left: auto; display: flex; gap: .75rem; align-items: center; }
nav, aside { overflow: auto; padding: .75rem; background: var(--panel); }
nav { border-right: 1px solid var(--line); }
aside { border-left: 1px solid var(--line); }
main { display: flex; flex-direction: column; min-height: 0; }
.bar { display: flex; justify-content: space-between; align-items: center; gap: .5rem; margin-bottom: .5rem; }
ul { list-style: none; margin: 0; padding: 0; }
nav li { display: flex; align-items: stretch; margin-bottom: .15rem; }
nav li > button:first-child { flex: 1; min-width: 0; text-align: left; border-color: transparent; background: none; }
nav li > button:first-child:hover { background: var(--code); }
nav li > button[aria-current=true] { background: var(--mine); }
small, time { color: var(--quiet); font-size: .75rem; }
nav small { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.name { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
#events { flex: 1; overflow: auto; padding: 1rem; }
#events > * { max-width: 48rem; margin-inline: auto; }
#events > button { display: block; margin-bottom: 1rem; }
.event { margin-bottom: .8rem; }
.event.user > .said { background: var(--mine); border-color: transparent; }
.said {
  border: 1px solid var(--line); border-radius: .6rem; background: var(--panel); padding: .5rem .75rem;
  overflow-wrap: anywhere;
}
.said > div { white-space: pre-wrap; }
.who { display: flex; gap: .5rem; align-items: baseline; font-size: .8rem; color: var(--quiet); }
.who b { color: var(--text); overflow-wrap: anywhere; }
.who button { margin-left: auto; }
.thought { color: var(--quiet); font-style: italic; }
.error { color: var(--bad); }
.partial .said > div:last-child::after { content: "▍"; color: var(--accent); }
pre, code { font: .87em/1.45 ui-monospace, monospace; overflow-wrap: anywhere; }
pre { margin: .25rem 0; padding: .4rem .6rem; background: var(--code); border-radius: .4rem; overflow: auto;
  white-space: pre-wrap; max-height: 24rem; }
img { max-width: 100%; height: auto; }
details > summary { cursor: pointer; color: var(--quiet); font-size: .85rem; overflow-wrap: anywhere; }
.tree { border-left: 1px solid var(--line); margin: .1rem 0 .2rem .25rem; padding-left: .7rem; }
.tree li { overflow-wrap: anywhere; }
.tree li > details, .tree li > code { display: inline; }
.tree li > span { color: var(--quiet); font-size: .87em; }
#problem { display: flex; gap: .5rem; align-items: flex-start; justify-content: space-between;
  padding: .5rem max(1rem, 50% - 24rem); background: var(--bad-back); color: var(--bad); overflow-wrap: anywhere; }
#problem:empty { display: none; }
#problem button { color: inherit; }
form.say { display: flex; gap: .5rem; padding: .75rem max(1rem, 50% - 24rem); border-top: 1px solid var(--line);
  background: var(--panel); align-items: flex-end; }
form.say textarea { flex: 1; min-width: 0; resize: vertical; min-height: 2.4rem; max-height: 40vh;
  field-sizing: content; }
.ask { border: 1px solid var(--accent); border-radius: .6rem; padding: .6rem .75rem; margin-top: .4rem; }
.ask input { width: 100%; margin: .3rem 0; }
.key { border-top: 1px solid var(--line); padding: .4rem .35rem; }
.key.changed { background: var(--changed); }
.key.changed small { color: inherit; }
.key.gone b { text-decoration: line-through; }
.key .bar { margin: 0; align-items: baseline; }
.key b { overflow-wrap: anywhere; }
.key .acts { white-space: nowrap; }
.key input, .key textarea { width: 100%; margin: .2rem 0; }
.key textarea { min-height: 5rem; font: .87rem/1.45 ui-monospace, monospace; }
.empty { color: var(--quiet); padding: .25rem 0; }
dialog { border: 1px solid var(--line); border-radius: .6rem; background: var(--panel); color: var(--text);
  max-width: 26rem; }
dialog label { display: block; color: inherit; }
dialog input { width: 100%; margin: .3rem 0 .8rem; }
dialog::backdrop { background: rgb(0 0 0 / .45); }
@media (max-width: 60rem) {
  body { grid-template: auto auto minmax(60vh, 1fr) auto / minmax(0, 1fr); height: auto; }
  nav, aside { border: 0; border-bottom: 1px solid var(--line); max-height: 16rem; }
  aside { max-height: none; border-top: 1px solid var(--line); }
  main { height: 75vh; min-height: 20rem; }
}
@media (prefers-reduced-motion: no-preference) { .key { transition: background .6s; } }
</style>
</head>
<body>
<header>
  <button class="skip" id="skip" type="button">Skip to the message</button>
  <h1>moonpad</h1>
  <label>App <select id="app"></select></label>
  <label>User <input id="user" size="12" autocomplete="off" spellcheck="false"></label>
  <span class="right">
    <button class="quiet" id="token" type="button" hidden>Token…</button>
    <span id="live" role="status"></span>
  </span>
</header>
<nav aria-labelledby="sessions-title">
  <div class="bar"><h2 id="sessions-title">Sessions</h2><button id="new" type="button">New</button></div>
  <ul id="sessions"></ul>
</nav>
<main aria-label="Conversation">
  <div id="events" tabindex="0" role="log" aria-live="off" aria-label="Events"></div>
  <p id="heard" class="unseen" role="status"></p>
  <div id="problem" role="alert"></div>
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
<dialog id="token-box" aria-labelledby="token-title">
  <form id="token-form">
    <p id="token-title"></p>
    <label>Token <input id="token-given" type="password" autocomplete="off" required></label>
    <button class="main">Use it</button> <button id="token-cancel" type="button">Cancel</button>
  </form>
</dialog>
<noscript>This page needs JavaScript.</noscript>
<script nonce="NONCE">
"use strict";
// Everything on the page is made of `shown` and `runs`; nothing that comes from the server is ever taken
// for HTML.
const WINDOW = 200;             // so many events are shown, and so many more by "Show older"
const RECENT = 20;              // so many are asked for when there are new ones
const SESSIONS = 50;            // so many sessions are listed, and so many more by "Show more"
const EVERY = 1000, SLOWEST = 16000, RELIST = 30000, PATIENCE = 20000, FRESH = 10000; // milliseconds

const shown = {
  app: "", user: "user", sessions: [], most: SESSIONS,
  session: null, seen: null, events: [], window: WINDOW, hasOlder: false, state: {},
};
const changes = new Map();      // of the state, lately: key -> { at, was }
const opened = new Set();       // the places in JSON that are unfolded
const runs = new Map();         // begun here: path of the session -> { stop, before, events }
let view = 0;                   // another one: what was asked for the one before comes too late
let editing = null;             // the key whose value is edited: { key, from, note }

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
const button = (title, act, attributes, ...more) =>
  make("button", { type: "button", onclick: act, ...attributes }, title, ...more);
const block = (text) => make("pre", { tabindex: "0" }, text); // may scroll: by keyboard, too
const cut = (text) => text.length > 80 ? text.slice(0, 79) + "…" : text;
const short = (value) => cut(JSON.stringify(value));

function timeOf(seconds) {
  if (!seconds) return null;
  const date = new Date(seconds * 1000), isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString() : date.toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

// Puts items, each [key, mark, draw], into a list. What has the mark that it had stays as it is: whoever
// reads, types or goes through the list by keyboard is not disturbed.
function arrange(list, items) {
  const before = list.drawn || new Map(), now = new Map(), active = document.activeElement;
  for (const [key, mark, draw] of items) {
    const old = before.get(key);
    now.set(key, old?.mark === mark ? old : { mark, node: draw() });
  }
  const held = [...before].findIndex(([, one]) => one.node.contains(active));
  const nodes = [...now.values()].map((one) => one.node), kept = new Set(nodes);
  for (const child of [...list.children]) if (!kept.has(child)) child.remove();
  let at = list.firstElementChild;
  for (const node of nodes) {
    if (node === at) at = at.nextElementSibling; else list.insertBefore(node, at);
  }
  list.drawn = now;
  if (held >= 0 && !list.contains(document.activeElement)) {
    const place = now.get([...before.keys()][held])?.node || nodes[Math.min(held, nodes.length - 1)];
    const same = active.dataset.act && place?.querySelector(`[data-act=${active.dataset.act}]`);
    (same || place?.querySelector("button, summary, input, textarea") || list).focus();
  }
}

// ---- JSON that unfolds

function fold(title, place, build) {
  const details = make("details", { open: opened.has(place) }, make("summary", null, title));
  const fill = () => { if (details.open && details.childElementCount === 1) details.append(build()); };
  details.addEventListener("toggle", () => {
    if (details.open) opened.add(place); else if (details.isConnected) opened.delete(place);
    fill();
  });
  fill();
  return details;
}

const SHORT = 50, LONG = 300, MANY = 200; // letters that are shown as they are, branches

function tree(value, place) {
  const text = JSON.stringify(value);
  if (value !== null && typeof value === "object" && text.length > SHORT) {
    return fold(cut(text), place, () => branches(value, place));
  }
  if (text.length <= LONG) return make("code", null, text);
  return fold(cut(text), place, () => block(typeof value === "string" ? value : text));
}

function branches(value, place) {
  const entries = Object.entries(value), list = make("ul", { class: "tree" });
  for (const [name, held] of entries.slice(0, MANY)) {
    list.append(make("li", null, make("span", null, name + ": "), tree(held, `${place}/${name}`)));
  }
  if (entries.length > MANY) list.append(make("li", null, `… and ${entries.length - MANY} more`));
  return list;
}

// ---- Asking the server

const token = () => sessionStorage.getItem("moonpad-token");
const path = (...parts) => "/" + parts.map(encodeURIComponent).join("/");
const sessionsPath = () => path("apps", shown.app, "users", shown.user, "sessions");
const sessionPath = (id = shown.session) => sessionsPath() + path(id);

// The answer, or an error with its status. Who is not known is asked for a token, unless nobody waits.
async function request(method, url, body, { signal, isQuiet } = {}) {
  for (;;) {
    const headers = token() ? { Authorization: "Bearer " + token() } : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const response = await fetch(url, {
      method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body),
    });
    if (response.ok) return response;
    if (response.status === 401) {
      $("token").hidden = false;
      if (!isQuiet && await askForToken()) continue;
    }
    const text = await response.text();
    let reason = text;
    try { reason = JSON.parse(text).error; } catch { /* not JSON */ }
    throw Object.assign(new Error(reason || "HTTP " + response.status), { status: response.status });
  }
}

const ask = async (method, url, body, options) => (await request(method, url, body, options)).json();

// Asks once, whoever wants to know meanwhile.
let asking = null;
function askForToken() {
  asking ??= new Promise((resolve) => {
    const box = $("token-box");
    $("token-title").textContent = token() ? "The server does not take this token. Another one?"
      : "This server wants a bearer token. It is kept until this tab is closed.";
    $("token-given").value = box.returnValue = "";
    box.addEventListener("close", () => {
      asking = null;
      if (box.returnValue) sessionStorage.setItem("moonpad-token", box.returnValue);
      resolve(box.returnValue !== "");
    }, { once: true });
    box.showModal();
  });
  return asking;
}

function complain(error) {
  if (!error) return $("problem").replaceChildren();
  $("problem").replaceChildren(make("span", null, String(error.message || error)),
    button("✕", () => complain(null), { class: "quiet", "aria-label": "Dismiss" }));
}
const guarded = (act) => async (...values) => {
  try { complain(null); await act(...values); } catch (error) { complain(error); }
};

// ---- What is shown

function remember() {
  localStorage.setItem("moonpad-user", shown.user);
  const hash = new URLSearchParams({ app: shown.app, user: shown.user });
  if (shown.session) hash.set("session", shown.session);
  history.replaceState(null, "", "#" + hash);
}

// Another app, user or session: what belongs to the one before goes.
function choose(what) {
  view++;
  Object.assign(shown, { session: null, seen: null, events: [], window: WINDOW, hasOlder: false, state: {} }, what);
  changes.clear();
  opened.clear();
  editing = null;
  remember();
  drawSessions();
  drawEvents();
  drawState();
  $("events").scrollTop = $("events").scrollHeight;
}

const userGiven = () => $("user").value.trim() || "user";

async function start() {
  const wanted = new URLSearchParams(location.hash.slice(1)), session = wanted.get("session");
  $("user").value = wanted.get("user") || localStorage.getItem("moonpad-user") || "user";
  const apps = await ask("GET", "/list-apps");
  const app = apps.includes(wanted.get("app")) ? wanted.get("app") : apps[0] || "";
  $("app").replaceChildren(...apps.map((name) => make("option", { value: name, selected: name === app }, name)));
  // (Another user may have been given meanwhile.)
  choose({ app, user: userGiven(), sessions: [], most: SESSIONS });
  await Promise.all([loadSessions(), session && openSession(session)]);
}

async function chooseList(what) {
  choose({ ...what, sessions: [], most: SESSIONS });
  if (shown.app) await loadSessions();
}

// ---- Sessions

const nameOf = (session) => session.state?.__session_metadata__?.displayName || session.id;

let listedAt = 0;
async function loadSessions(options) {
  const { app, user } = shown, url = `${sessionsPath()}?limit=${shown.most}&order=newest`;
  const sessions = await ask("GET", url, undefined, options);
  if (app !== shown.app || user !== shown.user) return;
  listedAt = Date.now();
  shown.sessions = sessions;
  drawSessions();
}

function drawSession(session) {
  const isCurrent = session.id === shown.session, name = nameOf(session), time = timeOf(session.lastUpdateTime);
  const details = [time, name !== session.id && session.id].filter(Boolean).join(" · ");
  return ["session " + session.id, JSON.stringify([isCurrent, name, time]), () => make("li", null,
    button(make("span", { class: "name" }, name), guarded(() => openSession(session.id)),
      { "data-act": "open", "aria-current": String(isCurrent), title: session.id }, make("small", null, details)),
    button("✕", guarded(() => deleteSession(session)),
      { "data-act": "delete", class: "quiet", "aria-label": "Delete session " + name }))];
}

// The newest first; but nothing moves under the pointer.
function inOrder(sessions) {
  const list = $("sessions"), drawn = [...list.drawn?.keys() || []];
  if (!list.matches(":hover")) return sessions;
  const places = new Map(drawn.map((key, index) => [key, index]));
  const placeOf = (session) => places.get("session " + session.id) ?? drawn.length;
  return [...sessions].sort((a, b) => placeOf(a) - placeOf(b));
}

function drawSessions() {
  const items = inOrder(shown.sessions).map(drawSession);
  if (!items.length) items.push(["none", "", () => make("li", { class: "empty" }, "None yet.")]);
  if (shown.sessions.length >= shown.most) {
    items.push(["more", "", () => make("li", null, button("Show more", guarded(showMore)))]);
  }
  arrange($("sessions"), items);
  document.title = shown.session ? `${nameOf(chosen() || { id: shown.session })} – moonpad` : "moonpad";
}

const chosen = () => shown.sessions.find((session) => session.id === shown.session);

async function showMore() {
  shown.most += SESSIONS;
  await loadSessions();
}

async function makeSession(name) {
  const { app, user } = shown;
  const state = name ? { __session_metadata__: { displayName: name.slice(0, 50) } } : undefined;
  const session = await ask("POST", sessionsPath(), { state });
  if (app !== shown.app || user !== shown.user) return;
  await Promise.all([loadSessions(), openSession(session.id)]);
}

async function deleteSession(session) {
  if (!confirm(`Delete the session "${nameOf(session)}"?`)) return;
  const url = sessionPath(session.id);
  await ask("DELETE", url);
  runs.get(url)?.stop.abort();
  if (shown.session === session.id) choose({});
  await loadSessions();
}

async function openSession(id) {
  if (id !== shown.session) choose({ session: id });
  await readSession();
}

// The session that is shown, with its last events; null when another one is shown meanwhile.
async function askForSession(count, options) {
  const asked = view, id = shown.session;
  try {
    const session = await ask("GET", `${sessionPath()}?num_recent_events=${count}`, undefined, options);
    return asked === view ? session : null;
  } catch (error) {
    if (asked !== view) return null;
    if (error.status !== 404) throw error;
    choose({});
    throw Object.assign(new Error(`The session ${id} is not there any more.`), { isGone: true });
  }
}

// Reads the last events of the session; a few of them go to those that are there already.
async function readSession(count = shown.window + 1, options) {
  const session = await askForSession(count, options);
  if (!session || session.lastUpdateTime < shown.seen) return;
  const before = new Set(shown.events.map((event) => event.id)), isFirst = shown.seen === null;
  const overlap = shown.events.findIndex((event) => event.id === session.events[0]?.id);
  const isPiece = count === RECENT && session.events.length === count;
  if (isPiece && overlap < 0) return readSession(undefined, options);
  shown.events = isPiece ? shown.events.slice(0, overlap).concat(session.events) : session.events;
  if (!isPiece) shown.hasOlder = false;
  // (Nothing goes from above the eyes of whoever reads there.)
  if (shown.events.length > shown.window && (!isPiece || isAtEnd())) {
    shown.events = shown.events.slice(-shown.window);
    shown.hasOlder = true;
  }
  if (!isFirst) shown.events.filter((event) => !before.has(event.id)).forEach(announce);
  takeState(session.state, isFirst);
  shown.seen = session.lastUpdateTime;
  drawEvents();
}

async function showOlder() {
  shown.window += WINDOW;
  const list = $("events"), fromEnd = list.scrollHeight - list.scrollTop;
  await readSession();
  list.scrollTop = list.scrollHeight - fromEnd;
}

// ---- Live: what others do to the session, such as a game that runs the agent, is asked for while
// somebody looks at the page.

// The newest session tells whether there is more to ask for: one of them is all that goes over the wire
// as long as nothing happens, however many there are.
async function look() {
  const asked = view, options = { isQuiet: true, signal: AbortSignal.timeout(PATIENCE) };
  const [newest] = await ask("GET", sessionsPath() + "?limit=1&order=newest", undefined, options);
  if (asked !== view) return;
  const index = shown.sessions.findIndex((session) => session.id === newest?.id), top = shown.sessions[0];
  if (index < 0 ? newest || top : newest.lastUpdateTime < top.lastUpdateTime) {
    await loadSessions(options);
  } else if (Date.now() - listedAt > RELIST) {
    await loadSessions(options);
  } else if (index >= 0) {
    shown.sessions.splice(index, 1);
    shown.sessions.unshift(newest);
    drawSessions();
  }
  if (asked !== view || !shown.session) return;
  const session = newest?.id === shown.session ? newest : await askForSession(0, options);
  if (session?.lastUpdateTime > shown.seen) await readSession(RECENT, options);
  // Keys of the user and the app are changed from other sessions as well.
  else if (session?.lastUpdateTime === shown.seen) takeState(session.state);
}

let timer, every = EVERY, isLooking = false, isWanted = false;
function lookSoon() {
  isWanted = isLooking;
  if (isLooking) return;
  clearTimeout(timer);
  timer = setTimeout(keepLooking, 0);
}

async function keepLooking() {
  isLooking = true;
  try {
    if (shown.app) await look();
    if (shown.app) tell("live");
  } catch (error) {
    // Requests are limited: those of somebody who acts are to come first.
    if (error.status === 429) every = Math.min(every * 2, SLOWEST);
    if (error.isGone) complain(error);
    tell({ 401: "not authorized", 403: "not authorized", 429: "slowed down" }[error.status] || "not connected");
  }
  if (forgetChanges()) drawState();
  isLooking = false;
  if (isWanted) lookSoon(); else if (!document.hidden) timer = setTimeout(keepLooking, every);
}

function tell(status) {
  if ($("live").textContent !== status) $("live").textContent = status;
  $("live").classList.toggle("good", status === "live");
}

// ---- Events

const partsOf = (event) => event.content?.parts || [];
const isAtEnd = (list = $("events")) => list.scrollHeight - list.scrollTop - list.clientHeight < 80;

const runHere = () => shown.session === null ? undefined : runs.get(sessionPath());

// What is stored, and what a run of this page has sent of what is not stored yet.
function listed() {
  const run = runHere();
  if (!run) return shown.events;
  const stored = new Set(shown.events.map((event) => event.id));
  const isHeard = shown.events.some((event) => event.author === "user" && !run.before.has(event.id));
  return shown.events.concat(run.events.filter((event) => event.id ? !stored.has(event.id) : !isHeard));
}

function drawPart(part, place) {
  if (typeof part.text === "string") {
    return part.text && make("div", { class: part.thought ? "thought" : null }, part.text);
  }
  if (part.functionCall) {
    const { name, args } = part.functionCall;
    return fold(`calls ${name} ${short(args || {})}`, place, () => branches(part.functionCall, place));
  }
  if (part.functionResponse) {
    const { name, response } = part.functionResponse;
    return fold(`${name} answers ${short(response ?? null)}`, place, () => branches(part.functionResponse, place));
  }
  if (part.inlineData) return drawFile(part.inlineData);
  return block(JSON.stringify(part, null, 2));
}

function drawFile(file) {
  const name = file.displayName || "file", label = `${name} (${file.mimeType})`;
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.mimeType)) {
    return make("img", { alt: label, width: 240, src: `data:${file.mimeType};base64,${file.data}` });
  }
  return button(label, guarded(() => save(name, bytesOf(file.data))), { class: "file" });
}

const bytesOf = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));

function save(name, content) {
  const link = make("a", { href: URL.createObjectURL(new Blob([content])), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), PATIENCE);
}

async function saveArtifact(name, version) {
  const part = await ask("GET", sessionPath() + path("artifacts", name, "versions", version));
  save(name, part.inlineData ? bytesOf(part.inlineData.data) : part.text);
}

const drawArtifacts = (event) => Object.entries(event.actions?.artifactDelta || {}).map(([name, version]) =>
  make("div", null, button(`${name} (version ${version})`, guarded(() => saveArtifact(name, version)),
    { class: "file" })));

// Calls whose answer the user is to give, and has not given.
function answeredIn(events) {
  return new Set(events.filter((event) => event.author === "user").flatMap(partsOf)
    .map((part) => part.functionResponse?.id));
}
const openCalls = (event, answered) => partsOf(event).map((part) => part.functionCall)
  .filter((call) => call && event.longRunningToolIds?.includes(call.id) && !answered.has(call.id));

function drawAsk(call) {
  const answer = guarded((response) => run({
    role: "user", parts: [{ functionResponse: { id: call.id, name: call.name, response } }],
  }));
  if (call.name === "adk_request_confirmation") {
    const original = call.args?.originalFunctionCall;
    return make("div", { class: "ask", role: "group", "aria-label": "Confirmation" },
      make("div", null, `May ${original?.name} run? `, call.args?.toolConfirmation?.hint || ""),
      block(JSON.stringify(original?.args || {}, null, 2)),
      button("Approve", () => answer({ confirmed: true }), { class: "main" }), " ",
      button("Reject", () => answer({ confirmed: false })));
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

// The whole event as JSON, made when it is asked for: a file in it may be large.
function drawRaw(event) {
  const toggle = button("JSON", () => {
    const isOpen = toggle.getAttribute("aria-expanded") === "true", node = toggle.closest(".event");
    toggle.setAttribute("aria-expanded", String(!isOpen));
    if (isOpen) node.querySelector(".raw").remove();
    else node.append(make("pre", { class: "raw", tabindex: "0", role: "region", "aria-label": "JSON of the event" },
      JSON.stringify(event, null, 2)));
  }, { class: "quiet", "aria-expanded": "false", "aria-label": `JSON of the event of ${event.author}` });
  return toggle;
}

function drawEvent(event, calls) {
  const delta = event.actions?.stateDelta || {}, place = "event " + event.id;
  const kinds = ["event", event.author === "user" && "user", event.partial && "partial"].filter(Boolean);
  const node = make("article", { class: kinds.join(" ") },
    make("div", { class: "who" }, make("b", null, event.author || "?"),
      make("time", null, timeOf(event.timestamp)), drawRaw(event)));
  const said = partsOf(event).map((part, index) => drawPart(part, `${place} ${index}`)).filter(Boolean);
  const error = [event.errorCode, event.errorMessage].filter(Boolean).join(": ");
  if (error) said.push(make("div", { class: "error" }, error));
  if (said.length) node.append(make("div", { class: "said" }, ...said));
  node.append(...drawArtifacts(event), ...calls.map(drawAsk));
  if (Object.keys(delta).length) {
    node.append(fold("state " + short(delta), place, () => branches(delta, place)));
  }
  return node;
}

function drawEvents() {
  const list = $("events"), wasAtEnd = isAtEnd(list), events = listed(), answered = answeredIn(events);
  const run = runHere();
  const items = events.map((event, index) => {
    // (What a run has asked is answered when it has ended.)
    const calls = !run || run.before.has(event.id) ? openCalls(event, answered) : [];
    // An event changes while it is streamed, and when one of its calls is answered.
    const mark = JSON.stringify([calls.map((call) => call.id), event.partial && partsOf(event),
      !!event.content, Object.keys(event.actions?.artifactDelta || {}).length]);
    return [event.id || "#" + index, mark, () => drawEvent(event, calls)];
  });
  if (shown.hasOlder) items.unshift(["older", "", () => button("Show older", guarded(showOlder))]);
  if (!items.length) {
    const text = !shown.session ? "Say something, or choose a session." : shown.seen ? "No events yet." : "Loading…";
    items.push(["empty", text, () => make("p", { class: "empty" }, text)]);
  }
  arrange(list, items);
  if (wasAtEnd) list.scrollTop = list.scrollHeight;
  $("send").setAttribute("aria-disabled", String(!!run));
  if (!run && document.activeElement === $("stop")) $("message").focus();
  $("stop").hidden = !run;
}

// What is read out to those who do not see it: whole answers, not every piece of them.
function announce(event) {
  const text = event.errorMessage || partsOf(event).map((part) => !part.thought && part.text || "").join("");
  if (event.author !== "user" && !event.partial && text) $("heard").textContent = `${event.author}: ${text}`;
}

// ---- Runs

// A run goes on while another session is looked at.
async function run(newMessage) {
  if (!shown.session) await makeSession(newMessage.parts[0].text);
  if (!shown.session) return;
  const { app: appName, user: userId, session: sessionId } = shown, key = sessionPath();
  if (runs.has(key)) {
    throw Object.assign(new Error("The agent is still answering: wait for it, or stop it."), { isRefused: true });
  }
  const one = {
    stop: new AbortController(), before: new Set(shown.events.map((event) => event.id)),
    events: [{ author: "user", content: newMessage, timestamp: Date.now() / 1000 }],
  };
  const isShown = () => shown.session !== null && sessionPath() === key;
  runs.set(key, one);
  drawEvents();
  $("events").scrollTop = $("events").scrollHeight;
  try {
    const response = await request("POST", "/run_sse", { appName, userId, sessionId, newMessage, streaming: true },
      { signal: one.stop.signal });
    await readStream(response.body.getReader(), (event) => {
      if (event.error && !event.id) return complain(event.error);
      take(one.events, event);
      if (!isShown()) return;
      drawEvents();
      announce(event);
      if (Object.keys(event.actions?.stateDelta || {}).length) lookSoon();
    });
  } catch (error) {
    if (error.name !== "AbortError") throw error;
  } finally {
    // As it is stored: without what was cut off.
    if (isShown()) await readSession(RECENT).catch(complain);
    runs.delete(key);
    drawEvents();
    lookSoon();
  }
}

// Takes an event of a stream. A piece goes to the end of the event that it is of, the whole one replaces
// it; and one with words and files comes in two.
function take(events, event) {
  const at = events.findIndex((one) => one.id && one.id === event.id), old = events[at];
  if (!old) events.push(event);
  else if (!old.partial) events[at] = { ...old, ...event, content: event.content || old.content };
  else if (!event.partial) events[at] = event;
  else events[at] = { ...old, content: { ...old.content, parts: joined([...partsOf(old), ...partsOf(event)]) } };
}

function joined(parts) {
  const result = [];
  for (const part of parts) {
    const last = result[result.length - 1];
    if (last?.text && part.text && !last.thought === !part.thought) last.text += part.text;
    else result.push({ ...part });
  }
  return result;
}

async function readStream(reader, onEvent) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) if (block.startsWith("data: ")) onEvent(JSON.parse(block.slice(6)));
  }
}

// ---- State

const SCOPES = [
  ["", "Session", ""], ["user:", "User", " in all sessions of the user"], ["app:", "App", " of all users"],
];
const scopeOf = (key) => /^(app:|user:)/.exec(key)?.[0] || "";

function takeState(state, isFirst) {
  const before = shown.state;
  let isChanged = isFirst;
  for (const key of new Set([...Object.keys(before), ...Object.keys(state)])) {
    if (JSON.stringify(before[key]) === JSON.stringify(state[key])) continue;
    isChanged = true;
    if (!isFirst) changes.set(key, { at: Date.now(), was: key in before ? "was " + short(before[key]) : "new" });
  }
  shown.state = state;
  if (isChanged) drawState();
}

// What changed is shown for a while.
function forgetChanges() {
  const old = [...changes].filter(([, change]) => Date.now() - change.at > FRESH);
  for (const [key] of old) changes.delete(key);
  return old.length > 0;
}

function drawState() {
  const keys = [...new Set([...Object.keys(shown.state), ...changes.keys(), ...editing?.key ? [editing.key] : []])];
  const items = editing && !editing.key ? [["new", "", drawForm]] : [];
  for (const [scope, title, note] of SCOPES) {
    const own = keys.filter((key) => scopeOf(key) === scope).sort();
    if (!own.length) continue;
    items.push(["title " + scope, "", () => make("h3", null, title, make("small", null, note))], ...own.map(drawKey));
  }
  const text = !shown.session ? "No session." : shown.seen === null ? "" : "Empty.";
  if (!items.length) items.push(["none", text, () => make("p", { class: "empty" }, text)]);
  arrange($("state"), items);
  $("add").disabled = !shown.session;
  if (editing?.key && JSON.stringify(shown.state[editing.key]) !== editing.from) {
    editing.note.textContent = editing.key in shown.state
      ? "Changed meanwhile to " + short(shown.state[editing.key]) : "Deleted meanwhile";
  }
}

function drawKey(key) {
  if (editing?.key === key) return ["key " + key, "edited", drawForm];
  const change = changes.get(key), isGone = !(key in shown.state), value = shown.state[key];
  return ["key " + key, JSON.stringify([change, value]), () => {
    const acts = isGone ? null : make("span", { class: "acts" },
      button("edit", () => edit(key), { "data-act": "edit", class: "quiet", "aria-label": "Edit " + key }),
      button("✕", guarded(() => removeKey(key)), { class: "quiet", "aria-label": "Delete " + key }));
    return make("div", { class: "key" + (change ? " changed" : "") + (isGone ? " gone" : "") },
      make("div", { class: "bar" }, make("b", null, key), acts), isGone ? null : tree(value, "state " + key),
      change ? make("small", null, isGone ? " deleted, " + change.was : " " + change.was) : null);
  }];
}

async function change(body) {
  await ask("PATCH", sessionPath(), body);
  if (shown.session) await readSession(RECENT);
}

async function removeKey(key) {
  if (confirm(`Delete the key "${key}"?`)) await change({ stateDelta: {}, removedStateKeys: [key] });
}

function edit(key) {
  if (editing) stopEditing();
  editing = { key, from: JSON.stringify(shown.state[key]), note: make("div", { class: "error", role: "alert" }) };
  drawState();
  $("state").querySelector(key ? "textarea" : "input").focus();
}

function stopEditing() {
  const { key } = editing;
  editing = null;
  drawState();
  if (!key) $("add").focus();
}

function drawForm() {
  const { key, note } = editing;
  const name = make("input", { "aria-label": "Key", placeholder: "key, user:key or app:key", required: true });
  const area = make("textarea", { "aria-label": "Value as JSON", spellcheck: "false" });
  area.value = key ? JSON.stringify(shown.state[key], null, 2) : '""';
  const submit = guarded(async (event) => {
    event.preventDefault();
    const mine = editing;
    let value;
    try { value = JSON.parse(area.value); } catch (error) {
      note.textContent = `Not JSON (texts stand in quotes): ${error.message}`;
      return;
    }
    await change({ stateDelta: { [key || name.value]: value } });
    if (editing === mine) stopEditing();
  });
  return make("form", { class: "key", onsubmit: submit, onkeydown: (e) => { if (e.key === "Escape") stopEditing(); } },
    key ? make("b", null, key) : name, area, note, make("button", { class: "main" }, "Save"), " ",
    button("Cancel", stopEditing));
}

// ---- The page

$("app").addEventListener("change", guarded(() => chooseList({ app: $("app").value })));
$("user").addEventListener("change", guarded(() => chooseList({ user: userGiven() })));
$("new").addEventListener("click", guarded(async () => {
  await makeSession();
  $("message").focus();
}));
$("skip").addEventListener("click", () => $("message").focus());
$("add").addEventListener("click", () => edit(""));
$("stop").addEventListener("click", () => {
  $("message").focus();
  runHere()?.stop.abort();
});
$("say").addEventListener("submit", guarded(async (event) => {
  event.preventDefault();
  const field = $("message"), text = field.value.trim();
  if (!text || !shown.app) return;
  field.value = "";
  try {
    await run({ role: "user", parts: [{ text }] });
  } catch (error) {
    if (error.isRefused || error.status) field.value ||= text; // it has not been heard
    throw error;
  }
}));
$("message").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("say").requestSubmit();
  }
});
$("token").addEventListener("click", guarded(async () => { if (await askForToken()) await start(); }));
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  $("token-box").close($("token-given").value.trim());
});
$("token-cancel").addEventListener("click", () => $("token-box").close(""));
$("token").hidden = !token();
document.addEventListener("visibilitychange", () => { if (!document.hidden) lookSoon(); });
window.addEventListener("hashchange", guarded(start));
guarded(start)().then(lookSoon);
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
