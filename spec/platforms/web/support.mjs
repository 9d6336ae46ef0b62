// What the scripts of this folder share: Chromium, a server for the page as the documentation starts it, and the
// scripted server of spec/helpers/http_server.lua, which lets every page ask it.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const require = createRequire(new URL("../../peers/index.js", import.meta.url));
const { chromium } = require("playwright-core");
export const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

// With a folder of its own, which the next browser finds again.
export const openBrowser = (folder) => chromium.launchPersistentContext(folder, {
  executablePath: "/usr/bin/chromium", headless: true, viewport: { width: 1280, height: 860 },
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"],
});

export async function servePage(folder) {
  const server = spawn("python3", ["-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", folder, "0"],
    { stdio: ["ignore", "pipe", "ignore"] });
  const line = await new Promise((resolve) => server.stdout.once("data", (data) => resolve(String(data))));
  return { url: /http:\/\/[0-9.]+:\d+/.exec(line)[0], close: () => server.kill() };
}

const OPEN = { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "*" };
const PREFLIGHT = { status: 204, headers: { ...OPEN, "Access-Control-Allow-Methods": "*",
  "Access-Control-Allow-Headers": "*, authorization", "Access-Control-Max-Age": "0" } };

export class Scripted {
  constructor(url) { this.url = url; }

  async control(method, path, body) {
    return (await fetch(this.url + path, { method, body })).json();
  }

  // { path: REPLY or [REPLY, ...] }; isClosed: without what lets a page read it.
  script(replies, isClosed) {
    const lists = isClosed ? {} : { OPTIONS: [PREFLIGHT] }, more = isClosed ? {} : OPEN;
    for (const [path, list] of Object.entries(replies)) {
      lists[path] = [].concat(list).map((reply) => ({ ...reply, headers: { ...more, ...reply.headers } }));
    }
    return this.control("POST", "/_script", JSON.stringify(lists));
  }

  // What it was asked, but for what a browser asks before.
  async requests() {
    return (await this.control("GET", "/_requests")).filter((request) => request.method !== "OPTIONS");
  }

  release() { return this.control("POST", "/_release"); }

  async until(what, condition) {
    for (const end = Date.now() + 120000; Date.now() < end; await new Promise((go) => setTimeout(go, 10))) {
      const found = await condition(await this.requests());
      if (found) return found;
    }
    throw new Error("waited in vain for " + what);
  }
}

// Runs the steps in order until one breaks, and prints what was seen as one line of JSON.
export async function run(steps, seen) {
  for (const [name, act] of Object.entries(steps)) {
    try {
      await act();
    } catch (error) {
      seen.broken = `${name}: ${error.message}`;
      break;
    }
  }
  console.log(JSON.stringify(seen));
}
