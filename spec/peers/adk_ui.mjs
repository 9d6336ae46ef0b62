// ADK's web UI in Chromium, before a server of moonpad: prints what was seen as one line of JSON.
//   node adk_ui.mjs URL [FOLDER for screenshots]
import { chromium } from "playwright-core";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [url, screenshots] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), "moonpad-ui-"));
const seen = { foreign: [], errors: [], failed: [] };
const context = await chromium.launchPersistentContext(profile, {
  executablePath: "/usr/bin/chromium", headless: true, viewport: { width: 1200, height: 800 }, acceptDownloads: true,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
  ],
});
const page = context.pages()[0] ?? await context.newPage();
page.on("request", (request) => {
  if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url())) seen.foreign.push(request.url());
});
page.on("websocket", (socket) => seen.foreign.push(socket.url()));
page.on("response", (response) => {
  if (response.status() >= 400) seen.failed.push(`${response.status()} ${new URL(response.url()).pathname}`);
});
page.on("pageerror", (error) => seen.errors.push(String(error)));
page.setDefaultTimeout(120000);

const chat = () => page.locator("app-chat-panel").innerText();
const until = async (condition, what) => {
  const deadline = Date.now() + 120000;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`${what}: not seen; the chat says: ${await chat()}`);
    await page.waitForTimeout(100);
  }
};
const says = (text) => until(async () => (await chat()).includes(text), text);
const say = async (text) => {
  await page.locator("textarea.chat-input-box").fill(text);
  await page.locator("button.send-message-btn").click();
};
const shot = async (name) => {
  if (screenshots) await page.screenshot({ path: join(screenshots, name) });
};
// What stands beside the events and the traces, where there is a button for each side of them. (Its
// icon is a letter or two, of a font that is not there: its text is the icon's name.)
const details = page.locator(".event-details-container");
const detailsSay = async (icon, ...texts) => {
  await details.locator(".vertical-tabs-sidebar button").filter({ hasText: icon }).click();
  await until(async () => {
    const shown = (await details.innerText()).replace(/\s+/g, " ");
    return texts.every((text) => shown.includes(text));
  }, `${icon} of the details: ${texts}`);
};
const session = () => new URL(page.url()).searchParams.get("session");
const stored = async () => (await fetch(`${url}/apps/counter/users/user/sessions/${session()}`)).json();

const steps = {
  async chat() {
    await page.goto(`${url}/dev-ui/?app=counter`);
    await say("hello");
    await says("You said: hello");
  },
  async tools() {
    await say("count");
    await says('count: {"count":1}');
    seen.state = (await stored()).state;
    await page.getByRole("tab", { name: "State" }).click();
    const tab = page.locator("app-state-tab"), shown = async () => (await tab.innerText()).replace(/\s+/g, "");
    await until(async () => (await shown()).includes("app:visits:1count:1user:total:1"), "the state tab");
    seen.temporaryIsShown = (await page.locator("body").innerText()).includes("temp:secret");
  },
  async events() {
    const row = (number) => page.locator("app-event-row").nth(number - 1);
    const { events } = await stored();
    await row(4).click();
    await detailsSay("info", events[3].id, events[3].invocationId, "call_llm");
    await detailsSay("account_tree", "write_note", "order");
    await detailsSay("input", "Counts in all scopes", '"You said: hello"');
    await detailsSay("output", "functionCall", '"count"');
    await detailsSay("data_object", "functionCall", events[3].content.parts[0].functionCall.id);
    await row(5).click();
    await detailsSay("published_with_changes", "app:visits", "user:total");
    await row(2).click();
    await detailsSay("analytics", "Total Prompt Tokens 31", "Total Candidates Tokens 7");
  },
  async graph() {
    await page.locator("button.toolbar-icon-button").filter({ hasText: "account_tree" }).click();
    await page.locator(".overlay-content svg text").filter({ hasText: "write_note" }).waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.locator(".overlay-content").waitFor({ state: "detached" });
  },
  async streaming() {
    await page.evaluate(() => localStorage.setItem("adk-use-sse", "true"));
    await page.reload();
    await says("You said: hello");
    // Not even for a moment.
    await page.evaluate(() => {
      const panel = document.querySelector("app-chat-panel");
      const look = () => { window.streamedTwice ||= panel.innerText.match(/\bone\b/g)?.length > 1; };
      window.streamedTwice = false;
      new MutationObserver(look).observe(panel, { childList: true, characterData: true, subtree: true });
    });
    await say("stream");
    await says("one two three four five");
    seen.streamedTwice = await page.evaluate(() => window.streamedTwice);
  },
  async stop() {
    await say("slow");
    await says("still");
    await page.locator("button.stop-message-btn").click();
    await page.locator("button.send-message-btn").waitFor();
  },
  async artifact() {
    await say("note");
    await says("write_note:");
    seen.artifacts = await (await fetch(`${url}/apps/counter/users/user/sessions/${session()}/artifacts`)).json();
  },
  async confirmation() {
    await say("pay");
    const form = page.locator("app-long-running-response").last();
    await form.waitFor();
    const box = form.getByRole("checkbox");
    if (await box.count()) await box.first().check();
    await form.getByRole("button").last().click();
    await says('pay: {"paid":true}');
  },
  async longRunning() {
    await say("order");
    await says('order: {"status":"pending"}');
    const form = page.locator("app-long-running-response").last();
    await form.locator("input, textarea").first().fill("arrived");
    await form.getByRole("button").last().click();
    await says("arrived");
  },
  async upload() {
    await page.locator('input[type="file"]').first().setInputFiles({
      name: "up.txt", mimeType: "text/plain", buffer: Buffer.from("uploaded"),
    });
    await say("look at this");
    await says("a file of text/plain");
    const parts = (await stored()).events.flatMap((event) => event.content?.parts ?? []);
    seen.uploaded = parts.filter((part) => part.inlineData).map((part) => atob(part.inlineData.data));
  },
  async failure() {
    await say("fail");
    await page.locator("mat-snack-bar-container").waitFor();
    seen.snackBar = await page.locator("mat-snack-bar-container").innerText();
  },
  async traces() {
    const trace = await (await fetch(`${url}/dev/apps/counter/debug/trace/session/${session()}`)).json();
    seen.spans = [...new Set(trace.map((span) => span.name))].sort();
    seen.traceHasRequest = trace.some((span) => span.attributes["gcp.vertex.agent.llm_request"]?.includes("hello"));
    await page.locator("#mat-button-toggle-1-button").click();
    await page.locator("app-trace-tree").first().getByText("call_llm").click();
    await detailsSay("list_alt", "gcp.vertex.agent.llm_request", '"text":"hello"', '"text":"You said: hello"');
    await page.locator("#mat-button-toggle-0-button").click();
  },
  async sessions() {
    const first = session();
    await page.locator("#toolbar-new-session-button").click();
    await until(() => session() !== first, "a new session");
    await say("second session");
    await says("You said: second session");
    await page.locator("button.selector-button").nth(1).click();
    await page.locator(".session-item").first().waitFor();
    seen.sessionNames = await page.locator(".session-item").allInnerTexts();
    await shot("serve-adk.png");
    await page.locator(".session-item").filter({ hasText: "hello" }).first().click();
    await says("You said: hello");
    seen.loaded = session() === first;
  },
  async management() {
    // (A copy of a session has none of its files: those are not asked for in vain before.)
    seen.failedBeforeImport = [...seen.failed];
    const drawer = page.locator(".selector-drawer"), opener = page.locator("button.selector-button").nth(1);
    const open = async () => {
      await page.waitForTimeout(1000); // it may be closing
      if (!await drawer.isVisible()) await opener.click();
      await page.locator(".session-item").first().waitFor();
    };
    await open();
    await drawer.locator('button[aria-label="Edit"]').first().click();
    await drawer.locator("input.inline-edit-input").first().fill("renamed");
    await page.keyboard.press("Enter");
    await until(async () => (await stored()).state.__session_metadata__.displayName === "renamed", "the new name");
    await opener.filter({ hasText: "renamed" }).waitFor();
    const original = session(), before = await stored(), file = join(profile, "exported.json");
    const [download] = await Promise.all([
      page.waitForEvent("download"), drawer.getByRole("button", { name: "Export" }).click(),
    ]);
    await download.saveAs(file);
    const [chooser] = await Promise.all([
      page.waitForEvent("filechooser"), drawer.getByRole("button", { name: "Import" }).click(),
    ]);
    await chooser.setFiles(file);
    await until(() => session() !== original, "the imported session");
    const after = await stored(), idsOf = (one) => one.events.map((event) => event.id).join();
    seen.importedIsSame = idsOf(before) === idsOf(after) && after.state.count === before.state.count;
    const imported = session();
    await open();
    await drawer.getByRole("button", { name: "Delete" }).first().click();
    await page.locator("mat-dialog-container").getByRole("button", { name: "Delete" }).click();
    const address = `${url}/apps/counter/users/user/sessions/${imported}`;
    await until(async () => (await fetch(address)).status === 404, "the end");
  },
};

try {
  for (const [name, act] of Object.entries(steps)) {
    try {
      const began = Date.now();
      await act();
      (seen.seconds ??= {})[name] = (Date.now() - began) / 1000;
    } catch (error) {
      seen.broken = `${name}: ${error.message}`;
      await page.screenshot({ path: join(tmpdir(), "moonpad-ui-broken.png") });
      break;
    }
  }
} finally {
  await context.close();
  rmSync(profile, { recursive: true, force: true });
}
console.log(JSON.stringify(seen));
