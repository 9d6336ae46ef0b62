// Reads a body of OTLP/HTTP in JSON with OpenTelemetry's own definitions: prints what they say of
// it as one line of JSON.
//   node otel.cjs FILE
const { readFileSync } = require("node:fs");
const path = require("node:path");
const conventions = require("@opentelemetry/semantic-conventions/incubating");

// (The package names what one may ask for; its definitions are not among that.)
const transformer = path.dirname(require.resolve("@opentelemetry/otlp-transformer/package.json"));
const root = require(path.join(transformer, "build/src/generated/root.js"));
const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;

// OTLP in JSON has ids in hexadecimal, where JSON of protobuf has base64.
const IDS = { traceId: 16, spanId: 8, parentSpanId: 8 };
const body = JSON.parse(readFileSync(process.argv[2], "utf8"));
const problems = [];
const ids = (object, act) => {
  for (const { scopeSpans } of object.resourceSpans) {
    for (const { spans } of scopeSpans) for (const span of spans) {
      for (const [name, length] of Object.entries(IDS)) if (span[name] !== undefined) span[name] = act(span[name], length);
    }
  }
};
const original = structuredClone(body);
ids(body, (text, length) => {
  if (!new RegExp(`^[0-9a-f]{${2 * length}}$`).test(text)) problems.push(`not an id: ${text}`);
  return Buffer.from(text, "hex");
});
const message = Request.fromObject(body);
const objection = Request.verify(message);
if (objection) problems.push(objection);
const back = Request.toObject(Request.decode(Request.encode(message).finish()), { longs: String, bytes: Buffer });
ids(back, (bytes) => Buffer.from(bytes).toString("hex"));

// Whatever it does not know would be lost on the way.
const sorted = (value) => {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
};
const known = new Set(Object.values(conventions).filter((value) => typeof value === "string"));
const names = new Set();
for (const { scopeSpans } of original.resourceSpans) {
  for (const { spans } of scopeSpans) for (const span of spans) for (const { key } of span.attributes) names.add(key);
}
console.log(JSON.stringify({
  problems, isSame: JSON.stringify(sorted(back)) === JSON.stringify(sorted(original)),
  back: JSON.stringify(sorted(back)).slice(0, 3000), sent: JSON.stringify(sorted(original)).slice(0, 3000),
  unknown: [...names].filter((name) => !known.has(name) && !name.startsWith("moonpad.")).sort(),
  spans: original.resourceSpans[0].scopeSpans[0].spans.map((span) => span.name),
}));
