// AdkApiClient, as it comes from npm, with a server of moonpad: prints what it got as one line.
//   node adk_client.mjs URL
import { AdkApiClient } from "./node_modules/@google/adk-devtools/dist/esm/server/adk_api_client.js";

const client = new AdkApiClient({ backendUrl: process.argv[2] });
const name = { appName: "counter", userId: "ann", sessionId: "s1" };
const seen = { apps: await client.listApps(), texts: [] };
seen.state = (await client.createSession({ ...name, state: { start: 1 } })).state;
seen.sessions = (await client.listSessions(name)).map((session) => session.id);
for await (const event of client.runAsync({ ...name, newMessage: "hello", streaming: true })) {
  for (const part of event.content?.parts ?? []) seen.texts.push(part.text);
}
seen.events = (await client.getSession(name)).events.length;
for await (const _ of client.runAsync({ ...name, newMessage: "note" }));
seen.artifacts = await client.listArtifacts(name);
seen.artifact = (await client.loadArtifact({ ...name, artifactName: "note.txt", version: 0 })).text;
await client.deleteArtifact({ ...name, artifactName: "note.txt" });
await client.deleteSession(name);
seen.sessionsAfterwards = await client.listSessions(name);
console.log(JSON.stringify(seen));
