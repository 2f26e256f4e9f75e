// Requests of other sites' pages, invalid heads, unguessable IDs.

#include <gtest/gtest.h>

#include <set>

#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

TEST(Http, WithoutKeysOtherSitesAreRefused) {
  HttpOptions options;
  options.host = "127.0.0.1";
  options.cors_origins = {"https://good.example"};
  options.allowed_hosts = {"box.lan"};
  Served served(options);
  HttpClient client(served.port());
  const auto status = [&](const std::string& headers) {
    client.send("GET /v1/models HTTP/1.1\r\n" + headers + "\r\n");
    return client.read_response().status;
  };
  for (const char* host :
       {"127.0.0.1", "10.1.2.3:80", "[::1]:8080", "localhost:1", "LOCALHOST", "box.lan:8080"}) {
    EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 200) << host;
  }
  for (const char* host : {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil"}) {
    EXPECT_EQ(status("Host: " + std::string(host) + "\r\n"), 403) << host;
  }
  const std::string own = "Host: localhost:8080\r\n";
  EXPECT_EQ(status(own + "Origin: http://localhost:8080\r\n"), 200);
  EXPECT_EQ(status(own + "Origin: https://good.example\r\n"), 200);
  EXPECT_EQ(status(own + "Origin: https://evil.example\r\n"), 403);
  EXPECT_EQ(status(own + "Origin: null\r\n"), 403);
  EXPECT_EQ(status(own + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n"), 403);
  EXPECT_EQ(status(own + "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), 200);
  EXPECT_EQ(status(own + "Sec-Fetch-Site: same-origin\r\n"), 200);
  EXPECT_EQ(client.post("/v1/completions", R"({"prompt":"x"})", "Origin: https://evil.example\r\n").status,
            403);
  EXPECT_TRUE(served.service.requests().empty());
}

TEST(Http, WithKeysNamesAreNotAsked) {
  HttpOptions options;
  ASSERT_EQ(options.keys.add("first-secret"), "");
  Served served(options);
  HttpClient client(served.port());
  client.send("GET /v1/models HTTP/1.1\r\nHost: chat.example\r\nX-Api-Key: first-secret\r\n\r\n");
  EXPECT_EQ(client.read_response().status, 200);
}

TEST(Http, HeadsThatHttpForbidsAreRefused) {
  Served served;
  HttpClient nameless(served.port());
  nameless.send("GET /health HTTP/1.1\r\n\r\n");
  EXPECT_EQ(nameless.read_response().status, 400);
  HttpClient old(served.port());
  old.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read_response().status, 200);
  HttpClient demanding(served.port());
  demanding.send("GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: 200-ok\r\n\r\n");
  EXPECT_EQ(demanding.read_response().status, 417);
  HttpClient twice(served.port());
  twice.send("GET /health HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nExpect: 200-ok\r\n\r\n");
  EXPECT_EQ(twice.read_response().status, 417);
}

TEST(Http, IdsOfRequestsTellNothing) {
  Served served;
  HttpClient client(served.port());
  std::set<std::string> ids;
  for (int i = 0; i < 50; ++i) {
    const std::string head = client.get("/health").head;
    const std::size_t at = head.find("X-Request-Id: req-");
    ASSERT_NE(at, std::string::npos) << head;
    const std::string id = head.substr(at + 18, head.find("\r\n", at) - at - 18);
    EXPECT_EQ(id.size(), 32u);
    for (const std::size_t half : {0u, 16u})
      ids.insert(id.substr(half, 16));  // neither half is constant or a counter
  }
  EXPECT_EQ(ids.size(), 100u);
}

}  // namespace
}  // namespace reprise::protocol
