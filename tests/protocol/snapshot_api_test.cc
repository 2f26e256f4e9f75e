// Named snapshots: visible to their tenant and salt only, for a limited time, and usable as a prefix.

#include <gtest/gtest.h>

#include "protocol/api/snapshot_names.h"
#include "protocol/named_snapshots.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

NamedSnapshot snapshot(const std::string& name, std::int64_t expires = 100) {
  return {.name = name, .model = "m", .beginning = Json{{"prompt", "Once"}}, .tokens = 3, .expires = expires};
}

TEST(NamedSnapshots, NamesBelongToTenantAndSaltAndExpire) {
  NamedSnapshots names;
  ASSERT_FALSE(names.put({"a"}, snapshot("one"), 0));
  ASSERT_FALSE(names.put({"a"}, snapshot("two", 50), 0));
  ASSERT_FALSE(names.put({"a", "salt"}, snapshot("three"), 0));
  EXPECT_EQ(names.all({"a"}, 10).size(), 2U);
  EXPECT_EQ(names.all({"a", "salt"}, 10).size(), 1U);
  for (const NameOwner& other : {NameOwner{"b"}, NameOwner{"a", "other"}, NameOwner{"b", "salt"}}) {
    EXPECT_TRUE(names.all(other, 10).empty());
    EXPECT_FALSE(names.find(other, "one", 10));
    EXPECT_FALSE(names.find(other, "three", 10));
    EXPECT_FALSE(names.drop(other, "three", 10));
  }
  EXPECT_FALSE(names.find({"a"}, "three", 10)) << "not without the salt";
  EXPECT_TRUE(names.find({"a"}, "two", 49));
  EXPECT_FALSE(names.find({"a"}, "two", 50));
  EXPECT_TRUE(names.drop({"a"}, "one", 60));
  EXPECT_FALSE(names.drop({"a"}, "one", 60));
}

TEST(NamedSnapshots, ATenantHasItsShareInAllItsSalts) {
  NamedSnapshots names;
  for (std::size_t i = 0; i < NamedSnapshots::kMaxNames; ++i) {
    ASSERT_FALSE(names.put({"a", "salt " + std::to_string(i % 5)}, snapshot(std::to_string(i)), 0));
  }
  EXPECT_EQ(names.put({"a", "another"}, snapshot("more"), 0),
            "the limit of a tenant is 64 names, over all its cache_salts");
  EXPECT_EQ(names.limit_for({"a"}, snapshot("more"), 0), names.put({"a"}, snapshot("more"), 0));
  EXPECT_FALSE(names.put({"a", "salt 2"}, snapshot("7", 200), 0)) << "replaces the one before";
  EXPECT_FALSE(names.put({"b"}, snapshot("more"), 0)) << "another's names do not count";
  EXPECT_FALSE(names.put({"a"}, snapshot("after"), 150)) << "when the others' time is over";
}

TEST(NamedSnapshots, ATenantCannotTakeAllBytes) {
  NamedSnapshots names;
  const auto large = [](const std::string& name) {
    NamedSnapshot one = snapshot(name);
    one.beginning["chat_template_kwargs"] = Json{{"x", std::string(15u << 19, 'x')}};
    return one;
  };
  EXPECT_FALSE(names.put({"a", "1"}, large("one"), 0));
  EXPECT_FALSE(names.put({"a", "2"}, large("two"), 0));
  EXPECT_EQ(names.put({"a", "3"}, large("three"), 0), "the limit of a tenant is 16 MiB of named prompts");
  for (const char* tenant : {"b", "c", "d"}) {
    EXPECT_FALSE(names.put({tenant}, large("one"), 0));
    EXPECT_FALSE(names.put({tenant}, large("two"), 0));
  }
  EXPECT_FALSE(names.put({"e"}, snapshot("small"), 0));
  EXPECT_EQ(names.put({"e"}, large("one"), 0),
            "the limit of all tenants together is 64 MiB of named prompts");
  EXPECT_TRUE(names.drop({"b"}, "one", 0));
  EXPECT_FALSE(names.put({"e"}, large("one"), 0)) << "what went has made room";
}

TEST(NamedSnapshots, ATicketIsHeldAsLongAsItsName) {
  NamedSnapshots names;
  std::weak_ptr<const PinTicket> held;
  const auto name = [&](const std::string& called, std::int64_t expires) {
    NamedSnapshot one = snapshot(called, expires);
    one.ticket = std::make_shared<const PinTicket>();
    held = one.ticket;
    ASSERT_FALSE(names.put({"a"}, std::move(one), 0));
  };
  name("deleted", 100);
  EXPECT_FALSE(held.expired());
  EXPECT_TRUE(names.drop({"a"}, "deleted", 0));
  EXPECT_TRUE(held.expired());
  name("replaced", 100);
  ASSERT_FALSE(names.put({"a"}, snapshot("replaced"), 0));
  EXPECT_TRUE(held.expired());
  name("expires", 100);
  EXPECT_TRUE(names.all({"b"}, 99).empty());
  EXPECT_FALSE(held.expired());
  EXPECT_TRUE(names.all({"b"}, 100).empty());
  EXPECT_TRUE(held.expired());
}

TEST(NamedSnapshots, AreStoredAndLoaded) {
  NamedSnapshots names;
  std::vector<NameChange> told;
  names.set_listener([&](NameChange change) { told.push_back(std::move(change)); });
  NamedSnapshot one = snapshot("one");
  one.ticket = std::make_shared<const PinTicket>();
  ASSERT_FALSE(names.put({"a", "salt"}, one, 0));
  ASSERT_EQ(told.size(), 1U);
  ASSERT_FALSE(told[0].went);
  const std::vector<std::byte> bytes = to_bytes(told[0].owner, *told[0].snapshot.lock());
  ASSERT_TRUE(names.drop({"a", "salt"}, "one", 0));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_TRUE(told[0].snapshot.expired()) << "what waits to be written holds nothing";
  EXPECT_TRUE(told[1].went);
  EXPECT_EQ(told[1].name, "one");

  const auto read = stored_name_of(bytes);
  ASSERT_TRUE(read);
  NamedSnapshots after;
  after.load({*read, *read}, 10);
  const auto found = after.find({"a", "salt"}, "one", 10);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->beginning.dump(), one.beginning.dump());
  EXPECT_EQ(found->model, "m");
  EXPECT_EQ(found->tokens, 3U);
  EXPECT_EQ(found->expires, 100);
  ASSERT_NE(found->ticket, nullptr) << "it may be pinned again";
  EXPECT_EQ(found->ticket->tenant, "a");
  NamedSnapshots late;
  late.load({*read}, 100);
  EXPECT_TRUE(late.all({"a", "salt"}, 100).empty()) << "it has expired meanwhile";
  EXPECT_FALSE(stored_name_of(std::span(bytes).first(bytes.size() - 1)));
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

HttpOptions two_tenants() {
  HttpOptions options;
  EXPECT_EQ(options.keys.add("secret-of-a a\nsecret-of-b b"), "");
  return options;
}

TEST_F(SnapshotApiTest, ConversationIsNamedListedContinuedAndDropped) {
  const ClientResponse named = post("/v1/snapshots", R"({"name":"base","ttl":60,)"
                                                     R"("messages":[{"role":"user","content":"Hello"}]})");
  ASSERT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(*parsed(named.body).find_string("name"), "base");
  EXPECT_EQ(parsed(named.body).find("kept")->dump(), "true");
  const GenerateRequest kept = served_.service.requests().back();
  EXPECT_FALSE(kept.cache.conversation.empty());
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
  EXPECT_FALSE(fork.cache.conversation.empty());
  EXPECT_NE(fork.cache.conversation, kept.cache.conversation)
      << "its turns do not replace what others go on from";
  EXPECT_EQ(ask("DELETE", "/v1/snapshots/base").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/snapshots/base").status, 404);
  EXPECT_EQ(post("/v1/chat/completions", R"({"from_snapshot":"base","messages":[]})").status, 404);
}

TEST_F(SnapshotApiTest, ANameMayBePinnedForItsTime) {
  const ClientResponse named = post("/v1/snapshots", R"({"name":"p","prompt":"x","ttl":60,"pin":true})");
  ASSERT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(served_.service.requests().back().cache.pin, std::chrono::seconds(60));
  EXPECT_EQ(served_.service.requests().back().cache.disk_retention, std::chrono::seconds(60));
  EXPECT_NE(parsed(named.body).find("pinned_tokens"), nullptr) << named.body;
  ASSERT_EQ(post("/v1/snapshots", R"({"name":"q","prompt":"x","pin":false})").status, 200);
  EXPECT_EQ(served_.service.requests().back().cache.pin, std::chrono::seconds(0));
}

TEST_F(SnapshotApiTest, APromptIsGoneOnFromToo) {
  ASSERT_EQ(post("/v1/snapshots", R"({"name":"p","prompt":[1,2,3]})").status, 200);
  ASSERT_EQ(post("/v1/completions", R"({"from_snapshot":"p","prompt":[4]})").status, 200);
  EXPECT_EQ(std::get<TokenList>(served_.service.requests().back().prompt), (TokenList{1, 2, 3, 4}));
  EXPECT_EQ(post("/v1/completions", R"({"from_snapshot":"p","prompt":"text"})").status, 400);
  EXPECT_EQ(post("/v1/chat/completions", R"({"from_snapshot":"p","messages":[]})").status, 400);
  EXPECT_EQ(post("/v1/completions", R"({"from_snapshot":"p","prompt":[4],"cache_salt":"other"})").status,
            404);
}

TEST_F(SnapshotApiTest, ANameIsPinnedUnlessItSaysOtherwise) {
  ASSERT_EQ(post("/v1/snapshots", R"({"name":"p","prompt":"x","ttl":60})").status, 200);
  const GenerateRequest named = served_.service.requests().back();
  EXPECT_EQ(named.cache.pin, std::chrono::seconds(60));
  ASSERT_NE(named.cache.pin_ticket, nullptr);
  EXPECT_EQ(parsed(ask("GET", "/v1/snapshots/p").body).find("pin")->dump(), "true");
  ASSERT_EQ(post("/v1/completions", R"({"from_snapshot":"p","prompt":"y"})").status, 200);
  const GenerateRequest fork = served_.service.requests().back();
  EXPECT_EQ(fork.cache.pin_ticket, named.cache.pin_ticket)
      << "it pins what was named again, if that has gone";
  EXPECT_LE(fork.cache.pin, std::chrono::seconds(60));
  EXPECT_GT(fork.cache.pin, std::chrono::seconds(0));
  EXPECT_LT(fork.cache.pin_tokens, UINT32_MAX);
  ASSERT_EQ(post("/v1/snapshots", R"({"name":"q","prompt":"x","pin":false})").status, 200);
  ASSERT_EQ(post("/v1/completions", R"({"from_snapshot":"q","prompt":"y"})").status, 200);
  EXPECT_EQ(served_.service.requests().back().cache.pin_ticket, nullptr);
}

TEST_F(SnapshotApiTest, ANameUnderASaltIsInvisibleElsewhere) {
  ASSERT_EQ(post("/v1/snapshots", R"({"name":"s","prompt":"secret","cache_salt":"a b"})").status, 200);
  const std::string forked = R"({"from_snapshot":"s","prompt":"?","return_token_ids":true)";
  for (const char* salt : {"", R"(,"cache_salt":"a")", R"(,"cache_salt":"")"}) {
    const ClientResponse other = post("/v1/completions", forked + salt + "}");
    EXPECT_EQ(other.status, 404) << salt;
    EXPECT_EQ(code_of(other), "snapshot_not_found");
    EXPECT_EQ(other.body, post("/v1/completions", forked + salt + "}").body);
  }
  EXPECT_EQ(post("/v1/completions", forked + R"(,"cache_salt":"a b"})").status, 200);
  EXPECT_EQ(ask("GET", "/v1/snapshots/s").status, 404);
  EXPECT_EQ(ask("GET", "/v1/snapshots/s?cache_salt=a").status, 404);
  EXPECT_EQ(ask("DELETE", "/v1/snapshots/s").status, 404);
  EXPECT_EQ(parsed(ask("GET", "/v1/snapshots").body).find_array("data")->size(), 0U);
  EXPECT_EQ(parsed(ask("GET", "/v1/snapshots?x=1&cache_salt=a+b").body).find_array("data")->size(), 1U);
  EXPECT_EQ(ask("GET", "/v1/snapshots/s?cache_salt=a%20b").status, 200);
  HttpClient client(served_.port());
  EXPECT_EQ(client.get("/v1/snapshots/s", "X-Cache-Salt: a b\r\n").status, 200);
  EXPECT_EQ(ask("DELETE", "/v1/snapshots/s?cache_salt=a%20b").status, 200);
  EXPECT_EQ(post("/v1/completions", forked + R"(,"cache_salt":"a b"})").status, 404);
}

TEST(SnapshotTenants, AnothersNameIsAnUnknownName) {
  Served served(two_tenants());
  HttpClient client(served.port());
  const std::string a = "Authorization: Bearer secret-of-a\r\n", b = "Authorization: Bearer secret-of-b\r\n";
  ASSERT_EQ(client.post("/v1/snapshots", R"({"name":"s","prompt":"x"})", a).status, 200);
  const std::string fork = R"({"from_snapshot":"s","prompt":"y"})";
  const std::string unknown = R"({"from_snapshot":"t","prompt":"y"})";
  const ClientResponse refused = client.post("/v1/completions", fork, b);
  std::string of_unknown = client.post("/v1/completions", unknown, b).body;
  EXPECT_EQ(refused.status, 404);
  of_unknown.replace(of_unknown.find("'t'"), 3, "'s'");
  EXPECT_EQ(refused.body, of_unknown);
  EXPECT_EQ(client.post("/v1/completions", fork, a).status, 200);
  EXPECT_EQ(client.get("/v1/snapshots/s", b).status, 404);
}

TEST(SnapshotTenants, LimitsAreATenantsAndTheErrorNamesThem) {
  Served served(two_tenants());
  HttpClient client(served.port());
  const std::string a = "Authorization: Bearer secret-of-a\r\n", b = "Authorization: Bearer secret-of-b\r\n";
  const auto name = [&](std::size_t i, const std::string& key) {
    return client.post("/v1/snapshots",
                       R"({"name":"n)" + std::to_string(i) + R"(","prompt":"x","cache_salt":"s)" +
                           std::to_string(i % 3) + R"("})",
                       key);
  };
  for (std::size_t i = 0; i < NamedSnapshots::kMaxNames; ++i) ASSERT_EQ(name(i, a).status, 200);
  const std::size_t computed = served.service.requests().size();
  const ClientResponse over = name(NamedSnapshots::kMaxNames, a);
  EXPECT_EQ(over.status, 400);
  EXPECT_EQ(code_of(over), "too_many_snapshots");
  EXPECT_NE(over.body.find("64 names"), std::string::npos) << over.body;
  EXPECT_EQ(served.service.requests().size(), computed) << "nothing was computed for it";
  EXPECT_EQ(name(0, a).status, 200) << "one that is replaced is no further one";
  EXPECT_EQ(name(0, b).status, 200);
}

TEST(ResponsesUnderASalt, AreFoundUnderItAlone) {
  Served served;
  served.service.set_chat_template("<think>\n\n</think>\n\n");
  HttpClient client(served.port());
  const ClientResponse made =
      client.post("/v1/responses", R"({"model":"fake","input":"hi","cache_salt":"mine"})");
  ASSERT_EQ(made.status, 200) << made.body;
  const std::string id = *parsed(made.body).find_string("id");
  const std::string next = R"({"model":"fake","input":"more","previous_response_id":")" + id + "\"";
  EXPECT_EQ(code_of(client.post("/v1/responses", next + "}")), "previous_response_not_found");
  EXPECT_EQ(code_of(client.post("/v1/responses", next + R"(,"cache_salt":"yours"})")),
            "previous_response_not_found");
  EXPECT_EQ(client.post("/v1/responses", next + R"(,"cache_salt":"mine"})").status, 200);
  EXPECT_EQ(client.get("/v1/responses/" + id).status, 404);
  EXPECT_EQ(client.get("/v1/responses/" + id + "?cache_salt=yours").status, 404);
  EXPECT_EQ(client.get("/v1/responses/" + id + "?cache_salt=mine").status, 200);
  EXPECT_EQ(client.get("/v1/responses/" + id, "X-Cache-Salt: mine\r\n").status, 200);
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
