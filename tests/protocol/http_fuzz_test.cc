// Random input into the HTTP path and into the mapping of requests: nothing crashes, every refusal is a
// sentence, and nothing is left behind. Seeds are fixed, so that a failure can be repeated.

#include <gtest/gtest.h>

#include <random>

#include "protocol/http/request_reader.h"
#include "protocol/llama/token_requests.h"
#include "protocol/openai/error_body.h"
#include "protocol/openai/request.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

/// A few bytes of it flipped, removed, doubled or replaced by words that parsers know.
std::string mutated(std::string text, Random& random, const std::vector<std::string>& words) {
  const std::size_t changes = 1 + below(random, 4);
  for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = below(random, text.size());
    const std::size_t length = std::min(text.size() - at, 1 + below(random, 12));
    switch (below(random, 5)) {
      case 0:
        text[at] = static_cast<char>(below(random, 256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      default:
        text.replace(at, below(random, 2) * length, words[below(random, words.size())]);
    }
  }
  return text;
}

const std::vector<std::string> kBodies = {
    R"({"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"é"}]},
        {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f",
        "arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"42"}],"tools":[{"type":"function","function":
        {"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto","stop":["a","b"],"max_tokens":5,"n":2,
        "temperature":0.5,"logit_bias":{"5":-100},"logprobs":true,"top_logprobs":3,"stream":true,
        "stream_options":{"include_usage":true},"response_format":{"type":"text"},"chat_template_kwargs":{"a":1}})",
    R"({"model":"m","prompt":[1,2,3],"max_tokens":4,"seed":-7,"top_k":4,"min_p":0.1,"logprobs":2,"echo":false})",
    R"({"content":"abc","with_pieces":true,"tokens":[1,2],"messages":[{"role":"user","content":"x"}]})",
};
const std::vector<std::string> kJsonWords = {
    "null", "true", "{}",      "[]",   "[[[[",     "\"",  "-1",     "1e999", "99999999999999999999",
    ":",    ",",    "\\u0000", "\xff", "\"role\"", "0.1", "{\"a\":"};

TEST(HttpFuzz, BodiesAreMappedOrRefusedWithASentence) {
  Random random(20261115);
  int accepted = 0;
  for (int i = 0; i < 30'000; ++i) {
    const std::string body = mutated(kBodies[below(random, kBodies.size())], random, kJsonWords);
    for (const openai::TextKind kind : {openai::TextKind::kChat, openai::TextKind::kCompletion}) {
      const auto request = openai::parse_request(kind, body, {});
      if (request.ok()) {
        ++accepted;
        EXPECT_GE(request->asked.generate.n, 1u);
        EXPECT_EQ(request->asked.generate.n, request->reply.n);
      } else {
        EXPECT_FALSE(request.error().message.empty()) << body;
        EXPECT_FALSE(request.error().code.empty()) << body;
        EXPECT_EQ(request.error().status, 400) << body;
        EXPECT_TRUE(Json::parse(openai::envelope(request.error()).dump()).ok()) << body;
      }
    }
    for (const auto read : {+[](std::string_view text) { llama::read_tokenize(text, {}); },
                            +[](std::string_view text) { llama::read_detokenize(text, {}); },
                            +[](std::string_view text) { llama::read_apply_template(text, {}); }}) {
      try {
        read(body);
      } catch (const BadRequest& refused) {
        EXPECT_NE(refused.what(), std::string());
      }
    }
  }
  EXPECT_GT(accepted, 100) << "the mutations are too wild to reach far";
}

const std::vector<std::string> kRequests = {
    "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 22\r\n\r\n{\"prompt\":\"x\",\"n\":1  }",
    "POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{\"prompt\r\n9;x=y\r\n\":[1,2]} "
    " \r\n0\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 67\r\n\r\n"
    "{\"messages\":[{\"role\":\"user\",\"content\":\"go on for ever\"}],\"stream\":true}",
    "OPTIONS / HTTP/1.1\r\nOrigin: x\r\nAccess-Control-Request-Method: GET\r\n\r\n",
    "HEAD /v1/models/fake%20 HTTP/1.0\r\nConnection: keep-alive\r\nX-Request-Id: \t\r\n\r\n",
};
const std::vector<std::string> kHttpWords = {"\r\n",
                                             "\n",
                                             ":",
                                             "\r\n\r\n",
                                             "HTTP/1.0",
                                             "HTTP/9.9",
                                             "Content-Length: 5\r\n",
                                             "Transfer-Encoding: chunked\r\n",
                                             "ffffffffffffffff",
                                             "-1",
                                             "\t",
                                             "%",
                                             "chunked",
                                             std::string(1, '\0'),
                                             "0\r\n\r\n",
                                             "Expect: 100-continue\r\n"};

/// What a reader makes of a text that comes in pieces.
std::string read_in_pieces(const std::string& text, Random& random, std::size_t most) {
  RequestReader reader({.header_bytes = 4096, .body_bytes = 4096});
  std::string waiting, found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::min(text.size() - at, 1 + below(random, most));
    waiting += text.substr(at, length);
    at += length;
    while (true) {
      waiting.erase(0, reader.feed(waiting));
      if (reader.state() == RequestReader::State::kHeadDone) {
        reader.read_body();
        if (reader.state() != RequestReader::State::kDone) continue;
      }
      if (reader.state() == RequestReader::State::kFailed) return found + "failed";
      if (reader.state() != RequestReader::State::kDone) break;
      const HttpRequest request = reader.take();
      found += request.method + " " + request.path + " " + request.body + "\n";
    }
  }
  return found;
}

TEST(HttpFuzz, RequestsReadTheSameHoweverTheyAreCut) {
  Random random(7);
  for (int i = 0; i < 5'000; ++i) {
    std::string text;
    for (std::size_t count = 1 + below(random, 3); count > 0; --count)
      text += kRequests[below(random, kRequests.size())];
    // A head that never ends may be found wrong early or late; the empty lines end it.
    text = mutated(std::move(text), random, kHttpWords) + "\r\n\r\n\r\n\r\n";
    const std::string whole = read_in_pieces(text, random, text.size() + 1);
    EXPECT_EQ(read_in_pieces(text, random, 1), whole) << text;
    EXPECT_EQ(read_in_pieces(text, random, 20), whole) << text;
  }
}

TEST(HttpFuzz, AServerOutlivesWhatItIsSent) {
  HttpOptions options;
  options.header_timeout = std::chrono::milliseconds(200);
  options.body_timeout = std::chrono::milliseconds(200);
  Served served(options);
  Random random(99);
  for (int i = 0; i < 400; ++i) {
    HttpClient client(served.port());
    std::string text = kRequests[below(random, kRequests.size())];
    if (below(random, 4) != 0) text = mutated(std::move(text), random, kHttpWords);
    client.send(text);
    if (below(random, 2) == 0) client.read_until("\r\n");
  }
  HttpClient client(served.port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; }));
  EXPECT_TRUE(eventually(
      [&] { return client.get("/metrics").body.find("reprise_http_connections 1\n") != std::string::npos; }));
}

}  // namespace
}  // namespace reprise::protocol
