// openai-node: `node openai_node.cjs ENVIRONMENT`, with the same lines as serving.py.
"use strict";

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");
const readline = require("node:readline");

const environment = process.argv[2];
const OpenAI = createRequire(path.join(environment, "package.json"))("openai");
// Not among what the package exports.
const about = path.join(environment, "node_modules", "openai", "package.json");

async function* use(call) {
  const client = new OpenAI({
    baseURL: `${call.base}/v1`,
    apiKey: call.key,
    maxRetries: call.retries,
    ...(call.timeout === null ? {} : { timeout: call.timeout * 1000 }),
    defaultHeaders: { "x-request-id": call.id },
  });
  const model = call.model;
  const text = call.size ? "x".repeat(call.size) : "hello";
  const messages = [{ role: "user", content: text }];
  if (call.kind === "plain") {
    const answer = await client.chat.completions.create({ model, messages });
    yield answer.choices[0].message.content;
  } else if (call.kind === "stream") {
    for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
      yield chunk.choices[0].delta.content ?? "";
    }
  } else {
    for await (const event of await client.responses.create({ model, input: text, stream: true })) {
      if (event.type === "response.output_text.delta") yield event.delta;
    }
  }
}

function described(error) {
  const name = error.constructor.name;
  return {
    kind: error instanceof OpenAI.OpenAIError ? `OpenAI.${name}` : name,
    status: error.status ?? null,
    code: error.code == null ? null : String(error.code),
    message: String(error.message),
  };
}

async function answer(call) {
  const seen = { id: call.id, text: "", error: null };
  const began = performance.now();
  try {
    for await (const part of use(call)) seen.text += part;
  } catch (error) {
    seen.error = described(error);
  }
  seen.seconds = (performance.now() - began) / 1000;
  say(seen);
}

function say(line) {
  process.stdout.write(JSON.stringify(line) + "\n");
}

say({ version: JSON.parse(fs.readFileSync(about, "utf8")).version });
readline.createInterface({ input: process.stdin }).on("line", (line) => answer(JSON.parse(line)));
