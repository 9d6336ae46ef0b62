"use strict";
// The page of main.c and npc.lua: it shows what Mira says, and what is in her mind. Nothing of what she says is ever
// taken for HTML.
const NAME = "moonpad-inn", FILE = "/inn.db", COPY = "/copy.db";
const EVENT = 0, WAITING = 1; // what host_step answers
const SCOPES = [["user:", "The guest", "user:"], ["", "This evening", "session"], ["app:", "The inn", "app:"]];
const HINTS = ["My name is Ann.", "An ale, please.", "I could chop some wood.", "My cat is called Tom.",
  "Do you remember my cat?"];

let host, storage;
let fileBytes = 0, ready = 0;
let said = "";          // what was said last
let live = null;        // what she is saying: the element
let longest = 0;        // milliseconds, of one step
let state = null;       // as it was shown last
let isForgetting = false;

const $ = (id) => document.getElementById(id);
const make = (tag, className, ...children) => {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...children);
  return element;
};
const textOf = (event) => (event.content?.parts || []).map((part) => part.text || "").join("");

// ---- The C side

const text = () => host.ccall("host_text", "string");

function call(name, ...texts) {
  if (!host.ccall(name, "boolean", texts.map(() => "string"), texts)) throw new Error(text());
  return text();
}

const ask = (name, given = "") => call("host_ask", name, given);

// ---- Telling

function tell(problem) {
  $("problem").textContent = problem ? String(problem.message || problem) : "";
  $("log").scrollTop = $("log").scrollHeight;
}

function notice(words) {
  $("notice").textContent = words;
  $("notice").hidden = !words;
}

// A copy, for the file itself is incomplete without its write-ahead log.
function copyFile() {
  ask("backup", COPY);
  const bytes = host.FS.readFile(COPY);
  host.FS.unlink(COPY);
  fileBytes = bytes.length;
  return bytes;
}

async function save() {
  if (isForgetting) return;
  $("saved").className = "busy";
  $("saved").textContent = "Saving";
  try {
    await storage.save(copyFile);
    $("saved").className = "good";
    $("saved").textContent = "Saved in this browser";
  } catch (error) {
    $("saved").className = "bad";
    $("saved").textContent = `Not saved: ${error.message || error.name}`;
  }
  showFigures();
}

function showFigures() {
  const size = Math.round(fileBytes / 1024), step = longest.toFixed(1);
  $("figures").textContent = `ready after ${ready} ms · longest step ${step} ms · ${size} KB saved`;
}

// ---- What was said

function bubble(author, words) {
  const element = make("p", author === "user" ? "mine" : "hers", words);
  $("log").append(element);
  $("log").scrollTop = $("log").scrollHeight;
  return element;
}

function showSaid(event) {
  const words = textOf(event);
  if (event.partial) {
    live = live || bubble(event.author, "");
    live.classList.add("live");
    live.append(words);
    $("log").scrollTop = $("log").scrollHeight;
    return;
  }
  live?.remove();
  live = null;
  for (const { functionCall } of event.content?.parts || []) {
    if (functionCall) bubble("tool", `${functionCall.name} ${JSON.stringify(functionCall.args)}`).className = "deed";
  }
  if (words) bubble(event.author, words);
  if (words && event.author !== "user") $("heard").textContent = words;
}

// ---- What is in her mind

function showState(now) {
  const groups = SCOPES.map(([prefix, title, scope]) => {
    const rows = Object.keys(now).filter((key) => prefix ? key.startsWith(prefix) : !key.includes(":")).map((key) => {
      const value = JSON.stringify(now[key]), isNew = state && JSON.stringify(state[key]) !== value;
      const row = make("tr", isNew ? "changed" : "", make("th", "", key.slice(prefix.length)), make("td", "", value));
      row.firstChild.scope = "row";
      return row;
    });
    if (!rows.length) rows.push(make("tr", "", make("td", "", "–")));
    return make("table", "", make("caption", "", title + " ", make("small", "", scope)), make("tbody", "", ...rows));
  });
  $("state").replaceChildren(...groups);
  state = now;
}

function showMind() {
  const { evening, state: now } = JSON.parse(ask("view"));
  $("evening").textContent = `Evening ${evening}`;
  showState(now);
}

function showMemories() {
  const query = $("query").value.trim() || said;
  const found = query ? JSON.parse(ask("recall", query)) : [];
  const items = found.map((entry) => make("li", "", make("q", "", textOf(entry)), " ",
    make("small", "", `${entry.author === "user" ? "you" : entry.author}, ${entry.sessionId.replace("-", " ")}`)));
  const nothing = query ? `Nothing of “${query}”.` : "What you say is searched for here.";
  $("memories").replaceChildren(...(items.length ? items : [make("li", "quiet", nothing)]));
}

function showEvent(event) {
  if (event.partial) return;
  const parts = (event.content?.parts || []).map((part) => part.text
    || (part.functionCall && `calls ${part.functionCall.name}`)
    || (part.functionResponse && `result of ${part.functionResponse.name}`));
  const changes = Object.entries(event.actions?.stateDelta || {})
    .map(([key, value]) => make("code", "", `${key} = ${JSON.stringify(value)}`));
  const summary = make("summary", "", make("b", "", event.author), " ", parts.join(" "), ...changes);
  const details = make("details", "", summary);
  details.addEventListener("toggle", () => {
    if (details.open && !details.querySelector("pre")) details.append(make("pre", "", JSON.stringify(event, null, 2)));
  });
  $("events").prepend(make("li", "", details));
}

function showEvening() {
  $("log").replaceChildren();
  $("events").replaceChildren();
  const events = JSON.parse(ask("history"));
  for (const event of events) {
    showSaid(event);
    showEvent(event);
    if (event.author === "user") said = textOf(event);
  }
  $("heard").textContent = "";
  if (!events.length) bubble("tool", "The door creaks. Mira looks up from the counter.").className = "deed";
  showMind();
  showMemories();
}

// ---- A conversation: one step in each frame, so that no frame waits for anything

function setBusy(isBusy) {
  for (const id of ["next", "rules"]) $(id).disabled = isBusy;
  $("send").hidden = isBusy;
  $("stop").hidden = !isBusy;
}

function say(words) {
  tell(null);
  try {
    call("host_say", words);
  } catch (error) {
    return tell(error);
  }
  said = words;
  const event = { author: "user", content: { parts: [{ text: words }] } };
  showSaid(event);
  showEvent(event);
  setBusy(true);
  requestAnimationFrame(frame);
}

// What she says and does is stored when its event comes: then it is shown, and saved.
function hear(event) {
  showSaid(event);
  showEvent(event);
  if (event.partial) return;
  showMind();
  save();
}

function frame() {
  const begun = performance.now(), progress = host.ccall("host_step", "number");
  longest = Math.max(longest, performance.now() - begun);
  if (progress === EVENT) hear(JSON.parse(text()));
  if (progress === EVENT || progress === WAITING) return requestAnimationFrame(frame);
  if (progress < 0) tell(text());
  live?.remove();
  live = null;
  setBusy(false);
  showMind();
  showMemories();
  save();
}

// ---- The visitor

function listen() {
  $("say").addEventListener("submit", (event) => {
    event.preventDefault();
    const words = $("message").value.trim();
    if (!words || $("send").hidden) return;
    $("message").value = "";
    say(words);
  });
  $("stop").addEventListener("click", () => {
    host.ccall("host_stop");
    $("message").focus();
  });
  $("query").addEventListener("input", showMemories);
  $("next").addEventListener("click", () => {
    ask("nextEvening");
    state = null;
    showEvening();
    save();
    $("message").focus();
  });
  $("model-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useModel({ baseUrl: $("url").value, model: $("name").value, apiKey: $("key").value });
  });
  $("rules").addEventListener("click", () => useModel(null));
  $("hints").append(...HINTS.map((words) => {
    const button = make("button", "hint", words);
    button.type = "button";
    button.addEventListener("click", () => {
      $("message").value = words;
      $("message").focus();
    });
    return button;
  }));
}

function useModel(options) {
  tell(null);
  try {
    ask("useModel", options ? JSON.stringify(options) : "");
  } catch (error) {
    return tell(error);
  }
  $("speaks").textContent = options ? options.model : "a few rules in Lua";
  $("model").open = false;
  $("message").focus();
}

// ---- Beginning

// Two tabs would save over each other: the second one waits until the first is closed.
const untilAlone = () => new Promise((resolve) => {
  const hold = () => {
    resolve();
    return new Promise(() => {}); // until the tab is closed
  };
  navigator.locks.request(NAME, { ifAvailable: true }, (lock) => {
    if (lock) return hold();
    notice("The inn is open in another tab of this browser. It opens here as soon as that one is closed.");
    navigator.locks.request(NAME, hold);
  });
});

async function begin() {
  if (!navigator.locks) throw new Error("This page needs an address that is secure: https, or localhost.");
  const loading = moonpad();
  await untilAlone();
  notice("");
  const begun = performance.now();
  host = await loading;
  storage = await openStorage(NAME);
  if (storage.file) host.FS.writeFile(FILE, storage.file);
  call("host_open", await (await fetch("npc.lua")).text(), `sqlite:${FILE}`);
  listen();
  showEvening();
  ready = Math.round(performance.now() - begun);
  for (const id of ["message", "send", "next"]) $(id).disabled = false;
  $("message").focus();
  await save();
}

$("over").addEventListener("click", async () => {
  if (!confirm("Mira forgets you, and everything that was said. Go on?")) return;
  isForgetting = true;
  await storage.save(() => undefined);
  location.reload();
});
begin().catch(tell);
