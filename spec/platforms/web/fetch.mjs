// moonpad's HTTP client in Chromium, on fetch, against a scripted server: prints what was seen as one line of JSON.
//   node fetch.mjs FOLDER-OF-THE-PAGE URL-OF-THE-SCRIPTED-SERVER FOLDER-FOR-THE-BROWSER
import { cpSync, readFileSync, writeFileSync } from "node:fs";
import { Scripted, openBrowser, run, servePage } from "./support.mjs";

const [folder, address, profile] = process.argv.slice(2);
// A page that asks a server on this machine must have come from one.
cpSync(folder, `${profile}-site`, { recursive: true });
writeFileSync(`${profile}-site/driver.html`, "<!doctype html><title>driver</title><script src=moonpad.js></script>");
const site = await servePage(`${profile}-site`), browser = await openBrowser(profile), web = new Scripted(address);
const page = await browser.newPage(), seen = { errors: [] };
page.on("pageerror", (error) => seen.errors.push(String(error)));
page.setDefaultTimeout(120000);

// In the page: a request from its beginning to its end, or as long as `isEnough` says.
const ask = (name, text = "") => page.evaluate(([n, t]) => window.ask(n, t), [name, text]);
const start = (path, options) =>
  ask("request", JSON.stringify({ url: address + path, retryDelayMs: 10, ...options }));
const end = (number) => page.evaluate((n) => window.end(n), number);
const get = async (path, options) => end(await start(path, options));
const glance = async (number) => JSON.parse(await ask("glance", number));
const read = async (number) => JSON.parse(await ask("read", number));
const timed = async (act) => {
  const begun = Date.now(), result = await act();
  return { ...result, seconds: (Date.now() - begun) / 1000 };
};
// Tries it with a limit for silence of some milliseconds, and with longer ones as long as it does not
// go well: on a machine that is busy there may be silence although nobody is silent.
const within = async (act) => {
  for (const silence of [3000, 12000, 48000]) if (await act(silence)) return;
};
const failure = ({ kind, message }) => `${kind}: ${message}`;
const refused = (options, path = "/a") => get(path, options).then(failure);
const attempts = async (reply, options) => {
  await web.script({ "/a": [reply, { body: "ok" }] });
  const { status } = await get("/a", { retryDelayMs: 59000, ...options });
  return [(await web.requests()).length, status];
};
// 192 MiB: Chromium itself holds up to 100 MB of what the page does not read.
const LARGE = { body: "x".repeat(65536), times: 3072, split: 65536 };

const steps = {
  async begin() {
    await page.goto(`${site.url}/driver.html`);
    await page.evaluate(async (source) => {
      const host = await window.moonpad();
      const call = (name, ...texts) => {
        const isWell = host.ccall(name, "boolean", texts.map(() => "string"), texts);
        const text = host.ccall("host_text", "string");
        if (!isWell) throw new Error(text);
        return text;
      };
      call("host_open", source, "");
      window.ask = (name, text) => call("host_ask", name, text);
      window.end = async (number) => {
        for (;;) {
          const now = JSON.parse(window.ask("read", number));
          if (now.isOver) return now;
          await new Promise((go) => setTimeout(go, 5));
        }
      };
    }, readFileSync(new URL("driver.lua", import.meta.url), "utf8"));
  },
  async answers() {
    await web.script({ "/a": { headers: { "X-Some-Thing": "1", "X-Latin": "caf\u00e9" }, body: "hello" } });
    const { status, headers, text } = await get("/a", { headers: { Authorization: "Bearer k", Empty: "" } });
    const [sent] = await web.requests();
    seen.answer = [status, headers["x-some-thing"], headers["x-latin"], text];
    seen.asked = [sent.method, sent.headers.authorization, sent.headers.empty];
    seen.unasked = ["cookie", "referer", "expect"].filter((name) => sent.headers[name] !== undefined);
    await web.script({ "/a": { status: 404, body: "gone" } });
    const missing = await get("/a");
    seen.missing = [missing.status, missing.text, (await web.requests()).length];
    await web.script({ "/a": { status: 204 } });
    seen.empty = (await get("/a")).length;
  },
  async bodies() {
    seen.bodies = [];
    for (const body of ["a\0b\u00e9", ["a", "", "b", "x".repeat(100000)], "", []]) {
      await web.script({ "/a": [{ status: 500 }, { body: "ok" }] });
      await get("/a", { body, method: "PUT" });
      const sent = await web.requests();
      seen.bodies.push(sent.map((one) => [one.method, one.headers["content-length"],
        one.body === [].concat(body).join("") ? "whole" : one.body]));
    }
  },
  async pieces() {
    const text = "0123456789".repeat(50);
    seen.pieces = [];
    for (const split of [1, 7, 100]) {
      await web.script({ "/a": { body: text, split } });
      seen.pieces.push((await get("/a")).text === text);
    }
    await web.script({ "/a": { body: "abcdef", split: 1, hold: 1 } });
    const number = await start("/a");
    await web.until("the first byte", async () => (await read(number)).text === "a");
    seen.sentWithTheFirst = (await web.requests())[0].sent;
    await web.release();
    seen.afterTheFirst = (await end(number)).text;
  },
  async pauses() {
    await within(async (silence) => {
      await web.script({ "/a": LARGE });
      const number = await start("/a", { maxUnreadBytes: 65536, idleTimeoutMs: silence, attempts: 1 });
      await web.until("the answer", async () => (await glance(number)).status);
      await page.waitForTimeout(1.5 * silence); // longer than silence may be: but it is we who do not read
      seen.paused = (await web.requests())[0].sent < LARGE.times * LARGE.split;
      const all = await end(number);
      seen.large = [all.length === LARGE.times * LARGE.split, !all.kind];
      return !all.kind;
    });
  },
  async together() {
    await web.script({ "/a": { body: "x", held: true } });
    const numbers = [];
    for (let i = 0; i < 6; i++) numbers.push(await start("/a"));
    await web.until("six requests", (requests) => requests.length === 6);
    seen.active = (await glance(numbers[0])).active;
    await web.release();
    seen.together = (await Promise.all(numbers.map(end))).map((one) => one.text).join("");
  },
  async retries() {
    const date = (seconds) => new Date(Date.now() + seconds * 1000).toUTCString();
    await web.script({ "/a": [{ status: 429, headers: { "Retry-After": "1" } }, { body: "ok" }] });
    const second = await timed(() => get("/a", { body: "same" }));
    seen.retried = [second.status, second.attempts, second.seconds >= 1, second.seconds < 60];
    await web.script({ "/a": [{ status: 503, headers: { "Retry-After": date(3) } }, { body: "ok" }] });
    const dated = await timed(() => get("/a", { retryDelayMs: 59000 }));
    seen.dated = [dated.status, dated.seconds >= 1, dated.seconds < 60];
    seen.pastDates = [];
    const dates = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
    for (const text of dates) {
      const later = text.replace("1994", "2037").replace("-94", "-37");
      seen.pastDates.push((await attempts({ status: 503, headers: { "Retry-After": text } }))[0],
        (await attempts({ status: 503, headers: { "Retry-After": later } }))[0]);
    }
    seen.nonsense = [];
    for (const text of ["soon", "Sun, 99 Nov 2037", "0", "nan", "5 x", "x".repeat(1000)]) {
      seen.nonsense.push((await attempts({ status: 503, headers: { "Retry-After": text } }, { retryDelayMs: 1 }))[0]);
    }
    seen.tooLong = await attempts({ status: 429, headers: { "Retry-After": "3600" }, body: "later" });
    seen.hugePause = await attempts({ status: 429, headers: { "Retry-After": "9".repeat(30) } });
    seen.milliseconds = await attempts({ status: 429, headers: { "retry-after-ms": "20.5", "Retry-After": "3600" } });
  },
  async breaks() {
    const cut = "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 5\r\n\r\n";
    await web.script({ "/a": [{ raw: "HTTP/1.1 200 OK\r\nContent-Le" }, { raw: cut }, { body: "ok" }] });
    const whole = await get("/a");
    seen.brokenBefore = [whole.status, whole.text, whole.attempts];
    await web.script({ "/a": [{ body: "0123456789", split: 1, hold: 1, drop: 5 }, { body: "ok" }] });
    const number = await start("/a");
    await web.until("the first byte", async () => (await read(number)).text === "0");
    await web.release();
    const broken = await end(number);
    seen.brokenAfter = [broken.text, broken.kind, (await web.requests()).length];
    seen.nobody = failure(await end(await ask("request",
      JSON.stringify({ url: "http://127.0.0.1:1/", retryDelayMs: 1 }))));
  },
  async times() {
    await web.script({ "/a": { hang: true } });
    const whole = await timed(() => get("/a", { timeoutMs: 300 }));
    seen.late = [failure(whole), whole.seconds >= 0.3, whole.seconds < 60];
    const silent = await timed(() => get("/a", { idleTimeoutMs: 300, attempts: 1 }));
    seen.silent = [failure(silent), silent.seconds >= 0.3, silent.seconds < 60];
    await web.script({ "/a": { body: "x".repeat(1000), split: 1, pause: 0.05 } });
    seen.endless = (await get("/a", { timeoutMs: 500 })).kind;
    await web.script({ "/a": { body: "0123456789", hold: 5 } });
    const stuck = await get("/a", { idleTimeoutMs: 300 });
    seen.stuck = [stuck.text, stuck.kind];
    await within(async (silence) => {
      await web.script({ "/a": { body: "01234567", split: 1, pause: silence / 6000 } });
      seen.nowAndThen = (await get("/a", { idleTimeoutMs: silence, attempts: 1 })).text;
      return seen.nowAndThen === "01234567";
    });
  },
  // The page itself is held up for longer than silence may be, while the answer comes.
  async heldUp() {
    await within(async (silence) => {
      await web.script({ "/a": { body: "01234567", split: 1, pause: silence / 6000 } });
      const number = await start("/a", { idleTimeoutMs: silence, attempts: 1 });
      await web.until("the first byte", async () => (await read(number)).text);
      await page.evaluate((milliseconds) => {
        for (const until = performance.now() + milliseconds; performance.now() < until;);
      }, 1.5 * silence);
      const all = await end(number);
      seen.heldUp = [all.text, !all.kind];
      return !all.kind;
    });
  },
  async redirects() {
    await web.script({ "/a": { status: 302, headers: { Location: "/b" } }, "/b": { body: "there" } });
    seen.redirected = failure(await get("/a", { headers: { "X-Api-Key": "secret" } }));
    seen.followed = (await web.requests()).map((one) => one.path);
    await web.script({ "/a": { status: 301 } });
    seen.nowhere = (await get("/a")).kind;
  },
  async closedServer() {
    await web.script({ "/a": { body: "not for pages" } }, true);
    const { kind, text, length } = await get("/a", { attempts: 1 });
    seen.withoutCors = [kind, text, length];
  },
  async closing() {
    await web.script({ "/a": { hang: true } });
    seen.closed = [];
    for (const how of ["close", "drop"]) {
      await web.script({ "/a": { hang: true } });
      const number = await start("/a");
      await web.until("the request", (requests) => requests.length === 1);
      await ask(how, number);
      seen.closed.push(await web.until("its end", ([one]) => one.closed));
    }
    await web.script({ "/a": { body: "x", held: true }, "/b": { body: "y" } });
    seen.activeAfter = (await end(await start("/b"))).active;
    seen.orphan = await ask("orphan", address + "/a");
  },
  async refusals() {
    await web.script({ "/a": { body: "x" } });
    const user = address.replace("//", "//user:secret@");
    seen.refusals = {
      caFile: await refused({ caFile: "/etc/certificates" }), sendOnce: await refused({ sendOnce: true }),
      password: await refused({ url: user + "/a" }), body: await refused({ method: "GET", body: "x" }),
      cookie: await refused({ headers: { Cookie: "secret" } }), host: await refused({ headers: { Host: "secret" } }),
      trace: await refused({ method: "TRACE" }),
      address: await refused({ url: "http://[secret" }), port: await refused({ url: "http://127.0.0.1:99999/" }),
    };
    seen.askedAnyway = (await web.requests()).length;
  },
  async blocking() {
    await web.script({ "/a": { hang: true }, "/v1/chat/completions": { hang: true } });
    const number = await start("/a");
    seen.blocking = [await ask("wait", number), await ask("poll"), await ask("run", address + "/v1")];
    await ask("close", number);
  },
};

await run(steps, seen);
await browser.close();
site.close();
