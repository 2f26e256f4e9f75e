// The official Ollama client, unmodified, against a running server.
// usage: node ollama.mjs BASE_URL [--scripted]      --scripted: the server is tests/protocol/http_fixture
import assert from "node:assert/strict";
import { Ollama } from "ollama";

const [base, mode] = process.argv.slice(2);
const scripted = mode === "--scripted";
const key = process.env.OPENAI_API_KEY;
const client = new Ollama({ host: base.replace(/\/$/, ""), headers: key ? { Authorization: `Bearer ${key}` } : {} });
const model = (await client.list()).models[0].model;
const user = (content) => [{ role: "user", content }];
const options = { num_predict: 8, temperature: 0, seed: 1 };

const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

const tests = {
  async models() {
    assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
    assert.ok((await client.ps()).models.length >= 1);
    const shown = await client.show({ model });
    assert.ok(shown.capabilities.includes("completion"));
    const context = Object.entries(shown.model_info).find(([name]) => name.endsWith(".context_length"));
    assert.ok(context[1] > 0);
  },

  async chat() {
    const reply = await client.chat({ model, messages: user("Say hello."), options });
    assert.equal(reply.message.role, "assistant");
    assert.equal(reply.done, true);
    assert.ok(["stop", "length"].includes(reply.done_reason));
    assert.ok(reply.prompt_eval_count > 0 && reply.eval_count > 0);
    if (scripted) assert.equal(reply.message.content, "Hello, world!");
  },

  async stream() {
    let text = "", last = null, lines = 0;
    for await (const part of await client.chat({ model, messages: user("Say hello."), stream: true, options })) {
      text += part.message.content;
      last = part;
      ++lines;
    }
    assert.ok(lines > 1 && last.done);
    if (scripted) assert.equal(text, "Hello, world!");
  },

  async generate() {
    const whole = await client.generate({ model, prompt: "Say hello.", options });
    let text = "";
    for await (const part of await client.generate({ model, prompt: "Say hello.", stream: true, options })) text += part.response;
    assert.equal(text, whole.response);
    const loaded = await client.generate({ model, prompt: "" });
    assert.equal(loaded.done_reason, "load");
  },

  async tools() {
    if (!scripted) return;
    const reply = await client.chat({ model, messages: user("call a tool"), tools });
    assert.deepEqual(reply.message.tool_calls[0].function, { name: "get_weather", arguments: { city: "Paris" } });
    const messages = [...user("call a tool"), reply.message, { role: "tool", tool_name: "get_weather", content: "sunny" }];
    assert.equal((await client.chat({ model, messages, tools })).done, true);
  },

  async thinking() {
    if (!scripted) return;
    const reply = await client.chat({ model, messages: user("think"), think: true });
    assert.equal(reply.message.thinking, "Let me see.");
    assert.equal(reply.message.content, "Here it is.");
  },

  async errors() {
    if (!scripted) {  // which answers to every name
      await assert.rejects(client.chat({ model: "nothing-like-it", messages: user("hi") }), (error) => error.status_code === 404);
    }
    await assert.rejects(client.chat({ model, messages: user("hi"), options: { temperature: "hot" } }), /options.temperature/);
    if (!scripted) return;
    await assert.rejects(async () => {
      for await (const part of await client.chat({ model, messages: user("fail later"), stream: true })) assert.ok(part);
    }, /on fire/);
  },

  async aborts() {
    if (!scripted) return;
    const stream = await client.chat({ model, messages: user("go on for ever"), stream: true });
    let parts = 0;
    await assert.rejects(async () => {
      for await (const part of stream) {
        assert.ok(part);
        if (++parts === 5) stream.abort();
      }
    }, /abort/i);
    assert.equal((await client.chat({ model, messages: user("Say hello.") })).done, true);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok ollama ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAILED ollama ${name}: ${error.stack}`);
  }
}
process.exit(failed ? 1 : 0);
