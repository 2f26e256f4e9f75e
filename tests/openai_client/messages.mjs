// The official Anthropic client, unmodified, against a running server.
// usage: node messages.mjs BASE_URL [--scripted]      --scripted: the server is tests/protocol/http_fixture
import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";

const [base, mode] = process.argv.slice(2);
const scripted = mode === "--scripted";
const client = new Anthropic({ baseURL: base.replace(/\/$/, ""), apiKey: process.env.OPENAI_API_KEY ?? "none", maxRetries: 0, timeout: 60_000 });
const model = (await (await fetch(base + "v1/models")).json()).data[0].id;
const user = (content) => [{ role: "user", content }];
const short = { model, max_tokens: 8 };
const tools = [{ name: "get_weather", description: "The weather of a city",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }];

const tests = {
  async whole() {
    const message = await client.messages.create({ ...short, messages: user("Say hello."), system: "Be brief." });
    assert.equal(message.type, "message");
    assert.equal(message.role, "assistant");
    assert.ok(["end_turn", "max_tokens"].includes(message.stop_reason));
    assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens + message.usage.cache_creation_input_tokens > 0);
    if (scripted) assert.equal(message.content[0].text, "Hello, world!");
  },

  async stream() {
    const names = [];
    for await (const event of await client.messages.create({ ...short, messages: user("Say hello."), stream: true })) names.push(event.type);
    assert.equal(names[0], "message_start");
    assert.equal(names.at(-1), "message_stop");
    assert.equal(names.at(-2), "message_delta");
  },

  async accumulated() {
    const final = await client.messages.stream({ ...short, messages: user("think") }).finalMessage();
    assert.ok(final.usage.output_tokens > 0);
    if (!scripted) return;
    assert.deepEqual(final.content.map((block) => block.type), ["thinking", "text"]);
    assert.equal(final.content[0].thinking, "Let me see.");
    assert.ok(final.content[0].signature);
    assert.equal(final.content[1].text, "Here it is.");
    assert.equal(final.usage.cache_read_input_tokens, 5);
  },

  async tools() {
    const request = { model, max_tokens: 64, messages: user("Please call a tool: the weather in Paris?"), tools };
    if (!scripted) request.tool_choice = { type: "tool", name: "get_weather" };
    const message = await client.messages.create(request);
    const call = message.content.find((block) => block.type === "tool_use");
    assert.equal(call.name, "get_weather");
    const streamed = await client.messages.stream(request).finalMessage();
    assert.equal(streamed.content.find((block) => block.type === "tool_use").name, "get_weather");
    if (scripted) {
      assert.equal(message.stop_reason, "tool_use");
      assert.deepEqual(call.input, { city: "Paris" });
      assert.deepEqual(streamed.content.at(-1).input, { city: "Paris" });
    }
    const answer = await client.messages.create({ ...short, tools, messages: [
      ...user("The weather in Paris?"), { role: "assistant", content: message.content },
      { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "sunny", cache_control: { type: "ephemeral" } }] }] });
    assert.equal(answer.type, "message");
  },

  async countTokens() {
    const count = await client.messages.countTokens({ model, messages: user("Say hello."), tools });
    assert.ok(count.input_tokens > 0);
  },

  async errors() {
    await assert.rejects(client.messages.create({ ...short, messages: user("x"), temperature: -5 }), (error) => {
      assert.ok(error instanceof Anthropic.BadRequestError, error.constructor.name);
      assert.equal(error.error.error.type, "invalid_request_error");
      assert.match(error.message, /temperature/);
      return true;
    });
    await assert.rejects(client.messages.create({ ...short, messages: [] }), Anthropic.BadRequestError);
    if (!scripted) return;
    await assert.rejects(client.messages.create({ ...short, messages: user("fail at once") }), Anthropic.RateLimitError);
    await assert.rejects(client.messages.stream({ ...short, messages: user("fail later") }).finalMessage(), /on fire/);
  },

  async abortMidStream() {
    const stream = client.messages.stream({ model, max_tokens: 200, ignore_eos: true, messages: user("go on for ever") });
    let deltas = 0;
    for await (const event of stream) {
      if (event.type === "content_block_delta" && ++deltas === 3) break;  // the client aborts the request
    }
    stream.abort();
    assert.equal(deltas, 3);
    for (let tries = 0; ; ++tries) {
      const metrics = await (await fetch(base + "metrics")).text();
      if (/^reprise_http_generations 0$/m.test(metrics)) break;
      assert.ok(tries < 500, "the aborted request is still being answered");
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok      ${name}`);
  } catch (error) {
    ++failed;
    console.log(`FAILED  ${name}: ${error.stack}`);
  }
}
process.exit(failed ? 1 : 0);
