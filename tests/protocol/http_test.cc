// The server over real sockets, except streams: routes, methods, limits, keys, CORS, shutdown.

#include <gtest/gtest.h>

#include "protocol/http/key_ring.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;

TEST(Http, AWholeChat) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response = client.post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"hi"}],"logprobs":true,"top_logprobs":2,"return_token_ids":true})");
  ASSERT_EQ(response.status, 200);
  EXPECT_TRUE(response.has("X-Request-Id: req-"));
  const Json json = parsed(response.body);
  EXPECT_EQ(*json.find_string("object"), "chat.completion");
  EXPECT_TRUE(json.find_string("id")->starts_with("chatcmpl-"));
  EXPECT_EQ(*json.find_string("model"), "fake");
  const Json& choice = json.find_array("choices")->front();
  EXPECT_EQ(*choice.find_string("finish_reason"), "stop");
  EXPECT_EQ(*choice.find_object("message")->find_string("content"), "Hello, world!");
  EXPECT_EQ(*choice.find_object("message")->find_string("role"), "assistant");
  EXPECT_EQ(choice.find("token_ids")->dump(), "[100,101,102,103]");
  EXPECT_EQ(json.find("prompt_token_ids")->dump(), "[7,7,7,7,7,7,7,7,7]");
  const Json::Array& logprobs = *choice.find_object("logprobs")->find_array("content");
  ASSERT_EQ(logprobs.size(), 4u);
  EXPECT_EQ(
      logprobs[0].dump(),
      R"({"token":"Hel","logprob":-0.25,"bytes":[72,101,108],"top_logprobs":[)"
      R"({"token":"Hel","logprob":-0.25,"bytes":[72,101,108]},)"
      R"({"token":"alternative1","logprob":-1.25,"bytes":[97,108,116,101,114,110,97,116,105,118,101,49]}]})");
  EXPECT_EQ(json.find("usage")->dump(), R"({"prompt_tokens":9,"completion_tokens":4,"total_tokens":13,)"
                                        R"("prompt_tokens_details":{"cached_tokens":5},)"
                                        R"("completion_tokens_details":{"reasoning_tokens":0}})");
  EXPECT_EQ(
      json.find("reprise")->dump(),
      R"({"restored_tokens":5,"prefilled_tokens":4,"miss_reason":"no_checkpoint","miss_position":7,)"
      R"("lost_tokens":2,"behind_tokens":30,)"
      R"("restored_from":"history","restored_tier":"device","waited_for_other":false,"queued_ms":1.5,"prefill_ms":2.25,)"
      R"("first_token_ms":4.0,"decode_ms":8.0})");
}

TEST(Http, AWholeCompletion) {
  Served served;
  HttpClient client(served.port());
  const ClientResponse response =
      client.post("/v1/completions", R"({"prompt":[1,2],"n":2,"logprobs":1,"return_token_ids":true})");
  ASSERT_EQ(response.status, 200);
  const Json json = parsed(response.body);
  EXPECT_EQ(*json.find_string("object"), "text_completion");
  ASSERT_EQ(json.find_array("choices")->size(), 2u);
  EXPECT_EQ(json.find_array("choices")->at(1).dump(),
            R"({"index":1,"text":"Hello, world!","logprobs":{"tokens":["Hel","lo, ","wor","ld!"],)"
            R"("token_logprobs":[-0.25,-0.25,-0.25,-0.25],"top_logprobs":[{"Hel":-0.25},{"lo, ":-0.25},)"
            R"({"wor":-0.25},{"ld!":-0.25}],"text_offset":[0,3,7,10]},"finish_reason":"stop",)"
            R"("token_ids":[100,101,102,103],"prompt_token_ids":[1,2]})");
  EXPECT_EQ(std::get<TokenList>(served.service.requests().at(0).prompt), (TokenList{1, 2}));
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":[1,2]})").body.find("token_ids"), std::string::npos);
}

TEST(Http, ACompletionOfSeveralPrompts) {
  Served served;
  served.service.set_script([](const GenerateRequest& request) {
    const auto* text = std::get_if<std::string>(&request.prompt);
    return reply_with(request, {text == nullptr ? "tokens" : *text, "!"});
  });
  HttpClient client(served.port());
  const ClientResponse response =
      client.post("/v1/completions", R"({"prompt":["a","b",[1,2]],"n":2,"return_token_ids":true,"seed":5})");
  ASSERT_EQ(response.status, 200);
  const Json json = parsed(response.body);
  const Json::Array& choices = *json.find_array("choices");
  const char* const texts[] = {"a!", "a!", "b!", "b!", "tokens!", "tokens!"};
  ASSERT_EQ(choices.size(), 6u);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(choices[i].find("index")->as_int(), static_cast<std::int64_t>(i));
    EXPECT_EQ(*choices[i].find_string("text"), texts[i]);
    EXPECT_EQ(choices[i].find("prompt_token_ids")->size(), i < 4 ? 9u : 2u);
  }
  EXPECT_EQ(json.find("usage")->dump(), R"({"prompt_tokens":27,"completion_tokens":12,"total_tokens":39,)"
                                        R"("prompt_tokens_details":{"cached_tokens":15},)"
                                        R"("completion_tokens_details":{"reasoning_tokens":0}})");
  ASSERT_EQ(served.service.requests().size(), 3u);
  for (const GenerateRequest& request : served.service.requests()) {
    EXPECT_EQ(request.n, 2u);
    EXPECT_EQ(request.sampling.seed, 5u);
  }
}

TEST(Http, EchoAndBestOf) {
  Served served;
  HttpClient client(served.port());
  const Json echoed = parsed(client.post("/v1/completions", R"({"prompt":["a: ","b: "],"echo":true})").body);
  EXPECT_EQ(*echoed.find_array("choices")->at(0).find_string("text"), "a: Hello, world!");
  EXPECT_EQ(*echoed.find_array("choices")->at(1).find_string("text"), "b: Hello, world!");
  const std::string stream =
      client.post("/v1/completions", R"({"prompt":"a: ","echo":true,"stream":true})").body;
  EXPECT_LT(stream.find(R"("text":"a: ")"), stream.find(R"("text":"Hel")"));
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {"x"});
    double logprob = -3;  // added per choice
    for (ScriptStep& step : script) {
      if (auto* event = std::get_if<Event>(&step)) {
        if (auto* delta = std::get_if<Delta>(event)) {
          delta->text = std::to_string(delta->choice);
          delta->tokens.at(0).logprob = logprob++;
        }
      }
    }
    return script;
  });
  const Json best = parsed(client.post("/v1/completions", R"({"prompt":"a","n":2,"best_of":3})").body);
  ASSERT_EQ(best.find_array("choices")->size(), 2u);
  EXPECT_EQ(best.find_array("choices")->at(0).dump(),
            R"({"index":0,"text":"2","logprobs":null,"finish_reason":"stop"})");
  EXPECT_EQ(*best.find_array("choices")->at(1).find_string("text"), "1");
}

TEST(Http, OneCallAlone) {
  Served served;
  served.service.set_chat_template("<tool_call>{{ tool_call | tojson }}</tool_call>");
  served.service.set_script([](const GenerateRequest& request) {
    const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
    return reply_with(request, {"Well. ", call + "\n" + call, " And more."});
  });
  HttpClient client(served.port());
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
  const auto calls = [&](const std::string& more) {
    const Json reply = parsed(client.post("/v1/chat/completions", "{" + tools + more + kChat.substr(1)).body);
    return *reply.find_array("choices")->front().find_object("message");
  };
  EXPECT_EQ(calls("").find_array("tool_calls")->size(), 2u);
  const Json one = calls(R"("parallel_tool_calls":false,)");
  EXPECT_EQ(one.find_array("tool_calls")->size(), 1u);
  EXPECT_EQ(one.find_string("content")->find("more"), std::string::npos);
}

TEST(Http, OnePromptOfSeveralThatFailsFailsTheRequest) {
  Served served;
  served.service.set_script([](const GenerateRequest& request) {
    if (std::get<std::string>(request.prompt) == "a") {
      Script script = reply_with(request, {});
      script.insert(script.begin(), Hold{});
      return script;
    }
    return Script{Event(Failed{{.kind = ErrorKind::kTooLong, .message = "too long", .param = "prompt"}})};
  });
  HttpClient client(served.port());
  const ClientResponse response = client.post("/v1/completions", R"({"prompt":["a","b"]})");
  EXPECT_EQ(response.status, 400);
  const Json json = parsed(response.body);
  EXPECT_EQ(*json.find_object("error")->find_string("param"), "prompt[1]");
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; })) << "the other is let go";
  EXPECT_EQ(served.service.left(), 1);
  served.service.set_script([](const GenerateRequest&) { return Script{}; });
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":["a","b"]})").status, 500) << "broken off";
}

TEST(Http, ChoicesOfPromptsCountAsRequests) {
  HttpOptions options;
  options.requests = 4;
  Served served(options);
  HttpClient client(served.port());
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":["a","b"],"n":2})").status, 200);
  for (const char* body : {R"({"prompt":["a","b","c"],"n":2})", R"({"prompt":"a","n":5})"}) {
    const ClientResponse never = client.post("/v1/completions", body);
    EXPECT_EQ(never.status, 400) << "more than there can ever be";
    EXPECT_EQ(code_of(never), "too_many");
  }
  HttpClient busy(served.port());
  busy.send(HttpClient::post_text("/v1/completions", R"({"prompt":"wait in the queue","n":2})"));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  EXPECT_NE(client.get("/metrics").body.find("reprise_http_generations 2\n"), std::string::npos);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":["a","b"],"n":2})").status, 429);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":["a","b"]})").status, 200);
  served.service.release();
  EXPECT_EQ(busy.read_response().status, 200);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":["a","b"],"n":2})").status, 200) << "given back";
}

TEST(Http, ErrorsHaveTheirStatus) {
  Served served;
  HttpClient client(served.port());
  struct Case {
    ErrorKind code;
    int status;
    const char* word;
  };
  for (const Case& one :
       {Case{ErrorKind::kInvalid, 400, "invalid_value"},
        Case{ErrorKind::kUnknownModel, 404, "model_not_found"},
        Case{ErrorKind::kTooLong, 400, "context_length_exceeded"},
        Case{ErrorKind::kUnsupported, 400, "unsupported_parameter"},
        Case{ErrorKind::kOverloaded, 429, "overloaded"}, Case{ErrorKind::kUnavailable, 503, "unavailable"},
        Case{ErrorKind::kInternal, 500, "internal_error"}}) {
    served.service.set_script([one](const GenerateRequest&) {
      return Script{Event(Failed{{.kind = one.code, .message = "because", .param = "prompt"}})};
    });
    for (const char* stream : {"false", "true"}) {
      const ClientResponse response =
          client.post("/v1/completions", std::string(R"({"prompt":"x","stream":)") + stream + "}");
      EXPECT_EQ(response.status, one.status);
      EXPECT_EQ(code_of(response), one.word);
      EXPECT_EQ(response.has("Retry-After"), one.status == 429 || one.status == 503);
    }
  }
  served.service.set_script([](const GenerateRequest&) { return Script{}; });
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"x"})").status, 500) << "an engine that breaks off";
  EXPECT_EQ(client.post("/v1/completions", "{").status, 400);
  EXPECT_EQ(client.get("/health").status, 200) << "the connection goes on after errors";
}

TEST(Http, GetsAnswerFromPublishedFigures) {
  Served served;
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/health").body, R"({"status":"ok"})");
  EXPECT_EQ(client.get("/health/live").status, 200);
  served.service.set_health({.ready = false, .detail = "the model is loading"});
  const ClientResponse unready = client.get("/health");
  EXPECT_EQ(unready.status, 503);
  EXPECT_NE(unready.body.find("the model is loading"), std::string::npos);
  EXPECT_EQ(client.get("/health/live").status, 200);

  const Json models = parsed(client.get("/v1/models").body);
  EXPECT_EQ(*models.find_array("data")->front().find_string("id"), "fake");
  EXPECT_EQ(client.get("/v1/models/fake").status, 200);
  EXPECT_EQ(client.get("/v1/models/f%61ke?x=y").status, 200);
  const ClientResponse unknown = client.get("/v1/models/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(code_of(unknown), "model_not_found");

  const ClientResponse page = client.get("/?a=b");
  EXPECT_TRUE(page.has("text/html"));
  EXPECT_NE(page.body.find("<title>Reprise"), std::string::npos);

  client.post("/v1/chat/completions", kChat);
  const ClientResponse metrics = client.get("/metrics");
  EXPECT_TRUE(metrics.has("text/plain; version=0.0.4"));
  for (const char* line :
       {"# TYPE reprise_restored_tokens_total counter", "reprise_restored_tokens_total{model=\"fake\"} 12",
        "reprise_http_requests_total{path=\"/v1/chat/completions\",status=\"200\"} 1",
        "reprise_http_connections 1", "reprise_http_generations 0",
        "reprise_first_token_seconds_count{model=\"fake\"} 1",
        "reprise_inter_token_seconds_count{model=\"fake\"} ",
        "reprise_build_info{build=", "reprise_uptime_seconds ", "process_resident_memory_bytes "}) {
    EXPECT_NE(metrics.body.find(line), std::string::npos) << line;
  }
}

TEST(Http, TokensAndTemplates) {
  Served served;
  HttpClient client(served.port());
  EXPECT_EQ(client.post("/tokenize", R"({"content":"ab"})").body, R"({"tokens":[97,98]})");
  EXPECT_EQ(client.post("/tokenize", R"({"content":"é","with_pieces":true})").body,
            R"({"tokens":[{"id":195,"piece":[195]},{"id":169,"piece":[169]}]})");
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[104,105]})").body, R"({"content":"hi"})");
  EXPECT_EQ(client.post("/detokenize", R"({"tokens":[1000]})").status, 400);
  EXPECT_NE(client.post("/apply-template", kChat).body.find("im_start"), std::string::npos);
  EXPECT_EQ(code_of(client.post("/tokenize", R"({"content":5})")), "invalid_type");
  EXPECT_EQ(code_of(client.post("/detokenize", R"({})")), "missing");
  EXPECT_EQ(code_of(client.post("/apply-template", R"({"messages":[]})")), "invalid_value");
}

TEST(Http, MethodsAndPaths) {
  Served served;
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/nowhere").status, 404);
  const ClientResponse wrong = client.get("/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_TRUE(wrong.has("Allow: POST, OPTIONS"));
  EXPECT_TRUE(client.post("/health", "x").has("Allow: GET, HEAD, OPTIONS"));
  for (const char* path : {"/", "/health", "/nowhere"}) {
    const ClientResponse get = client.get(path);
    client.send("HEAD " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const ClientResponse head = client.read_response(/*has_body=*/false);
    EXPECT_EQ(head.status, get.status);
    EXPECT_TRUE(head.has("Content-Length: " + std::to_string(get.body.size())));
  }
  EXPECT_EQ(client.get("/health").status, 200) << "nothing was left over";
}

TEST(Http, ExpectContinue) {
  Served served;
  HttpClient client(served.port());
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
      std::to_string(kChat.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 100);
  client.send(kChat);
  EXPECT_EQ(client.read_response().status, 200);
  // A refused request is answered without waiting for its body.
  client.send(
      "POST /nowhere HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  const ClientResponse refused = client.read_response();
  EXPECT_EQ(refused.status, 404);
  EXPECT_TRUE(refused.has("Connection: close"));
}

TEST(Http, ChunkedBodiesComeInAnyPieces) {
  Served served;
  HttpClient client(served.port());
  std::string text =
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char c : kChat) text += std::string("1\r\n") + c + "\r\n";
  text += "0\r\n\r\n";
  for (std::size_t at = 0; at < text.size(); at += 7) client.send(std::string_view(text).substr(at, 7));
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(Http, OneZeroClosesUnlessAskedNotTo) {
  Served served;
  HttpClient once(served.port());
  once.send("GET /health HTTP/1.0\r\n\r\n");
  const std::string all = once.read_all();
  EXPECT_TRUE(all.starts_with("HTTP/1.0 200")) << all;
  HttpClient kept(served.port());
  for (int i = 0; i < 2; ++i) {
    kept.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const ClientResponse response = kept.read_response();
    EXPECT_EQ(response.status, 200);
    EXPECT_TRUE(response.has("Connection: keep-alive"));
  }
}

TEST(Http, AClientThatHalfClosesGetsItsAnswer) {
  Served served;
  HttpClient client(served.port());
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.shut_down_sending();
  EXPECT_NE(client.read_all().find("200 OK"), std::string::npos);
}

TEST(Http, SizesAreBounded) {
  HttpOptions options;
  options.header_bytes = 2048;
  options.body_bytes = 4096;
  Served served(options);
  const auto status_of = [&](const std::string& text) {
    HttpClient client(served.port());
    client.send(text);
    const ClientResponse response = client.read_response();
    EXPECT_TRUE(response.has("Connection: close"));
    return response.status;
  };
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(4096, 'x') + "\r\n\r\n"), 431);
  EXPECT_EQ(status_of("GET /" + std::string(4096, 'x')), 431);
  EXPECT_EQ(status_of(HttpClient::post_text("/v1/completions", std::string(5000, ' '))), 413);
  EXPECT_EQ(
      status_of(
          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n" +
          std::string(5000, ' ')),
      413);
  EXPECT_EQ(
      status_of("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                std::string(100'000, 'x')),
      431);
  EXPECT_EQ(status_of("this is not HTTP\r\n\r\n"), 400);
  EXPECT_EQ(status_of("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                      "5\r\nContent-Length: 6\r\n\r\nabcde"),
            400);
}

TEST(Http, SilentAndSlowConnectionsAreClosed) {
  // One short limit each; the others are too long to matter on any machine.
  const auto options = [](std::chrono::milliseconds HttpOptions::*limit) {
    HttpOptions limited;
    limited.idle_timeout = limited.header_timeout = limited.body_timeout = 10min;
    limited.*limit = 50ms;
    return limited;
  };
  Served impatient(options(&HttpOptions::idle_timeout));
  HttpClient silent(impatient.port());
  EXPECT_EQ(silent.read_all(), "");
  Served for_heads(options(&HttpOptions::header_timeout));
  HttpClient slow(for_heads.port());
  slow.send("GET / HT");
  EXPECT_EQ(slow.read_all(), "");
  Served for_bodies(options(&HttpOptions::body_timeout));
  HttpClient slow_body(for_bodies.port());
  slow_body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\nabc");
  EXPECT_EQ(slow_body.read_response().status, 408);
}

TEST(Http, ConnectionsAndRequestsAreBounded) {
  HttpOptions options;
  options.connections = 2;
  options.requests = 1;
  Served served(options);
  HttpClient busy(served.port());
  busy.send(HttpClient::post_text("/v1/chat/completions", kWaitingChat));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  HttpClient second(served.port());
  const ClientResponse refused = second.post("/v1/chat/completions", kChat);
  EXPECT_EQ(refused.status, 429);
  EXPECT_TRUE(refused.has("Retry-After"));
  EXPECT_EQ(code_of(refused), "too_many_requests");
  HttpClient third(served.port());  // in the backlog
  third.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  second.close();
  EXPECT_EQ(third.read_response().status, 200);
  served.service.release();
  EXPECT_EQ(busy.read_response().status, 200);
}

TEST(Http, KeysLetInAndSeparate) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add("first-secret\nsecond-secret acme\nthird-secret acme"), "");
  Served served(options);
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/health").status, 200);
  const ClientResponse refused = client.get("/v1/models");
  EXPECT_EQ(refused.status, 401);
  EXPECT_TRUE(refused.has("WWW-Authenticate: Bearer"));
  EXPECT_EQ(code_of(refused), "invalid_api_key");
  EXPECT_EQ(client.get("/metrics", "Authorization: Bearer wrong-secret\r\n").status, 401);
  EXPECT_EQ(client.get("/v1/models", "Authorization: bearer first-secret\r\n").status, 200);
  EXPECT_EQ(client.get("/v1/models", "X-Api-Key: second-secret\r\n").status, 200);
  EXPECT_EQ(client.post("/v1/chat/completions", kChat).status, 401);
  for (const char* key : {"first-secret", "second-secret", "third-secret"}) {
    const std::string header = std::string("Authorization: Bearer ") + key + "\r\n";
    EXPECT_EQ(client.post("/v1/chat/completions", kChat, header).status, 200);
  }
  const auto requests = served.service.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_NE(requests[0].cache.name_space, requests[1].cache.name_space);
  EXPECT_EQ(requests[1].cache.name_space, requests[2].cache.name_space);
  EXPECT_EQ(requests[0].cache.name_space.find("secret"), std::string::npos);
}

TEST(Http, NameSpacesAreUnambiguous) {
  EXPECT_EQ(name_space_of("", ""), "");
  EXPECT_NE(name_space_of("a", "b"), name_space_of("ab", ""));
  EXPECT_NE(name_space_of("a:b", "c"), name_space_of("a", "b:c"));
  EXPECT_NE(name_space_of("", "1:a:"), name_space_of("a", ""));
}

TEST(Http, BadKeyListsAreRefused) {
  KeyRing keys;
  EXPECT_EQ(keys.add("# comment\n\nlong-enough\nshort"), "line 4: an API key needs at least 8 bytes");
  EXPECT_EQ(keys.add("long-enough"), "line 1: this API key is given twice");
  EXPECT_EQ(keys.add("another-key a b"), "line 1: a tenant's name cannot have spaces");
  EXPECT_EQ(keys.size(), 1u);
  EXPECT_FALSE(keys.tenant_of("long-enoug"));
  EXPECT_FALSE(keys.tenant_of("long-enough-and-more"));
  EXPECT_FALSE(keys.tenant_of(""));
  EXPECT_TRUE(keys.tenant_of("long-enough"));
}

TEST(Http, Cors) {
  HttpOptions options;
  options.cors_origins = {"https://good.example"};
  ASSERT_EQ(options.keys.add("first-secret"), "");
  Served served(options);
  HttpClient client(served.port());
  client.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://good.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n");
  const ClientResponse preflight = client.read_response();
  EXPECT_EQ(preflight.status, 200);
  EXPECT_TRUE(preflight.has("Access-Control-Allow-Origin: https://good.example"));
  EXPECT_TRUE(preflight.has("Access-Control-Allow-Methods: POST"));
  EXPECT_TRUE(preflight.has("Access-Control-Allow-Headers: authorization"));
  EXPECT_TRUE(client.get("/health", "Origin: https://good.example\r\n").has("Access-Control-Allow-Origin"));
  EXPECT_FALSE(client.get("/health", "Origin: https://bad.example\r\n").has("Access-Control-Allow-Origin"));
  EXPECT_FALSE(client.get("/health").has("Access-Control"));
}

TEST(Http, AClientMayNameItsRequest) {
  Served served;
  HttpClient client(served.port());
  EXPECT_TRUE(client.get("/health", "X-Request-Id: my-id.1\r\n").has("X-Request-Id: my-id.1\r\n"));
  EXPECT_TRUE(client.get("/health", "X-Request-Id: a b\r\n").has("X-Request-Id: req-"));
  const std::string longest(128, 'x');
  EXPECT_TRUE(
      client.get("/health", "X-Request-Id: " + longest + "\r\n").has("X-Request-Id: " + longest + "\r\n"));
  EXPECT_TRUE(client.get("/health", "X-Request-Id: " + longest + "x\r\n").has("X-Request-Id: req-"));
  client.post("/v1/chat/completions", kChat, "X-Request-Id: mine\r\n");
  EXPECT_EQ(served.service.requests().at(0).origin.id, "mine");
}

TEST(Http, AHeaderNamesTheConversation) {
  Served served;
  HttpClient client(served.port());
  const auto conversation = [&](const std::string& headers, const std::string& body = kChat) {
    EXPECT_EQ(client.post("/v1/chat/completions", body, headers).status, 200);
    return served.service.requests().back().cache.conversation;
  };
  EXPECT_EQ(conversation(""), "");
  EXPECT_EQ(conversation("X-Session-Affinity: one\r\n"), "one");
  EXPECT_EQ(conversation("x-session-id: two\r\n"), "two");
  EXPECT_EQ(conversation("x-multi-turn-session-id: three\r\nx-session-id: two\r\n"), "two");
  EXPECT_EQ(conversation("x-multi-turn-session-id: three\r\n"), "three");
  EXPECT_EQ(conversation("x-session-id: " + std::string(1025, 'x') + "\r\n"), "")
      << "as long as no key may be";
  EXPECT_EQ(conversation("x-session-id: two\r\n",
                         R"({"messages":[{"role":"user","content":"hi"}],"prompt_cache_key":"mine"})"),
            "mine");
}

TEST(Http, StoppingLetsAnswersFinish) {
  Served served;
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {"a", "b"});
    script.insert(script.begin() + 3, Pause{100ms});
    return script;
  });
  HttpClient idle(served.port());
  idle.get("/health");
  HttpClient client(served.port());
  client.send(HttpClient::post_text("/v1/completions", R"({"prompt":"x","stream":true})"));
  ASSERT_TRUE(client.read_until("\"a\""));
  EXPECT_TRUE(served.server.stop(10s));
  EXPECT_EQ(idle.read_all(), "");
  const std::string all = client.read_all();
  EXPECT_NE(all.find("[DONE]"), std::string::npos);
  EXPECT_EQ(all.find("error"), std::string::npos);
  HttpClient late(served.port());
  EXPECT_FALSE(late.connected());
}

TEST(Http, StoppingBreaksOffWhatTakesTooLong) {
  Served served;
  HttpClient streaming(served.port());
  streaming.send(HttpClient::post_text("/v1/completions", R"({"prompt":"x","stream":true})"));
  ASSERT_TRUE(streaming.read_until("[DONE]"));
  HttpClient queued(served.port());
  queued.send(HttpClient::post_text("/v1/completions", R"({"prompt":"wait in the queue","stream":true})"));
  HttpClient whole(served.port());
  whole.send(HttpClient::post_text("/v1/completions", R"({"prompt":"wait in the queue"})"));
  ASSERT_TRUE(eventually([&] { return served.service.live() == 2; }));
  served.service.set_script([](const GenerateRequest& request) {
    Script script = reply_with(request, {"a", "b"});
    script.insert(script.begin() + 3, Hold{});
    return script;
  });
  HttpClient begun(served.port());
  begun.send(HttpClient::post_text("/v1/completions", R"({"prompt":"x","stream":true})"));
  ASSERT_TRUE(begun.read_until("\"a\""));
  EXPECT_TRUE(served.server.stop(20ms));
  EXPECT_EQ(queued.read_response().status, 503);
  EXPECT_EQ(whole.read_response().status, 503);
  const std::string all = begun.read_all();
  EXPECT_NE(all.find("shutting_down"), std::string::npos) << all;
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; }));
}

}  // namespace
}  // namespace reprise::protocol
