// llama-server's API over real sockets: its own completions, chats with its additions, status pages, and
// access by other sites' pages.

#include <gtest/gtest.h>

#include <cmath>

#include "protocol/chat/named_templates.h"
#include "protocol/llama/completion.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

/// A script that reports a request's effective settings.
Script settled_reply(const GenerateRequest& request, const std::vector<std::string>& texts) {
  Script script = reply_with(request, texts, FinishReason::kLength);
  auto settled = std::make_shared<Settled>();
  settled->sampling = resolve(request.sampling, {});
  settled->max_tokens = 4;
  settled->prompt_text = "<s> hi";
  std::get<Admitted>(std::get<Event>(script[0])).context = 13;
  std::get<Started>(std::get<Event>(script[1])).settled = settled;
  if (request.report.progress) {
    script.insert(script.begin() + 1, Event(Progress{.total = 9, .restored = 5, .processed = 5}));
    script.insert(script.begin() + 2, Event(Progress{.total = 9, .restored = 5, .processed = 9}));
  }
  return script;
}

struct LlamaServed : Served {
  explicit LlamaServed(HttpOptions options = {}, const ApiSettings& settings = {})
      : Served(std::move(options), all_apis(settings)) {
    service.set_script([](const GenerateRequest& request) {
      return settled_reply(request, {"Hel", "lo, ", "wor", "ld!"});
    });
  }
  GenerateRequest last() const { return service.requests().back(); }
};

std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> events;
  for (std::size_t at = body.find("data: "); at != std::string::npos; at = body.find("data: ", at + 1)) {
    const std::string line = body.substr(at + 6, body.find('\n', at) - at - 6);
    if (line != "[DONE]") events.push_back(parsed(line));
  }
  return events;
}

TEST(LlamaApi, AWholeCompletion) {
  LlamaServed served;
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/completion",
      R"({"prompt":"hi","n_predict":4,"n_probs":2,"return_tokens":true,"seed":7,"model":"whatever"})");
  ASSERT_EQ(response.status, 200) << response.body;
  const Json json = parsed(response.body);
  EXPECT_EQ(*json.find_string("content"), "Hello, world!");
  EXPECT_EQ(json.find("tokens")->dump(), "[100,101,102,103]");
  EXPECT_EQ(*json.find_string("stop_type"), "limit");
  EXPECT_EQ(json.find("truncated")->dump(), "true") << "9 and 4 tokens fill a context of 13";
  EXPECT_EQ(json.find("has_new_line")->dump(), "false");
  EXPECT_EQ(*json.find_string("prompt"), "<s> hi");
  const Json& timings = *json.find_object("timings");
  EXPECT_EQ(timings.find("cache_n")->as_int(), 5);
  EXPECT_EQ(timings.find("prompt_n")->as_int(), 4);
  EXPECT_EQ(timings.find("predicted_n")->as_int(), 4);
  const Json& settings = *json.find_object("generation_settings");
  EXPECT_EQ(settings.find("n_predict")->as_int(), 4);
  EXPECT_EQ(settings.find("seed")->as_int(), 7);
  const Json::Array& probabilities = *json.find_array("completion_probabilities");
  ASSERT_EQ(probabilities.size(), 4u);
  EXPECT_EQ(probabilities[0].find("id")->as_int(), 100);
  EXPECT_EQ(probabilities[0].find_array("top_logprobs")->size(), 2u);
  EXPECT_EQ(served.last().model, "") << "one model is served, and meant by every name";
  EXPECT_EQ(served.last().max_tokens, 4u);
}

TEST(LlamaApi, AStreamedCompletionHasAnEventForEachToken) {
  LlamaServed served;
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/completions", R"({"prompt":"hi","stream":true,"return_progress":true,"timings_per_token":true})");
  ASSERT_EQ(response.status, 200);
  const std::vector<Json> events = events_of(response.body);
  ASSERT_EQ(events.size(), 7u) << response.body;
  EXPECT_EQ(events[0].find("prompt_progress")->dump(), R"({"total":9,"cache":5,"processed":5,"time_ms":0})");
  EXPECT_EQ(events[1].find_object("prompt_progress")->find("processed")->as_int(), 9);
  EXPECT_EQ(*events[2].find_string("content"), "Hel");
  EXPECT_EQ(events[2].find("tokens")->dump(), "[100]");
  EXPECT_EQ(events[3].find_object("timings")->find("predicted_n")->as_int(), 2);
  EXPECT_EQ(events[6].find("stop")->dump(), "true");
  EXPECT_EQ(*events[6].find_string("content"), "");
  EXPECT_EQ(events[6].find_object("timings")->find("predicted_n")->as_int(), 4);
}

TEST(LlamaApi, FieldsOfTheReplyCanBeChosen) {
  LlamaServed served;
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/completion",
      R"({"prompt":"hi","n_predict":3,"response_fields":["content","generation_settings/n_predict","nothing"]})");
  EXPECT_EQ(response.body, R"({"content":"Hello, world!","generation_settings/n_predict":3})");
}

TEST(LlamaApi, PromptsOfAllForms) {
  const auto prompts = [](const std::string& json) {
    llama::CompletionRequest request = llama::read_completion(parsed(R"({"prompt":)" + json + "}"), {});
    std::vector<Prompt> all{request.asked.generate.prompt};
    for (const Prompt& one : request.asked.further_prompts) all.push_back(one);
    return all;
  };
  EXPECT_EQ(std::get<std::string>(prompts(R"("a")").at(0)), "a");
  EXPECT_EQ(std::get<std::string>(prompts(R"({"prompt_string":"a"})").at(0)), "a");
  EXPECT_EQ(std::get<TokenList>(prompts("[1,2]").at(0)), (TokenList{1, 2}));
  const auto mixed = std::get<PromptParts>(prompts(R"([1,2,"a",3])").at(0)).parts;
  ASSERT_EQ(mixed.size(), 3u);
  EXPECT_EQ(std::get<TokenList>(mixed[0]), (TokenList{1, 2}));
  EXPECT_EQ(std::get<std::string>(mixed[1]), "a");
  const auto several = prompts(R"(["a",[1,2],{"prompt_string":"b"}])");
  ASSERT_EQ(several.size(), 3u);
  EXPECT_EQ(std::get<TokenList>(several[1]), (TokenList{1, 2}));
  for (const char* bad : {"[]", "5", "null", "[1.5]", "[-1]", R"({"prompt_string":5})",
                          R"({"prompt_string":"a","multimodal_data":["x"]})", "[[]]", "[1,{}]"}) {
    EXPECT_THROW(prompts(bad), BadRequest) << bad;
  }
}

TEST(LlamaApi, WhatMeansSomethingElseToLlamaServer) {
  const auto read = [](const std::string& members) {
    return llama::read_completion(parsed(R"({"prompt":"a",)" + members + "}"), {}).asked.generate;
  };
  EXPECT_TRUE(read(R"("n_predict":-1)").rules.unlimited);
  EXPECT_NE(read(R"("seed":-1)").sampling.seed, read(R"("seed":-1)").sampling.seed);
  EXPECT_EQ(read(R"("repeat_penalty":1.5,"repeat_last_n":0)").sampling.repetition_penalty, 1.0);
  EXPECT_TRUE(read(R"("ignore_eos":true)").rules.ban_eos);
  const GenerateRequest biased = read(R"("logit_bias":[[5,-2],[" the",1],[7,false]])");
  ASSERT_EQ(biased.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(biased.sampling.logit_bias[0], (LogitBias{5, -2}));
  EXPECT_TRUE(std::isinf(biased.sampling.logit_bias[1].bias));
  ASSERT_EQ(biased.rules.text_bias.size(), 1u);
  EXPECT_EQ(biased.rules.text_bias[0].text, " the");
  for (const char* bad : {R"("logit_bias":[5])", R"("logit_bias":[[5]])", R"("logit_bias":[[5,true]])",
                          R"("logit_bias":[[-1,1]])", R"("logit_bias":[["",1]])", R"("response_fields":[1])",
                          R"("n_probs":21)", R"("n_predict":0)"}) {
    EXPECT_THROW(read(bad), BadRequest) << bad;
  }
}

TEST(LlamaApi, ChatsGoOnFromTheAssistantsLastMessage) {
  LlamaServed served;
  HttpClient client(served.port());
  const std::string chat =
      R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})";
  ASSERT_EQ(client.post("/chat/completions", "{" + chat).status, 200);
  EXPECT_EQ(std::get<ChatPrompt>(served.last().prompt).reply_opening, "b");
  EXPECT_EQ(std::get<ChatPrompt>(served.last().prompt).messages.size(), 1u);
  ASSERT_EQ(client.post("/v1/chat/completions", "{" + chat).status, 200);
  EXPECT_EQ(std::get<ChatPrompt>(served.last().prompt).reply_opening, "") << "not in OpenAI's API";
  ASSERT_EQ(client.post("/v1/chat/completions", R"({"continue_final_message":true,)" + chat).status, 200);
  EXPECT_EQ(std::get<ChatPrompt>(served.last().prompt).reply_opening, "b");
  EXPECT_EQ(client
                .post("/v1/chat/completions",
                      R"({"continue_final_message":true,"add_generation_prompt":true,)" + chat)
                .status,
            400);
  EXPECT_EQ(
      client.post("/v1/chat/completions", R"({"continue_final_message":true,)" + kChat.substr(1)).status,
      400);
}

TEST(LlamaApi, StreamedChatsHaveItsAdditions) {
  LlamaServed served({}, {.verbose = true});
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/chat/completions",
      R"({"stream":true,"stream_options":{"include_usage":true},"timings_per_token":true,"messages":[{"role":"user","content":"hi"}]})");
  const std::vector<Json> events = events_of(response.body);
  ASSERT_GT(events.size(), 4u);
  EXPECT_EQ(events[0].find_array("choices")->front().find("delta")->dump(),
            R"({"role":"assistant","content":null})");
  EXPECT_EQ(events[0].find("timings"), nullptr);
  EXPECT_TRUE(events[0].find_string("system_fingerprint")->starts_with("b"));
  EXPECT_EQ(events[1].find_object("timings")->find("predicted_n")->as_int(), 1);
  EXPECT_EQ(events.back().find_object("timings")->find("predicted_n")->as_int(), 4);
  EXPECT_EQ(*events.back().find_object("__verbose")->find_string("prompt"), "<s> hi");
  const std::string plain = client.post("/v1/chat/completions", kChat).body;
  for (const char* theirs : {"timings", "system_fingerprint", "__verbose"}) {
    EXPECT_EQ(plain.find(theirs), std::string::npos) << "not in OpenAI's API";
  }
}

TEST(LlamaApi, LongPromptsAreToldTheirLengths) {
  LlamaServed served;
  served.service.set_script([](const GenerateRequest&) {
    Error error{ErrorKind::kTooLong, "too long", "messages"};
    error.lengths = {.prompt = 300, .context = 256};
    return Script{Event(Failed{error})};
  });
  HttpClient client(served.port());
  for (const char* stream : {"false", "true"}) {
    const ClientResponse response =
        client.post("/chat/completions",
                    std::string(R"({"messages":[{"role":"user","content":"hi"}],"stream":)") + stream + "}");
    EXPECT_EQ(response.status, 400);
    const Json error = *parsed(response.body).find_object("error");
    EXPECT_EQ(*error.find_string("type"), "exceed_context_size_error");
    EXPECT_EQ(error.find("n_prompt_tokens")->as_int(), 300);
    EXPECT_EQ(error.find("n_ctx")->as_int(), 256);
  }
}

TEST(LlamaApi, WhatItTellsOfItself) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add("first-secret"), "");
  LlamaServed served(options);
  HttpClient client(served.port());
  const std::string key = "Authorization: Bearer first-secret\r\n";
  EXPECT_EQ(client.get("/props").status, 401);
  const Json props = parsed(client.get("/props", key).body);
  EXPECT_EQ(props.find_object("default_generation_settings")->find("n_ctx")->as_int(), 4096);
  EXPECT_EQ(*props.find_string("model_alias"), "fake");
  EXPECT_EQ(client.get("/slots", key).status, 403) << "how long others' requests are is for operators";
  LlamaServed open;
  HttpClient anybody(open.port());
  EXPECT_EQ(parsed(anybody.get("/slots").body).kind_name(), std::string("an array"));
  LlamaServed closed({}, {.slots = false});
  const ClientResponse none = HttpClient(closed.port()).get("/slots");
  EXPECT_EQ(none.status, 501);
  EXPECT_EQ(error_field(none, "type"), "not_supported_error");
  const Json models = parsed(anybody.get("/models").body);
  EXPECT_EQ(models.find_array("data")->front().find("aliases")->dump(), R"(["fake"])");
  EXPECT_EQ(anybody.post("/chat/completions/input_tokens", kChat).status, 200);
}

TEST(LlamaApi, InfillIsReadOrRefusedByName) {
  LlamaServed served;
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/infill",
      R"({"input_prefix":"a","input_suffix":"b","prompt":"c","input_extra":[{"filename":"f","text":"t"}]})");
  ASSERT_EQ(response.status, 200) << response.body;
  const auto prompt = std::get<InfillPrompt>(served.last().prompt);
  EXPECT_EQ(prompt.prefix + prompt.suffix + prompt.opening + prompt.files.at(0).name, "abcf");
  for (const char* extra : {"{}", R"({"filename":"ok"})", R"({"filename":1,"text":"a"})", "5"}) {
    const ClientResponse bad = client.post(
        "/infill", std::string(R"({"input_prefix":"a","input_suffix":"b","input_extra":[)") + extra + "]}");
    EXPECT_EQ(bad.status, 400) << extra;
    EXPECT_TRUE(error_field(bad, "param").starts_with("input_extra[0]")) << extra;
  }
  EXPECT_EQ(error_field(client.post("/infill", R"({"input_prefix":"a"})"), "param"), "input_suffix");
}

TEST(LlamaApi, PagesOfThisMachineMayUseItAndNoOthers) {
  Served served;
  HttpClient client(served.port());
  const auto allowed = [&](const std::string& origin) {
    client.send("OPTIONS /completions HTTP/1.1\r\nHost: localhost\r\nOrigin: " + origin +
                "\r\nAccess-Control-Request-Method: POST\r\n\r\n");
    const ClientResponse answer = client.read_response();
    EXPECT_EQ(answer.status, 200);
    return answer.has("Access-Control-Allow-Origin: " + origin + "\r\n");
  };
  for (const char* origin : {"http://localhost", "https://localhost:8080", "http://127.0.0.1:3000",
                             "http://[::1]", "http://[::1]:3000"}) {
    EXPECT_TRUE(allowed(origin)) << origin;
  }
  for (const char* origin :
       {"http://evil.com", "http://notlocalhost", "http://localhost.evil.com", "http://localhost:80.evil.com",
        "http://localhost:", "http://localhost:1234567", "http://127.0.0.1.evil.com",
        "http://localhost@evil.com", "ftp://localhost", "null", "http://[::1]x"}) {
    EXPECT_FALSE(allowed(origin)) << origin;
  }
  HttpOptions closed;
  closed.cors_origins = {};
  closed.front_page = false;
  Served strict(closed);
  HttpClient other(strict.port());
  EXPECT_FALSE(other.get("/health", "Origin: http://localhost\r\n").has("Access-Control"));
  EXPECT_EQ(other.get("/").status, 404);
}

TEST(LlamaApi, NamedTemplatesCompileAndRender) {
  const Json messages =
      parsed(R"([{"role":"system","content":"You are a test."},{"role":"user","content":"Hi there"},)"
             R"({"role":"assistant","content":"Hello"},{"role":"user","content":"Bye"}])");
  const std::string names = template_names();
  std::size_t count = 0;
  for (std::size_t at = 0; at < names.size(); ++count) {
    const std::size_t end = std::min(names.find(", ", at), names.size());
    const std::string name = names.substr(at, end - at);
    at = end + 2;
    const auto format = ChatFormat::make(*named_template(name), {});
    ASSERT_TRUE(format.ok()) << name << ": " << format.error();
    const auto rendered = (*format)->render({.messages = messages});
    ASSERT_TRUE(rendered.ok()) << name << ": " << rendered.error().message;
    for (const char* words : {"You are a test.", "Hi there", "Hello", "Bye"}) {
      EXPECT_NE(rendered->find(words), std::string::npos) << name;
    }
  }
  EXPECT_GE(count, 10u);
  EXPECT_FALSE(named_template("nothing"));
  const auto format = *ChatFormat::make(*named_template("command-r"), {});
  EXPECT_EQ(
      *format->render(
          {.messages = parsed(R"([{"role":"system","content":"S"},{"role":"user","content":"U"}])")}),
      "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>S<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>U"
      "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>");
}

TEST(LlamaApi, ThinkingCanBeTurnedOffByTheServer) {
  const std::string source =
      "{%- for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking is defined and "
      "enable_thinking %}+{% "
      "endif %}<think>\n{# </think> #}";
  const ChatPrompt chat{.messages = parsed(R"([{"role":"user","content":"u"}])")};
  EXPECT_EQ(*(*ChatFormat::make(source, {}))->render(chat), "u<think>\n");
  EXPECT_EQ(*(*ChatFormat::make(source, {}, true))->render(chat), "u+<think>\n");
  EXPECT_EQ(*(*ChatFormat::make(source, {}, false))->render(chat), "u<think>\n</think>");
  ChatPrompt wish = chat;
  wish.template_extra["enable_thinking"] = true;
  EXPECT_EQ(*(*ChatFormat::make(source, {}, false))->render(wish), "u+<think>\n")
      << "a request counts before it";
  ChatPrompt opened = chat;
  opened.reply_opening = "So";
  opened.opening_is_content = true;
  opened.opening_reasoning = "hm";
  EXPECT_EQ(*(*ChatFormat::make(source, {}))->render(opened), "u<think>\nhm\n</think>\n\nSo");
}

}  // namespace
}  // namespace reprise::protocol
