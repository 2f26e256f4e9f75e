// Connections over real sockets: detection of disconnects, closing for newcomers, and answers when all
// connections are busy.

#include <gtest/gtest.h>

#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;

const std::string kWaitingPost = HttpClient::post_text("/v1/chat/completions", kWaitingChat);

TEST(HttpConnections, AClientThatSendsJunkAndLeavesIsSeenLeaving) {
  Served served;
  HttpClient client(served.port());
  client.send(kWaitingPost);
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  client.send(std::string(200'000, 'x'));
  client.close();
  EXPECT_TRUE(eventually([&] { return served.service.live() == 0; }));
  EXPECT_EQ(served.service.left(), 1);
}

TEST(HttpConnections, AClientThatClosesItsSendingSideHasLeft) {
  Served served;
  HttpClient client(served.port());
  client.send(kWaitingPost);
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  client.shut_down_sending();
  EXPECT_TRUE(eventually([&] { return served.service.left() == 1; }));
}

TEST(HttpConnections, AClientThatFloodsCountsAsGone) {
  HttpOptions options;
  options.body_bytes = 4096;
  options.pipelined_bytes = 4096;
  Served served(options);
  HttpClient client(served.port());
  client.send(kWaitingPost);
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  client.send(std::string(1u << 20, 'x'));
  EXPECT_TRUE(eventually([&] { return served.service.left() == 1; }));
}

TEST(HttpConnections, ExcessPipeliningClosesAfterTheCurrentAnswer) {
  HttpOptions options;
  options.header_bytes = 2048;
  options.pipelined_bytes = 2048;
  Served served(options);
  HttpClient client(served.port());
  client.send(kWaitingPost);
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  std::string more;
  while (more.size() < 100'000) more += "GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send(more);
  HttpClient other(served.port());  // the loop has read it by now
  for (int i = 0; i < 100; ++i) other.get("/health");
  served.service.release();
  const ClientResponse response = client.read_response();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(parsed(response.body).find_array("choices")->size(), 1u);
  EXPECT_EQ(client.read_all().find("HTTP/1.1"), std::string::npos) << "the connection is closed";
}

TEST(HttpConnections, ManyShortRequestsAtOnceAreAllAnswered) {
  HttpOptions options;
  options.header_bytes = 2048;
  options.pipelined_bytes = 2048;
  Served served(options);
  HttpClient client(served.port());
  constexpr int kRequests = 1000;  // far above the limit on waiting ones
  std::thread sender([&] {
    for (int i = 0; i < kRequests; ++i) client.send("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
  });
  int answered = 0;
  while (answered < kRequests && client.read_response().status == 200) ++answered;
  sender.join();
  EXPECT_EQ(answered, kRequests);
}

TEST(HttpConnections, TheLongestIdleGivesWayToANewcomer) {
  HttpOptions options;
  options.connections = 2;
  options.reserved_connections = 0;
  Served served(options);
  HttpClient first(served.port());
  EXPECT_EQ(first.get("/health").status, 200);
  HttpClient second(served.port());
  EXPECT_EQ(second.get("/health").status, 200);
  HttpClient third(served.port());
  EXPECT_EQ(third.get("/v1/models").status, 200) << "answered though two sit there";
  EXPECT_EQ(first.read_all(), "") << "closed";
  EXPECT_EQ(second.get("/health").status, 200);
  EXPECT_EQ(third.get("/health").status, 200);
  EXPECT_NE(third.get("/metrics").body.find("reprise_http_gave_way_total 1\n"), std::string::npos);
}

TEST(HttpConnections, SilentSocketsAndHalfHeadsLockNobodyOut) {
  HttpOptions options;
  options.connections = 8;
  options.reserved_connections = 2;
  Served served(options);
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (int i = 0; i < 40; ++i) {
    silent.push_back(std::make_unique<HttpClient>(served.port()));
    if (i % 2 == 0) silent.back()->send("GET /hea");
  }
  HttpClient client(served.port());
  EXPECT_EQ(client.post("/v1/chat/completions", kChat).status, 200);
}

TEST(HttpConnections, AReserveAnswersHealthAndMetricsWhenAllAreBusy) {
  HttpOptions options;
  options.connections = 1;
  options.reserved_connections = 1;
  Served served(options);
  HttpClient busy(served.port());
  busy.send(kWaitingPost);
  ASSERT_TRUE(eventually([&] { return served.service.live() == 1; }));
  for (const char* path : {"/health", "/health/live", "/metrics"}) {
    HttpClient probe(served.port());
    const ClientResponse response = probe.get(path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_TRUE(response.has("Connection: close"));
  }
  HttpClient refused(served.port());
  const ClientResponse response = refused.post("/v1/chat/completions", kChat);
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(code_of(response), "server_busy");
  EXPECT_GE(retry_after_of(response), 1);
  EXPECT_TRUE(response.has("Connection: close"));
  EXPECT_EQ(served.service.requests().size(), 1u);

  HttpClient silent(served.port());  // takes the only seat, and loses it
  HttpClient probe(served.port());
  EXPECT_EQ(probe.get("/health").status, 200);
  served.service.release();
  EXPECT_EQ(busy.read_response().status, 200);
  EXPECT_EQ(busy.post("/v1/chat/completions", kChat).status, 200) << "who was there first stays";
}

}  // namespace
}  // namespace reprise::protocol
