// llama-server's slots: saving under a name, restoring and erasing.

#include <gtest/gtest.h>

#include "protocol/api/slot_records.h"
#include "tests/protocol/answers.h"
#include "tests/protocol/served.h"

namespace reprise::protocol {
namespace {

class SlotApiTest : public testing::Test {
 protected:
  ClientResponse post(const std::string& path, const std::string& body) {
    return HttpClient(served_.port()).post(path, body);
  }
  GenerateRequest last() const { return served_.service.requests().back(); }
  std::int64_t number(const ClientResponse& response, const char* member) {
    const Json json = parsed(response.body);
    const Json* value = json.find(member);
    EXPECT_TRUE(value != nullptr && value->is_int()) << member << ": " << response.body;
    return value != nullptr && value->is_int() ? value->as_int() : -1;
  }

  Served served_;
};

TEST_F(SlotApiTest, ASlotIsSavedRestoredAndErased) {
  ASSERT_EQ(post("/completion", R"({"prompt":[1,2,3],"id_slot":2})").status, 200);
  ASSERT_EQ(post("/completion", R"({"prompt":[7,8]})").status, 200);  // slot 0
  const ClientResponse saved = post("/slots/2?action=save", R"({"filename":"a-chat.bin"})");
  ASSERT_EQ(saved.status, 200) << saved.body;
  const GenerateRequest naming = last();
  const TokenList& computed = std::get<TokenList>(naming.prompt);
  ASSERT_GT(computed.size(), 3U) << "the prompt and its reply";
  EXPECT_EQ(TokenList(computed.begin(), computed.begin() + 3), (TokenList{1, 2, 3}));
  EXPECT_EQ(naming.max_tokens, 1U);
  EXPECT_NE(naming.cache.pin_ticket, nullptr);
  EXPECT_GT(naming.cache.disk_retention, std::chrono::seconds(0));
  EXPECT_EQ(number(saved, "id_slot"), 2);
  EXPECT_EQ(*parsed(saved.body).find_string("filename"), "a-chat.bin");
  EXPECT_GT(number(saved, "n_saved"), 0);
  EXPECT_GT(number(saved, "n_written"), 0);
  EXPECT_NE(parsed(saved.body).find_object("timings")->find("save_ms"), nullptr);
  HttpClient client(served_.port());
  EXPECT_EQ(client.get("/v1/snapshots/a-chat.bin").status, 200) << "it is a name like any other";

  const ClientResponse restored = post("/slots/5?action=restore", R"({"filename":"a-chat.bin"})");
  ASSERT_EQ(restored.status, 200) << restored.body;
  EXPECT_EQ(std::get<TokenList>(last().prompt), computed);
  EXPECT_EQ(last().cache.pin_ticket, naming.cache.pin_ticket);
  EXPECT_EQ(number(restored, "id_slot"), 5);
  EXPECT_GT(number(restored, "n_restored"), 0);
  EXPECT_EQ(number(restored, "n_read"), number(saved, "n_written"));
  EXPECT_NE(parsed(restored.body).find_object("timings")->find("restore_ms"), nullptr);

  ASSERT_EQ(post("/slots/5?action=save", R"({"filename":"again"})").status, 200);
  EXPECT_EQ(std::get<TokenList>(last().prompt), computed) << "what was restored is what the slot holds";
  const ClientResponse erased = post("/slots/5?action=erase", "");
  ASSERT_EQ(erased.status, 200) << erased.body;
  EXPECT_EQ(number(erased, "n_erased"), static_cast<std::int64_t>(computed.size()));
  EXPECT_EQ(number(post("/slots/5?action=erase", "{}"), "n_erased"), 0);
  EXPECT_EQ(post("/slots/5?action=save", R"({"filename":"none"})").status, 400);
  EXPECT_EQ(client.get("/v1/snapshots/a-chat.bin").status, 200) << "what was saved stays";
}

TEST_F(SlotApiTest, OpenAiRequestsFillSlotsToo) {
  ASSERT_EQ(post("/v1/completions", R"({"prompt":[4,5],"stream":true})").status, 200);
  ASSERT_EQ(post("/slots/0?action=save", R"({"filename":"a"})").status, 200);
  EXPECT_EQ(std::get<TokenList>(last().prompt).front(), 4);
}

TEST_F(SlotApiTest, SlotsBelongToASalt) {
  ASSERT_EQ(post("/completion", R"({"prompt":[1,2,3],"cache_salt":"mine"})").status, 200);
  EXPECT_EQ(post("/slots/0?action=save", R"({"filename":"a"})").status, 400);
  EXPECT_EQ(post("/slots/0?action=save&cache_salt=yours", R"({"filename":"a"})").status, 400);
  EXPECT_EQ(post("/slots/0?action=save&cache_salt=mine", R"({"filename":"a"})").status, 200);
  EXPECT_EQ(post("/slots/0?action=restore", R"({"filename":"a"})").status, 404);
  EXPECT_EQ(post("/slots/0?action=restore", R"({"filename":"a","cache_salt":"yours"})").status, 404);
  EXPECT_EQ(post("/slots/0?action=restore", R"({"filename":"a","cache_salt":"mine"})").status, 200);
}

TEST_F(SlotApiTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(post("/slots/0", R"({"filename":"a"})").status, 400);
  EXPECT_EQ(post("/slots/0?action=copy", R"({"filename":"a"})").status, 400);
  EXPECT_EQ(post("/slots/x?action=erase", "{}").status, 400);
  EXPECT_EQ(post("/slots/100000?action=erase", "{}").status, 400);
  EXPECT_EQ(post("/slots/0?action=restore", "{}").status, 400);
  EXPECT_EQ(post("/slots/0?action=restore", R"({"filename":"../etc/passwd"})").status, 400);
  const ClientResponse unknown = post("/slots/0?action=restore", R"({"filename":"nobody"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("'nobody'"), std::string::npos) << unknown.body;
}

TEST(SlotRecords, IsBoundedByTenant) {
  SlotRecords records;
  const std::size_t max = SlotRecords::kMaxTenantBytes / SlotRecords::kMinCharge;
  records.put({.owner = {"b"}}, {.model = "m", .tokens = {1}});
  for (std::uint32_t slot = 0; slot <= max; ++slot) {
    records.put({.owner = {"a", "salt " + std::to_string(slot % 3)}, .slot = slot},
                {.model = "m", .tokens = {1}});
  }
  EXPECT_FALSE(records.find({.owner = {"a", "salt 0"}, .slot = 0})) << "written longest ago";
  EXPECT_TRUE(records.find({.owner = {"a", "salt 1"}, .slot = 1}));
  EXPECT_TRUE(records.find({.owner = {"b"}})) << "another tenant's";
  const TokenList huge(SlotRecords::kMaxTenantBytes / sizeof(TokenId), 1);
  records.put({.owner = {"b"}}, {.model = "m", .tokens = huge});
  EXPECT_FALSE(records.find({.owner = {"b"}})) << "neither the new nor the old";
}

}  // namespace
}  // namespace reprise::protocol
