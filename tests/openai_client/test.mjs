// The official OpenAI client, unmodified, against a running server.
// usage: node test.mjs BASE_URL [--scripted]      --scripted: the server is tests/protocol/http_fixture
import assert from "node:assert/strict";
import OpenAI from "openai";

const [base, mode] = process.argv.slice(2);
const scripted = mode === "--scripted";
const client = new OpenAI({ baseURL: base + "v1", apiKey: process.env.OPENAI_API_KEY ?? "none", maxRetries: 0, timeout: 60_000 });
const model = (await client.models.list()).data[0].id;
const user = (content) => [{ role: "user", content }];
const short = { model, max_tokens: 8, temperature: 0, seed: 1 };

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
    const card = await client.models.retrieve(model);
    assert.equal(card.id, model);
    assert.equal(card.object, "model");
  },

  async chat() {
    const reply = await client.chat.completions.create({ ...short, messages: user("Say hello.") });
    assert.equal(reply.object, "chat.completion");
    assert.equal(reply.choices[0].message.role, "assistant");
    assert.equal(typeof reply.choices[0].message.content, "string");
    assert.ok(["stop", "length"].includes(reply.choices[0].finish_reason));
    assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
    assert.ok(reply.usage.prompt_tokens_details.cached_tokens >= 0);
    assert.ok(reply.reprise.prefilled_tokens >= 0);
    if (scripted) assert.equal(reply.choices[0].message.content, "Hello, world!");
  },

  async stream() {
    const stream = await client.chat.completions.create({
      ...short, messages: user("Say hello."), stream: true, stream_options: { include_usage: true },
    });
    let text = "", usage = null, finish = null, chunks = 0;
    for await (const chunk of stream) {
      ++chunks;
      usage ??= chunk.usage;
      text += chunk.choices[0]?.delta?.content ?? "";
      finish ??= chunk.choices[0]?.finish_reason;
    }
    assert.ok(chunks > 2);
    assert.ok(finish);
    assert.ok(usage.completion_tokens > 0);
    if (scripted) assert.equal(text, "Hello, world!");
  },

  async streamAndWholeAgree() {
    const whole = await client.chat.completions.create({ ...short, messages: user("Count.") });
    const stream = client.chat.completions.stream({ ...short, messages: user("Count.") });
    const final = await stream.finalChatCompletion();
    assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
    assert.equal(final.choices[0].finish_reason, whole.choices[0].finish_reason);
  },

  async tools() {
    const request = { model, max_tokens: 64, messages: user("Please call a tool: the weather in Paris?"), tools };
    if (!scripted) request.tool_choice = { type: "function", function: { name: "get_weather" } };
    const reply = await client.chat.completions.create(request);
    const call = reply.choices[0].message.tool_calls[0];
    assert.equal(call.type, "function");
    assert.equal(call.function.name, "get_weather");
    assert.ok(call.id);
    let streamedName = "", streamedArguments = "", finish = null;
    for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
      const delta = chunk.choices[0]?.delta?.tool_calls?.[0];
      streamedName += delta?.function?.name ?? "";
      streamedArguments += delta?.function?.arguments ?? "";
      finish ??= chunk.choices[0]?.finish_reason;
    }
    assert.equal(streamedName, "get_weather");
    if (scripted) {
      assert.equal(reply.choices[0].finish_reason, "tool_calls");
      assert.equal(finish, "tool_calls");
      assert.deepEqual(JSON.parse(call.function.arguments), { city: "Paris" });
      assert.equal(streamedArguments, call.function.arguments);
    }
  },

  async toolLoop() {
    const messages = [
      ...user("The weather in Paris?"),
      { role: "assistant", content: null, tool_calls: [{ id: "call_1", type: "function", function: { name: "get_weather", arguments: '{"city":"Paris"}' } }] },
      { role: "tool", tool_call_id: "call_1", content: "sunny" },
    ];
    const reply = await client.chat.completions.create({ ...short, messages, tools });
    assert.equal(reply.choices.length, 1);
  },

  async reasoning() {
    if (!scripted) return;
    const reply = await client.chat.completions.create({ model, messages: user("think") });
    assert.equal(reply.choices[0].message.reasoning_content, "Let me see.");
    assert.equal(reply.choices[0].message.reasoning, "Let me see.");
    assert.equal(reply.usage.completion_tokens_details.reasoning_tokens, 2);
    assert.equal(reply.choices[0].message.content, "Here it is.");
  },

  async logprobs() {
    const reply = await client.chat.completions.create({ ...short, messages: user("Hi"), logprobs: true, top_logprobs: 3 });
    const tokens = reply.choices[0].logprobs.content;
    assert.equal(tokens.length, reply.usage.completion_tokens);
    for (const token of tokens) {
      assert.ok(token.logprob <= 0);
      assert.equal(token.top_logprobs.length, 3);
      assert.ok(Array.isArray(token.bytes));
    }
    const completion = await client.completions.create({ ...short, prompt: "Once upon", logprobs: 2 });
    const parallel = completion.choices[0].logprobs;
    assert.equal(parallel.tokens.length, parallel.token_logprobs.length);
    assert.equal(parallel.tokens.length, parallel.text_offset.length);
  },

  async completions() {
    const completion = await client.completions.create({ ...short, prompt: [5, 6, 7], n: 2, return_token_ids: true });
    assert.equal(completion.object, "text_completion");
    assert.equal(completion.choices.length, 2);
    assert.ok(completion.choices[0].token_ids.length > 0);
    let text = "";
    for await (const chunk of await client.completions.create({ ...short, prompt: "Once upon a time", stream: true })) {
      text += chunk.choices[0]?.text ?? "";
    }
    assert.ok(text.length > 0);
  },

  async errors() {
    const rejects = (request, type, check) =>
      assert.rejects(client.chat.completions.create(request), (error) => {
        assert.ok(error instanceof type, `${error.constructor.name}: ${error.message}`);
        check?.(error);
        return true;
      });
    await rejects({ ...short, messages: user("x"), temperature: -5 }, OpenAI.BadRequestError, (error) => {
      assert.equal(error.param, "temperature");
      assert.equal(error.code, "out_of_range");
    });
    await rejects({ ...short, messages: user("x"), response_format: { type: "grammar" } }, OpenAI.BadRequestError,
      (error) => assert.equal(error.param, "response_format"));
    await rejects({ ...short, messages: [] }, OpenAI.BadRequestError, (error) => assert.equal(error.param, "messages"));
    await assert.rejects(client.models.retrieve("no-such-model"), OpenAI.NotFoundError);
    if (scripted) {
      await rejects({ ...short, messages: user("fail at once") }, OpenAI.RateLimitError);
      await assert.rejects(async () => {
        for await (const chunk of await client.chat.completions.create({ ...short, messages: user("fail later"), stream: true })) assert.ok(chunk);
      }, /on fire/);
    } else {
      await rejects({ ...short, model: "no-such-model", messages: user("x") }, OpenAI.NotFoundError);
    }
  },

  async abortMidStream() {
    const stream = await client.chat.completions.create({ ...short, max_tokens: 100_000, ignore_eos: true,
      messages: user("go on for ever"), stream: true }).catch((error) => {
      if (scripted || error.code !== "context_length_exceeded") throw error;
      return client.chat.completions.create({ ...short, max_tokens: 200, ignore_eos: true, messages: user("go on"), stream: true });
    });
    let chunks = 0;
    for await (const chunk of stream) {
      assert.ok(chunk);
      if (++chunks === 3) break;  // the client aborts the request
    }
    assert.equal(chunks, 3);
    for (let tries = 0; ; ++tries) {
      const metrics = await (await fetch(base + "metrics", { headers: { Authorization: `Bearer ${client.apiKey}` } })).text();
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
