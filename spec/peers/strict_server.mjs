// An MCP server that speaks 2026-07-28 and nothing else, written with the official SDK:
//   node strict_server.mjs stdio     on standard input and output
//   node strict_server.mjs http      on a port of loopback, which it prints
import { createServer } from "node:http";
import { createMcpHandler, fromJsonSchema, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const object = (properties, required = []) => fromJsonSchema({ type: "object", properties, required });

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

function makeServer() {
  const server = new McpServer({ name: "strict", version: "1.0.0" });
  server.registerTool("add", {
    description: "Adds two numbers",
    inputSchema: object({ a: { type: "integer" }, b: { type: "integer" } }, ["a", "b"]),
    outputSchema: object({ sum: { type: "integer" } }, ["sum"]),
  }, ({ a, b }) => ({
    content: [{ type: "text", text: JSON.stringify({ sum: a + b }) }], structuredContent: { sum: a + b },
  }));
  server.registerTool("regional.query", {
    description: "Says which region it was asked in",
    inputSchema: object({ region: { type: "string", "x-mcp-header": "Region" }, limit: { type: "integer" } }, ["region"]),
  }, ({ region }) => ({ content: [{ type: "text", text: `asked in ${region}` }] }));
  server.registerTool("picture", { description: "A picture", inputSchema: object({}) }, () => ({
    content: [{ type: "text", text: "a pixel" }, { type: "image", mimeType: "image/png", data: PIXEL }],
  }));
  server.registerTool("fail", { description: "Fails", inputSchema: object({}) },
    () => ({ isError: true, content: [{ type: "text", text: "out of order" }] }));
  server.registerTool("wait", {
    description: "Answers after a while",
    inputSchema: object({ milliseconds: { type: "integer" } }, ["milliseconds"]),
  }, async ({ milliseconds }) => {
    await new Promise((resolve) => { setTimeout(resolve, milliseconds); });
    return { content: [{ type: "text", text: "waited" }] };
  });
  server.registerPrompt("größe", { description: "A name that needs an escape", argsSchema: object({}) },
    () => ({ messages: [{ role: "assistant", content: { type: "text", text: "groß" } }] }));
  server.registerPrompt("greet", { description: "Greets", argsSchema: object({ name: { type: "string" } }, ["name"]) },
    ({ name }) => ({ messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }] }));
  server.registerResource("readme", "memo://list", { mimeType: "text/plain" },
    (uri) => ({ contents: [{ uri: uri.href, mimeType: "text/plain", text: "a memo" }] }));
  return server;
}

async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function serveHttp() {
  const handler = createMcpHandler(makeServer, { legacy: "reject" });
  const server = createServer(async (request, response) => {
    const hasBody = request.method !== "GET" && request.method !== "HEAD";
    const answer = await handler.fetch(new Request(`http://${request.headers.host}${request.url}`, {
      method: request.method, headers: request.headers, body: hasBody ? await bodyOf(request) : undefined,
    }));
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) for await (const chunk of answer.body) response.write(chunk);
    response.end();
  });
  server.listen(0, "127.0.0.1", () => console.log(server.address().port));
  // It ends with whoever has started it.
  process.stdin.on("end", () => process.exit(0)).resume();
}

if (process.argv[2] === "http") serveHttp();
else serveStdio(makeServer, { legacy: "reject" });
