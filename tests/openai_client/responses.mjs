// The official OpenAI client's Responses, unmodified, against a running server.
// usage: node responses.mjs BASE_URL [--scripted]      --scripted: the server is tests/protocol/http_fixture
import assert from "node:assert/strict";
import OpenAI from "openai";

const [base, mode] = process.argv.slice(2);
const scripted = mode === "--scripted";
const client = new OpenAI({ baseURL: base + "v1", apiKey: process.env.OPENAI_API_KEY ?? "none", maxRetries: 0, timeout: 60_000 });
const model = (await client.models.list()).data[0].id;
const short = { model, max_output_tokens: 8, temperature: 0 };
const tools = [
  { type: "web_search" },
  { type: "function", name: "get_weather", description: "The weather of a city", strict: false,
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } },
];

const tests = {
  async whole() {
    const reply = await client.responses.create({ ...short, input: "Say hello.", instructions: "Be brief." });
    assert.equal(reply.object, "response");
    assert.ok(["completed", "incomplete"].includes(reply.status));
    assert.equal(typeof reply.output_text, "string");
    assert.equal(reply.usage.total_tokens, reply.usage.input_tokens + reply.usage.output_tokens);
    if (scripted) assert.equal(reply.output_text, "Hello, world!");
  },

  async stream() {
    let text = "", number = 0, last = null;
    for await (const event of await client.responses.create({ ...short, input: "Say hello.", stream: true })) {
      assert.equal(event.sequence_number, number++);
      if (event.type === "response.output_text.delta") text += event.delta;
      last = event;
    }
    assert.ok(["response.completed", "response.incomplete"].includes(last.type));
    assert.equal(last.response.output_text ?? last.response.output.flatMap((item) => item.content ?? []).map((part) => part.text).join(""), text);
    if (scripted) assert.equal(text, "Hello, world!");
  },

  async accumulated() {
    const stream = client.responses.stream({ ...short, input: "think" });
    const final = await stream.finalResponse();
    assert.ok(final.output.length > 0);
    if (!scripted) return;
    assert.equal(final.output[0].type, "reasoning");
    assert.equal(final.output[0].content[0].text, "Let me see.");
    assert.equal(final.output_text, "Here it is.");
    assert.equal(final.usage.output_tokens_details.reasoning_tokens, 2);
  },

  async tools() {
    const request = { model, max_output_tokens: 64, input: "Please call a tool: the weather in Paris?", tools };
    if (!scripted) request.tool_choice = { type: "function", name: "get_weather" };
    const reply = await client.responses.create(request);
    const call = reply.output.find((item) => item.type === "function_call");
    assert.equal(call.name, "get_weather");
    const input = [{ role: "user", content: "The weather in Paris?" }, ...reply.output,
      { type: "function_call_output", call_id: call.call_id, output: "sunny" }];
    if (scripted) assert.deepEqual(JSON.parse(call.arguments), { city: "Paris" });
    const answer = await client.responses.create({ ...short, input, tools, store: false });
    assert.equal(answer.object, "response");
  },

  async stored() {
    const first = await client.responses.create({ ...short, input: "Say hello." });
    const read = await client.responses.retrieve(first.id);
    assert.deepEqual(read.output, first.output);
    const second = await client.responses.create({ ...short, input: "Again.", previous_response_id: first.id });
    assert.equal(second.previous_response_id, first.id);
    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
    const unstored = await client.responses.create({ ...short, input: "Say hello.", store: false });
    await assert.rejects(client.responses.retrieve(unstored.id), OpenAI.NotFoundError);
  },

  async errors() {
    await assert.rejects(client.responses.create({ ...short, input: "x", temperature: -5 }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, "temperature");
      return true;
    });
    await assert.rejects(client.responses.create({ ...short, input: "x", previous_response_id: "resp_none" }),
      (error) => error.code === "previous_response_not_found");
    if (!scripted) return;
    await assert.rejects(client.responses.create({ ...short, input: "fail at once" }), OpenAI.RateLimitError);
    let last = null;
    for await (const event of await client.responses.create({ ...short, input: "fail later", stream: true })) last = event;
    assert.equal(last.type, "response.failed");
    assert.match(last.response.error.message, /on fire/);
  },

  async embeddings() {
    const reply = await client.embeddings.create({ model, input: ["one", "two"] });  // the client asks for base64
    assert.equal(reply.data.length, 2);
    const length = Math.sqrt(reply.data[0].embedding.reduce((sum, value) => sum + value * value, 0));
    assert.ok(Math.abs(length - 1) < 1e-3);
  },

  async abortMidStream() {
    const stream = await client.responses.create({ model, max_output_tokens: 200, ignore_eos: true, input: "go on for ever", stream: true });
    let deltas = 0;
    for await (const event of stream) if (event.type.endsWith(".delta") && ++deltas === 3) break;  // the client aborts
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
