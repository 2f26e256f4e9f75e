// Conversations with names: kept for their tenant alone, for a time, and gone on from.

#include <gtest/gtest.h>

#include "protocol/openai/snapshot_api.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

using openai::NamedSnapshot;
using openai::SnapshotShelf;

NamedSnapshot snapshot(const std::string& name, std::int64_t expires = 100) {
  return {.name = name, .model = "m", .beginning = Json{{"prompt", "Once"}}, .tokens = 3, .expires = expires};
}

TEST(SnapshotShelf, NamesBelongToATenantAndLiveForTheirTime) {
  SnapshotShelf shelf;
  ASSERT_TRUE(shelf.put("a", snapshot("one"), 0));
  ASSERT_TRUE(shelf.put("a", snapshot("two", 50), 0));
  EXPECT_EQ(shelf.all("a", 10).size(), 2U);
  EXPECT_TRUE(shelf.all("b", 10).empty());
  EXPECT_FALSE(shelf.find("b", "one", 10));
  EXPECT_FALSE(shelf.drop("b", "one", 10));
  EXPECT_TRUE(shelf.find("a", "two", 49));
  EXPECT_FALSE(shelf.find("a", "two", 50));
  EXPECT_TRUE(shelf.drop("a", "one", 60));
  EXPECT_FALSE(shelf.drop("a", "one", 60));
}

TEST(SnapshotShelf, IsBounded) {
  SnapshotShelf shelf;
  for (std::size_t i = 0; i < SnapshotShelf::kMostNames; ++i) {
    ASSERT_TRUE(shelf.put("a", snapshot(std::to_string(i)), 0));
  }
  EXPECT_FALSE(shelf.put("a", snapshot("more"), 0));
  EXPECT_TRUE(shelf.put("a", snapshot("7", 200), 0)) << "in the place of the one before";
  EXPECT_TRUE(shelf.put("b", snapshot("more"), 0)) << "another's names do not count";
  NamedSnapshot huge = snapshot("huge");
  huge.beginning = Json{{"prompt", std::string(SnapshotShelf::kMostBytes, 'x')}};
  EXPECT_FALSE(shelf.put("b", huge, 0));
  EXPECT_TRUE(shelf.put("a", snapshot("after"), 150)) << "when the others' time is over";
}

class SnapshotApiTest : public testing::Test {
 protected:
  ClientResponse ask(const std::string& method, const std::string& path) {
    HttpClient client(served_.port());
    client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return client.read_response();
  }
  ClientResponse post(const std::string& path, const std::string& body) {
    return HttpClient(served_.port()).post(path, body);
  }
  Served served_;
};

TEST_F(SnapshotApiTest, AConversationIsNamedListedGoneOnFromAndDropped) {
  const ClientResponse named = post("/v1/snapshots", R"({"name":"base","ttl":60,)"
                                                     R"("messages":[{"role":"user","content":"Hello"}]})");
  ASSERT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(*parsed(named.body).find_string("name"), "base");
  EXPECT_EQ(parsed(named.body).find("kept")->dump(), "true");
  const GenerateRequest kept = served_.service.requests().back();
  EXPECT_FALSE(kept.conversation.empty());
  EXPECT_EQ(kept.max_tokens, 1U);
  EXPECT_EQ(parsed(ask("GET", "/v1/snapshots").body).find_array("data")->size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/snapshots/base").status, 200);
  const ClientResponse forked = post(
      "/v1/chat/completions", R"({"from_snapshot":"base","messages":[{"role":"assistant","content":"Hi"},)"
                              R"({"role":"user","content":"Who are you?"}]})");
  ASSERT_EQ(forked.status, 200) << forked.body;
  const GenerateRequest fork = served_.service.requests().back();
  EXPECT_EQ(std::get<ChatPrompt>(fork.prompt).messages.dump(),
            R"([{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"},)"
            R"({"role":"user","content":"Who are you?"}])");
  EXPECT_FALSE(fork.conversation.empty());
  EXPECT_NE(fork.conversation, kept.conversation) << "its turns do not replace what others go on from";
  EXPECT_EQ(ask("DELETE", "/v1/snapshots/base").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/snapshots/base").status, 404);
  EXPECT_EQ(post("/v1/chat/completions", R"({"from_snapshot":"base","messages":[]})").status, 404);
}

TEST_F(SnapshotApiTest, ANameMayBePinnedForItsTime) {
  const ClientResponse named = post("/v1/snapshots", R"({"name":"p","prompt":"x","ttl":60,"pin":true})");
  ASSERT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(served_.service.requests().back().pin, std::chrono::seconds(60));
  EXPECT_NE(parsed(named.body).find("pinned_tokens"), nullptr) << named.body;
  ASSERT_EQ(post("/v1/snapshots", R"({"name":"q","prompt":"x","pin":false})").status, 200);
  EXPECT_EQ(served_.service.requests().back().pin, std::chrono::seconds(0));
}

TEST_F(SnapshotApiTest, APromptIsGoneOnFromToo) {
  ASSERT_EQ(post("/v1/snapshots", R"({"name":"p","prompt":[1,2,3]})").status, 200);
  ASSERT_EQ(post("/v1/completions", R"({"from_snapshot":"p","prompt":[4]})").status, 200);
  EXPECT_EQ(std::get<TokenList>(served_.service.requests().back().prompt), (TokenList{1, 2, 3, 4}));
  EXPECT_EQ(post("/v1/completions", R"({"from_snapshot":"p","prompt":"text"})").status, 400);
  EXPECT_EQ(post("/v1/chat/completions", R"({"from_snapshot":"p","messages":[]})").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"from_snapshot":"p","prompt":[4],"cache_salt":"other"})").status,
            400);
}

TEST_F(SnapshotApiTest, WhatMakesNoSenseIsRefusedByItsField) {
  const auto refused = [&](const std::string& body) {
    const ClientResponse response = post("/v1/snapshots", body);
    EXPECT_EQ(response.status, 400) << body;
    const Json json = parsed(response.body);
    const Json* param = json.find("error") == nullptr ? nullptr : json.find("error")->find("param");
    return param == nullptr || !param->is_string() ? std::string() : param->as_string();
  };
  EXPECT_EQ(refused(R"({"prompt":"x"})"), "name");
  EXPECT_EQ(refused(R"({"name":"a b","prompt":"x"})"), "name");
  EXPECT_EQ(refused(R"({"name":"../x","prompt":"x"})"), "name");
  EXPECT_EQ(refused(R"({"name":"x"})"), "prompt");
  EXPECT_EQ(refused(R"({"name":"x","prompt":"x","ttl":99999999})"), "ttl");
  EXPECT_EQ(refused(R"({"name":"x","prompt":"x","pin":"long"})"), "pin");
  EXPECT_EQ(refused(R"({"name":"x","prompt":"x","stream":true})"), "stream");
  EXPECT_EQ(refused(R"({"name":"x","prompt":["x","y"]})"), "prompt");
  const ClientResponse put = ask("PUT", "/v1/snapshots");
  EXPECT_EQ(put.status, 405);
  EXPECT_NE(put.body.find("GET, HEAD, POST, OPTIONS"), std::string::npos) << put.body;
}

}  // namespace
}  // namespace reprise::protocol
