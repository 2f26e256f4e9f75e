// Requests with ambiguous framing: each is refused, the connection is closed, and smuggled requests are not
// answered.

#include <gtest/gtest.h>

#include "protocol/http/request_reader.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

const std::string kPost = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n";
const std::string kSmuggled = "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";

struct Attack {
  const char* name;
  std::string head;  // including the empty line
  std::string body = "0\r\n\r\n";
};

const std::vector<Attack> kAttacks = {
    // Transfer-Encoding that is not exactly chunked
    {"gzip", kPost + "Transfer-Encoding: gzip\r\n\r\n"},
    {"identity", kPost + "Transfer-Encoding: identity\r\n\r\n"},
    {"empty", kPost + "Transfer-Encoding:\r\n\r\n"},
    {"gzip, chunked", kPost + "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {"chunked, gzip", kPost + "Transfer-Encoding: chunked, gzip\r\n\r\n"},
    {"chunked, chunked", kPost + "Transfer-Encoding: chunked, chunked\r\n\r\n"},
    {"xchunked", kPost + "Transfer-Encoding: xchunked\r\n\r\n"},
    {"a comma before", kPost + "Transfer-Encoding: , chunked\r\n\r\n"},
    {"a comma behind", kPost + "Transfer-Encoding: chunked,\r\n\r\n"},
    {"with a parameter", kPost + "Transfer-Encoding: chunked;q=1\r\n\r\n"},
    {"in quotes", kPost + "Transfer-Encoding: \"chunked\"\r\n\r\n"},
    {"a space behind", kPost + "Transfer-Encoding: chunked \r\n\r\n"},
    {"a tab before", kPost + "Transfer-Encoding:\tchunked\r\n\r\n"},
    {"two spaces before", kPost + "Transfer-Encoding:  chunked\r\n\r\n"},
    {"a vertical tab", kPost + "Transfer-Encoding: \x0b"
                               "chunked\r\n\r\n"},
    {"two lines", kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"two codings", kPost + "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"two codings turned", kPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"},
    {"of HTTP/1.0",
     "POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"},
    // both
    {"CL.TE", kPost + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"TE.CL", kPost + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"},
    {"CL and gzip", kPost + "Content-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n"},
    {"gzip and CL", kPost + "Transfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n"},
    // Content-Length
    {"two lengths", kPost + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"},
    {"the same twice", kPost + "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"},
    {"a list", kPost + "Content-Length: 5, 5\r\n\r\n"},
    {"a list that differs", kPost + "Content-Length: 5, 0\r\n\r\n"},
    {"plus", kPost + "Content-Length: +5\r\n\r\n"},
    {"minus", kPost + "Content-Length: -5\r\n\r\n"},
    {"hexadecimal", kPost + "Content-Length: 0x5\r\n\r\n"},
    {"half a number", kPost + "Content-Length: 5 0\r\n\r\n"},
    {"no number", kPost + "Content-Length:\r\n\r\n"},
    {"beyond 64 bits", kPost + "Content-Length: 18446744073709551621\r\n\r\n"},
    {"a tab behind", kPost + "Content-Length: 5\t\r\n\r\n"},
    // lines
    {"folded", kPost + "X: a\r\n Transfer-Encoding: chunked\r\n\r\n"},
    {"folded by a tab", kPost + "X: a\r\n\tb\r\nContent-Length: 5\r\n\r\n"},
    {"a folded value", kPost + "Transfer-Encoding:\r\n chunked\r\n\r\n"},
    {"folded at once", "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n Content-Length: 5\r\n\r\n"},
    {"a space before the colon", kPost + "Transfer-Encoding : chunked\r\n\r\n"},
    {"a tab before the colon", kPost + "Content-Length\t: 5\r\n\r\n"},
    {"no name", kPost + ": chunked\r\n\r\n"},
    {"no colon", kPost + "Transfer-Encoding chunked\r\n\r\n"},
    {"a bare LF", kPost + "X: a\nTransfer-Encoding: chunked\r\n\r\n"},
    {"a bare CR", kPost + "X: a\rTransfer-Encoding: chunked\r\n\r\n"},
    {"LF all through", "POST /v1/completions HTTP/1.1\nContent-Length: 5\n\n"},
    {"a bare LF in the request's line", "POST /v1/completions HTTP/1.1\nX: y\r\n\r\n"},
    {"CR CR LF", kPost + "X: a\r\r\nContent-Length: 5\r\n\r\n"},
    {"NUL in a value", kPost + std::string("X: a\0b\r\n", 8) + "Content-Length: 5\r\n\r\n"},
    {"NUL in a name", kPost + std::string("X\0: a\r\n", 7) + "Content-Length: 5\r\n\r\n"},
    {"NUL behind chunked", kPost + std::string("Transfer-Encoding: chunked\0\r\n", 29) + "\r\n"},
    {"two hosts", kPost + "Host: y\r\nContent-Length: 5\r\n\r\n"},
    {"HTTP/1.2", "POST /v1/completions HTTP/1.2\r\nContent-Length: 5\r\n\r\n"},
    {"a second version", "POST /v1/completions HTTP/1.1 HTTP/1.1\r\nContent-Length: 5\r\n\r\n"},
    // chunks
    {"a size in hexadecimal notation", kPost + "Transfer-Encoding: chunked\r\n\r\n", "0x0\r\n\r\n"},
    {"a size below zero", kPost + "Transfer-Encoding: chunked\r\n\r\n", "-1\r\n\r\n"},
    {"a space before the size", kPost + "Transfer-Encoding: chunked\r\n\r\n", " 0\r\n\r\n"},
    {"a space behind the size", kPost + "Transfer-Encoding: chunked\r\n\r\n", "0 \r\n\r\n"},
    {"LF behind the size", kPost + "Transfer-Encoding: chunked\r\n\r\n", "1\nA\r\n0\r\n\r\n"},
    {"LF within an extension", kPost + "Transfer-Encoding: chunked\r\n\r\n", "1;a=\"\n\"\r\nA\r\n0\r\n\r\n"},
    {"more than the size", kPost + "Transfer-Encoding: chunked\r\n\r\n", "1\r\nAB\r\n0\r\n\r\n"},
    {"a length behind the chunks", kPost + "Transfer-Encoding: chunked\r\n\r\n",
     "0\r\nContent-Length: 5\r\n\r\n"},
    {"a coding behind the chunks", kPost + "Transfer-Encoding: chunked\r\n\r\n",
     "0\r\nTransfer-Encoding: chunked\r\n\r\n"},
};

std::size_t count_of(std::string_view text, std::string_view what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(HttpFraming, AmbiguousRequestsAreRefusedAndEndConnection) {
  Served served;
  for (const Attack& attack : kAttacks) {
    for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{5}}) {
      HttpClient client(served.port());
      const std::string all = attack.head + attack.body + kSmuggled;
      for (std::size_t at = 0; at < all.size() && client.send(std::string_view(all).substr(at, piece));
           at += piece) {
      }
      const std::string answer = client.read_all();  // until the server has closed
      EXPECT_TRUE(answer.starts_with("HTTP/1.1 400 ")) << attack.name << "\n" << answer;
      EXPECT_EQ(count_of(answer, "HTTP/1.1 "), 1u) << attack.name << "\n" << answer;
      EXPECT_NE(answer.find("Connection: close"), std::string::npos) << attack.name;
      EXPECT_EQ(answer.find("alive\""), std::string::npos) << attack.name;
    }
  }
  EXPECT_TRUE(served.service.requests().empty());
}

TEST(HttpFraming, WhatIsClearIsTaken) {
  Served served;
  HttpClient client(served.port());
  const std::string body = R"({"prompt":"x"})";
  const std::string chunks = "e\r\n" + body + "\r\n0\r\nX-Trailer: y\r\n\r\n";
  for (const std::string& text :
       {kPost + "Content-Length:14\r\n\r\n" + body, kPost + "content-length: 14\r\n\r\n" + body,
        kPost + "Transfer-Encoding: chunked\r\n\r\n" + chunks,
        kPost + "TRANSFER-ENCODING:Chunked\r\n\r\n" + chunks,
        kPost + "Transfer-Encoding: chunked\r\n\r\n" + "e;a=\"b c\"\r\n" + body + "\r\n0\r\n\r\n",
        kPost + "Content-Length: 000014\r\nX: \t a \t\r\n\r\n" + body}) {
    client.send(text);
    EXPECT_EQ(client.read_response().status, 200) << text;
  }
  EXPECT_EQ(client.get("/health").status, 200) << "nothing was left over";
}

TEST(HeadCheck, SeesTheSameInPieces) {
  HeadCheck whole, pieces;
  whole.see("GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nA: b\r\nContent-Length: 1\r\n\r\n");
  for (const char* line : {"GET / HTTP/1.1\r\nHost: localhost\r\n", "Content-Length: 1\r\n",
                           "A: b\r\nContent-Length: 1\r\n", "\r\n"}) {
    pieces.see(line);
  }
  EXPECT_NE(whole.problem(), "");
  EXPECT_EQ(whole.problem(), pieces.problem());
}

}  // namespace
}  // namespace reprise::protocol
