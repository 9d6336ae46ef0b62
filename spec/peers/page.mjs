// The server's own page in Chromium: prints what was seen as one line of JSON.
//   node page.mjs URL URL-THAT-WANTS-A-TOKEN [FOLDER for screenshots]
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [url, guardedUrl, screenshots] = process.argv.slice(2);
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const seen = { foreign: [], errors: [], violations: [] };
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium", headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"],
});
const context = await browser.newContext({ viewport: { width: 1200, height: 800 } });
const page = await context.newPage();
page.on("request", (request) => {
  const isOurs = [url, guardedUrl, "data:", "blob:"].some((start) => request.url().startsWith(start));
  if (!isOurs) seen.foreign.push(request.url());
});
page.on("pageerror", (error) => seen.errors.push(String(error)));
page.on("console", (message) => {
  const isOurs = message.type() === "error" && !message.text().includes("Failed to load resource");
  if (isOurs) seen.errors.push(message.text());
});
page.setDefaultTimeout(120000);

const HOSTILE = '<img src=x onerror="window.hacked=1">';
const sessionsUrl = `${url}/apps/counter/users/user/sessions`;
const post = (method, address, body) => fetch(address, { method, body: JSON.stringify(body) });
const stateOf = async (id) => (await (await fetch(`${sessionsUrl}/${id}`)).json()).state;
const check = async (scheme) => {
  await page.emulateMedia({ colorScheme: scheme });
  await page.waitForTimeout(800); // colours fade
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run());
  for (const one of result.violations) seen.violations.push(`${scheme}: ${one.id}: ${one.nodes[0].html}`);
};
const state = () => page.locator("#state");
const events = () => page.locator("#events .said > div");
const choose = (id) => page.locator("#sessions").getByTitle(id, { exact: true }).click();
const say = async (text) => {
  await page.locator("#message").fill(text);
  await page.keyboard.press("Enter");
};
const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label")
  || document.activeElement.title || document.activeElement.id);

// How much the page asks for meanwhile.
async function trafficOf(act) {
  const traffic = { requests: 0, bytes: 0 }, sizes = [];
  const count = (response) => {
    traffic.requests++;
    sizes.push(response.body().then((body) => { traffic.bytes += body.length; }, () => {}));
  };
  page.on("response", count);
  await act();
  page.off("response", count);
  await Promise.all(sizes);
  return traffic;
}
const setHidden = (isHidden) => page.evaluate((value) => {
  Object.defineProperty(document, "hidden", { value, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}, isHidden);

// A text in HTML wherever a text can stand.
const HOSTILE_EVENT = {
  id: HOSTILE, author: HOSTILE, invocationId: HOSTILE,
  errorCode: HOSTILE, errorMessage: HOSTILE, longRunningToolIds: [HOSTILE, "confirmation"],
  content: { role: "model", parts: [
    { text: HOSTILE }, { text: HOSTILE, thought: true },
    { functionCall: { id: HOSTILE, name: HOSTILE, args: { [HOSTILE]: [HOSTILE] } } },
    { functionCall: { id: "confirmation", name: "adk_request_confirmation", args: {
      originalFunctionCall: { name: HOSTILE, args: { [HOSTILE]: HOSTILE } }, toolConfirmation: { hint: HOSTILE } } } },
    { functionResponse: { id: "x", name: HOSTILE, response: { [HOSTILE]: HOSTILE } } },
    { inlineData: { displayName: HOSTILE, mimeType: `image/png"${HOSTILE}`, data: "AAAA" } },
  ] },
  actions: { stateDelta: { [HOSTILE]: { [HOSTILE]: HOSTILE.repeat(20) } }, artifactDelta: { [HOSTILE]: 0 } },
};

const steps = {
  // Not once is the mouse used.
  async keyboard() {
    await page.goto(url);
    await page.locator("#message").focus();
    await page.keyboard.type("count");
    await page.keyboard.press("Enter");
    await events().getByText('count: {"count":1}').waitFor();
    await state().getByText("user:total").waitFor();
    await page.keyboard.press("Tab"); // Send
    seen.focusAfterMessage = await page.evaluate(() => document.activeElement.id);
    for (let i = 0; i < 30; i++) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(() => document.activeElement.getAttribute("aria-label")) === "Edit count") break;
    }
    await page.keyboard.press("Enter");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("41");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await state().getByText("41").waitFor();
  },
  async streaming() {
    await page.locator("#message").fill("stream");
    await page.keyboard.press("Enter");
    const first = await page.waitForFunction(() => {
      const text = document.getElementById("events").innerText;
      return text.includes("one two") && text;
    });
    seen.streamedBeforeTheEnd = !(await first.jsonValue()).includes("five");
    await page.locator("#stop").waitFor({ state: "hidden" });
    await events().getByText("one two three four five", { exact: true }).waitFor();
    seen.streamedOnce = (await page.locator("#events").innerText()).split("one two three").length === 2;
  },
  async confirmation() {
    await page.locator("#message").fill("pay");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Approve" }).click();
    await events().getByText('pay: {"paid":true}').waitFor();
    if (screenshots) await page.screenshot({ path: join(screenshots, "serve-page.png") });
  },
  async stop() {
    await page.locator("#message").fill("slow");
    await page.keyboard.press("Enter");
    await events().getByText("still").waitFor();
    await page.locator("#stop").click();
    await page.locator("#stop").waitFor({ state: "hidden" });
    seen.focusAfterStop = await focused();
  },
  async longRunning() {
    await say("order");
    await page.getByLabel("Answer of order").fill("two loaves");
    await page.keyboard.press("Enter");
    await events().getByText('order: {"result":"two loaves"}').waitFor();
    await page.getByLabel("Answer of order").waitFor({ state: "detached" });
  },
  async artifact() {
    await say("note");
    const [download] = await Promise.all([
      page.waitForEvent("download"), page.getByRole("button", { name: "note.txt (version 0)" }).click(),
    ]);
    seen.artifact = readFileSync(await download.path(), "utf8");
  },
  async failure() {
    await say("fail");
    await page.getByRole("alert").getByText("the model has failed").waitFor();
    await page.getByRole("button", { name: "Dismiss" }).click();
  },
  // What is begun in one session stays there, whatever is looked at meanwhile.
  async twoSessions() {
    for (const id of ["left", "right"]) await post("POST", sessionsUrl, { sessionId: id, state: { where: id } });
    await choose("left");
    await page.getByRole("button", { name: "Edit where" }).click();
    await state().locator("textarea").fill('"edited"');
    await choose("right");
    await state().getByText('"right"').waitFor();
    seen.formsInTheOther = await state().locator("textarea").count();
    await choose("left");
    await say("slow");
    await events().getByText("still").waitFor();
    await choose("right");
    await page.locator("#events").getByText("No events yet.").waitFor();
    await say("hello"); // while the other one is still answering
    await events().getByText("You said: hello").waitFor();
    seen.eventsOfTheOther = await events().getByText("still").count();
    await choose("left");
    await page.locator("#stop").click();
    await page.locator("#stop").waitFor({ state: "hidden" });
    seen.stateOfBoth = [(await stateOf("left")).where, (await stateOf("right")).where];
  },
  // Whoever reads, types, or goes through it by keyboard is not disturbed by what happens.
  async undisturbed() {
    await choose("right");
    await page.locator("#events .who button").first().click();
    await page.getByRole("button", { name: "Edit where" }).click();
    await state().locator("textarea").fill('"being typed"');
    await post("PATCH", `${sessionsUrl}/right`, { stateDelta: { where: "elsewhere", other: 1 } });
    await state().getByText("Changed meanwhile").waitFor();
    seen.typed = await state().locator("textarea").inputValue();
    seen.unfolded = await page.locator("#events .raw").count();
    await state().locator("textarea").focus();
    await page.keyboard.press("Escape");
    seen.focusAfterEscape = await focused();
    await page.locator("#sessions").getByTitle("left", { exact: true }).focus();
    await post("PATCH", `${sessionsUrl}/left`, { stateDelta: { other: 2 } }); // it goes to the top
    await page.waitForFunction(() => document.querySelector("#sessions button").title === "left");
    seen.focusAfterMove = await focused();
    await post("PATCH", `${sessionsUrl}/right`, { stateDelta: {}, removedStateKeys: ["other"] });
    await state().getByText("deleted, was 1").waitFor();
    await post("DELETE", `${sessionsUrl}/right`);
    await page.getByRole("alert").getByText("is not there any more").waitFor();
    await choose("left");
  },
  // Somebody else changes the session that is shown.
  async live() {
    const id = new URLSearchParams(new URL(page.url()).hash.slice(1)).get("session");
    await post("PATCH", `${sessionsUrl}/${id}`, { stateDelta: { weather: "rain", [HOSTILE]: HOSTILE } });
    await state().getByText("weather").waitFor();
    await page.locator("#state .changed").first().waitFor();
    await post("POST", sessionsUrl, { state: { __session_metadata__: { displayName: HOSTILE } } });
    await page.locator("#sessions").getByText("<img").waitFor();
    await page.locator("#message").fill(HOSTILE);
    await page.keyboard.press("Enter");
    await events().getByText("You said: <img").waitFor();
    const { stateDelta } = HOSTILE_EVENT.actions;
    const event = { ...HOSTILE_EVENT, timestamp: Date.now() / 1000 };
    await post("POST", sessionsUrl, { sessionId: "hostile", events: [event], state: stateDelta });
    await choose("hostile");
    const folded = page.locator("details:not([open]) > summary"); // what unfolds may have more of them
    while (await folded.count()) await folded.first().click();
    await page.locator("#events .who button").first().click();
    await page.getByRole("button", { name: "Approve" }).waitFor();
    seen.hacked = await page.evaluate(() => window.hacked ?? document.querySelectorAll("main img, aside img").length);
    await check("light");
    await check("dark");
  },
  async narrow() {
    await page.setViewportSize({ width: 320, height: 640 });
    seen.overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    await page.setViewportSize({ width: 1200, height: 800 });
  },
  async long() {
    const now = Date.now() / 1000, list = Array.from({ length: 10000 }, (_, index) => ({
      id: "e" + index, author: index % 2 ? "counter" : "user", invocationId: "i" + index, timestamp: now - 9999 + index,
      content: { role: "user", parts: [{ text: `event ${index}.` }] },
    }));
    await post("POST", sessionsUrl, { sessionId: "long", events: list });
    await choose("long");
    await events().getByText("event 9999.").waitFor();
    seen.longShown = [await page.locator("article").count()];
    await page.getByRole("button", { name: "Show older" }).click();
    await events().getByText("event 9600.").waitFor();
    seen.longShown.push(await page.locator("article").count());
    const traffic = await trafficOf(async () => {
      await post("PATCH", `${sessionsUrl}/long`, { stateDelta: { last: "one" } });
      await state().getByText("last").waitFor();
    });
    seen.bytesOfOneEvent = traffic.bytes;
  },
  // Asks little as long as nothing happens, and nothing when nobody looks.
  async traffic() {
    const big = { big: "x".repeat(20000) };
    await Promise.all(Array.from({ length: 60 }, () => post("POST", sessionsUrl, { state: big })));
    await page.getByRole("button", { name: "Show more" }).waitFor();
    await page.waitForTimeout(1500);
    const quiet = await trafficOf(() => page.waitForTimeout(3000));
    seen.bytesWhenQuiet = quiet.bytes;
    await setHidden(true);
    await page.waitForTimeout(1500);
    seen.requestsWhenHidden = (await trafficOf(() => page.waitForTimeout(2500))).requests;
    await Promise.all([page.waitForResponse(/limit=1&/), setHidden(false)]);
  },
  // A token is asked for once, not every second, and kept for the tab.
  async token() {
    await page.goto(guardedUrl);
    const dialog = page.getByRole("dialog"), field = dialog.getByLabel("Token");
    await field.waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("alert").getByText("not authorized").waitFor();
    await page.waitForTimeout(2500);
    seen.dialogsAfterCancel = await dialog.count();
    await page.getByRole("button", { name: "Token" }).click();
    await field.fill("wrong");
    await page.keyboard.press("Enter");
    await dialog.getByText("does not take this token").waitFor();
    await page.evaluate(axe);
    seen.violations.push(...(await page.evaluate(() => window.axe.run())).violations.map((one) => "dialog: " + one.id));
    await field.fill("aa");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "hidden" });
    await page.locator("#user").fill("ann");
    await page.locator("#user").press("Enter");
    await page.locator("#live").getByText("live", { exact: true }).waitFor();
    await say("with a token");
    await events().getByText("You said: with a token").waitFor();
    await page.reload();
    await events().getByText("You said: with a token").waitFor();
  },
};

for (const [name, act] of Object.entries(steps)) {
  try {
    await act();
  } catch (error) {
    seen.broken = `${name}: ${error.message}`;
    break;
  }
}
await browser.close();
console.log(JSON.stringify(seen));
