// The server's own page in Chromium: prints what was seen as one line of JSON.
//   node page.mjs URL [FOLDER for screenshots]
import { chromium } from "playwright-core";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [url, screenshots] = process.argv.slice(2);
const axe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const seen = { foreign: [], errors: [], violations: [] };
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium", headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"],
});
// (axe is put into the page, which its policy would refuse.)
const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, bypassCSP: true });
const page = await context.newPage();
page.on("request", (request) => {
  if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) seen.foreign.push(request.url());
});
page.on("pageerror", (error) => seen.errors.push(String(error)));
page.on("console", (message) => {
  const isOurs = message.type() === "error" && !message.text().includes("Failed to load resource");
  if (isOurs) seen.errors.push(message.text());
});
page.setDefaultTimeout(30000);

const HOSTILE = '<img src=x onerror="window.hacked=1">';
const sessionsUrl = `${url}/apps/counter/users/user/sessions`;
const post = (method, address, body) => fetch(address, { method, body: JSON.stringify(body) });
const check = async (scheme) => {
  await page.emulateMedia({ colorScheme: scheme });
  await page.waitForTimeout(800); // colours fade
  await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run());
  for (const one of result.violations) seen.violations.push(`${scheme}: ${one.id}: ${one.nodes[0].html}`);
};
const state = () => page.locator("#state");
const events = () => page.locator("#events .said > div");

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
    seen.hacked = await page.evaluate(() => window.hacked ?? false);
    await check("light");
    await check("dark");
  },
  async narrow() {
    await page.setViewportSize({ width: 320, height: 640 });
    seen.overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
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
