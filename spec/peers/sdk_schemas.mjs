// What the makers' own SDKs make of schemas before they send them. Takes a file with a list of
// [api, schema], and prints the list of what becomes of them, or of { error }.
import { readFileSync } from "node:fs";
import { transformJSONSchema } from "@anthropic-ai/sdk/lib/transform-json-schema";
import { toStrictJsonSchema } from "openai/lib/transform";

const convert = { chat: toStrictJsonSchema, anthropic: transformJSONSchema };

function tried(api, schema) {
  try {
    return { schema: convert[api](schema) };
  } catch (error) {
    return { error: error.message };
  }
}

const given = JSON.parse(readFileSync(process.argv[2], "utf8"));
console.log(JSON.stringify(given.map(([api, schema]) => tried(api, schema))));
