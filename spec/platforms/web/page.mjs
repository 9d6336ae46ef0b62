// The page of examples/web in Chromium, with a model of a scripted server: prints what was seen as one line of JSON.
//   node page.mjs FOLDER-OF-THE-PAGE URL-OF-THE-SCRIPTED-SERVER FOLDER-FOR-THE-BROWSER [FOLDER-FOR-SCREENSHOTS]
import { join } from "node:path";
import { Scripted, axe, openBrowser, run, servePage } from "./support.mjs";

const [folder, address, profile, screenshots] = process.argv.slice(2);
const web = new Scripted(address), site = await servePage(folder), seen = { foreign: [], errors: [], violations: [] };
const KEY = "key-that-stays-here", HOSTILE = '<img src=x onerror="window.hacked=1">';
let browser, page;

async function openPage() {
  const opened = await browser.newPage();
  opened.setDefaultTimeout(120000);
  opened.on("request", (request) => {
    const isOurs = [site.url, address, "data:"].some((start) => request.url().startsWith(start));
    if (!isOurs) seen.foreign.push(request.url());
  });
  opened.on("pageerror", (error) => seen.errors.push(String(error)));
  opened.on("console", (message) => {
    // What the browser says itself of servers that fail, or are closed to pages.
    const isItsOwn = /Failed to load resource|blocked by CORS policy/.test(message.text());
    if (message.type() === "error" && !isItsOwn) seen.errors.push(message.text());
  });
  opened.on("dialog", (dialog) => dialog.accept());
  await opened.goto(site.url);
  return opened;
}

const isReady = (where = page) => where.locator("#message:enabled").waitFor();
const log = () => page.locator("#log"), state = () => page.locator("#state"), problem = () => page.locator("#problem");
const text = (place) => place.innerText();
const begin = async (words) => {
  await page.locator("#message").fill(words);
  await page.keyboard.press("Enter");
};
const ended = () => page.locator("#send").waitFor();
const say = async (words) => {
  await begin(words);
  await ended();
};
const saved = () => page.locator("#saved.good").waitFor();
const stateNow = () => page.evaluate(() => JSON.parse(ask("view")));
const shot = async (name) => { if (screenshots) await page.screenshot({ path: join(screenshots, name + ".png") }); };
const waitForState = (pattern) => page.waitForFunction((source) =>
  new RegExp(source).test(document.getElementById("state").innerText), pattern);

const chunk = (delta, finish) => `data: ${JSON.stringify({ choices: [{ delta, finish_reason: finish }] })}\n\n`;
const END = chunk({}, "stop") + "data: [DONE]\n\n";
const stream = (body, more) => ({ headers: { "Content-Type": "text/event-stream" }, body, split: 40, ...more });
const PATH = "/v1/chat/completions";

const steps = {
  async begin() {
    browser = await openBrowser(profile);
    const begun = Date.now();
    page = await openPage();
    await isReady();
    seen.firstStart = Date.now() - begun;
    await saved();
    seen.firstState = (await stateNow()).state;
  },
  // The mouse is not used.
  async keyboard() {
    seen.focus = await page.evaluate(() => document.activeElement.id);
    await page.keyboard.type("My name is Ann.");
    await page.keyboard.press("Enter");
    await log().getByText("Well met, Ann.").waitFor();
    await ended();
    await page.keyboard.press("Tab"); // from the field to the button
    seen.focusAfterIt = await page.evaluate(() => document.activeElement.id);
  },
  async live() {
    await page.evaluate(() => {
      window.frames = 0;
      const count = () => { window.frames++; requestAnimationFrame(count); };
      requestAnimationFrame(count);
    });
    await begin("An ale, please.");
    await waitForState("gold\\s+8");
    seen.stateBeforeTheEnd = await page.locator("#stop").isVisible();
    await log().locator(".live").getByText("One ale").waitFor();
    seen.wordsBeforeTheEnd = !(await text(log())).includes("8 gold");
    seen.changed = await page.locator("#state .changed").count();
    await ended();
    await log().getByText("One ale, here you are. That leaves 8 gold.", { exact: true }).waitFor();
    seen.saidOnce = (await text(log())).split("One ale").length === 2;
    seen.frames = await page.evaluate(() => window.frames);
    seen.longestStep = await page.evaluate(() => longest);
    seen.eventsShown = await page.locator("#events li").count();
    await page.locator("#events summary").filter({ hasText: "result of serve" }).click();
    seen.rawEvent = (await text(page.locator("#events pre"))).includes('"user:gold": 8');
    await say("My cat is called Tom.");
    await saved();
    await shot("web-page");
  },
  async reload() {
    seen.before = [await text(log()), await text(state()), (await stateNow()).state];
    const begun = Date.now();
    await page.reload();
    await isReady();
    seen.reloadedIn = Date.now() - begun;
    seen.after = [await text(log()), await text(state()), (await stateNow()).state];
    await page.locator("#query").fill("cat");
    await page.locator("#memories").getByText("My cat is called Tom.").first().waitFor();
  },
  async restart() {
    await browser.close();
    browser = await openBrowser(profile);
    page = await openPage();
    await isReady();
    seen.afterRestart = [await text(log()), (await stateNow()).state];
  },
  async nextEvening() {
    await page.locator("#next").click();
    await page.getByText("Evening 2").waitFor();
    seen.newLog = (await text(log())).includes("Ann");
    await say("Do you remember my cat?");
    seen.remembered = (await text(log())).includes("My cat is called Tom.");
    seen.secondEvening = (await stateNow()).state;
    await saved();
  },
  async secondTab() {
    const other = await openPage();
    await other.locator("#notice").getByText("open in another tab").waitFor();
    seen.secondTab = [await other.locator("#message").isEnabled(), await text(other.locator("#log"))];
    await page.bringToFront(); // a tab that nobody sees has no frames
    await say("One bread.");
    await saved();
    await page.close();
    page = other;
    await isReady();
    seen.noticeAfter = await page.locator("#notice").isVisible();
    seen.secondTabLater = (await text(log())).includes("One bread, here you are.");
  },
  async model() {
    await page.locator("#model summary").click();
    await page.locator("#url").fill(address + "/v1");
    await page.locator("#name").fill("some-model");
    await page.locator("#key").fill(KEY);
    await shot("web-model");
    await page.getByRole("button", { name: "Use it" }).click();
    const stew = { index: 0, id: "c1", function: { name: "serve", arguments: '{"what":"stew"}' } };
    const call = chunk({ tool_calls: [stew] }) + chunk({}, "tool_calls") + "data: [DONE]\n\n";
    const first = chunk({ content: "Here is " }), rest = chunk({ content: "your stew." }) + END;
    await web.script({ [PATH]: [stream(call), stream(first + rest, { hold: first.length })] });
    await begin("Something hot?");
    await log().locator(".live").getByText("Here is").waitFor();
    seen.modelBeforeTheEnd = [(await text(log())).includes("your stew"), (await stateNow()).state["user:gold"]];
    await web.release();
    await ended();
    seen.modelSaid = (await text(log())).includes("Here is your stew.");
    const sent = await web.requests(), body = JSON.parse(sent[0].body);
    seen.sent = [sent.length, sent[0].headers.authorization, body.model, body.stream, body.messages[0].role];
    seen.instruction = body.messages[0].content;
    await saved();
    seen.keyIsKept = await page.evaluate((key) => [
      new TextDecoder("latin1").decode(copyFile()).includes(key), document.documentElement.outerHTML.includes(key),
      localStorage.length + sessionStorage.length,
    ], KEY);
  },
  async hostile() {
    await web.script({ [PATH]: stream(chunk({ content: HOSTILE }) + END) });
    await say(HOSTILE);
    seen.hostileShown = (await text(log())).split("<img").length;
    seen.hacked = await page.evaluate(() => window.hacked ?? document.querySelectorAll("main img").length);
  },
  // The answer breaks off; the server is gone; it refuses. Nothing that was there is lost.
  async networkErrors() {
    const before = (await stateNow()).state, first = chunk({ content: "I was about to " });
    await web.script({ [PATH]: stream(first + END, { hold: first.length, drop: first.length + 1 }) });
    await begin("What about?");
    await log().locator(".live").getByText("I was about to").waitFor();
    await web.release();
    await ended();
    seen.brokenOff = [await text(problem()), (await text(log())).includes("about to")];
    await web.script({ [PATH]: { status: 401, body: `{"error":{"message":"no such key: ${KEY}"}}` } });
    await say("And now?");
    seen.refused = await text(problem());
    await web.script({ [PATH]: stream(END) }, true);
    await say("Still there?");
    seen.closedToPages = await text(problem());
    seen.stateKept = JSON.stringify(before) === JSON.stringify((await stateNow()).state);
    await shot("web-error");
    await page.reload();
    await isReady();
    const kept = await text(log());
    seen.kept = ["Here is your stew.", "What about?", "And now?", "Still there?"].filter((one) => kept.includes(one));
    await say("A bread."); // by the rules again
    seen.goesOn = [await text(problem()), (await text(log())).includes("One bread, here you are.")];
  },
  async stop() {
    await page.locator("#model summary").click();
    await page.locator("#url").fill(address + "/v1");
    await page.locator("#name").fill("some-model");
    await page.getByRole("button", { name: "Use it" }).click();
    await web.script({ [PATH]: { hang: true } });
    await begin("Think about it.");
    await web.until("the request", (requests) => requests.length === 1);
    await page.locator("#stop").click();
    await ended();
    seen.stopped = [await web.until("its end", ([one]) => one.closed), await text(problem())];
    await page.locator("#model summary").click();
    await page.locator("#rules").click();
  },
  // There is no room: it is said, and made up for by the next save.
  async noRoom() {
    await page.evaluate(() => {
      window.put = IDBObjectStore.prototype.put;
      IDBObjectStore.prototype.put = () => { throw new DOMException("no room", "QuotaExceededError"); };
    });
    await say("I sweep the floor.");
    await page.locator("#saved.bad").getByText("Not saved: no room").waitFor();
    await page.evaluate(() => { IDBObjectStore.prototype.put = window.put; });
    await say("Hm.");
    await saved();
    const before = await text(log());
    await page.reload();
    await isReady();
    seen.madeUpFor = before.includes("I sweep the floor.") && before === await text(log());
  },
  async looks() {
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.locator("#model summary").click();
      await page.waitForTimeout(3000); // colours fade
      await page.evaluate(axe);
      for (const one of (await page.evaluate(() => window.axe.run())).violations) {
        seen.violations.push(`${scheme}: ${one.id}: ${one.nodes[0].html}`);
      }
      await shot("web-" + scheme);
    }
    await page.setViewportSize({ width: 320, height: 640 });
    seen.overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    await shot("web-narrow");
    await page.setViewportSize({ width: 1280, height: 860 });
  },
  async forget() {
    await page.locator("#over").click();
    await page.getByText("Evening 1").waitFor();
    await isReady();
    seen.forgotten = (await stateNow()).state;
    await page.reload();
    await isReady();
    seen.stillForgotten = (await stateNow()).state;
  },
};

await run(steps, seen);
await browser.close();
site.close();
