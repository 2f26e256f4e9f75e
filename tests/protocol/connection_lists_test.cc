// Incomplete requests by network: the slowest of the largest sender is closed.

#include "protocol/http/connection_lists.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using namespace std::chrono_literals;
using runtime::TimePoint;

SenderNetwork network(const std::string& address) {
  return network_of(boost::asio::ip::make_address(address));
}

struct Sending final : SenderList::Entry {
  void stop_sending() override {
    SenderList::remove(*this);
    stopped = true;
  }
  bool stopped = false;
};

TEST(SenderNetwork, IsAnIPv4AddressOr64BitsOfAnIPv6Address) {
  EXPECT_EQ(network("10.0.0.1"), network("10.0.0.1"));
  EXPECT_NE(network("10.0.0.1"), network("10.0.0.2"));
  EXPECT_EQ(network("2001:db8:1:2:3:4:5:6"), network("2001:db8:1:2:ffff::1"));
  EXPECT_NE(network("2001:db8:1:2::1"), network("2001:db8:1:3::1"));
  EXPECT_EQ(network("::ffff:10.0.0.1"), network("10.0.0.1"));
  EXPECT_NE(network("::a00:1"), network("10.0.0.1"));
}

TEST(SenderList, TheBiggestSenderGivesWay) {
  SenderList list;
  EXPECT_FALSE(list.close_one(1, TimePoint())) << "there is none";
  Sending modest;
  list.add(modest, network("10.0.0.1"), TimePoint());  // the oldest of all
  std::vector<std::unique_ptr<Sending>> greedy;
  for (int i = 0; i < 5; ++i) {
    greedy.push_back(std::make_unique<Sending>());
    list.add(*greedy.back(), network("2001:db8::" + std::to_string(i + 1)),
             TimePoint() + std::chrono::seconds(i + 1));
  }
  EXPECT_EQ(list.size(), 6U);
  EXPECT_EQ(list.size_of(network("2001:db8::")), 5U);
  EXPECT_FALSE(list.close_one(6, TimePoint() + 10s)) << "it has fewer";
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(list.close_one(1, TimePoint() + 10s));
    EXPECT_TRUE(greedy[static_cast<std::size_t>(i)]->stopped) << "the oldest first";
  }
  EXPECT_FALSE(modest.stopped);
  EXPECT_EQ(list.size(), 2U);
}

TEST(SenderList, AFastUploadStaysHoweverOld) {
  SenderList list;
  Sending fast;
  Sending slow;
  list.add(fast, network("10.0.0.1"), TimePoint());
  list.add(slow, network("10.0.0.1"), TimePoint() + 5s);
  list.add(fast, network("10.0.0.1"), TimePoint() + 6s);  // already in the list
  SenderList::note(fast, 30U << 20);
  SenderList::note(slow, 100);
  EXPECT_EQ(list.size(), 2U);
  EXPECT_TRUE(list.close_one(1, TimePoint() + 60s));
  EXPECT_TRUE(slow.stopped);
  EXPECT_FALSE(fast.stopped);
}

TEST(SenderList, BytesAreCountedByNetwork) {
  SenderList list;
  Sending first;
  Sending second;
  Sending other;
  SenderList::note(first, 10);
  EXPECT_EQ(list.bytes_of(network("10.0.0.1")), 0U) << "it is in no list";
  list.add(first, network("10.0.0.1"), TimePoint());
  list.add(second, network("10.0.0.1"), TimePoint());
  list.add(other, network("10.0.0.2"), TimePoint());
  SenderList::note(first, 10);
  SenderList::note(second, 20);
  SenderList::note(other, 5);
  SenderList::note(first, 15);
  EXPECT_EQ(list.bytes_of(network("10.0.0.1")), 35U);
  EXPECT_EQ(list.bytes_of(network("10.0.0.2")), 5U);
  SenderList::remove(second);
  EXPECT_EQ(list.bytes_of(network("10.0.0.1")), 15U);
  SenderList::remove(first);
  EXPECT_EQ(list.bytes_of(network("10.0.0.1")), 0U);
}

TEST(SenderList, AnEntryLeavesWhenItEnds) {
  SenderList list;
  {
    Sending sending;
    list.add(sending, network("10.0.0.1"), TimePoint());
    EXPECT_EQ(list.size(), 1U);
  }
  EXPECT_EQ(list.size(), 0U);
  EXPECT_EQ(list.size_of(network("10.0.0.1")), 0U);
  EXPECT_FALSE(list.close_one(0, TimePoint()));
}

TEST(HttpSenders, BodiesThatDoNotEndLockNobodyOut) {
  HttpOptions options;
  options.connections = 8;
  options.reserved_connections = 2;
  Served served(options);
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 40; ++i) {
    slow.push_back(std::make_unique<HttpClient>(served.port()));
    slow.back()->send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{\"m");
  }
  for (int i = 0; i < 3; ++i) {
    HttpClient client(served.port());
    EXPECT_EQ(client.post("/v1/chat/completions", kChat).status, 200);
  }
  EXPECT_EQ(slow.front()->read_all(), "") << "the oldest was closed";
}

TEST(HttpSenders, HalfOfTheBytesAreForOthers) {
  HttpOptions options;
  options.body_bytes = 40'000;
  options.bodies_bytes = 100'000;
  Served served(options);
  const std::string head =
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40000\r\n\r\n";
  HttpClient first(served.port());
  first.send(head + std::string(30'000, ' '));
  HttpClient watcher(served.port());
  ASSERT_TRUE(eventually([&] {
    return watcher.get("/metrics").body.find("\nreprise_http_body_bytes 30000\n") != std::string::npos;
  }));
  HttpClient second(served.port());
  second.send(head + std::string(30'000, ' '));
  const ClientResponse refused = second.read_response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("this address has reached its share"), std::string::npos) << refused.body;
  EXPECT_EQ(watcher.post("/v1/completions", R"({"prompt":"x"})").status, 200);
}

TEST(HttpSenders, SlowBodyIsAnsweredWhileConnectionsAreFree) {
  HttpOptions options;
  options.connections = 8;
  Served served(options);
  HttpClient slow(served.port());
  const std::string post = HttpClient::post_text("/v1/chat/completions", kChat);
  const std::size_t half = post.size() - 10;
  slow.send(post.substr(0, half));
  for (int i = 0; i < 20; ++i) {
    HttpClient client(served.port());
    EXPECT_EQ(client.post("/v1/chat/completions", kChat).status, 200);
  }
  slow.send(post.substr(half));
  EXPECT_EQ(slow.read_response().status, 200);
}

}  // namespace
}  // namespace reprise::protocol
